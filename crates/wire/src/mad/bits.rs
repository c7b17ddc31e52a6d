//! Values at any bit offset: bit 0 is the most significant bit of the first byte, as in the tables
//! of IBTA.

use softband_types::{Gid, Guid, Lid, PKey, PortNumber, Psn, QKey, Qpn, ServiceLevel, VirtualLane};

/// A value of a field. Each pattern of the field's bits is a value, so reading cannot fail.
pub(crate) trait Value: Copy {
    /// Largest width of a field with this type, in bits.
    const BITS_MAX: usize;
    /// Number of equally wide parts of a field with this type.
    const PARTS: usize = 1;
    /// Reads the value from `width` bits at `at`. Bits after the last byte are 0.
    fn read(bytes: &[u8], at: usize, width: usize) -> Self;
    /// Writes the low `width` bits of the value at `at`. It ignores bits after the last byte.
    fn write(self, bytes: &mut [u8], at: usize, width: usize);
}

/// Returns up to 64 bits. Bits after the last byte are 0.
pub(crate) fn get(bytes: &[u8], at: usize, width: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let (first, last) = (at / 8, (at + width - 1) / 8);
    let whole = (first..=last).fold(0u128, |value, index| value << 8 | u128::from(bytes.get(index).copied().unwrap_or(0)));
    let shift = 7 - (at + width - 1) % 8;
    (whole >> shift & mask(width)) as u64
}

/// Writes the low `width` bits, up to 64. It ignores bits after the last byte.
pub(crate) fn put(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    if width == 0 {
        return;
    }
    let (first, last) = (at / 8, (at + width - 1) / 8);
    let shift = 7 - (at + width - 1) % 8;
    let (mut kept, mut value) = (!(mask(width) << shift), (u128::from(value) & mask(width)) << shift);
    for index in (first..=last).rev() {
        if let Some(byte) = bytes.get_mut(index) {
            *byte = *byte & kept as u8 | value as u8;
        }
        // Bits above the field stay as they are.
        (kept, value) = (kept >> 8 | u128::MAX << 120, value >> 8);
    }
}

const fn mask(width: usize) -> u128 {
    (1 << width) - 1
}

/// Implements [`Value`] for a type that stands for a number of `bits` bits.
macro_rules! number {
    ($($type:ty: $bits:literal, $raw:ident => $read:expr, $value:ident => $write:expr;)*) => {$(
        impl Value for $type {
            const BITS_MAX: usize = $bits;
            fn read(bytes: &[u8], at: usize, width: usize) -> Self {
                let $raw = get(bytes, at, width);
                $read
            }
            fn write(self, bytes: &mut [u8], at: usize, width: usize) {
                let $value = self;
                put(bytes, at, width, $write);
            }
        }
    )*};
}
number! {
    bool: 1, raw => raw != 0, value => u64::from(value);
    u8: 8, raw => raw as Self, value => u64::from(value);
    u16: 16, raw => raw as Self, value => u64::from(value);
    u32: 32, raw => raw as Self, value => u64::from(value);
    u64: 64, raw => raw, value => value;
    Lid: 16, raw => Self(raw as u16), value => u64::from(value.0);
    Guid: 64, raw => Self(raw), value => value.0;
    PKey: 16, raw => Self(raw as u16), value => u64::from(value.0);
    QKey: 32, raw => Self(raw as u32), value => u64::from(value.0);
    Qpn: 24, raw => Self(raw as u32), value => u64::from(value.0);
    Psn: 24, raw => Self::new(raw as u32), value => u64::from(value.value());
    PortNumber: 8, raw => Self(raw as u8), value => u64::from(value.0);
    ServiceLevel: 4, raw => Self(raw as u8), value => u64::from(value.0);
    VirtualLane: 4, raw => Self(raw as u8), value => u64::from(value.0);
}

impl<T: Value, const N: usize> Value for [T; N] {
    const BITS_MAX: usize = N * T::BITS_MAX;
    const PARTS: usize = N * T::PARTS;
    fn read(bytes: &[u8], at: usize, width: usize) -> Self {
        let each = width / N;
        core::array::from_fn(|index| T::read(bytes, at + index * each, each))
    }
    fn write(self, bytes: &mut [u8], at: usize, width: usize) {
        let each = width / N;
        for (index, value) in self.into_iter().enumerate() {
            value.write(bytes, at + index * each, each);
        }
    }
}

impl Value for Gid {
    const BITS_MAX: usize = 128;
    const PARTS: usize = 16;
    fn read(bytes: &[u8], at: usize, width: usize) -> Self {
        Self(Value::read(bytes, at, width))
    }
    fn write(self, bytes: &mut [u8], at: usize, width: usize) {
        self.0.write(bytes, at, width);
    }
}

#[cfg(test)]
mod tests {
    use super::{get, put};

    #[test]
    fn bit_0_is_the_most_significant_bit_of_the_first_byte() {
        let bytes = [0b1000_0000, 0b0110_0000, 0xAB, 0xCD];
        assert_eq!((get(&bytes, 0, 1), get(&bytes, 1, 8), get(&bytes, 9, 2)), (1, 0, 3));
        assert_eq!((get(&bytes, 20, 8), get(&bytes, 0, 32)), (0xBC, 0x8060_ABCD));
    }

    #[test]
    fn a_write_leaves_all_other_bits_and_reads_back() {
        for at in 0..16 {
            for width in 1..=64 {
                let (mut set, mut cleared) = ([0; 10], [0xFF; 10]);
                put(&mut set, at, width, u64::MAX);
                put(&mut cleared, at, width, 0);
                let inside = |bit: usize| (at..at + width).contains(&bit);
                for bit in 0..80 {
                    assert_eq!((get(&set, bit, 1) == 1, get(&cleared, bit, 1) == 0), (inside(bit), inside(bit)), "{at} {width} {bit}");
                }
                assert_eq!(get(&set, at, width), u64::MAX >> (64 - width));
            }
        }
    }

    #[test]
    fn bits_after_the_last_byte_are_zero_and_stay_unwritten() {
        let mut bytes = [0xFF];
        assert_eq!((get(&bytes, 4, 8), get(&bytes, 100, 64), get(&[], 0, 1)), (0xF0, 0, 0));
        put(&mut bytes, 4, 8, 0x55);
        put(&mut bytes, 100, 64, 1);
        assert_eq!(bytes, [0xF5]);
    }
}
