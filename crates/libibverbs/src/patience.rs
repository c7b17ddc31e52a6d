//! How long a poll of an empty queue looks again before it gives the processor away.
//!
//! What a program waits for often comes within a microsecond, and giving the processor away costs as much. But who is to bring it may
//! need this very processor. So looks are only repeated as long as that was of use lately.

use std::sync::atomic::{AtomicU32, Ordering};

/// Most looks in a row.
const LOOKS_MAX: u32 = 400;
/// Pauses at the first look that finds nothing. Whoever fills the queue gets ahead meanwhile: if each of its entries were looked at
/// while it is written, each would go back and forth between the processors.
const PAUSES: u32 = 4;
/// After so many waits for nothing it is tried again with this many looks.
const WAITS_BETWEEN_TRIALS: u32 = 32;
const TRIAL_LOOKS: u32 = 64;

pub(crate) struct Patience {
    /// Empty looks since something was found.
    looks: AtomicU32,
    limit: AtomicU32,
    in_vain: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { looks: AtomicU32::new(0), limit: AtomicU32::new(LOOKS_MAX), in_vain: AtomicU32::new(0) }
    }
}

impl Patience {
    /// Something was found.
    #[inline]
    pub(crate) fn found(&self) {
        let looks = self.looks.load(Ordering::Relaxed);
        if looks == 0 {
            return;
        }
        self.looks.store(0, Ordering::Relaxed);
        let limit = self.limit.load(Ordering::Relaxed);
        if looks <= limit {
            self.limit.store((limit * 2 + 8).min(LOOKS_MAX), Ordering::Relaxed);
        }
    }

    /// Nothing was found; whether to look again at once.
    #[inline]
    pub(crate) fn looks_again(&self) -> bool {
        let (looks, limit) = (self.looks.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        self.looks.store(looks.saturating_add(1), Ordering::Relaxed);
        if looks == 0 {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        if looks < limit {
            return true;
        }
        if looks == limit {
            let in_vain = self.in_vain.load(Ordering::Relaxed) + 1;
            let is_trial = in_vain >= WAITS_BETWEEN_TRIALS;
            self.in_vain.store(if is_trial { 0 } else { in_vain }, Ordering::Relaxed);
            // Counted as beyond the new limit: this wait is over for the looks.
            self.looks.store(LOOKS_MAX + 1, Ordering::Relaxed);
            self.limit.store(if is_trial { TRIAL_LOOKS.max(limit / 2) } else { limit / 2 }, Ordering::Relaxed);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_in_vain(patience: &Patience) -> u32 {
        let mut looks = 0;
        while patience.looks_again() {
            looks += 1;
        }
        patience.found();
        looks
    }

    #[test]
    fn looks_that_find_nothing_become_fewer_and_are_tried_again() {
        let patience = Patience::default();
        let waits: Vec<u32> = (0..40).map(|_| wait_in_vain(&patience)).collect();
        assert_eq!(&waits[..4], &[LOOKS_MAX, LOOKS_MAX / 2, LOOKS_MAX / 4, LOOKS_MAX / 8]);
        assert_eq!(waits[20], 0);
        assert!(waits.iter().skip(20).any(|looks| *looks == TRIAL_LOOKS));
    }

    #[test]
    fn looks_that_find_something_become_more() {
        let patience = Patience::default();
        for _ in 0..5 {
            wait_in_vain(&patience);
        }
        for _ in 0..8 {
            assert!(patience.looks_again());
            patience.found();
        }
        assert_eq!(patience.limit.load(Ordering::Relaxed), LOOKS_MAX);
    }
}
