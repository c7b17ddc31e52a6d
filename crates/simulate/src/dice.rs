//! Draws from a seeded stream.

use softband_sim::RandomStream;

/// A stream of draws. Each topic has a stream of its own, so a longer plan changes no fabric.
pub(crate) struct Dice(RandomStream);

impl Dice {
    pub(crate) fn new(seed: u64, topic: u64) -> Self {
        Self(RandomStream::new(seed, topic))
    }

    /// Draws a number below `limit`, which is at least 1.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    /// Draws a number from `least` to `most`, both included.
    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns `true` in `percent` of 100 draws.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// # Panics
    /// Panics without `items`.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Draws a number from 1 to `most`, small numbers as often as large numbers: the number of
    /// digits is drawn first.
    pub(crate) fn spread(&mut self, most: u64) -> u64 {
        let bits = 64 - most.leading_zeros();
        let limit = 1_u64 << self.within(1, u64::from(bits));
        self.below(limit).clamp(1, most)
    }
}
