//! RACK: a packet is lost if one that left later has arrived (RFC 8985).

use super::Flow;
use crate::tcp::scoreboard::Delivery;
use softband_sim::{SimDuration, SimTime};

/// Recoveries without duplicates after which the window for reordering begins small again.
const PERSISTENCE: u32 = 16;

/// Most quarters of the least round trip that reordered packets may take.
const STEPS_MAX: u64 = 255;

#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Send time and end of the packet that left last among those that arrived.
    latest: (SimTime, u64),
    /// Round trip of that packet.
    rtt: SimDuration,
    is_reordered: bool,
    /// Quarters of the least round trip that reordered packets may take.
    steps: u64,
    /// Recoveries until `steps` begins again.
    persist: u32,
    /// End of the round trip in which `steps` grew.
    round: Option<u64>,
}

impl Default for Rack {
    fn default() -> Self {
        Self { latest: (SimTime::ZERO, 0), rtt: SimDuration::ZERO, is_reordered: false, steps: 1, persist: 0, round: None }
    }
}

impl Rack {
    pub(super) fn update(&mut self, flow: &Flow<'_>, delivery: &Delivery, is_twice: bool) {
        self.is_reordered |= delivery.is_reordered;
        self.round = self.round.filter(|end| flow.una < *end);
        // RFC 8985, 6.2, step 4: duplicates mean that the window for reordering is too small. Linux
        // ignores them before it has seen reordering.
        if is_twice && self.is_reordered && self.round.is_none() {
            self.steps = (self.steps + 1).min(STEPS_MAX);
            (self.persist, self.round) = (PERSISTENCE, Some(flow.next));
        }
        let Some((sent_at, end, ambiguous)) = delivery.latest else { return };
        let rtt = flow.now.saturating_since(sent_at);
        // An answer within the least round trip belongs to the original (RFC 8985, 6.2, step 2).
        if ambiguous && flow.rtt.min().is_some_and(|min| rtt < min) {
            return;
        }
        self.rtt = rtt;
        self.latest = self.latest.max((sent_at, end));
    }

    /// Notes the end of a recovery.
    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    fn window(&self, flow: &Flow<'_>, in_recovery: bool, duplicates: u32) -> SimDuration {
        if !self.is_reordered && (in_recovery || flow.board.sacked() >= duplicates) {
            return SimDuration::ZERO;
        }
        let quarter = flow.rtt.min().map_or(0, |min| min.as_picos() / 4);
        let bound = flow.rtt.smoothed().unwrap_or(SimDuration::ZERO);
        SimDuration::from_picos(quarter.saturating_mul(self.steps)).min(bound)
    }

    /// Marks losses. Returns whether there are new ones, and the time until the next may be known.
    pub(super) fn detect(&self, flow: &mut Flow<'_>, in_recovery: bool, duplicates: u32) -> (bool, Option<SimDuration>) {
        if self.latest.0 == SimTime::ZERO && self.latest.1 == 0 {
            return (false, None);
        }
        let allowed = self.rtt + self.window(flow, in_recovery, duplicates);
        let (now, (sent_at, end)) = (flow.now, self.latest);
        let mut wait: Option<SimDuration> = None;
        let marked = flow.board.mark_lost(|sent, _| {
            if !sent.is_before(sent_at, end) {
                return false;
            }
            let due = sent.sent_at.saturating_add(allowed);
            if due > now {
                wait = Some(wait.map_or(due - now, |longest| longest.max(due - now)));
            }
            due <= now
        });
        (marked > 0, wait)
    }
}
