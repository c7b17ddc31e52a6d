//! The fault plan: the downtime and corruption of each cable, and the counts of both.

use crate::traffic::Traffic;
use softband_model::packet::PacketKind;
use softband_sim::{RandomStream, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass};

/// A port's counters of its link's faults, with names of the performance management agent (IBTA
/// 16.1.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Number of times the link went down.
    pub link_downed: u64,
    /// Number of times the link retrained and stayed up.
    pub link_error_recovery: u64,
    /// Wrong bits that arrived.
    pub symbol_error: u64,
    /// Packets discarded on arrival for a bad CRC.
    pub port_rcv_errors: u64,
}

/// Cause of a packet's loss on a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The link went down during the transmission.
    LinkDown,
    /// Its CRC is wrong.
    Corrupted,
}

/// A span of time: from `from`, up to but not including `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: SimTime,
    until: SimTime,
}

impl Span {
    fn has(self, at: SimTime) -> bool {
        self.from <= at && at < self.until
    }

    /// Checks for an overlap with the span from `first` to `last`, both included.
    fn meets(self, first: SimTime, last: SimTime) -> bool {
        self.from <= last && first < self.until
    }
}

#[derive(Default)]
struct CableFaults {
    /// Spans in order of time, without overlap.
    down: Vec<Span>,
    recovers: Vec<Span>,
    /// Each rate and its start, in order of time.
    rates: Vec<(SimTime, BitErrorRate)>,
}

impl CableFaults {
    fn rate(&self, at: SimTime) -> BitErrorRate {
        self.rates.iter().rev().find(|(from, _)| *from <= at).map_or(BitErrorRate::NONE, |(_, rate)| *rate)
    }

    /// Checks for a fault of this cable at `at` or later.
    fn is_affected_from(&self, at: SimTime) -> bool {
        let later = self.down.iter().chain(&self.recovers).any(|span| span.until > at);
        later || self.rate(at) != BitErrorRate::NONE || self.rates.iter().any(|(from, rate)| *from > at && *rate != BitErrorRate::NONE)
    }
}

/// A planned loss of a packet.
struct Drop {
    by: u32,
    class: PacketClass,
    from: SimTime,
    /// Packets up to and including the lost packet; 0 afterwards.
    left: u64,
}

/// The current fault state of a port.
#[derive(Clone, Copy, Default)]
pub(super) struct PortState {
    pub is_down: bool,
    pub counters: FaultCounters,
    /// Traffic that its peer sent and it did not receive.
    pub lost: Traffic,
}

pub(super) struct Plan {
    seed: u64,
    /// All planned faults, in order of time.
    faults: Vec<FaultSpec>,
    /// The ports at the ends of each cable.
    ends: Vec<[u32; 2]>,
    cable_of_port: Vec<Option<u32>>,
    cables: Vec<CableFaults>,
    drops: Vec<Drop>,
    pub(super) ports: Vec<PortState>,
}

impl Plan {
    pub(super) fn new(seed: u64, ends: Vec<[u32; 2]>, ports: usize) -> Self {
        let mut cable_of_port = vec![None; ports];
        for (cable, ends) in ends.iter().enumerate() {
            ends.iter().for_each(|port| cable_of_port[*port as usize] = Some(cable as u32));
        }
        let cables = std::iter::repeat_with(CableFaults::default).take(ends.len()).collect();
        Self { seed, faults: Vec::new(), ends, cable_of_port, cables, drops: Vec::new(), ports: vec![PortState::default(); ports] }
    }

    /// Adds faults to the plan. `port_of` maps a planned packet loss to the World's port.
    pub(super) fn add(&mut self, spec: &FabricSpec, faults: &[FaultSpec], port_of: impl Fn(&FaultSpec) -> Option<u32>) {
        for fault in faults {
            if let (FaultKind::Drop { packet, number, .. }, Some(by)) = (&fault.kind, port_of(fault)) {
                self.drops.push(Drop { by, class: *packet, from: fault.at, left: *number });
            }
        }
        self.faults.extend_from_slice(faults);
        self.faults.sort_by_key(|fault| fault.at); // a stable sort keeps the order of simultaneous faults
        self.lay_out(spec);
    }

    /// Computes the downtime of each cable.
    fn lay_out(&mut self, spec: &FabricSpec) {
        self.cables.fill_with(CableFaults::default);
        let mut is_dead = vec![false; self.cables.len()];
        for FaultSpec { at, kind } in &self.faults {
            let at = *at;
            match kind {
                FaultKind::LinkDown { cable } => begin(&mut self.cables[*cable].down, at),
                FaultKind::LinkUp { cable } if !is_dead[*cable] => end(&mut self.cables[*cable].down, at),
                FaultKind::LinkUp { .. } | FaultKind::Drop { .. } => {}
                FaultKind::LinkRecovers { cable, lasts } => self.cables[*cable].recovers.push(Span { from: at, until: at.saturating_add(*lasts) }),
                FaultKind::BitErrors { cable, rate } => self.cables[*cable].rates.push((at, *rate)),
                FaultKind::HostDies { .. } | FaultKind::SwitchDies { .. } => {
                    for cable in spec.cables_of(kind) {
                        begin(&mut self.cables[cable].down, at);
                        is_dead[cable] = true;
                    }
                }
            }
        }
        // Drops empty spans.
        self.cables.iter_mut().for_each(|cable| cable.down.retain(|span| span.from < span.until));
    }

    /// Returns the times from `from` on at which a link changes state, each with the ports at its
    /// ends.
    pub(super) fn turns(&self, from: SimTime) -> Vec<(SimTime, [u32; 2])> {
        let of = |(cable, faults): (usize, &CableFaults)| {
            let downs = faults.down.iter().flat_map(|span| [span.from, span.until]);
            let times = downs.chain(faults.recovers.iter().map(|span| span.from)).filter(|at| *at >= from && *at < SimTime::MAX);
            times.map(|at| (at, self.ends[cable])).collect::<Vec<_>>()
        };
        self.cables.iter().enumerate().flat_map(of).collect()
    }

    pub(super) fn faults(&self) -> &[FaultSpec] {
        &self.faults
    }

    fn cable(&self, port: u32) -> Option<&CableFaults> {
        self.cable_of_port[port as usize].map(|cable| &self.cables[cable as usize])
    }

    /// Checks whether the plan has a port's link down at `at`.
    pub(super) fn is_down(&self, port: u32, at: SimTime) -> bool {
        self.cable(port).is_some_and(|cable| cable.down.iter().any(|span| span.has(at)))
    }

    /// Returns the end of the retraining that begins at `at`; `None` if none begins or the link is
    /// down.
    pub(super) fn recovers_until(&self, port: u32, at: SimTime) -> Option<SimTime> {
        let begun = self.cable(port)?.recovers.iter().filter(|span| span.from == at).map(|span| span.until).max()?;
        (!self.is_down(port, at)).then_some(begun)
    }

    /// Checks whether the link was down at any time of a packet's transmission.
    pub(super) fn is_cut(&self, port: u32, sent: SimTime, received: SimTime) -> bool {
        self.cable(port).is_some_and(|cable| cable.down.iter().any(|span| span.meets(sent, received)))
    }

    /// Checks for a fault at `at` or later that affects a port's link or a packet on it.
    pub(super) fn is_affected_from(&self, port: u32, at: SimTime) -> bool {
        let Some(cable) = self.cable_of_port[port as usize] else { return false };
        let is_of_cable = |drop: &Drop| drop.left > 0 && self.ends[cable as usize].contains(&drop.by);
        self.cables[cable as usize].is_affected_from(at) || self.drops.iter().any(is_of_cable)
    }

    /// Returns the fate of packet `number` of port `by`, on the cable from `sent` to `received`,
    /// and the number of its wrong bits.
    pub(super) fn loss(&mut self, by: u32, (sent, received): (SimTime, SimTime), packet: (&PacketKind, u64, u32)) -> Option<(Loss, u32)> {
        let (kind, number, bytes) = packet;
        let mut is_dropped = false;
        for drop in self.drops.iter_mut().filter(|drop| drop.by == by && drop.left > 0 && drop.from <= sent && drop.class.has(kind)) {
            drop.left -= 1;
            is_dropped |= drop.left == 0;
        }
        let cable = &self.cables[self.cable_of_port[by as usize]? as usize];
        if cable.down.iter().any(|span| span.meets(sent, received)) {
            return Some((Loss::LinkDown, 0));
        }
        if is_dropped || cable.recovers.iter().any(|span| span.meets(sent, received)) {
            return Some((Loss::Corrupted, 0));
        }
        // Each packet has its own stream, so its draw depends on no other event.
        let stream = (u64::from(by) + 1) << 40 ^ number;
        let errors = cable.rate(sent).draw(bytes * 8, RandomStream::new(self.seed, stream));
        (errors > 0).then_some((Loss::Corrupted, errors))
    }
}

/// Starts a downtime at `at`, unless the cable is already down.
fn begin(down: &mut Vec<Span>, at: SimTime) {
    if down.last().is_none_or(|last| last.until <= at) {
        down.push(Span { from: at, until: SimTime::MAX });
    }
}

fn end(down: &mut [Span], at: SimTime) {
    if let Some(last) = down.last_mut().filter(|last| last.until > at) {
        last.until = at;
    }
}
