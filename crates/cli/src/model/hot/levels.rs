//! How far switches are from hosts, and the load of the ports from each level to each other.

use super::{CLASSES, class};
use softband_fabric::spec::{FabricSpec, PortRef};
use softband_workload::PortReport;
use std::collections::BTreeMap;

/// 0 is a host's, 1 that of switches with hosts, 2 of those next to them, and so on.
pub(super) struct Levels {
    of_switch: Vec<usize>,
}

impl Levels {
    pub(super) fn of(spec: &FabricSpec) -> Self {
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

    pub(super) fn of_switch(&self, switch: usize) -> usize {
        self.of_switch[switch]
    }
    pub(super) fn of_port(&self, port: PortRef) -> usize {
        match port {
            PortRef::Hca { .. } => 0,
            PortRef::Switch { switch, .. } => self.of_switch[switch],
        }
    }
    pub(super) fn top(&self) -> usize {
        self.of_switch.iter().copied().max().unwrap_or(0)
    }

    /// No cable leads from a switch to another one of its level.
    pub(super) fn are_layers(&self, spec: &FabricSpec) -> bool {
        let is_flat = |[a, b]: [PortRef; 2]| self.of_port(a) > 0 && self.of_port(a) == self.of_port(b);
        !spec.switches.is_empty() && !spec.cables.iter().any(|cable| is_flat(cable.ends))
    }

    /// Hosts or switches of a level: the first and the last one's names.
    pub(super) fn names(&self, spec: &FabricSpec, level: usize) -> String {
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

    /// Ports by the levels that they lead from and to, as packets pass them: up first, then down.
    pub(super) fn grouped<'a>(&self, ports: &'a [&'a PortReport]) -> Vec<((usize, usize), Vec<&'a PortReport>)> {
        let mut groups = BTreeMap::new();
        for report in ports {
            let (from, to) = (self.of_port(report.port), self.of_port(report.peer));
            let order = if from <= to { (0, from, to) } else { (1, usize::MAX - from, to) };
            groups.entry(order).or_insert_with(|| ((from, to), Vec::new())).1.push(*report);
        }
        groups.into_values().collect()
    }
}

/// The load of all ports from one level to another.
pub(in crate::model) struct LevelLoad {
    pub from: String,
    pub to: String,
    pub ports: usize,
    pub full: usize,
    pub busy_mean: f64,
    pub stalled_most: f64,
}

impl LevelLoad {
    fn new((from, to): (String, String), reports: &[&PortReport]) -> Self {
        Self {
            from,
            to,
            ports: reports.len(),
            full: reports.iter().filter(|report| class(report.xmit_utilisation) == CLASSES.len()).count(),
            busy_mean: reports.iter().map(|report| report.xmit_utilisation).sum::<f64>() / reports.len().max(1) as f64,
            stalled_most: reports.iter().map(|report| report.stalled).fold(0.0, f64::max),
        }
    }
}

pub(in crate::model) fn level_loads(spec: &FabricSpec, ports: &[PortReport]) -> Vec<LevelLoad> {
    let levels = Levels::of(spec);
    let ports: Vec<&PortReport> = ports.iter().collect();
    let groups = levels.grouped(&ports).into_iter();
    groups.map(|((from, to), reports)| LevelLoad::new((levels.names(spec, from), levels.names(spec, to)), &reports)).collect()
}
