//! Round-trip time and retransmission timeout (RFC 6298), with Linux's minimum.

use softband_model::parts::KernelPart;
use softband_sim::SimDuration;

/// Estimator of a connection. Times are in picoseconds, the smoothed ones as 8 and 4 times theirs.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    smoothed_x8: u64,
    deviation_x4: u64,
    min: SimDuration,
    latest: SimDuration,
    has_sample: bool,
}

impl RttEstimator {
    pub(crate) fn new() -> Self {
        Self { smoothed_x8: 0, deviation_x4: 0, min: SimDuration::MAX, latest: SimDuration::ZERO, has_sample: false }
    }

    pub(crate) fn sample(&mut self, rtt: SimDuration) {
        let picos = rtt.as_picos().clamp(1, 1 << 56);
        self.min = self.min.min(rtt);
        self.latest = rtt;
        if !self.has_sample {
            (self.smoothed_x8, self.deviation_x4, self.has_sample) = (picos * 8, picos * 2, true);
            return;
        }
        let smoothed = self.smoothed_x8 / 8;
        // RFC 6298, 2.3: alpha is 1/8 and beta 1/4.
        self.deviation_x4 = self.deviation_x4 - self.deviation_x4 / 4 + smoothed.abs_diff(picos);
        self.smoothed_x8 = self.smoothed_x8 - smoothed + picos;
    }

    pub(crate) fn smoothed(&self) -> Option<SimDuration> {
        self.has_sample.then(|| SimDuration::from_picos(self.smoothed_x8 / 8))
    }
    /// Returns the least sample, or `None` before the first.
    pub(crate) fn min(&self) -> Option<SimDuration> {
        self.has_sample.then_some(self.min)
    }

    pub(crate) fn latest(&self) -> Option<SimDuration> {
        self.has_sample.then_some(self.latest)
    }

    /// Returns the timeout without backoff. Linux bounds the deviation's part from below, not the
    /// sum.
    pub(crate) fn rto(&self, kernel: &KernelPart) -> SimDuration {
        if !self.has_sample {
            return kernel.rto_initial;
        }
        let deviation = self.deviation_x4.max(kernel.rto_min.as_picos());
        SimDuration::from_picos(self.smoothed_x8 / 8 + deviation).min(kernel.rto_max)
    }

    /// Returns the timeout after `backoff` timeouts in a row.
    pub(crate) fn backed_off(&self, kernel: &KernelPart, backoff: u32) -> SimDuration {
        doubled(self.rto(kernel), backoff, kernel.rto_max)
    }
}

/// Returns `span` doubled `times` times, at most `max`.
pub(crate) fn doubled(span: SimDuration, times: u32, max: SimDuration) -> SimDuration {
    let picos = u128::from(span.as_picos()) << times.min(63);
    SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX)).min(max)
}
