//! Which hosts cables join.

use crate::spec::{FabricSpec, PortRef};
use std::collections::{BTreeMap, BTreeSet};

/// Two hosts that cannot reach each other by any of their ports, if there are such. Hosts without a cable are not looked at, and nothing
/// goes through a host from one of its ports to another.
pub fn hosts_apart(spec: &FabricSpec) -> Option<(usize, usize)> {
    // A set of hosts for each set of islands that they are on: two sets of islands are compared only once.
    let mut of_islands: BTreeMap<BTreeSet<usize>, usize> = BTreeMap::new();
    for (host, islands) in islands_of_hosts(spec).into_iter().enumerate().filter(|(_, islands)| !islands.is_empty()) {
        of_islands.entry(islands).or_insert(host);
    }
    let sets: Vec<_> = of_islands.iter().collect();
    let apart = |(at, (islands, host)): (usize, &(&BTreeSet<usize>, &usize))| {
        let other = sets[at + 1..].iter().find(|(others, _)| islands.is_disjoint(others));
        other.map(|(_, other)| (**host.min(other), **host.max(other)))
    };
    sets.iter().enumerate().find_map(apart)
}

/// By host, the islands that its cables lead to: switches that cables join, or one cable from host to host.
fn islands_of_hosts(spec: &FabricSpec) -> Vec<BTreeSet<usize>> {
    let mut above: Vec<usize> = (0..spec.switches.len() + spec.cables.len()).collect();
    for cable in &spec.cables {
        if let [PortRef::Switch { switch: one, .. }, PortRef::Switch { switch: other, .. }] = cable.ends {
            let (one, other) = (top(&mut above, one), top(&mut above, other));
            above[one.max(other)] = one.min(other);
        }
    }
    let mut islands = vec![BTreeSet::new(); spec.hosts.len()];
    for (index, cable) in spec.cables.iter().enumerate() {
        let at_switch = cable.ends.iter().find_map(|end| if let PortRef::Switch { switch, .. } = end { Some(*switch) } else { None });
        let island = top(&mut above, at_switch.unwrap_or(spec.switches.len() + index));
        for end in cable.ends {
            if let PortRef::Hca { host, .. } = end {
                islands[host].insert(island);
            }
        }
    }
    islands
}

/// The switch that stands for an island; the way there is made shorter.
fn top(above: &mut [usize], of: usize) -> usize {
    let mut at = of;
    while above[at] != at {
        above[at] = above[above[at]];
        at = above[at];
    }
    at
}
