//! The header in front of each MAD that a program writes or reads (`struct ib_user_mad_hdr` of
//! `rdma/ib_user_mad.h`).

use softband_types::{Lid, PKey, QKey, Qpn, ServiceLevel};

/// Bytes with the P_Key index, and without.
const LONG: usize = 64;
const SHORT: usize = 56;

/// Returns the bytes of the header in a file with or without P_Key indices.
pub(super) const fn header_bytes(has_pkey_index: bool) -> usize {
    if has_pkey_index { LONG } else { SHORT }
}

/// A header. It keeps all bytes, because a report of a timeout repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header([u8; LONG]);

impl Header {
    /// Splits a program's record into its header and its MAD. Returns `None` if it is too short.
    pub(super) fn split(record: &[u8], has_pkey_index: bool) -> Option<(Self, &[u8])> {
        let (head, mad) = record.split_at_checked(header_bytes(has_pkey_index))?;
        let mut bytes = [0; LONG];
        bytes[..head.len()].copy_from_slice(head);
        Some((Self(bytes), mad))
    }

    /// Describes a received MAD.
    pub(super) fn of_received(from: Lid, source: Qpn, level: ServiceLevel, pkey_index: u16) -> Self {
        let mut bytes = [0; LONG];
        bytes[20..24].copy_from_slice(&source.0.to_be_bytes());
        bytes[28..30].copy_from_slice(&from.0.to_be_bytes());
        bytes[30] = level.0;
        bytes[56..58].copy_from_slice(&pkey_index.to_ne_bytes());
        Self(bytes)
    }

    fn word(&self, at: usize) -> [u8; 4] {
        self.0[at..at + 4].try_into().expect("four bytes")
    }

    pub(super) fn agent(&self) -> u32 {
        u32::from_ne_bytes(self.word(0))
    }

    pub(super) fn timeout_millis(&self) -> u32 {
        u32::from_ne_bytes(self.word(8))
    }

    pub(super) fn retries(&self) -> u32 {
        u32::from_ne_bytes(self.word(12))
    }

    /// Returns the receiving queue pair. It has 24 bits (IBTA 9.2.5).
    pub(super) fn destination(&self) -> Qpn {
        Qpn(u32::from_be_bytes(self.word(20)) & 0x00ff_ffff)
    }

    pub(super) fn qkey(&self) -> QKey {
        QKey(u32::from_be_bytes(self.word(24)))
    }

    pub(super) fn lid(&self) -> Lid {
        Lid(u16::from_be_bytes([self.0[28], self.0[29]]))
    }

    pub(super) fn service_level(&self) -> ServiceLevel {
        ServiceLevel(self.0[30] & 0xf)
    }

    /// Returns the chosen partition. A file without indices always takes the first.
    pub(super) fn pkey(&self, pkeys: &[PKey]) -> Option<PKey> {
        pkeys.get(usize::from(u16::from_ne_bytes([self.0[56], self.0[57]]))).copied()
    }

    /// Returns the record that a program reads: this header with these fields, and the bytes.
    pub(super) fn record(mut self, (agent, status): (u32, i32), mad: &[u8], has_pkey_index: bool) -> Vec<u8> {
        let bytes = header_bytes(has_pkey_index);
        self.0[..4].copy_from_slice(&agent.to_ne_bytes());
        self.0[4..8].copy_from_slice(&status.to_ne_bytes());
        if status == 0 {
            self.0[16..20].copy_from_slice(&((bytes + mad.len()) as u32).to_ne_bytes());
        }
        [&self.0[..bytes], mad].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_the_program_s_header_and_gets_the_report() {
        let written: Vec<u8> = (0..200).collect();
        let (header, mad) = Header::split(&written, true).expect("long enough");
        assert_eq!((mad[0], mad.len()), (64, 136));
        let report = header.record((7, 110), &mad[..24], true);
        assert_eq!(report.len(), 88);
        assert_eq!(report[..8], [7, 0, 0, 0, 110, 0, 0, 0]);
        assert_eq!(report[8..], written[8..88]);
    }

    #[test]
    fn addresses_are_in_network_order_and_the_rest_is_not() {
        let header = Header::of_received(Lid(0x1234), Qpn(1), ServiceLevel(5), 2);
        let record = header.record((0, 0), &[0; 256], true);
        assert_eq!(record[16..24], [64, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(record[28..32], [0x12, 0x34, 5, 0]);
        assert_eq!(record[56..58], [2, 0]);
        assert_eq!(header.record((0, 0), &[0; 256], false).len(), 312);
        let (back, _) = Header::split(&record, true).expect("long enough");
        assert_eq!((back.lid(), back.destination(), back.service_level()), (Lid(0x1234), Qpn(1), ServiceLevel(5)));
    }

    #[test]
    fn a_short_record_has_no_header() {
        assert!(Header::split(&[0; 63], true).is_none());
        assert!(Header::split(&[0; 63], false).is_some());
    }
}
