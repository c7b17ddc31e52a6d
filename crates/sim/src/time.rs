//! Instants and spans in whole picoseconds.
//!
//! A byte at 400 Gb/s lasts 20 ps, and a `u64` of picoseconds still holds 213 days.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Instant of simulated time: whole picoseconds since the run began, up to 213 days. The default is
/// zero. It prints in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

/// Span of simulated time: whole picoseconds, up to 213 days. The default is zero. It prints in
/// nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimDuration(u64);

impl SimTime {
    /// Begin of a run.
    pub const ZERO: Self = Self(0);
    /// Instant later than any event of any run.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `picos` picoseconds after the begin of a run.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }
    /// Returns the picoseconds since the begin of the run.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Returns the nanoseconds since the begin of the run, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns the seconds since the begin of the run, for reports. The nearest `f64` may differ
    /// from the exact value.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// Returns the span since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }
    /// Returns the instant `span` earlier, or `None` if that lies before time zero.
    pub fn checked_sub(self, span: SimDuration) -> Option<Self> {
        self.0.checked_sub(span.0).map(Self)
    }

    /// Returns the instant `span` later, or [`SimTime::MAX`] if that lies beyond it.
    pub const fn saturating_add(self, span: SimDuration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl SimDuration {
    /// Span of no time.
    pub const ZERO: Self = Self(0);
    /// Longest span, 213 days.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a span of `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }
    /// Returns a span of `nanos` nanoseconds, at most 1.8e16 of them (213 days).
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos * 1_000)
    }
    /// Returns a span of `micros` microseconds, at most 1.8e13 of them (213 days).
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000_000)
    }
    /// Returns the span in picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Returns the span in nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns the span in seconds, for reports. The nearest `f64` may differ from the exact value.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// Returns the time that `bytes` take at `bytes_per_second`, rounded up to a whole picosecond.
    ///
    /// # Panics
    /// If the rate is zero, or if the transfer takes more than 213 days.
    pub fn of_bytes(bytes: u64, bytes_per_second: u64) -> Self {
        assert!(bytes_per_second > 0, "a rate must be positive");
        let picos = (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(bytes_per_second));
        Self(u64::try_from(picos).expect("a transfer ends within 213 days"))
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, span: SimDuration) -> Self {
        Self(self.0.checked_add(span.0).expect("simulated time ends after 213 days"))
    }
}
impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, span: SimDuration) {
        *self = *self + span;
    }
}
impl Sub<SimTime> for SimTime {
    type Output = SimDuration;
    fn sub(self, earlier: SimTime) -> SimDuration {
        SimDuration(self.0.checked_sub(earlier.0).expect("time never moves back"))
    }
}
impl Add for SimDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for SimDuration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Sub for SimDuration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a span is never negative"))
    }
}
impl Mul<u64> for SimDuration {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}
impl fmt::Debug for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ns", self.0 / 1_000, self.0 % 1_000)
    }
}
impl fmt::Debug for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ns", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_at_sdr_takes_two_nanoseconds_a_byte_over_half() {
        assert_eq!(SimDuration::of_bytes(2_048, 1_000_000_000), SimDuration::from_nanos(2_048));
        assert_eq!(SimDuration::of_bytes(1, 3), SimDuration::from_picos(333_333_333_334));
    }
}
