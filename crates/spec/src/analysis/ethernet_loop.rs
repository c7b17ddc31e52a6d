//! Loops of Ethernet switches, in which frames to all would circulate.

use crate::{FabricSpec, InterfaceKind, PortRef};

/// Returns a switch on a loop of Ethernet switches that NICs or network interfaces reach. Without them
/// there are no frames to all, and RoCE uses all routes.
pub fn ethernet_loop(spec: &FabricSpec) -> Option<usize> {
    let mut group: Vec<usize> = (0..spec.switches.len()).collect();
    let between = |cable: &crate::CableSpec| match cable.ends {
        [PortRef::Switch { switch: one, .. }, PortRef::Switch { switch: other, .. }] => Some((one, other)),
        _ => None,
    };
    let mut loops = Vec::new();
    let ethernet = spec.cables.iter().filter(|cable| cable.part.ethernet.is_some());
    for (one, other) in ethernet.filter_map(between) {
        let (one_group, other_group) = (root(&mut group, one), root(&mut group, other));
        if one_group == other_group {
            loops.push(one);
        }
        group[one_group] = other_group;
    }
    let reached: Vec<usize> = switches_at_nics(spec).collect();
    loops.into_iter().find(|switch| {
        let of_loop = root(&mut group, *switch);
        reached.iter().any(|reached| root(&mut group, *reached) == of_loop)
    })
}

/// Returns the switches to which NICs and ports with an interface have cables.
fn switches_at_nics(spec: &FabricSpec) -> impl Iterator<Item = usize> {
    let cables = spec.cables.iter().filter(|cable| cable.ends.iter().any(|end| sends_to_all(spec, end)));
    cables.flat_map(|cable| cable.ends).filter_map(|end| match end {
        PortRef::Switch { switch, .. } => Some(switch),
        PortRef::Hca { .. } => None,
    })
}

fn sends_to_all(spec: &FabricSpec, end: &PortRef) -> bool {
    let PortRef::Hca { host, hca, port } = *end else { return false };
    let kind = InterfaceKind::Ethernet { hca, port };
    spec.hosts[host].hcas[hca].nic.is_some() || spec.hosts[host].interfaces.iter().any(|interface| interface.kind == kind)
}

/// Returns the representative of a group, and shortens the way to it.
fn root(group: &mut [usize], mut member: usize) -> usize {
    while group[member] != member {
        group[member] = group[group[member]];
        member = group[member];
    }
    member
}
