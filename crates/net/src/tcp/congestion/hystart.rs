//! Hybrid slow start (Ha, Rhee 2008), as Linux's CUBIC has it: slow start ends before the first
//! loss, when acknowledgements fill half a round trip or the round trip grows.

use softband_sim::{SimDuration, SimTime};

/// Window in segments from which the rule applies.
const WINDOW_MIN: u32 = 16;
/// Acknowledgements of a train follow each other within this time.
const TRAIN_GAP: SimDuration = SimDuration::from_micros(2_000);
/// Bounds of the growth of a round trip that ends slow start; an eighth of the least one otherwise.
const GROWTH_MIN: u64 = 4_000_000_000;
const GROWTH_MAX: u64 = 16_000_000_000;
/// Samples of a round that count.
const SAMPLES: u32 = 8;

/// An acknowledgement in slow start.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Arrival {
    pub(in crate::tcp) now: SimTime,
    pub(in crate::tcp) una: u64,
    pub(in crate::tcp) next: u64,
    /// Latest and least round trip.
    pub(in crate::tcp) rtt: SimDuration,
    pub(in crate::tcp) min_rtt: SimDuration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    round_end: u64,
    round_at: SimTime,
    last_at: SimTime,
    least: Option<SimDuration>,
    samples: u32,
}

impl HyStart {
    /// Notes an acknowledgement. Returns whether slow start should end.
    pub(super) fn ends(&mut self, arrival: &Arrival, window: u32) -> bool {
        let Arrival { now, una, next, rtt, min_rtt } = *arrival;
        if una > self.round_end {
            *self = Self { round_end: next, round_at: now, last_at: now, least: None, samples: 0 };
        }
        if window < WINDOW_MIN || min_rtt == SimDuration::ZERO {
            return false;
        }
        let mut is_full = false;
        if now.saturating_since(self.last_at) <= TRAIN_GAP {
            self.last_at = now;
            is_full = now.saturating_since(self.round_at) * 2 > min_rtt;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        let allowed = min_rtt + SimDuration::from_picos((min_rtt.as_picos() / 8).clamp(GROWTH_MIN, GROWTH_MAX));
        is_full || self.samples >= SAMPLES && self.least.is_some_and(|least| least > allowed)
    }
}
