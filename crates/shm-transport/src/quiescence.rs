//! Quiescence: programs no longer use an entry that the engine removed from the tables once the
//! transfers have ended that they announced before ([`crate::epoch_slots`]).
//!
//! The engine first removes the entry, then puts a barrier, then reads the announcements. A program
//! that announces later sees that the entry is gone.

use crate::epoch_slots::EPOCH_SLOTS;
use crate::sync::{AtomicU64, Ordering};
use softband_ipc::layout::LineOf;
use std::time::{Duration, Instant};

/// Most steps of a slot: per nanosecond, and at once for clocks that hardly advance.
const STEPS_PER_NANOSECOND: u64 = 2;
const STEPS_AT_ONCE: u64 = 1 << 20;

/// The announcements of a process at one moment: the value of each slot, odd during a transfer.
#[derive(Clone, Copy)]
pub struct Transfers([u64; EPOCH_SLOTS]);

impl Transfers {
    /// Reads the slots of a process.
    pub fn of(slots: &[LineOf<AtomicU64>; EPOCH_SLOTS]) -> Self {
        Self(std::array::from_fn(|slot| slots[slot].0.load(Ordering::SeqCst)))
    }

    /// Checks whether all transfers of that moment have ended.
    pub fn have_ended(&self, slots: &[LineOf<AtomicU64>; EPOCH_SLOTS]) -> bool {
        self.under_way().all(|(slot, seen)| has_ended(slots, slot, seen))
    }

    /// Returns the slots with a transfer, and their values.
    fn under_way(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.into_iter().enumerate().filter(|(_, seen)| seen % 2 == 1)
    }
}

/// Checks whether the transfer has ended for which a slot had this value.
pub fn has_ended(slots: &[LineOf<AtomicU64>; EPOCH_SLOTS], slot: usize, seen: u64) -> bool {
    slots[slot].0.load(Ordering::SeqCst) != seen
}

/// Result of the check for impossible announcements of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Corruption {
    #[default]
    None,
    Detected,
    /// Impossible announcements, for which the engine has ended the process.
    Reported,
}

/// A process's announcements as last seen by the engine.
#[derive(Clone, Copy)]
pub struct Announced {
    /// Value of each slot at the last check, and time of that check. Values only grow, by one at a
    /// time.
    last: [u64; EPOCH_SLOTS],
    at: Instant,
    corruption: Corruption,
    /// Last transfer in each slot on which the engine gave up.
    given_up: [u64; EPOCH_SLOTS],
}

impl Announced {
    /// Returns the announcements of a new process.
    pub fn nothing() -> Self {
        Self { last: [0; EPOCH_SLOTS], at: Instant::now(), corruption: Corruption::None, given_up: [0; EPOCH_SLOTS] }
    }

    /// Notes what the slots say now. Returns the transfers that are worth a wait, by slot and value;
    /// none of a lying program.
    pub fn note(&mut self, now: Transfers) -> impl Iterator<Item = (usize, u64)> + use<> {
        self.look(now.0, Instant::now());
        let given_up = self.given_up;
        let is_honest = self.corruption == Corruption::None;
        let transfers: Vec<_> = now.under_way().filter(|(slot, seen)| is_honest && *seen != given_up[*slot]).collect();
        transfers.into_iter()
    }

    /// Checks all slots. An announcement is impossible if it went back, or advanced by more than the time allows.
    fn look(&mut self, slots: [u64; EPOCH_SLOTS], now: Instant) {
        let nanos = (now - self.at).as_nanos() as u64;
        let steps_max = nanos.saturating_mul(STEPS_PER_NANOSECOND).saturating_add(STEPS_AT_ONCE);
        let is_possible = |(seen, last): (&u64, &u64)| seen.checked_sub(*last).is_some_and(|steps| steps <= steps_max);
        if !slots.iter().zip(&self.last).all(is_possible) && self.corruption == Corruption::None {
            self.corruption = Corruption::Detected;
        }
        (self.last, self.at) = (slots, now);
    }

    /// Returns true if the process has made impossible announcements that nobody has acted on.
    pub fn is_newly_corrupted(&self) -> bool {
        self.corruption == Corruption::Detected
    }

    /// Notes that somebody has acted on the impossible announcements.
    pub fn note_told(&mut self) {
        self.corruption = Corruption::Reported;
    }

    /// Notes that the engine waits no longer for a transfer.
    pub fn give_up(&mut self, slot: usize, transfer: u64) {
        self.given_up[slot] = transfer;
    }

    /// Checks whether the process is still in a transfer on which the engine gave up.
    pub fn is_held_up(&self, slots: &[LineOf<AtomicU64>; EPOCH_SLOTS]) -> bool {
        let mut given_up = self.given_up.into_iter().enumerate();
        given_up.any(|(slot, given_up)| given_up % 2 == 1 && !has_ended(slots, slot, given_up))
    }
}

/// Waits until transfers have ended, or hopeless ones are given up. `is_hopeless` gets each transfer
/// every `interval`, the first time after `first`, and at `limit`, with the time since the begin of
/// the wait. Returns the transfers on which it gave up.
pub fn await_end<T>(
    mut pending: Vec<T>,
    (first, interval, limit): (Duration, Duration, Duration),
    has_ended: impl Fn(&T) -> bool,
    is_hopeless: impl Fn(&T, Duration) -> bool,
) -> Vec<T> {
    let started = Instant::now();
    let mut next_look = first;
    let mut given_up = Vec::new();
    pending.retain(|transfer| !has_ended(transfer));
    while !pending.is_empty() {
        let elapsed = started.elapsed();
        if elapsed >= next_look {
            next_look = if elapsed < limit { limit.min(elapsed + interval) } else { elapsed + interval };
            given_up.extend(pending.extract_if(.., |transfer| is_hopeless(transfer, elapsed)));
        }
        pending.retain(|transfer| !has_ended(transfer));
        if !pending.is_empty() {
            std::thread::yield_now();
        }
    }
    given_up
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(first: u64) -> [u64; EPOCH_SLOTS] {
        let mut slots = [0; EPOCH_SLOTS];
        slots[0] = first;
        slots
    }

    #[test]
    fn announcements_that_go_back_or_leap_are_impossible() {
        let now = Instant::now();
        let later = now + Duration::from_micros(1);
        for (first, second, corruption) in [
            (4, 5, Corruption::None),
            (5, 4, Corruption::Detected),
            (4, 4, Corruption::None),
            (0, 1 << 40, Corruption::Detected),
            (0, 1 << 10, Corruption::None),
        ] {
            let mut announced = Announced { at: now, ..Announced::nothing() };
            announced.look(slots(first), now);
            announced.look(slots(second), later);
            assert_eq!(announced.corruption, corruption, "{first} then {second}");
        }
    }

    #[test]
    fn hopeless_transfers_are_given_up_and_the_others_awaited() {
        let polls = std::cell::Cell::new(0);
        let has_ended = |transfer: &u32| {
            polls.set(polls.get() + 1);
            *transfer == 2 && polls.get() > 10
        };
        let given_up = await_end(vec![1, 2], (Duration::ZERO, Duration::ZERO, Duration::ZERO), has_ended, |transfer, _| *transfer == 1);
        assert_eq!(given_up, [1]);
    }
}
