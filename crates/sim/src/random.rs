//! Seeded random streams: one number replays a run.

/// Stream of pseudo-random numbers: SplitMix64 (Steele, Lea, Flood 2014). It is small, fast, and
/// the same on every machine.
#[derive(Clone, Debug)]
pub struct RandomStream(u64);

impl RandomStream {
    /// Returns stream number `stream` of `seed`. Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.next_u64();
        random
    }

    /// Returns the next number, uniform over all values of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream_and_another_stream_differs() {
        let first = RandomStream::new(7, 0).next_u64();
        assert_eq!(first, RandomStream::new(7, 0).next_u64());
        assert_ne!(first, RandomStream::new(7, 1).next_u64());
    }
}
