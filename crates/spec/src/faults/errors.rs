//! Bit errors: the probability of a corrupted packet, and the number of its wrong bits.
//!
//! The code uses only sums, differences, products and quotients of floats, which are equal on every
//! machine. No event time depends on them.

use softband_sim::RandomStream;

/// Bit error rate: probability that an arriving bit is wrong, at least 0 and less than 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitErrorRate(f64);

// The rate is never NaN.
impl Eq for BitErrorRate {}

impl BitErrorRate {
    /// No bit errors.
    pub const NONE: Self = Self(0.0);

    /// Makes a rate. Returns `None` unless it is at least 0 and less than 1.
    pub fn new(rate: f64) -> Option<Self> {
        (0.0..1.0).contains(&rate).then_some(Self(rate))
    }

    /// Returns the rate, from 0 to less than 1.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Draws the number of wrong bits among `bits`.
    pub fn draw(self, bits: u32, mut random: RandomStream) -> u32 {
        // A float distinguishes 53 bits.
        let drawn = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        if self.0 <= 0.0 || drawn >= self.any_of(bits) { 0 } else { self.errors_at(bits, drawn) }
    }

    /// Returns the probability that any of `bits` is wrong: 1 - (1 - rate)^bits. Powers of a number
    /// close to 1 would lose digits, so the code avoids them.
    fn any_of(self, bits: u32) -> f64 {
        let both = |a: f64, b: f64| a + b - a * b;
        let (mut any, mut of_power, mut left) = (0.0, self.0, bits);
        while left > 0 {
            if left & 1 == 1 {
                any = both(any, of_power);
            }
            of_power = both(of_power, of_power);
            left >>= 1;
        }
        any
    }

    /// Returns the number of wrong bits for `drawn`. The counts 1 to `bits` divide the range below
    /// [`Self::any_of`] by their probabilities.
    fn errors_at(self, bits: u32, drawn: f64) -> u32 {
        let odds = self.0 / (1.0 - self.0);
        let mut exactly = f64::from(bits) * self.0 * (1.0 - self.any_of(bits - 1));
        let (mut errors, mut below) = (1, exactly);
        while drawn >= below && errors < bits && exactly > 0.0 {
            exactly *= f64::from(bits - errors) / f64::from(errors + 1) * odds;
            below += exactly;
            errors += 1;
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_errors(rate: f64, bits: u32, packets: u64) -> (f64, f64) {
        let rate = BitErrorRate::new(rate).unwrap();
        let drawn: Vec<u32> = (0..packets).map(|number| rate.draw(bits, RandomStream::new(3, number))).collect();
        let corrupted = drawn.iter().filter(|errors| **errors > 0).count();
        (corrupted as f64 / packets as f64, drawn.iter().map(|errors| f64::from(*errors)).sum::<f64>() / packets as f64)
    }

    #[test]
    fn the_probability_of_any_error_keeps_its_digits() {
        let any = |rate: f64, bits| BitErrorRate::new(rate).unwrap().any_of(bits);
        assert_eq!(any(0.5, 1), 0.5);
        assert_eq!(any(0.5, 2), 0.75);
        assert!((any(1e-3, 1_000) - 0.632_304_575_229_035_9).abs() < 1e-12);
        // Second order: bits x rate x (1 - (bits - 1) x rate / 2).
        assert!((any(1e-12, 16_000) / 1.6e-8 - (1.0 - 15_999.0 * 0.5e-12)).abs() < 1e-10);
        assert!((any(1e-18, 16_000) / 1.6e-14 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn packets_and_bits_are_corrupted_as_often_as_the_rate_says() {
        let (packets, bits) = mean_errors(1e-3, 1_000, 20_000);
        assert!((packets - 0.632).abs() < 0.01, "{packets}");
        assert!((bits - 1.0).abs() < 0.02, "{bits}");
        assert_eq!(mean_errors(0.0, 1_000, 100), (0.0, 0.0));
    }

    #[test]
    fn rates_are_probabilities() {
        assert!([-0.1, 1.0, f64::NAN, f64::INFINITY].into_iter().all(|rate| BitErrorRate::new(rate).is_none()));
        assert_eq!(BitErrorRate::new(0.0), Some(BitErrorRate::NONE));
    }
}
