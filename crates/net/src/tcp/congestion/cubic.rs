//! CUBIC (RFC 9438) in integers. Time counts in 1024ths of a second.

use softband_sim::{SimDuration, SimTime};

/// Window after a loss, in 1024ths of the window before it: 0.7.
const BETA: u64 = 717;
/// C of the formula in 1024ths: 0.4.
const SCALE: u128 = 410;
/// Ticks of a second.
const TICKS: u64 = 1_024;
/// Arrivals for a segment of growth at most, while no loss has given a target.
const PER_SEGMENT_UNKNOWN_MAX: u32 = 20;
/// Arrivals for a segment of growth at least: the window grows by half a round trip at most.
const PER_SEGMENT_MIN: u32 = 2;
const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// Window before the last loss, or 0.
    last_max: u32,
    /// Beginning of the current growth.
    epoch: Option<SimTime>,
    /// Window at the plateau, and the ticks from `epoch` to it.
    origin: u32,
    plateau: u64,
    /// Window that Reno would have, and its arrivals since it grew (RFC 9438, 4.3).
    reno: u32,
    reno_arrived: u32,
}

impl Cubic {
    /// Returns the window after a loss.
    pub(super) fn reduced(&mut self, window: u32) -> u32 {
        self.epoch = None;
        // RFC 9438, 4.7: fast convergence.
        self.last_max = if window < self.last_max { (u64::from(window) * (TICKS + BETA) / (2 * TICKS)) as u32 } else { window };
        (u64::from(window) * BETA / TICKS) as u32
    }

    /// Moves the epoch after an idle time, which is no time of growth (RFC 9438, 5.8).
    pub(super) fn shift(&mut self, idle: SimDuration) {
        self.epoch = self.epoch.map(|epoch| epoch.saturating_add(idle));
    }

    /// Returns the arrivals that grow the window by a segment.
    pub(super) fn per_segment(&mut self, now: SimTime, window: u32, arrived: u32, min_rtt: SimDuration) -> u32 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.reno, self.reno_arrived) = (window, 0);
            self.origin = self.last_max.max(window);
            self.plateau = cube_root(u128::from(self.origin - window) * u128::from(TICKS).pow(4) / SCALE);
            now
        });
        let target = self.target(ticks(now.saturating_since(epoch) + min_rtt));
        let cubic = if target > window { window / (target - window) } else { window.saturating_mul(100) };
        let cubic = if self.last_max == 0 { cubic.min(PER_SEGMENT_UNKNOWN_MAX) } else { cubic };
        self.as_reno(window, arrived, cubic).max(PER_SEGMENT_MIN)
    }

    /// Returns the window of the formula, `ticks` after the epoch.
    fn target(&self, ticks: u64) -> u32 {
        let distance = u128::from(ticks.abs_diff(self.plateau).min(1 << 30));
        let step = u32::try_from(SCALE * distance.pow(3) / u128::from(TICKS).pow(4)).unwrap_or(u32::MAX);
        if ticks < self.plateau { self.origin.saturating_sub(step) } else { self.origin.saturating_add(step) }
    }

    /// Returns fewer arrivals than `cubic` if Reno's window would be larger (RFC 9438, 4.3).
    fn as_reno(&mut self, window: u32, arrived: u32, cubic: u32) -> u32 {
        // Alpha is 3 (1 - beta) / (1 + beta); a segment takes window / alpha arrivals.
        let per_segment = (u64::from(window) * (TICKS + BETA) / (3 * (TICKS - BETA))).max(1) as u32;
        self.reno_arrived += arrived;
        self.reno += self.reno_arrived / per_segment;
        self.reno_arrived %= per_segment;
        if self.reno > window { cubic.min(window / (self.reno - window)) } else { cubic }
    }
}

fn ticks(span: SimDuration) -> u64 {
    (u128::from(span.as_picos()) * u128::from(TICKS) / PICOS_PER_SECOND) as u64
}

/// Returns the cube root, rounded down.
fn cube_root(value: u128) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 42);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if u128::from(middle).pow(3) <= value { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_root_is_exact() {
        for (value, root) in [(0, 0), (7, 1), (8, 2), (26, 2), (27, 3), (u128::from(u64::MAX), 2_642_245)] {
            assert_eq!(cube_root(value), root);
        }
    }
}
