//! When a card interrupts, and when a core takes its packets.
//!
//! An interrupt starts a core, which then takes packets until none is left (NAPI). While it works, the
//! card does not interrupt.

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
    state: State,
}

impl Interrupts {
    pub(super) fn new(moderation: Moderation) -> Self {
        Self { moderation, state: State::Idle }
    }

    /// Notes a packet. `waiting` counts those that no core has taken.
    pub(super) fn arrived(&mut self, waiting: usize, now: SimTime) -> Signal {
        let Moderation { packets, time } = self.moderation;
        match self.state {
            State::Polling => Signal::None,
            State::Idle | State::Armed(_) if waiting >= packets.max(1) as usize => Signal::Now,
            State::Armed(_) => Signal::None,
            State::Idle => {
                self.state = State::Armed(now + time);
                Signal::At(now + time)
            }
        }
    }

    /// Returns whether an interrupt that was due at `now` still is.
    pub(super) fn is_due(&self, now: SimTime) -> bool {
        self.state == State::Armed(now)
    }

    pub(super) fn begin_polling(&mut self) {
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
}
