//! Time of acknowledgements: at once, or delayed, by Linux's rules for interactive and bulk traffic.

use softband_model::parts::KernelPart;
use softband_sim::{SimDuration, SimTime};

/// State of a receiver's acknowledgements.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckClock {
    /// Acknowledgements that leave at once.
    quick: u32,
    /// The program answers data with data, so that an acknowledgement may ride on the answer.
    is_interactive: bool,
    /// Current delay; zero before the first data.
    delay: SimDuration,
    last_data_at: Option<SimTime>,
    deadline: Option<SimTime>,
    is_scheduled: bool,
    /// Segments below the usual size since the last acknowledgement: messages of the peer.
    small: u32,
}

impl AckClock {
    /// Enters the mode of acknowledgements without delay.
    pub(crate) fn enter_quick(&mut self, kernel: &KernelPart, window: u32, segment_bytes: u32) {
        self.allow_quick(kernel, window, segment_bytes);
        self.is_interactive = false;
        self.delay = kernel.delayed_ack_min;
    }

    fn allow_quick(&mut self, kernel: &KernelPart, window: u32, segment_bytes: u32) {
        // One acknowledgement for two segments of the window suffices to open the sender's window.
        let wanted = (window / (2 * segment_bytes.max(1))).max(2);
        self.quick = self.quick.max(wanted.min(kernel.quick_acks));
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.quick > 0 && !self.is_interactive
    }
    pub(crate) fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }
    /// Returns whether the data is a message whose reader does not answer, or a second one.
    pub(crate) fn is_message(&self) -> bool {
        self.small > 1 || self.small == 1 && !self.is_interactive
    }
    /// Notes whether arriving data is smaller than the peer's full packets.
    pub(crate) fn note_size(&mut self, is_small: bool) {
        self.small = self.small.saturating_add(u32::from(is_small));
    }
    pub(crate) fn deadline(&self) -> Option<SimTime> {
        self.deadline
    }
    /// Ends the mode of acknowledgements without delay, for a program that reads too slowly.
    pub(crate) fn leave_quick(&mut self) {
        self.quick = 0;
    }

    /// Notes the arrival of data, and adapts the delay to the time between arrivals.
    pub(crate) fn data_arrived(&mut self, now: SimTime, kernel: &KernelPart, rto: SimDuration, window: u32, segment_bytes: u32) {
        let least = kernel.delayed_ack_min;
        let gap = self.last_data_at.map(|at| now.saturating_since(at));
        match gap {
            None => {
                self.allow_quick(kernel, window, segment_bytes);
                self.delay = least;
            }
            Some(gap) if gap * 2 <= least => self.delay = halves(self.delay, least),
            Some(gap) if gap < self.delay => self.delay = SimDuration::from_picos(self.delay.as_picos() / 2 + gap.as_picos()).min(rto),
            Some(gap) if gap > rto => self.allow_quick(kernel, window, segment_bytes),
            Some(_) => {}
        }
        self.last_data_at = Some(now);
        self.is_scheduled = true;
    }

    /// Notes that data leaves. Data soon after arrivals is an answer to them.
    pub(crate) fn data_sent(&mut self, now: SimTime) {
        if self.last_data_at.is_some_and(|at| now.saturating_since(at) < self.delay) {
            self.is_interactive = true;
        }
    }

    /// Notes that an acknowledgement leaves, on data or alone, for `packets` packets.
    pub(crate) fn acknowledged(&mut self, packets: u32) {
        self.quick = self.quick.saturating_sub(packets);
        (self.deadline, self.is_scheduled, self.small) = (None, false, 0);
    }

    /// Delays the acknowledgement that is due.
    pub(crate) fn delay(&mut self, now: SimTime, kernel: &KernelPart, smoothed: Option<SimDuration>) {
        let bound = kernel.delayed_ack_max;
        // A delay beyond the round trip would hold up the peer's clock.
        let bound = smoothed.map_or(bound, |rtt| bound.min(rtt.max(kernel.delayed_ack_min)));
        let at = now + self.delay.max(kernel.delayed_ack_min).min(bound);
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
        self.is_scheduled = true;
    }

    /// Notes that the delay passed. The next delay is longer, and the program does not answer.
    pub(crate) fn expired(&mut self, kernel: &KernelPart, rto: SimDuration) {
        if self.is_interactive {
            (self.is_interactive, self.delay) = (false, kernel.delayed_ack_min);
        } else {
            self.delay = (self.delay * 2).min(rto);
        }
    }
}

fn halves(a: SimDuration, b: SimDuration) -> SimDuration {
    SimDuration::from_picos(a.as_picos() / 2 + b.as_picos() / 2)
}
