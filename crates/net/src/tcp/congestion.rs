//! Congestion window in segments: slow start, and the rule of the kernel beyond it. Integers only.

mod bic;
mod cubic;
mod hystart;

use bic::Bic;
use cubic::Cubic;
pub(super) use hystart::Arrival;
use hystart::HyStart;
use softband_model::parts::{CongestionControl, KernelPart, SlowStart};
use softband_sim::{SimDuration, SimTime};

/// Window that no loss has bounded yet.
const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// Largest window in segments; 65,535 segments of 64 KiB fill any simulated path.
const WINDOW_MAX: u32 = 1 << 20;

#[derive(Clone, Debug)]
enum Rule {
    Reno,
    Bic(Bic),
    Cubic(Cubic),
}

/// Congestion window of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    window: u32,
    threshold: u32,
    /// Segments that arrived since the last growth beyond slow start.
    arrived: u32,
    rule: Rule,
    slow_start: SlowStart,
    /// Early end of slow start, until it has come.
    early_end: Option<HyStart>,
    /// Most segments in flight, and whether the window stopped the sender, until `usage_until`.
    used: u32,
    is_limited: bool,
    usage_until: u64,
}

impl Congestion {
    pub(crate) fn new(kernel: &KernelPart, control: CongestionControl) -> Self {
        let rule = match control {
            CongestionControl::Reno => Rule::Reno,
            CongestionControl::Bic => Rule::Bic(Bic::default()),
            CongestionControl::Cubic => Rule::Cubic(Cubic::default()),
        };
        let early_end = (kernel.hybrid_slow_start && control == CongestionControl::Cubic).then(HyStart::default);
        let (window, slow_start) = (kernel.initial_window, kernel.slow_start);
        Self { window, threshold: NO_THRESHOLD, arrived: 0, rule, slow_start, early_end, used: 0, is_limited: false, usage_until: 0 }
    }

    /// Begins with the first window for packets of `mss` bytes.
    pub(crate) fn begin(&mut self, kernel: &KernelPart, mss: u32) {
        self.window = initial_window(kernel, mss);
    }

    pub(crate) fn window(&self) -> u32 {
        self.window
    }
    pub(crate) fn threshold(&self) -> u32 {
        self.threshold
    }
    pub(crate) fn set_window(&mut self, window: u32) {
        self.window = window.clamp(1, WINDOW_MAX);
    }
    pub(crate) fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Starts a reduction: sets the threshold by the rule of the kernel.
    pub(crate) fn reduce(&mut self) {
        let reduced = match &mut self.rule {
            Rule::Reno => self.window / 2,
            Rule::Bic(bic) => bic.reduced(self.window),
            Rule::Cubic(cubic) => cubic.reduced(self.window),
        };
        self.threshold = reduced.max(2);
        self.arrived = 0;
    }

    /// Takes back a reduction that was not needed.
    pub(crate) fn restore(&mut self, window: u32, threshold: u32) {
        self.set_window(self.window.max(window));
        self.threshold = self.threshold.max(threshold);
    }

    /// Forgets the growth before a timeout (RFC 5681, 3.1).
    pub(crate) fn collapse(&mut self) {
        self.arrived = 0;
        match &mut self.rule {
            Rule::Reno => {}
            Rule::Bic(bic) => *bic = Bic::default(),
            Rule::Cubic(cubic) => *cubic = Cubic::default(),
        }
    }

    /// Notes the use of the window after a send. RFC 7661: an unused window does not grow.
    pub(crate) fn note_use(&mut self, in_flight: u32, is_limited: bool, (una, next): (u64, u64)) {
        if una >= self.usage_until || in_flight > self.used || is_limited && !self.is_limited {
            (self.used, self.is_limited, self.usage_until) = (in_flight, is_limited, next);
        }
    }

    /// Ends slow start early if an acknowledgement says so.
    pub(crate) fn note_arrival(&mut self, arrival: &Arrival) {
        let (is_slow_start, window) = (self.is_slow_start(), self.window);
        if self.early_end.as_mut().is_some_and(|early_end| is_slow_start && early_end.ends(arrival, window)) {
            self.threshold = window;
            self.early_end = None;
        }
    }

    /// Grows the window after an acknowledgement by which `delivered` segments arrived.
    pub(crate) fn grow(&mut self, now: SimTime, delivered: u32, min_rtt: SimDuration) {
        let used = self.is_limited || self.is_slow_start() && self.window < self.used.saturating_mul(2);
        if !used || delivered == 0 {
            return;
        }
        let mut left = delivered;
        if self.is_slow_start() {
            let step = if self.slow_start == SlowStart::Acknowledgements { 1 } else { delivered };
            let grown = (self.window + step).min(self.threshold);
            left = step - (grown - self.window);
            self.set_window(grown);
        }
        if left > 0 {
            let per_segment = match &mut self.rule {
                Rule::Reno => self.window,
                Rule::Bic(bic) => bic.per_segment(self.window),
                Rule::Cubic(cubic) => cubic.per_segment(now, self.window, left, min_rtt),
            };
            // Arrivals that a slower rule collected count once.
            if self.arrived >= per_segment {
                self.arrived = 0;
                self.set_window(self.window + 1);
            }
            self.arrived += left;
            let steps = self.arrived / per_segment.max(1);
            self.arrived -= steps * per_segment.max(1);
            self.set_window(self.window + steps);
        }
    }

    /// Shrinks the window of a connection that sent nothing for `idle` (RFC 5681, 4.1).
    pub(crate) fn restart_after_idle(&mut self, idle: SimDuration, rto: SimDuration, initial: u32) {
        let restart = initial.min(self.window);
        self.threshold = if self.threshold == NO_THRESHOLD { NO_THRESHOLD } else { self.threshold.max(self.window / 4 * 3) };
        let mut left = idle;
        while left > rto && self.window > restart {
            self.window = (self.window / 2).max(restart);
            left = left - rto;
        }
        (self.used, self.is_limited) = (0, false);
        if let Rule::Cubic(cubic) = &mut self.rule {
            cubic.shift(idle);
        }
    }
}

/// Returns the first window in segments of `mss` bytes.
pub(crate) fn initial_window(kernel: &KernelPart, mss: u32) -> u32 {
    // RFC 3390, section 1.
    kernel.initial_window_bytes.map_or(kernel.initial_window, |bytes| (bytes / mss.max(1)).clamp(2, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beyond this round trip CUBIC grows faster than Reno (RFC 9438, 4.3).
    const RTT: SimDuration = SimDuration::from_micros(100_000);

    fn congestion(rule: Rule) -> Congestion {
        Congestion {
            window: 10,
            threshold: NO_THRESHOLD,
            arrived: 0,
            rule,
            slow_start: SlowStart::Packets,
            early_end: None,
            used: 0,
            is_limited: true,
            usage_until: u64::MAX,
        }
    }

    /// Runs `rounds` round trips with a full window each.
    fn run(congestion: &mut Congestion, from: SimTime, rounds: u64) -> SimTime {
        for round in 0..rounds {
            let now = from + RTT * round;
            (0..congestion.window()).for_each(|_| congestion.grow(now, 1, RTT));
        }
        from + RTT * rounds
    }

    #[test]
    fn slow_start_doubles_and_reno_adds_a_segment_a_round() {
        let mut reno = congestion(Rule::Reno);
        run(&mut reno, SimTime::ZERO, 3);
        assert_eq!(reno.window(), 80);
        reno.reduce();
        reno.set_window(reno.threshold());
        run(&mut reno, SimTime::ZERO, 10);
        assert_eq!(reno.window(), 50);
    }

    #[test]
    fn an_old_kernel_counts_acknowledgements_in_slow_start() {
        let mut old = congestion(Rule::Reno);
        old.slow_start = SlowStart::Acknowledgements;
        old.grow(SimTime::ZERO, 2, RTT);
        assert_eq!(old.window(), 11);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut reno = congestion(Rule::Reno);
        reno.is_limited = false;
        reno.used = 4;
        reno.grow(SimTime::ZERO, 3, RTT);
        assert_eq!(reno.window(), 10);
    }

    #[test]
    fn cubic_returns_to_its_former_window_when_its_formula_says() {
        let mut cubic = congestion(Rule::Cubic(Cubic::default()));
        cubic.set_window(1_000);
        cubic.reduce();
        assert_eq!(cubic.threshold(), 700);
        cubic.set_window(700);
        // RFC 9438, 4.2: K is the cube root of 1000 * 0.3 / 0.4, 9.09 s.
        let after = run(&mut cubic, SimTime::ZERO, 89);
        assert!((985..1_005).contains(&cubic.window()), "{}", cubic.window());
        run(&mut cubic, after, 40);
        assert!((1_010..1_040).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn bic_jumps_to_the_middle_in_steps() {
        let mut bic = congestion(Rule::Bic(Bic::default()));
        bic.set_window(1_000);
        bic.reduce();
        assert_eq!(bic.threshold(), 799);
        bic.set_window(799);
        run(&mut bic, SimTime::ZERO, 5);
        assert!((860..900).contains(&bic.window()), "{}", bic.window());
    }
}
