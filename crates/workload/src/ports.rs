//! Where the fabric is hot: ports by their load and by what they wait for, as far as their counters tell.

use softband_fabric::PortCounters;
use softband_fabric::spec::{FabricSpec, PortRef};
use softband_sim::SimTime;
use std::collections::BTreeMap;

/// A link that sends for more than this share of the time is full: what is left goes to headers' gaps and flow control.
const FULL: f64 = 0.8;
/// Ports that wait for credits for a smaller share than this are left out.
const STALL_NAMED: f64 = 0.01;
/// The report names so many feeders of a port, and of each of those.
const FEEDERS_NAMED: usize = 8;
const DEPTH_MAX: usize = 4;

/// One end of a cable, as the run has left it.
#[derive(Clone, Debug)]
pub struct PortReport {
    pub port: PortRef,
    /// As the fabric file names it.
    pub name: String,
    pub peer: PortRef,
    pub peer_name: String,
    pub rate_name: String,
    pub link_bytes_per_second: f64,
    /// Shares of the run's time during which the link carried packets.
    pub xmit_utilisation: f64,
    pub rcv_utilisation: f64,
    /// Share of the run's time during which packets waited and no lane had credits; of the lane where it was longest.
    pub stalled: f64,
    pub counters: PortCounters,
}

/// Every cabled port, in the order of the fabric's cables.
pub fn port_reports(spec: &FabricSpec, counters: impl Iterator<Item = PortCounters>, completion: SimTime) -> Vec<PortReport> {
    let counters: BTreeMap<String, PortCounters> = counters.map(|port| (format!("{}/{}", port.node, port.port.0), port)).collect();
    let picos = (completion.as_picos() as f64).max(1.0);
    let mut reports = Vec::new();
    for cable in &spec.cables {
        for (port, peer) in [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])] {
            let name = spec.port_name(port);
            let counters = counters.get(&name).cloned().unwrap_or_default();
            let picos_a_byte = cable.rate.picos_of_bytes(1_000_000) as f64 / 1e6;
            let utilisation = |bytes: u64| bytes as f64 * picos_a_byte / picos;
            reports.push(PortReport {
                port,
                name,
                peer,
                peer_name: spec.port_name(peer),
                rate_name: cable.rate_name(),
                link_bytes_per_second: 1e12 / picos_a_byte,
                xmit_utilisation: utilisation(counters.sent_bytes),
                rcv_utilisation: utilisation(counters.received_bytes),
                stalled: counters.credit_stall_picos.iter().max().map_or(0.0, |stall| *stall as f64 / picos),
                counters,
            });
        }
    }
    reports
}

/// A port that holds others up: it is full, or its receiver gives it no credits.
#[derive(Clone, Debug, PartialEq)]
pub struct HotPort {
    pub name: String,
    pub to: String,
    pub utilisation: f64,
    pub stalled: f64,
    /// Who sends into its switch and waits for credits there, longest first.
    pub feeders: Vec<Feeder>,
}

/// A port that waits for credits of a switch with a hot port, and who in turn waits for its own switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Feeder {
    pub name: String,
    pub utilisation: f64,
    pub stalled: f64,
    pub feeders: Vec<Feeder>,
}

/// The roots of congestion trees, hottest first. Counters tell that somebody waits for a switch, not for which of its ports.
pub fn hot_ports(reports: &[PortReport]) -> Vec<HotPort> {
    let waits_for_host = |report: &PortReport| matches!(report.peer, PortRef::Hca { .. }) && report.stalled >= STALL_NAMED;
    let is_root = |report: &&PortReport| report.xmit_utilisation >= FULL || waits_for_host(report);
    let mut roots: Vec<&PortReport> = reports.iter().filter(is_root).collect();
    roots.sort_by(|a, b| (b.xmit_utilisation + b.stalled).total_cmp(&(a.xmit_utilisation + a.stalled)).then(a.port.cmp(&b.port)));
    let hot = |root: &&PortReport| HotPort {
        name: root.name.clone(),
        to: root.peer_name.clone(),
        utilisation: root.xmit_utilisation,
        stalled: root.stalled,
        feeders: feeders(reports, root.port, &mut Vec::new()),
    };
    roots.iter().map(hot).collect()
}

fn switch_of(port: PortRef) -> Option<usize> {
    match port {
        PortRef::Switch { switch, .. } => Some(switch),
        PortRef::Hca { .. } => None,
    }
}

fn feeders(reports: &[PortReport], of: PortRef, passed: &mut Vec<usize>) -> Vec<Feeder> {
    let Some(switch) = switch_of(of).filter(|switch| !passed.contains(switch) && passed.len() < DEPTH_MAX) else { return Vec::new() };
    passed.push(switch);
    let waits = |report: &&PortReport| switch_of(report.peer) == Some(switch) && report.stalled >= STALL_NAMED;
    let mut waiting: Vec<&PortReport> = reports.iter().filter(waits).collect();
    waiting.sort_by(|a, b| b.stalled.total_cmp(&a.stalled).then(a.port.cmp(&b.port)));
    let feeder = |report: &PortReport| Feeder {
        name: report.name.clone(),
        utilisation: report.xmit_utilisation,
        stalled: report.stalled,
        feeders: feeders(reports, report.port, &mut passed.clone()),
    };
    waiting.into_iter().take(FEEDERS_NAMED).map(feeder).collect()
}
