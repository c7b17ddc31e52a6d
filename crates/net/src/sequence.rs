//! Sequence numbers of TCP.

/// Sequence number: 32 bits, circular (RFC 9293, 3.4). It has no order; compare it by
/// [`SeqNumber::is_before`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Returns whether this number precedes `other` on the shorter way round.
    pub const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
    /// Returns the number `count` later.
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
    /// Returns the stream offset that is nearest to `near` and has this number.
    pub(crate) const fn offset_near(self, near: u64) -> u64 {
        let distance = self.0.wrapping_sub(near as u32) as i32;
        near.wrapping_add(distance as i64 as u64)
    }
    /// Returns the number of a stream offset.
    pub(crate) const fn of(offset: u64) -> Self {
        Self(offset as u32)
    }
}

/// Returns the stream offset of a first sequence number. Offsets never wrap, and none is below
/// 2^32, so that a number near a first offset never lies before zero.
pub(crate) const fn first_offset(number: u32) -> u64 {
    (1 << 32) + number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_offsets_do_not() {
        assert!(SeqNumber(u32::MAX).is_before(SeqNumber(3)));
        let near = first_offset(u32::MAX - 1);
        assert_eq!(SeqNumber(3).offset_near(near), near + 5);
        assert_eq!(SeqNumber::of(near + 5), SeqNumber(3));
        assert_eq!(SeqNumber(u32::MAX - 3).offset_near(near), near - 2);
        assert_eq!(SeqNumber(0).plus(7), SeqNumber(7));
    }
}
