//! Bottlenecks of a run, from counters alone.
//!
//! A share is a busy time or a wait, relative to the transfer time: the time with at least one send
//! request in flight.
//! For workloads, shares refer to the whole run. All arithmetic uses whole picoseconds, so the same
//! counters give the same words.

use crate::output::count;
use serde_json::{Value, json};
use softband_engine::ThreadWork;
use softband_fabric::{HcaCounters, PortCounters, QueuePairRepeats};
use softband_spec::FabricSpec;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Least wait worth a line, in percent of the transfer time: for credits, the end of a pause, a
/// receive request or an acknowledgement. A shorter wait costs less than the gaps between packets.
const WAIT_PERCENT: u64 = 5;
/// Least share of the transfer time, in percent, at which a busy link, bus, HCA or processor is
/// worth a line. Below it, another limit is busy more often.
const BUSY_PERCENT: u64 = 60;
/// Share of the transfer time, in percent, at which a busy slot, bus or memory explains the waits
/// of read requests. Their latency is then not a separate limit.
/// A busy part below this share comes after all waits. `softband what-if` calls a part the limit
/// from the same share on.
const SATURATED_PERCENT: u64 = 95;
/// Most bottlenecks in a report.
const NAMED_MAX: usize = 5;

/// Kind of a limit. Kinds of equal share appear in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Link,
    Bus,
    Hca,
    Credits,
    /// Its peer had no receive request.
    Receiver,
    Retransmission,
    Program,
}

impl Kind {
    /// Returns the name in `run.json` and `softband what-if`.
    fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Bus => "bus",
            Self::Hca => "HCA",
            Self::Credits => "credits",
            Self::Receiver => "receiver",
            Self::Retransmission => "retransmission",
            Self::Program => "program",
        }
    }
}

/// A limit that delayed transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bottleneck {
    pub(crate) kind: Kind,
    /// Name of the port, HCA, bus, host, queue pair or thread.
    pub(crate) part: String,
    /// Share of the transfer time in percent, rounded.
    pub(crate) share: u64,
    pub(crate) text: String,
    picos: u64,
}

impl Bottleneck {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "part": self.part, "kind": self.kind.name(), "share": self.share, "text": self.text })
    }
}

/// Reference time of the shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Whole {
    /// Time with at least one send request in flight.
    #[default]
    Transfers,
    /// All time: a workload sends from its beginning to its end.
    Run,
}

impl Whole {
    fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfer time",
            Self::Run => "run",
        }
    }
}

/// Input of the rule.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) ports: Vec<PortCounters>,
    pub(crate) hcas: Vec<HcaCounters>,
    pub(crate) repeats: Vec<QueuePairRepeats>,
    pub(crate) work: Vec<ThreadWork>,
    /// Reference time of the shares, in picoseconds.
    pub(crate) whole_picos: u64,
    pub(crate) whole: Whole,
    /// The far end of each cabled port.
    pub(crate) peers: BTreeMap<String, String>,
    /// Shared bus of each HCA that shares one.
    pub(crate) shared_buses: BTreeMap<String, String>,
}

impl Evidence {
    /// Takes names from the fabric. The counters are still empty.
    pub(crate) fn of_fabric(spec: &FabricSpec) -> Self {
        let mut evidence = Self::default();
        for cable in &spec.cables {
            let [one, other] = cable.ends.map(|end| spec.port_name(end));
            evidence.peers.insert(one.clone(), other.clone());
            evidence.peers.insert(other, one);
        }
        for host in &spec.hosts {
            for hca in &host.hcas {
                if let Some(bus) = &hca.shared_bus {
                    evidence.shared_buses.insert(format!("{}/{}", host.name, hca.device), format!("bus {bus} of {}", host.name));
                }
            }
        }
        evidence
    }

    fn peer(&self, port: &str) -> &str {
        self.peers.get(port).map_or("its peer", String::as_str)
    }

    /// Returns a time as a share of the transfer time, in percent, rounded. Requests of unreliable
    /// queue pairs end before their packets arrive, so later parts may be busy for longer.
    pub(crate) fn percent(&self, picos: u64) -> u64 {
        let whole = u128::from(self.whole_picos.max(1));
        u64::try_from((u128::from(picos) * 100 + whole / 2) / whole).unwrap_or(u64::MAX).min(100)
    }

    fn is_at_least(&self, picos: u64, percent: u64) -> bool {
        picos > 0 && u128::from(picos) * 100 >= u128::from(self.whole_picos) * u128::from(percent)
    }

    /// Returns whether a part is busy but not full. It delayed nothing while another part waited.
    fn has_time_left(&self, limit: &Bottleneck) -> bool {
        let is_wait = matches!(limit.kind, Kind::Credits | Kind::Receiver | Kind::Retransmission);
        !is_wait && !self.is_at_least(limit.picos, SATURATED_PERCENT)
    }

    /// Builds a bottleneck. The share stands between `before` and `after`.
    fn limit(&self, kind: Kind, part: &str, picos: u64, (before, after): (&str, &str)) -> Bottleneck {
        let share = self.percent(picos);
        let text = format!("{before} {share} % of the {}{after}", self.whole.name());
        Bottleneck { kind, part: part.to_owned(), share, text, picos }
    }

    fn wait(&self, kind: Kind, part: &str, picos: u64, after: &str) -> Option<Bottleneck> {
        self.is_at_least(picos, WAIT_PERCENT).then(|| self.limit(kind, part, picos, (&format!("{part} waited"), after)))
    }

    fn busy(&self, kind: Kind, part: &str, picos: u64, before: &str) -> Option<Bottleneck> {
        self.is_at_least(picos, BUSY_PERCENT).then(|| self.limit(kind, part, picos, (before, "")))
    }
}

/// Returns the bottlenecks of a run: waits and full parts, largest first, then busy parts with time
/// left. A run that sends nothing has none.
pub(crate) fn bottlenecks(evidence: &Evidence) -> Vec<Bottleneck> {
    if evidence.whole_picos == 0 {
        return Vec::new();
    }
    let mut found: Vec<Bottleneck> = evidence.ports.iter().flat_map(|port| of_port(evidence, port)).collect();
    found.extend(evidence.hcas.iter().flat_map(|hca| of_hca(evidence, hca)));
    found.extend(evidence.repeats.iter().flat_map(|qp| of_queue_pair(evidence, qp)));
    found.extend(evidence.work.iter().filter_map(|thread| of_thread(evidence, thread)));
    let rank = |limit: &Bottleneck| (evidence.has_time_left(limit), Reverse(limit.picos));
    found.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| (a.kind, &a.part, &a.text).cmp(&(b.kind, &b.part, &b.text))));
    // HCAs of one host share its memory, and HCAs of one bus share that bus. The report names each once.
    found.dedup_by(|a, b| a.text == b.text);
    found.truncate(NAMED_MAX);
    found
}

fn of_port(evidence: &Evidence, port: &PortCounters) -> Vec<Bottleneck> {
    let name = format!("{}/{}", port.node, port.port.0);
    let peer = evidence.peer(&name);
    let link = evidence.busy(Kind::Link, &name, port.xmit_busy_picos, &format!("the link {name} to {peer} was busy for"));
    let wait = |(lane, picos): (usize, &u64)| {
        let after = match port.ethernet {
            None => format!(" for credits of {peer} on VL {lane}"),
            Some(_) => format!(" for the end of pauses by {peer} on priority {lane}"),
        };
        evidence.wait(Kind::Credits, &name, *picos, &after)
    };
    link.into_iter().chain(port.credit_stall_picos.iter().enumerate().filter_map(wait)).collect()
}

fn of_hca(evidence: &Evidence, hca: &HcaCounters) -> Vec<Bottleneck> {
    let node = &hca.node;
    let own_bus = format!("bus of {node}");
    let bus = evidence.shared_buses.get(node).unwrap_or(&own_bus);
    let host = node.split('/').next().unwrap_or(node);
    let on_the_way = hca.slot_read_picos.max(hca.shared_bus_picos).max(hca.memory_picos);
    let latency = if evidence.is_at_least(on_the_way, SATURATED_PERCENT) { 0 } else { hca.read_wait_picos };
    let limits = [
        (Kind::Bus, node.as_str(), hca.slot_read_picos, format!("reads over the slot of {node} were under way for")),
        (Kind::Bus, node, hca.slot_write_picos, format!("writes over the slot of {node} were under way for")),
        (Kind::Bus, bus, hca.shared_bus_picos, format!("the {bus} was busy for")),
        (Kind::Bus, host, hca.memory_picos, format!("the memory of host {host} was busy for")),
        (Kind::Bus, node, latency, format!("all read requests of {node} waited for the latency of memory for")),
        (Kind::Hca, node, hca.message_gap_picos, format!("the message rate of {node} was at its limit for")),
    ];
    limits.iter().filter_map(|(kind, part, picos, text)| evidence.busy(*kind, part, *picos, text)).collect()
}

fn of_queue_pair(evidence: &Evidence, qp: &QueuePairRepeats) -> Vec<Bottleneck> {
    let name = format!("queue pair {:#x} of {}", qp.qpn.0, qp.node);
    let repeats = qp.repeats;
    let mut found = Vec::new();
    let naks = count(repeats.rnr_naks, "RNR NAK", "RNR NAKs");
    found.extend(evidence.wait(Kind::Receiver, &name, repeats.rnr_waits.as_picos(), &format!(" for receive requests of its peer ({naks})")));
    // Lost packets are worth a line however short the delay.
    if repeats.retransmissions > 0 || repeats.timeouts > 0 {
        let before = format!("{name} sent again {}", count(repeats.retransmissions, "time", "times"));
        let after = format!(" for {}", count(repeats.timeouts, "timeout", "timeouts"));
        let waits = (&*format!("{before} and waited"), &*after);
        let limit = evidence.limit(Kind::Retransmission, &name, repeats.timeout_waits.as_picos(), waits);
        // The peer or a later response revealed the loss, so the requester did not wait.
        let told_at_once = repeats.timeouts == 0;
        found.push(if told_at_once { Bottleneck { text: format!("{before} because packets were lost"), ..limit } } else { limit });
    }
    found
}

fn of_thread(evidence: &Evidence, thread: &ThreadWork) -> Option<Bottleneck> {
    let before = format!("the processor of {} was busy with its calls for", thread.name);
    evidence.busy(Kind::Program, &thread.name, thread.busy_picos, &before)
}

#[cfg(test)]
mod tests;
