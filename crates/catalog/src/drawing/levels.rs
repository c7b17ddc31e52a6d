//! How far switches are from hosts.

use softband_fabric::spec::{FabricSpec, PortRef};

/// 0 is a host's, 1 that of switches with hosts, 2 of those next to them, and so on.
pub struct Levels {
    of_switch: Vec<usize>,
}

impl Levels {
    /// Of every switch of a fabric.
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
        // Without a way to any host.
        of_switch.iter_mut().filter(|level| **level == usize::MAX).for_each(|level| *level = 1);
        Self { of_switch }
    }

    /// Of a switch, from 1.
    pub fn of_switch(&self, switch: usize) -> usize {
        self.of_switch[switch]
    }
    /// Of the node that has the port.
    pub fn of_port(&self, port: PortRef) -> usize {
        match port {
            PortRef::Hca { .. } => 0,
            PortRef::Switch { switch, .. } => self.of_switch[switch],
        }
    }
    /// The highest; 0 without switches.
    pub fn top(&self) -> usize {
        self.of_switch.iter().copied().max().unwrap_or(0)
    }

    /// No cable leads from a switch to another one of its level.
    pub fn are_layers(&self, spec: &FabricSpec) -> bool {
        let is_flat = |[a, b]: [PortRef; 2]| self.of_port(a) > 0 && self.of_port(a) == self.of_port(b);
        !spec.switches.is_empty() && !spec.cables.iter().any(|cable| is_flat(cable.ends))
    }

    /// Hosts or switches of a level: the first and the last one's names.
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
