//! Load of the ports from each level of a fabric to each other level.

use super::{CLASSES, class};
use softband_catalog::drawing::Levels;
use softband_spec::FabricSpec;
use softband_workload::PortReport;
use std::collections::BTreeMap;

/// Ports of one direction between two levels.
pub(super) type Group<'a> = ((usize, usize), Vec<&'a PortReport>);

/// Groups ports by the levels that they connect, in the order of packets: first up, then down.
pub(super) fn grouped<'a>(levels: &Levels, ports: &[&'a PortReport]) -> Vec<Group<'a>> {
    let mut groups = BTreeMap::new();
    for report in ports {
        let (from, to) = (levels.of_port(report.port), levels.of_port(report.peer));
        let order = if from <= to { (0, from, to) } else { (1, usize::MAX - from, to) };
        groups.entry(order).or_insert_with(|| ((from, to), Vec::new())).1.push(*report);
    }
    groups.into_values().collect()
}

/// Load of all ports from one level to another.
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
    let groups = grouped(&levels, &ports).into_iter();
    groups.map(|((from, to), reports)| LevelLoad::new((levels.names(spec, from), levels.names(spec, to)), &reports)).collect()
}
