//! Ports as programs see them.

use softband_fabric::World;
use softband_model::verbs::api::PortSnapshot;
use softband_types::{HcaId, Lid, LinkLayer, PortNumber};

/// Returns the LID that programs see; on Ethernet they see none.
pub(crate) fn abi_lid(layer: LinkLayer, lid: Lid) -> Lid {
    if layer == LinkLayer::Ethernet { Lid::NONE } else { lid }
}

/// Returns the name and the number of an Ethernet port's network interface: that of the fabric file,
/// or one that exists for RDMA alone. Its number is far from those of the machine's own interfaces.
/// Returns `None` for other ports, and without a link.
pub(crate) fn interface(world: &World, number: PortNumber, port: &PortSnapshot) -> Option<(String, u32)> {
    const FIRST: u32 = 1 << 16;
    if port.link_layer != LinkLayer::Ethernet || port.lid == Lid::NONE {
        return None;
    }
    let (host, hca) = world.place_of(port.hca);
    let own = world.spec().hosts[host].interfaces.iter().position(|interface| interface.port() == Some((hca, number)));
    // The loopback interface has number 1.
    let own = own.map(|place| (world.spec().hosts[host].interfaces[place].name.clone(), place as u32 + 2));
    Some(own.unwrap_or_else(|| (format!("roce{}", port.lid.0), FIRST + u32::from(port.lid.0))))
}

/// Returns the Ethernet ports of a host that programs reach by verbs.
pub(crate) fn ethernet_ports(world: &World, host: usize) -> impl Iterator<Item = (PortNumber, PortSnapshot)> {
    let hcas = world.spec().hosts[host].verbs_devices().filter(|(_, hca)| hca.link_layer == LinkLayer::Ethernet);
    let ports = hcas.flat_map(move |(index, hca)| (1..=hca.part.ports).map(move |port| (world.hca_id(host, index), PortNumber(port))));
    ports.filter_map(|(hca, number)| Some((number, world.port(hca, number)?)))
}

/// Returns the ports of a host that have MAD devices, in the order of the devices' numbers. Ports of
/// Ethernet have none here.
pub(crate) fn management_ports(world: &World, host: usize) -> Vec<(HcaId, PortNumber)> {
    let hcas = world.spec().hosts[host].verbs_devices().filter(|(_, hca)| hca.link_layer == LinkLayer::Infiniband);
    let ports = hcas.flat_map(|(index, hca)| (1..=hca.part.ports).map(move |port| (world.hca_id(host, index), PortNumber(port))));
    ports.filter(|(hca, port)| world.port(*hca, *port).is_some()).collect()
}
