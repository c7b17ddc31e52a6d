//! Checksum of the Internet (RFC 1071).

use std::net::IpAddr;

/// Sum of words of 16 bits, without the last fold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checksum(u64);

impl Checksum {
    /// Returns the sum of a pseudo header (RFC 9293, 3.1; RFC 8200, 8.1).
    pub(super) fn pseudo((source, destination): (IpAddr, IpAddr), protocol: u8, len: usize) -> Self {
        let mut sum = Self(u64::from(protocol) + len as u64);
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
        self.0 += words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_be_bytes(last));
    }

    /// Returns the complement of the sum: the field to write, or 0 over bytes with a right field.
    pub(super) fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
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
    }
}
