//! Recovery of losses: RACK (RFC 8985) or counting (RFC 6675), PRR (RFC 6937) or halving, timeouts,
//! and the end of recoveries that were not needed.

mod rack;

use super::congestion::{Arrival, Congestion};
use super::rtt::RttEstimator;
use super::scoreboard::{Delivery, Scoreboard, Sent};
use crate::sequence::SeqNumber;
use rack::Rack;
use softband_model::parts::{KernelPart, LossDetection, RateReduction};
use softband_sim::{SimDuration, SimTime};

/// Packets above a packet that must arrive before it counts as lost (RFC 5681, 3.2).
const DUPLICATES: u32 = 3;

/// Phase of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No loss is known.
    Open,
    /// Lost packets are sent again, clocked by arrivals.
    Recovery,
    /// A timeout passed; all begins again in slow start.
    Loss,
}

/// The parts of a sender that recovery works with.
pub(crate) struct Flow<'a> {
    pub(crate) board: &'a mut Scoreboard,
    pub(crate) congestion: &'a mut Congestion,
    pub(crate) rtt: &'a RttEstimator,
    pub(crate) kernel: &'a KernelPart,
    pub(crate) now: SimTime,
    pub(crate) una: u64,
    pub(crate) next: u64,
}

/// An acknowledgement, as recovery sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    pub(crate) delivery: Delivery,
    /// The cumulative number advanced.
    pub(crate) is_advance: bool,
    /// The segment repeats the last acknowledgement and brings nothing else.
    pub(crate) is_duplicate: bool,
    /// Packets that arrived twice, by a block of RFC 2883.
    pub(crate) twice: u32,
    /// End of that block.
    pub(crate) twice_end: u64,
    /// Echo of a timestamp.
    pub(crate) echo: Option<u32>,
    /// Both sides use SACK.
    pub(crate) has_sack: bool,
}

/// State of a connection's recovery.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    phase: Phase,
    /// Recovery ends when the peer has all up to here.
    high: u64,
    prior_window: u32,
    delivered: u32,
    sent: u32,
    rack: Rack,
    /// End of the probe for the loss of the last packets, and whether it repeated data.
    probe: Option<(u64, bool)>,
    undo: Option<Undo>,
    backoff: u32,
    first_timeout_at: Option<SimTime>,
}

/// State before a recovery that may prove unnecessary.
#[derive(Clone, Debug)]
struct Undo {
    window: u32,
    threshold_before: u32,
    /// Clock of the first retransmission.
    clock: Option<u32>,
    /// Retransmitted packets that did not arrive twice.
    left: u32,
}

impl Recovery {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Open,
            high: 0,
            prior_window: 0,
            delivered: 0,
            sent: 0,
            rack: Rack::default(),
            probe: None,
            undo: None,
            backoff: 0,
            first_timeout_at: None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }
    pub(crate) fn first_timeout_at(&self) -> Option<SimTime> {
        self.first_timeout_at
    }
    pub(crate) fn has_probe(&self) -> bool {
        self.probe.is_some()
    }
    /// Notes a probe for the loss of the last packets.
    pub(crate) fn note_probe(&mut self, end: u64, is_retransmission: bool) {
        self.probe = Some((end, is_retransmission));
    }
    /// Notes `packets` sent during recovery.
    pub(crate) fn note_sent(&mut self, packets: u32) {
        if self.phase == Phase::Recovery {
            self.sent += packets;
        }
    }
    /// Notes a retransmission, by the sender's clock.
    pub(crate) fn note_retransmission(&mut self, packets: u32, clock: u32) {
        if let Some(undo) = &mut self.undo {
            undo.left += packets;
            undo.clock.get_or_insert(clock);
        }
    }

    /// Processes an acknowledgement after the scoreboard has. Returns the time until a reordered
    /// packet counts as lost, if one might.
    pub(crate) fn acknowledged(&mut self, flow: &mut Flow<'_>, acked: &Acked) -> Option<SimDuration> {
        if acked.is_advance {
            (self.backoff, self.first_timeout_at) = (0, None);
        }
        // A probe that was not needed says nothing about reordering.
        let is_probe_twice = acked.twice > 0 && self.probe.is_some_and(|(end, _)| acked.twice_end == end);
        self.rack.update(flow, &acked.delivery, acked.twice > 0 && !is_probe_twice);
        self.end_probe(flow, acked, is_probe_twice);
        self.undo_if_unneeded(flow, acked);
        if self.phase != Phase::Open && flow.una >= self.high {
            if self.phase == Phase::Recovery {
                flow.congestion.set_window(flow.congestion.threshold());
            }
            (self.phase, self.undo) = (Phase::Open, None);
            self.rack.recovered();
        }
        let (lost, wait) = self.detect(flow, acked);
        if lost && self.phase == Phase::Open {
            self.enter(flow);
        }
        self.adjust_window(flow, acked, lost);
        wait
    }

    fn detect(&mut self, flow: &mut Flow<'_>, acked: &Acked) -> (bool, Option<SimDuration>) {
        if !acked.has_sack {
            let is_partial = self.phase == Phase::Recovery && acked.is_advance && flow.una < self.high;
            if acked.is_duplicate {
                flow.board.note_duplicate();
            }
            let is_third = self.phase == Phase::Open && acked.is_duplicate && flow.board.duplicates() >= DUPLICATES;
            if is_partial || is_third {
                flow.board.mark_first_lost();
                return (true, None);
            }
            return (false, None);
        }
        match flow.kernel.loss_detection {
            LossDetection::Count => {
                let highest = flow.board.highest_sacked();
                let is_lost = |sent: &Sent, above| above >= DUPLICATES && (!sent.is_retransmitted() || sent.is_lost_again(highest));
                (flow.board.sacked() > 0 && flow.board.mark_lost(is_lost) > 0, None)
            }
            LossDetection::Rack => self.rack.detect(flow, self.phase != Phase::Open, DUPLICATES),
        }
    }

    /// Looks for losses after the wait for reordered packets.
    pub(crate) fn reordering_expired(&mut self, flow: &mut Flow<'_>) -> Option<SimDuration> {
        let (lost, wait) = self.rack.detect(flow, self.phase != Phase::Open, DUPLICATES);
        if lost && self.phase == Phase::Open {
            self.enter(flow);
        }
        if lost && self.phase == Phase::Recovery {
            self.reduce_window(flow, 0, false);
        }
        wait
    }

    fn enter(&mut self, flow: &mut Flow<'_>) {
        self.save(flow.congestion);
        self.prior_window = flow.congestion.window();
        flow.congestion.reduce();
        (self.phase, self.high, self.delivered, self.sent) = (Phase::Recovery, flow.next, 0, 0);
        self.probe = None;
    }

    fn save(&mut self, congestion: &Congestion) {
        let (window, threshold_before) = (congestion.window(), congestion.threshold());
        self.undo = Some(Undo { window, threshold_before, clock: None, left: 0 });
    }

    fn adjust_window(&mut self, flow: &mut Flow<'_>, acked: &Acked, lost: bool) {
        match self.phase {
            Phase::Recovery => self.reduce_window(flow, acked.delivery.packets, acked.is_advance && !lost),
            Phase::Open | Phase::Loss => {
                let min_rtt = flow.rtt.min().unwrap_or(SimDuration::ZERO);
                if let (Some(rtt), true) = (flow.rtt.latest(), acked.is_advance) {
                    let Flow { now, una, next, .. } = *flow;
                    flow.congestion.note_arrival(&Arrival { now, una, next, rtt, min_rtt });
                }
                flow.congestion.grow(flow.now, acked.delivery.packets, min_rtt);
            }
        }
    }

    fn reduce_window(&mut self, flow: &mut Flow<'_>, delivered: u32, is_progress: bool) {
        self.delivered += delivered;
        let (in_flight, threshold) = (flow.board.in_flight(), flow.congestion.threshold());
        let send = match flow.kernel.rate_reduction {
            RateReduction::Halving => {
                let window = self.prior_window.saturating_sub(self.delivered / 2).max(threshold);
                flow.congestion.set_window(window.min(in_flight + 1));
                return;
            }
            // RFC 6937, section 3, with its slow-start reduction bound.
            RateReduction::Proportional if in_flight > threshold => {
                let share = u64::from(threshold) * u64::from(self.delivered);
                let wanted = share.div_ceil(u64::from(self.prior_window.max(1))) as u32;
                wanted.saturating_sub(self.sent)
            }
            RateReduction::Proportional => {
                let wanted = self.delivered.saturating_sub(self.sent).max(delivered) + u32::from(is_progress);
                wanted.min(threshold - in_flight)
            }
        };
        // The first retransmission leaves at once.
        let send = if self.sent == 0 { send.max(1) } else { send };
        flow.congestion.set_window(in_flight + send);
    }

    /// Ends the episode of a probe (RFC 8985, 7.4.2). A repeated packet that arrived once repaired a
    /// loss. That shows when data beyond it arrives without a sign of the other copy.
    fn end_probe(&mut self, flow: &mut Flow<'_>, acked: &Acked, is_twice: bool) {
        let Some((end, repeated)) = self.probe.filter(|(end, _)| flow.una >= *end) else { return };
        debug_assert!(end <= flow.next, "a probe ends within the flight");
        let is_repair = repeated && !is_twice && flow.una > end;
        if !repeated || is_twice || is_repair || acked.is_duplicate {
            self.probe = None;
        }
        if is_repair && self.phase == Phase::Open {
            flow.congestion.reduce();
            flow.congestion.set_window(flow.congestion.threshold());
        }
    }

    /// Restores the window if the peer shows that retransmissions were not needed: it answers the
    /// original (RFC 3522), or it has every retransmitted packet twice (RFC 3708).
    fn undo_if_unneeded(&mut self, flow: &mut Flow<'_>, acked: &Acked) {
        let Some(undo) = &mut self.undo else { return };
        undo.left = undo.left.saturating_sub(acked.twice);
        let answers_original = acked.is_advance
            && acked.delivery.has_retransmitted
            && undo.clock.zip(acked.echo).is_some_and(|(clock, echo)| SeqNumber(echo).is_before(SeqNumber(clock)));
        let all_twice = acked.twice > 0 && undo.clock.is_some() && undo.left == 0;
        if answers_original || all_twice {
            flow.congestion.restore(undo.window, undo.threshold_before);
            flow.board.unmark_lost();
            (self.phase, self.undo, self.backoff) = (Phase::Open, None, 0);
        }
    }

    /// Notes a timeout: all packets without a block are lost.
    pub(crate) fn timed_out(&mut self, flow: &mut Flow<'_>) {
        if self.phase == Phase::Open || flow.una >= self.high && self.phase != Phase::Loss {
            self.save(flow.congestion);
        }
        if self.phase != Phase::Loss || self.backoff == 0 {
            flow.congestion.reduce();
        }
        flow.congestion.collapse();
        flow.congestion.set_window(1);
        // A first span with a block that the cumulative number skips: the peer dropped its data.
        let keep_sacked = flow.board.first().is_some_and(|first| !first.is_sacked());
        flow.board.mark_all_lost(keep_sacked);
        (self.phase, self.high, self.probe) = (Phase::Loss, flow.next, None);
        self.note_timeout(flow.now);
    }

    /// Doubles the next timeout.
    pub(crate) fn note_timeout(&mut self, now: SimTime) {
        self.backoff += 1;
        self.first_timeout_at.get_or_insert(now);
    }
    /// Ends the doubling of timeouts.
    pub(crate) fn reset_backoff(&mut self) {
        (self.backoff, self.first_timeout_at) = (0, None);
    }
}
