//! A fabric for a subnet manager that works by packets: its configuration, and the hardware that it
//! finds.

use crate::{FabricSpec, SubnetSpec};
use softband_model::management::manager::Configuration;
use softband_model::switch::PacketLifetimes;
use softband_types::{Guid, PKey};
use std::collections::BTreeMap;

/// Returns the configuration with which a manager gives a fabric the settings of its description.
///
/// The manager numbers nodes by ascending GUID. If the GUIDs of the hosts' HCAs or of the switches
/// do not ascend in the order of the description, the configuration lists all of them.
pub fn manager_configuration(spec: &FabricSpec) -> Configuration {
    let hcas = || spec.hosts.iter().flat_map(|host| &host.hcas);
    let of_hcas: Vec<Guid> = hcas().map(|hca| hca.node_guid).collect();
    let of_switches: Vec<Guid> = spec.switches.iter().map(|switch| switch.node_guid).collect();
    let ascends = of_hcas.is_sorted() && of_switches.is_sorted();
    let mut pkeys = BTreeMap::new();
    for hca in hcas().filter(|hca| hca.pkeys != [PKey::DEFAULT_FULL]) {
        for port in 1..=hca.part.ports {
            pkeys.insert(Guid(hca.node_guid.0.wrapping_add(u64::from(port))), hca.pkeys.clone());
        }
    }
    Configuration {
        order: if ascends { Vec::new() } else { of_hcas.into_iter().chain(of_switches).collect() },
        max_op_vls: spec.subnet.max_op_vls,
        lmc: spec.subnet.lmc,
        mtu_max: spec.subnet.mtu_max,
        routing: spec.subnet.routing,
        hca: spec.subnet.qos.as_ref().map(|qos| qos.hca.clone()),
        switch: spec.subnet.qos.as_ref().map(|qos| qos.switch.clone()),
        pkeys,
        lifetimes: spec.subnet.lifetimes,
        ..Configuration::default()
    }
}

/// Returns a fabric as its makers deliver it: without the settings that a subnet manager writes by
/// packets. Congestion control remains, because no agent takes it.
pub fn without_manager(spec: &FabricSpec) -> FabricSpec {
    let SubnetSpec { manager, ref congestion_control, .. } = spec.subnet;
    let lifetimes = PacketLifetimes::INFINITE;
    let subnet = SubnetSpec { manager, lifetimes, congestion_control: congestion_control.clone(), ..SubnetSpec::default() };
    let mut hardware = FabricSpec { subnet, ..spec.clone() };
    for hca in hardware.hosts.iter_mut().flat_map(|host| &mut host.hcas) {
        hca.pkeys = vec![PKey::DEFAULT_FULL];
    }
    hardware
}
