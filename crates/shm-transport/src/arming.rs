//! The word beside a CQ's ring that tells whether the CQ is armed for an event.
//!
//! A peer checks it after it has put in a completion. The owner checks for completions after it has
//! armed the queue. Both have a fence in between, so at least one of them sees the other.

use crate::sync::{AtomicU32, Ordering};

/// Arming of a CQ, and number of events that the engine must still raise for it.
#[derive(Default)]
#[repr(transparent)]
pub struct Arming(AtomicU32);

impl Arming {
    const ANY: u32 = 1;
    const SOLICITED: u32 = 2;
    const KINDS: u32 = Self::ANY | Self::SOLICITED;
    /// One event that the engine must raise. The count here lets the engine make up for programs
    /// that ended before their report.
    const DUE: u32 = 4;

    /// Arms the CQ for one event. Acts as a fence too.
    pub fn arm(&self, solicited_only: bool) {
        self.0.fetch_or(if solicited_only { Self::SOLICITED } else { Self::ANY }, Ordering::SeqCst);
    }

    /// Returns whether a new completion raises the event. The event is then due, and the caller
    /// notifies the engine, which raises it.
    #[inline]
    pub fn is_raised_by(&self, is_solicited: bool) -> bool {
        self.0.load(Ordering::Relaxed) & Self::KINDS != 0 && self.take(is_solicited, Self::DUE)
    }

    /// Returns whether a completion of the engine raises the event. The engine then raises it
    /// immediately.
    pub fn disarm(&self, is_solicited: bool) -> bool {
        self.take(is_solicited, 0)
    }

    fn take(&self, is_solicited: bool, adds: u32) -> bool {
        let fitting = if is_solicited { Self::KINDS } else { Self::ANY };
        let taken = |word: u32| (word & fitting != 0).then_some((word & !Self::KINDS).wrapping_add(adds));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, taken).is_ok()
    }

    /// Takes one due event, which the engine then raises. Returns false if no event is due.
    pub fn redeem(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| word.checked_sub(Self::DUE)).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_arming_gets_one_event_for_what_it_was_made_for() {
        let arming = Arming::default();
        assert!(!arming.is_raised_by(true), "nobody has armed it");
        arming.arm(true);
        assert!(!arming.is_raised_by(false));
        assert!(arming.is_raised_by(true));
        assert!(!arming.is_raised_by(true), "it was for one");
        arming.arm(false);
        arming.arm(true);
        assert!(arming.is_raised_by(false), "the stronger one holds");
        assert!(!arming.is_raised_by(true));
        assert!(arming.redeem() && arming.redeem() && !arming.redeem(), "two are due");
    }

    #[test]
    fn the_engine_raises_its_own_at_once() {
        let arming = Arming::default();
        arming.arm(false);
        assert!(arming.is_raised_by(false));
        arming.arm(true);
        assert!(!arming.disarm(false) && arming.disarm(true) && !arming.disarm(true));
        assert!(arming.redeem() && !arming.redeem(), "what was due before stays so");
    }
}
