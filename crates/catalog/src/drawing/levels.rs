//! Levels of switches: their distance from hosts.

use softband_spec::{FabricSpec, PortRef};

/// Levels of all nodes. Hosts have level 0, switches with hosts level 1, the next switches level 2,
/// and so on.
pub struct Levels {
    of_switch: Vec<usize>,
}

impl Levels {
    /// Computes the level of every switch of a fabric.
    pub fn of(spec: &FabricSpec) -> Self {
        let mut of_switch = vec![usize::MAX; spec.switches.len()];
        let ends = || spec.cables.iter().flat_map(|cable| [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])]);
        for (own, other) in ends() {
            if let (PortRef::Switch { switch, .. }, PortRef::Hca { .. }) = (own, other) {
                of_switch[switch] = 1;
            }
        }
        for level in 1.. {
            let mut found = false;
            for (own, other) in ends() {
                if let (PortRef::Switch { switch, .. }, PortRef::Switch { switch: next, .. }) = (own, other)
                    && of_switch[switch] == level
                    && of_switch[next] > level + 1
                {
                    of_switch[next] = level + 1;
                    found = true;
                }
            }
            if !found {
                break;
            }
        }
        // These switches have no route to any host.
        of_switch.iter_mut().filter(|level| **level == usize::MAX).for_each(|level| *level = 1);
        Self { of_switch }
    }

    /// Returns the level of a switch, from 1.
    pub fn of_switch(&self, switch: usize) -> usize {
        self.of_switch[switch]
    }
    /// Returns the level of the node that has the port.
    pub fn of_port(&self, port: PortRef) -> usize {
        match port {
            PortRef::Hca { .. } => 0,
            PortRef::Switch { switch, .. } => self.of_switch[switch],
        }
    }
    /// Returns the highest level; 0 without switches.
    pub fn top(&self) -> usize {
        self.of_switch.iter().copied().max().unwrap_or(0)
    }

    /// Returns whether no cable joins two switches of one level.
    pub fn are_layers(&self, spec: &FabricSpec) -> bool {
        let is_flat = |[a, b]: [PortRef; 2]| self.of_port(a) > 0 && self.of_port(a) == self.of_port(b);
        !spec.switches.is_empty() && !spec.cables.iter().any(|cable| is_flat(cable.ends))
    }

    /// Returns the names of the first and the last node of a level.
    pub fn names(&self, spec: &FabricSpec, level: usize) -> String {
        let names: Vec<&str> = if level == 0 {
            spec.hosts.iter().map(|host| host.name.as_str()).collect()
        } else {
            spec.switches.iter().zip(&self.of_switch).filter(|(_, of)| **of == level).map(|(switch, _)| switch.name.as_str()).collect()
        };
        match names.as_slice() {
            [] => String::new(),
            [one] => (*one).to_owned(),
            [first, .., last] => format!("{first}..{last}"),
        }
    }
}
