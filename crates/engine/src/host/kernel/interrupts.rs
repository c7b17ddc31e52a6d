//! When a card interrupts, and when a core takes its packets.
//!
//! An interrupt starts a core, which then takes packets until none is left (NAPI). While it works, the
//! card does not interrupt. Some cards also keep a least time between two interrupts.

use softband_sim::{SimDuration, SimTime};

/// How a card moderates its interrupts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moderation {
    /// Packets after which the card interrupts before `time` is over.
    pub(super) packets: u32,
    /// Time for which the card collects packets.
    pub(super) time: SimDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// The card interrupts then.
    Armed(SimTime),
    /// A core takes packets.
    Polling,
}

/// Effect of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// The card interrupts now.
    Now,
    /// The card will interrupt then.
    At(SimTime),
    None,
}

/// Interrupts of an interface.
#[derive(Debug)]
pub(super) struct Interrupts {
    moderation: Moderation,
    /// Least time between two interrupts.
    interval: SimDuration,
    last: Option<SimTime>,
    state: State,
}

impl Interrupts {
    pub(super) fn new(moderation: Moderation) -> Self {
        Self { moderation, interval: SimDuration::ZERO, last: None, state: State::Idle }
    }

    /// Sets the least time between two interrupts.
    pub(super) fn with_interval(self, interval: SimDuration) -> Self {
        Self { interval, ..self }
    }

    /// Notes a packet. `waiting` counts those that no core has taken.
    pub(super) fn arrived(&mut self, waiting: usize, now: SimTime) -> Signal {
        let Moderation { packets, time } = self.moderation;
        let earliest = self.last.map_or(now, |last| now.max(last + self.interval));
        let is_full = waiting >= packets.max(1) as usize;
        match self.state {
            State::Polling => Signal::None,
            State::Idle | State::Armed(_) if is_full && earliest == now => {
                self.last = Some(now);
                self.state = State::Idle;
                Signal::Now
            }
            State::Armed(at) if is_full && earliest < at => self.arm(earliest),
            State::Armed(_) => Signal::None,
            State::Idle => self.arm(if is_full { earliest } else { earliest.max(now + time) }),
        }
    }

    fn arm(&mut self, at: SimTime) -> Signal {
        self.state = State::Armed(at);
        Signal::At(at)
    }

    /// Returns whether an interrupt that was due at `now` still is.
    pub(super) fn is_due(&self, now: SimTime) -> bool {
        self.state == State::Armed(now)
    }

    pub(super) fn begin_polling(&mut self) {
        if let State::Armed(at) = self.state {
            self.last = Some(at);
        }
        self.state = State::Polling;
    }

    pub(super) fn end_polling(&mut self) {
        self.state = State::Idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_interrupts_for_many_packets_or_after_a_time() {
        let time = SimDuration::from_nanos(100);
        let mut interrupts = Interrupts::new(Moderation { packets: 3, time });
        let at = SimTime::ZERO + time;
        assert_eq!(interrupts.arrived(1, SimTime::ZERO), Signal::At(at));
        assert_eq!(interrupts.arrived(2, SimTime::ZERO), Signal::None);
        assert!(interrupts.is_due(at));
        assert_eq!(interrupts.arrived(3, SimTime::ZERO), Signal::Now);
        interrupts.begin_polling();
        assert_eq!((interrupts.arrived(4, SimTime::ZERO), interrupts.is_due(at)), (Signal::None, false));
        interrupts.end_polling();
        assert_eq!(interrupts.arrived(1, at), Signal::At(at + time));
    }

    #[test]
    fn a_card_with_an_interval_interrupts_at_once_after_a_pause_and_then_no_more_often() {
        let [after, interval] = [30, 100].map(SimDuration::from_nanos);
        let mut interrupts = Interrupts::new(Moderation { packets: 8, time: SimDuration::ZERO }).with_interval(interval);
        let first = SimTime::ZERO;
        assert_eq!(interrupts.arrived(1, first), Signal::At(first));
        interrupts.begin_polling();
        interrupts.end_polling();
        // A full ring waits for the end of the interval, too.
        assert_eq!(interrupts.arrived(1, first + after), Signal::At(first + interval));
        assert_eq!(interrupts.arrived(8, first + after + after), Signal::None);
        interrupts.begin_polling();
        interrupts.end_polling();
        let later = first + interval + interval + interval;
        assert_eq!(interrupts.arrived(8, later), Signal::Now);
    }
}
