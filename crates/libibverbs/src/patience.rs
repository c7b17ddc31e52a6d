//! Polls of an empty queue before the thread yields the processor.
//!
//! Completions often come within a microsecond, and a yield costs as much. But their producer may
//! need this processor. So a thread repeats polls only while that was useful recently.

use std::sync::atomic::{AtomicU32, Ordering};

/// Most polls in a row.
const POLLS_MAX: u32 = 400;
/// Pauses at the first empty poll. The producer gets ahead meanwhile. Without pauses, each entry
/// would move between the processors' caches during its write.
const PAUSES: u32 = 4;
/// Vain waits until a trial with this many polls.
const WAITS_BETWEEN_TRIALS: u32 = 32;
const TRIAL_POLLS: u32 = 64;

pub(crate) struct Patience {
    /// Empty polls since the last completion.
    polls: AtomicU32,
    limit: AtomicU32,
    in_vain: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { polls: AtomicU32::new(0), limit: AtomicU32::new(POLLS_MAX), in_vain: AtomicU32::new(0) }
    }
}

impl Patience {
    /// Notes a poll with completions.
    #[inline]
    pub(crate) fn found(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        if polls == 0 {
            return;
        }
        self.polls.store(0, Ordering::Relaxed);
        let limit = self.limit.load(Ordering::Relaxed);
        if polls <= limit {
            self.limit.store((limit * 2 + 8).min(POLLS_MAX), Ordering::Relaxed);
        }
    }

    /// Notes an empty poll. Returns whether to poll again at once.
    #[inline]
    pub(crate) fn polls_again(&self) -> bool {
        let (polls, limit) = (self.polls.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        self.polls.store(polls.saturating_add(1), Ordering::Relaxed);
        if polls == 0 {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        if polls < limit {
            return true;
        }
        if polls == limit {
            let in_vain = self.in_vain.load(Ordering::Relaxed) + 1;
            let is_trial = in_vain >= WAITS_BETWEEN_TRIALS;
            self.in_vain.store(if is_trial { 0 } else { in_vain }, Ordering::Relaxed);
            // Beyond the new limit: this wait gets no more polls.
            self.polls.store(POLLS_MAX + 1, Ordering::Relaxed);
            self.limit.store(if is_trial { TRIAL_POLLS.max(limit / 2) } else { limit / 2 }, Ordering::Relaxed);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_in_vain(patience: &Patience) -> u32 {
        let mut polls = 0;
        while patience.polls_again() {
            polls += 1;
        }
        patience.found();
        polls
    }

    #[test]
    fn polls_that_find_nothing_become_fewer_and_are_tried_again() {
        let patience = Patience::default();
        let waits: Vec<u32> = (0..40).map(|_| wait_in_vain(&patience)).collect();
        assert_eq!(&waits[..4], &[POLLS_MAX, POLLS_MAX / 2, POLLS_MAX / 4, POLLS_MAX / 8]);
        assert_eq!(waits[20], 0);
        assert!(waits.iter().skip(20).any(|polls| *polls == TRIAL_POLLS));
    }

    #[test]
    fn polls_that_find_something_become_more() {
        let patience = Patience::default();
        for _ in 0..5 {
            wait_in_vain(&patience);
        }
        for _ in 0..8 {
            assert!(patience.polls_again());
            patience.found();
        }
        assert_eq!(patience.limit.load(Ordering::Relaxed), POLLS_MAX);
    }
}
