//! Checksum of the Internet (RFC 1071).

use crate::payload::Payload;
use std::net::IpAddr;

/// Sum of words of 16 bits in the machine's order of bytes, without the last fold. The order changes
/// only the order of the sum's own bytes (RFC 1071, 2.B).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checksum(u64);

impl Checksum {
    /// Returns the sum of a pseudo header (RFC 9293, 3.1; RFC 8200, 8.1).
    pub(super) fn pseudo((source, destination): (IpAddr, IpAddr), protocol: u8, len: usize) -> Self {
        let mut sum = Self::default();
        sum.add(&(u32::from(protocol) + len as u32).to_be_bytes());
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => sum.add(&address.octets()),
                IpAddr::V6(address) => sum.add(&address.octets()),
            }
        }
        sum
    }

    /// Adds bytes. Only the last bytes may be of an odd number.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        // Words of 32 bits have the same sum modulo 2^16 - 1.
        let (words, rest) = bytes.as_chunks::<4>();
        self.0 += words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_ne_bytes(last));
    }

    /// Adds a payload behind an even number of bytes. Bytes without a value are zeros.
    pub(super) fn add_payload(&mut self, payload: &Payload) {
        let mut is_odd = false;
        for slice in payload.slices() {
            if slice.buffer.is_some() {
                let mut part = Self::default();
                part.add(slice.bytes());
                self.0 += if is_odd { exchanged(part.0) } else { part.0 };
            }
            is_odd ^= !slice.len.is_multiple_of(2);
        }
    }

    /// Returns the complement of the sum: the field to write, or 0 over bytes with a right field.
    pub(super) fn finish(self) -> u16 {
        !u16::from_be(fold(self.0))
    }
}

/// Returns a sum with its two bytes exchanged (RFC 1071, 2.B).
fn exchanged(sum: u64) -> u64 {
    u64::from(fold(sum).swap_bytes())
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the checksum of bytes alone.
pub(super) fn of(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_has_its_sum() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(of(&bytes), !0xddf2);
        assert_eq!(of(&bytes[..7]), !0xdcfb_u16);
        assert_eq!(of(&[]), 0xffff);
        // Pieces of odd lengths have the sum of the whole.
        let mut payload = Payload::counted(3);
        [&bytes[..1], &bytes[1..4], &bytes[4..]].into_iter().for_each(|piece| payload.append(Payload::from(piece)));
        let mut sum = Checksum::default();
        sum.add_payload(&payload);
        assert_eq!(sum.finish(), of(&[&[0; 3], &bytes[..]].concat()));
    }
}
