//! Ports as programs see them.

use softband_fabric::World;
use softband_model::verbs::api::PortSnapshot;
use softband_types::{HcaId, Lid, LinkLayer, PortNumber};

/// Returns the LID that programs see; on Ethernet they see none.
pub(crate) fn abi_lid(layer: LinkLayer, lid: Lid) -> Lid {
    if layer == LinkLayer::Ethernet { Lid::NONE } else { lid }
}

/// Returns the index of an Ethernet port's network interface, for programs that request it. Only
/// this index of the interface exists. It is far from those of the machine's own interfaces.
pub(crate) fn interface_index(port: &PortSnapshot) -> u32 {
    const FIRST: u32 = 1 << 16;
    if port.link_layer == LinkLayer::Ethernet && port.active { FIRST + u32::from(port.lid.0) } else { 0 }
}

/// Returns the ports of a host that have MAD devices, in the order of the devices' numbers. Ports of
/// Ethernet have none here.
pub(crate) fn management_ports(world: &World, host: usize) -> Vec<(HcaId, PortNumber)> {
    let hcas = world.spec().hosts[host].verbs_devices().filter(|(_, hca)| hca.link_layer == LinkLayer::Infiniband);
    let ports = hcas.flat_map(|(index, hca)| (1..=hca.part.ports).map(move |port| (world.hca_id(host, index), PortNumber(port))));
    ports.filter(|(hca, port)| world.port(*hca, *port).is_some()).collect()
}
