//! Connected components of the cabling: the hosts that cables join.

use crate::{FabricSpec, PortRef};
use std::collections::{BTreeMap, BTreeSet};

/// Returns two hosts that cannot reach each other by any of their ports, or `None`. The check skips
/// hosts without a cable. No path leads through a host from port to port.
pub fn hosts_apart(spec: &FabricSpec) -> Option<(usize, usize)> {
    // The map keeps a single host per set of components, so the search compares each pair of sets
    // once.
    let mut of_components: BTreeMap<BTreeSet<usize>, usize> = BTreeMap::new();
    for (host, components) in components_of_hosts(spec).into_iter().enumerate().filter(|(_, components)| !components.is_empty()) {
        of_components.entry(components).or_insert(host);
    }
    let sets: Vec<_> = of_components.iter().collect();
    let apart = |(at, (components, host)): (usize, &(&BTreeSet<usize>, &usize))| {
        let other = sets[at + 1..].iter().find(|(others, _)| components.is_disjoint(others));
        other.map(|(_, other)| (**host.min(other), **host.max(other)))
    };
    sets.iter().enumerate().find_map(apart)
}

/// Returns, per host, the components that its cables lead to: joined switches, or a direct cable
/// between hosts.
fn components_of_hosts(spec: &FabricSpec) -> Vec<BTreeSet<usize>> {
    let mut above: Vec<usize> = (0..spec.switches.len() + spec.cables.len()).collect();
    for cable in &spec.cables {
        if let [PortRef::Switch { switch: one, .. }, PortRef::Switch { switch: other, .. }] = cable.ends {
            let (one, other) = (top(&mut above, one), top(&mut above, other));
            above[one.max(other)] = one.min(other);
        }
    }
    let mut components = vec![BTreeSet::new(); spec.hosts.len()];
    for (index, cable) in spec.cables.iter().enumerate() {
        let at_switch = cable.ends.iter().find_map(|end| if let PortRef::Switch { switch, .. } = end { Some(*switch) } else { None });
        let component = top(&mut above, at_switch.unwrap_or(spec.switches.len() + index));
        for end in cable.ends {
            if let PortRef::Hca { host, .. } = end {
                components[host].insert(component);
            }
        }
    }
    components
}

/// Returns the representative switch of a component, and shortens the path to it.
fn top(above: &mut [usize], of: usize) -> usize {
    let mut at = of;
    while above[at] != at {
        above[at] = above[above[at]];
        at = above[at];
    }
    at
}
