//! Connected components of the cabling: which hosts cables join.

use crate::spec::{FabricSpec, PortRef};
use std::collections::{BTreeMap, BTreeSet};

/// Two hosts that cannot reach each other by any of their ports, if there are such. Hosts without a cable are not looked at, and nothing
/// goes through a host from one of its ports to another.
pub fn hosts_apart(spec: &FabricSpec) -> Option<(usize, usize)> {
    // A set of hosts for each set of components that they are on: two sets of components are compared only once.
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

/// By host, the components that its cables lead to: switches that cables join, or one cable from host to host.
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

/// The switch that stands for a component; the path to it is made shorter.
fn top(above: &mut [usize], of: usize) -> usize {
    let mut at = of;
    while above[at] != at {
        above[at] = above[above[at]];
        at = above[at];
    }
    at
}
