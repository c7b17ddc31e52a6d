//! The fault plan: the downtime and corruption of each cable, and the counts of both.

use crate::traffic::Traffic;
use softband_model::packet::PacketKind;
use softband_sim::{RandomStream, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass};
use std::collections::BTreeSet;

/// Number of spans of a manager that a cable keeps. Each lasts as long as a link trains, so they
/// reach back further than any packet is on a cable.
const OFF_SPANS_MAX: usize = 4;

/// A time at which a link may change state, and the ports at its ends.
pub(crate) type LinkChange = (SimTime, [u32; 2]);

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
    /// Spans in which a subnet manager keeps the link off, in order of time, without overlap.
    off: Vec<Span>,
    recovers: Vec<Span>,
    /// Each rate and its start, in order of time.
    rates: Vec<(SimTime, BitErrorRate)>,
}

impl CableFaults {
    fn rate(&self, at: SimTime) -> BitErrorRate {
        self.rates.iter().rev().find(|(from, _)| *from <= at).map_or(BitErrorRate::NONE, |(_, rate)| *rate)
    }

    /// Returns the spans without a link, for either reason.
    fn dark(&self) -> impl Iterator<Item = &Span> {
        self.down.iter().chain(&self.off)
    }

    /// Checks whether the link was down at any time from `sent` to `received`.
    fn is_cut(&self, sent: SimTime, received: SimTime) -> bool {
        self.dark().any(|span| span.meets(sent, received))
    }

    /// Returns the times at which the link may change state.
    fn turns(&self) -> BTreeSet<SimTime> {
        let begun = self.recovers.iter().map(|span| span.from);
        self.dark().flat_map(|span| [span.from, span.until]).chain(begun).filter(|at| *at < SimTime::MAX).collect()
    }

    /// Lets a manager keep the link off in a span. The span replaces the end of one that lasts.
    fn switch_off(&mut self, span: Span) {
        match self.off.last_mut() {
            Some(last) if last.until > span.from => last.until = span.until,
            _ => self.off.push(span),
        }
        let forgotten = self.off.len().saturating_sub(OFF_SPANS_MAX);
        self.off.drain(..forgotten);
    }

    /// Checks for a fault of this cable at `at` or later.
    fn is_affected_from(&self, at: SimTime) -> bool {
        let later = self.dark().chain(&self.recovers).any(|span| span.until > at);
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

    /// Adds faults to the plan. `port_of` maps a planned packet loss to the World's port. Returns
    /// the changes of links that are new.
    pub(super) fn add(&mut self, spec: &FabricSpec, faults: &[FaultSpec], port_of: impl Fn(&FaultSpec) -> Option<u32>) -> Vec<LinkChange> {
        let known: Vec<_> = self.cables.iter().map(CableFaults::turns).collect();
        for fault in faults {
            if let (FaultKind::Drop { packet, number, .. }, Some(by)) = (&fault.kind, port_of(fault)) {
                self.drops.push(Drop { by, class: *packet, from: fault.at, left: *number });
            }
        }
        self.faults.extend_from_slice(faults);
        self.faults.sort_by_key(|fault| fault.at); // a stable sort keeps the order of simultaneous faults
        self.lay_out(spec);
        known.iter().enumerate().flat_map(|(cable, known)| self.new_turns(cable, known)).collect()
    }

    /// Lets a manager keep a port's link off from `from` up to but not including `until`, in place
    /// of all that it wanted from `from` on. Returns the changes that are new.
    pub(super) fn switch_off(&mut self, port: u32, from: SimTime, until: SimTime) -> Vec<LinkChange> {
        let Some(cable) = self.cable_of_port[port as usize].map(|cable| cable as usize) else { return Vec::new() };
        let known = self.cables[cable].turns();
        self.cables[cable].switch_off(Span { from, until });
        self.new_turns(cable, &known)
    }

    fn new_turns(&self, cable: usize, known: &BTreeSet<SimTime>) -> Vec<LinkChange> {
        self.cables[cable].turns().difference(known).map(|at| (*at, self.ends[cable])).collect()
    }

    /// Computes the planned downtime of each cable.
    fn lay_out(&mut self, spec: &FabricSpec) {
        for cable in &mut self.cables {
            *cable = CableFaults { off: std::mem::take(&mut cable.off), ..CableFaults::default() };
        }
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

    /// Returns all changes of links.
    pub(super) fn turns(&self) -> Vec<LinkChange> {
        (0..self.cables.len()).flat_map(|cable| self.new_turns(cable, &BTreeSet::new())).collect()
    }

    pub(super) fn faults(&self) -> &[FaultSpec] {
        &self.faults
    }

    fn cable(&self, port: u32) -> Option<&CableFaults> {
        self.cable_of_port[port as usize].map(|cable| &self.cables[cable as usize])
    }

    /// Checks whether the plan or a manager has a port's link down at `at`.
    pub(super) fn is_down(&self, port: u32, at: SimTime) -> bool {
        self.cable(port).is_some_and(|cable| cable.dark().any(|span| span.has(at)))
    }

    /// Returns the end of the retraining that begins at `at`; `None` if none begins or the link is
    /// down.
    pub(super) fn recovers_until(&self, port: u32, at: SimTime) -> Option<SimTime> {
        let begun = self.cable(port)?.recovers.iter().filter(|span| span.from == at).map(|span| span.until).max()?;
        (!self.is_down(port, at)).then_some(begun)
    }

    /// Checks whether the link was down at any time of a packet's transmission.
    pub(super) fn is_cut(&self, port: u32, sent: SimTime, received: SimTime) -> bool {
        self.cable(port).is_some_and(|cable| cable.is_cut(sent, received))
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
        if cable.is_cut(sent, received) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_a_manager_leave_few_spans() {
        let mut plan = Plan::new(1, vec![[0, 1]], 2);
        let at = |micros: u64| SimTime::from_picos(micros * 1_000_000);
        for number in 0..1_000 {
            let changes = plan.switch_off(0, at(10 * number), SimTime::MAX);
            assert_eq!(changes, [(at(10 * number), [0, 1])]);
            assert!(plan.switch_off(1, at(10 * number + 1), SimTime::MAX).is_empty(), "already off");
            assert_eq!(plan.switch_off(0, at(10 * number + 2), at(10 * number + 7)).len(), 1);
            assert!(plan.is_down(1, at(10 * number + 6)) && !plan.is_down(1, at(10 * number + 7)));
        }
        assert!(plan.cables[0].off.len() <= OFF_SPANS_MAX && plan.faults().is_empty());
    }
}
