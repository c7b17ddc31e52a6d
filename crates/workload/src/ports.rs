//! Hot spots of the fabric: ports by their load and their waits, according to their counters.

use softband_fabric::PortCounters;
use softband_sim::SimTime;
use softband_spec::{FabricSpec, PortRef};
use std::collections::BTreeMap;

/// Share of the time above which a sending link is full. Gaps of headers and flow control take the rest.
const FULL: f64 = 0.8;
/// Least share of the time without credits at which a report names a port.
const STALL_NAMED: f64 = 0.01;
/// Most feeders that a report names for a port, and for each of those.
const FEEDERS_NAMED: usize = 8;
const DEPTH_MAX: usize = 4;

/// Load of a port with a cable, in its state after the run.
#[derive(Clone, Debug)]
pub struct PortReport {
    /// The port.
    pub port: PortRef,
    /// Name of the port in the fabric file: `a/mthca0/1`, `sw/1`.
    pub name: String,
    /// Port at the other end of the cable.
    pub peer: PortRef,
    /// Name of that port.
    pub peer_name: String,
    /// Rate of the link: `4X EDR` or `100GbE`.
    pub rate_name: String,
    /// Rate of the link's data in bytes per second, after line coding.
    pub link_bytes_per_second: f64,
    /// Share of the run's time during which the port sent packets, from 0 to 1.
    pub xmit_utilisation: f64,
    /// Share of the run's time during which the port received packets, from 0 to 1.
    pub rcv_utilisation: f64,
    /// Share of the run's time during which packets waited and their lane had no credits, for the
    /// worst lane: from 0 to 1.
    pub stalled: f64,
    /// Counters of the port.
    pub counters: PortCounters,
}

/// Returns a report on every cabled port, in the order of the fabric's cables. `completion` is the
/// time of the whole run.
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

/// A port that delays others: it is full, or its receiver gives it no credits.
#[derive(Clone, Debug, PartialEq)]
pub struct HotPort {
    /// Name of the port.
    pub name: String,
    /// Name of the port at the other end of its cable.
    pub to: String,
    /// Share of the run's time during which the port sent packets, from 0 to 1.
    pub utilisation: f64,
    /// Share of the run's time during which packets waited without credits, from 0 to 1.
    pub stalled: f64,
    /// Ports that send into its switch and wait for credits there, longest wait first.
    pub feeders: Vec<Feeder>,
}

/// A port that waits for credits of a switch with a hot port, with the ports that wait for its own switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Feeder {
    /// Name of the port.
    pub name: String,
    /// Share of the run's time during which the port sent packets, from 0 to 1.
    pub utilisation: f64,
    /// Share of the run's time during which packets waited without credits, from 0 to 1.
    pub stalled: f64,
    /// Ports that wait for credits of this port's switch, longest wait first.
    pub feeders: Vec<Feeder>,
}

/// Returns the roots of congestion trees, hottest first. Counters show that a port waits for a
/// switch, but not for which port of the switch.
pub fn hot_ports(reports: &[PortReport]) -> Vec<HotPort> {
    let waits_for_host = |report: &PortReport| matches!(report.peer, PortRef::Hca { .. }) && report.stalled >= STALL_NAMED;
    let is_root = |report: &&PortReport| report.xmit_utilisation >= FULL || waits_for_host(report);
    let mut roots: Vec<&PortReport> = reports.iter().filter(is_root).collect();
    roots.sort_by(|a, b| (b.xmit_utilisation + b.stalled).total_cmp(&(a.xmit_utilisation + a.stalled)).then(a.port.cmp(&b.port)));
    let waiting = waiting(reports);
    let hot = |root: &&PortReport| HotPort {
        name: root.name.clone(),
        to: root.peer_name.clone(),
        utilisation: root.xmit_utilisation,
        stalled: root.stalled,
        feeders: feeders(&waiting, root.port, &mut Vec::new()),
    };
    roots.iter().map(hot).collect()
}

fn switch_of(port: PortRef) -> Option<usize> {
    match port {
        PortRef::Switch { switch, .. } => Some(switch),
        PortRef::Hca { .. } => None,
    }
}

/// Ports that wait for credits, by the switch that they wait for, longest wait first.
type Waiting<'a> = BTreeMap<usize, Vec<&'a PortReport>>;

fn waiting(reports: &[PortReport]) -> Waiting<'_> {
    let mut waiting = Waiting::new();
    for report in reports.iter().filter(|report| report.stalled >= STALL_NAMED) {
        if let Some(switch) = switch_of(report.peer) {
            waiting.entry(switch).or_default().push(report);
        }
    }
    for ports in waiting.values_mut() {
        ports.sort_by(|a, b| b.stalled.total_cmp(&a.stalled).then(a.port.cmp(&b.port)));
    }
    waiting
}

fn feeders(waiting: &Waiting, of: PortRef, passed: &mut Vec<usize>) -> Vec<Feeder> {
    let Some(switch) = switch_of(of).filter(|switch| !passed.contains(switch) && passed.len() < DEPTH_MAX) else { return Vec::new() };
    passed.push(switch);
    let feeder = |report: &&PortReport| Feeder {
        name: report.name.clone(),
        utilisation: report.xmit_utilisation,
        stalled: report.stalled,
        feeders: feeders(waiting, report.port, &mut passed.clone()),
    };
    waiting.get(&switch).map_or(&[][..], Vec::as_slice).iter().take(FEEDERS_NAMED).map(feeder).collect()
}
