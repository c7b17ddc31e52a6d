//! PathRecord and MultiPathRecord: ways through the subnet.

use crate::mad::codes::code;
use crate::mad::layout::layout;
use crate::mad::subnet::MtuCode;
use softband_types::{Gid, Lid, PKey, ServiceLevel};

layout! {
    /// A way between two ports (IBTA 15.2.5.16).
    pub struct PathRecord: 64 bytes {
        /// Service that the way is for.
        service_id: u64 @ 0, 64;
        /// GID of the destination.
        dgid: Gid @ 64, 128;
        /// GID of the source.
        sgid: Gid @ 192, 128;
        /// LID of the destination.
        dlid: Lid @ 320, 16;
        /// LID of the source.
        slid: Lid @ 336, 16;
        /// The way carries raw packets.
        raw_traffic: bool @ 352, 1;
        /// Flow label of a global route.
        flow_label: u32 @ 356, 20;
        /// Hop limit of a global route.
        hop_limit: u8 @ 376, 8;
        /// Traffic class of a global route.
        tclass: u8 @ 384, 8;
        /// The same way leads back.
        reversible: bool @ 392, 1;
        /// In a request: largest number of ways.
        numb_path: u8 @ 393, 7;
        /// P_Key of packets.
        p_key: PKey @ 400, 16;
        /// Class of service.
        qos_class: u16 @ 416, 12;
        /// SL of packets.
        sl: ServiceLevel @ 428, 4;
        /// Comparison of `mtu` in a request.
        mtu_selector: Selector @ 432, 2;
        /// Path MTU.
        mtu: MtuCode @ 434, 6;
        /// Comparison of `rate` in a request.
        rate_selector: Selector @ 440, 2;
        /// Rate.
        rate: RateCode @ 442, 6;
        /// Comparison of `packet_life_time` in a request.
        packet_life_time_selector: Selector @ 448, 2;
        /// Longest time of a packet: code n is 4.096 us x 2^n.
        packet_life_time: u8 @ 450, 6;
        /// In a response: rank of the way, from 0, which is the best.
        preference: u8 @ 456, 8;
    }
}

layout! {
    /// A request for ways between groups of ports (IBTA 15.2.5.20), in a single datagram.
    pub struct MultiPathRecord: 200 bytes {
        /// The way carries raw packets.
        raw_traffic: bool @ 0, 1;
        /// Flow label of a global route.
        flow_label: u32 @ 4, 20;
        /// Hop limit of a global route.
        hop_limit: u8 @ 24, 8;
        /// Traffic class of a global route.
        tclass: u8 @ 32, 8;
        /// The same way leads back.
        reversible: bool @ 40, 1;
        /// Largest number of ways.
        numb_path: u8 @ 41, 7;
        /// P_Key of packets.
        p_key: PKey @ 48, 16;
        /// Class of service.
        qos_class: u16 @ 64, 12;
        /// SL of packets.
        sl: ServiceLevel @ 76, 4;
        /// Comparison of `mtu`.
        mtu_selector: Selector @ 80, 2;
        /// Path MTU.
        mtu: MtuCode @ 82, 6;
        /// Comparison of `rate`.
        rate_selector: Selector @ 88, 2;
        /// Rate.
        rate: RateCode @ 90, 6;
        /// Comparison of `packet_life_time`.
        packet_life_time_selector: Selector @ 96, 2;
        /// Longest time of a packet: code n is 4.096 us x 2^n.
        packet_life_time: u8 @ 98, 6;
        /// First byte of the service that the way is for.
        service_id_8_msb: u8 @ 104, 8;
        /// 1 asks for ways that share as few parts as possible.
        independence_selector: u8 @ 112, 2;
        /// Number of sources.
        sgid_count: u8 @ 120, 8;
        /// Number of destinations.
        dgid_count: u8 @ 128, 8;
        /// Other bytes of the service that the way is for.
        service_id_56_lsb: u64 @ 136, 56;
        /// Sources, and then destinations.
        gids: [Gid; 11] @ 192, 1408;
    }
}

code! {
    /// Comparison of a value in a request (IBTA 15.2.5.16).
    pub struct Selector(u8) {
        /// Greater than the value.
        GREATER_THAN = 0;
        /// Less than the value.
        LESS_THAN = 1;
        /// Exactly the value.
        EXACTLY = 2;
        /// The largest MTU or rate, or the smallest life time.
        BEST = 3;
    }
}

code! {
    /// Code of a nominal rate of all lanes (IBTA 15.2.5.16).
    pub struct RateCode(u8) {
        /// 2.5 Gb/s.
        G2_5 = 2;
        /// 10 Gb/s.
        G10 = 3;
        /// 30 Gb/s.
        G30 = 4;
        /// 5 Gb/s.
        G5 = 5;
        /// 20 Gb/s.
        G20 = 6;
        /// 40 Gb/s.
        G40 = 7;
        /// 60 Gb/s.
        G60 = 8;
        /// 80 Gb/s.
        G80 = 9;
        /// 120 Gb/s.
        G120 = 10;
        /// 14 Gb/s.
        G14 = 11;
        /// 56 Gb/s.
        G56 = 12;
        /// 112 Gb/s.
        G112 = 13;
        /// 168 Gb/s.
        G168 = 14;
        /// 25 Gb/s.
        G25 = 15;
        /// 100 Gb/s.
        G100 = 16;
        /// 200 Gb/s.
        G200 = 17;
        /// 300 Gb/s.
        G300 = 18;
        /// 28 Gb/s.
        G28 = 19;
        /// 50 Gb/s.
        G50 = 20;
        /// 400 Gb/s.
        G400 = 21;
        /// 600 Gb/s.
        G600 = 22;
        /// 800 Gb/s.
        G800 = 23;
        /// 1,200 Gb/s.
        G1200 = 24;
    }
}

impl RateCode {
    /// Returns the rate in tenths of a gigabit a second, or `None` if the code is reserved.
    pub const fn tenths(self) -> Option<u32> {
        Some(match self {
            Self::G2_5 => 25,
            Self::G5 => 50,
            Self::G10 => 100,
            Self::G14 => 140,
            Self::G20 => 200,
            Self::G25 => 250,
            Self::G28 => 280,
            Self::G30 => 300,
            Self::G40 => 400,
            Self::G50 => 500,
            Self::G56 => 560,
            Self::G60 => 600,
            Self::G80 => 800,
            Self::G100 => 1_000,
            Self::G112 => 1_120,
            Self::G120 => 1_200,
            Self::G168 => 1_680,
            Self::G200 => 2_000,
            Self::G300 => 3_000,
            Self::G400 => 4_000,
            Self::G600 => 6_000,
            Self::G800 => 8_000,
            Self::G1200 => 12_000,
            _ => return None,
        })
    }
}

impl Selector {
    /// Compares a value with that of a request. Each value is acceptable as the best.
    pub fn accepts<T: PartialOrd>(self, value: T, wanted: T) -> bool {
        match self {
            Self::GREATER_THAN => value > wanted,
            Self::LESS_THAN => value < wanted,
            Self::EXACTLY => value == wanted,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MultiPathRecord, PathRecord, RateCode, Selector};
    use crate::mad::{Layout, MtuCode};
    use softband_types::{Gid, Lid, PKey, ServiceLevel};

    #[test]
    fn a_path_is_read_as_in_the_specification() {
        let mut bytes = [0; 64];
        bytes[8..24].fill(0xD0);
        bytes[24..40].fill(0x50);
        bytes[40..58].copy_from_slice(&[0, 2, 0, 1, 0x81, 0x23, 0x45, 64, 7, 0x83, 0xFF, 0xFF, 0x12, 0x3F, 0x85, 0x90, 0xD2, 9]);
        let path = PathRecord::parse(&bytes).unwrap();
        let expected = PathRecord {
            dgid: Gid([0xD0; 16]),
            sgid: Gid([0x50; 16]),
            dlid: Lid(2),
            slid: Lid(1),
            raw_traffic: true,
            flow_label: 0x1_2345,
            hop_limit: 64,
            tclass: 7,
            reversible: true,
            numb_path: 3,
            p_key: PKey::DEFAULT_FULL,
            qos_class: 0x123,
            sl: ServiceLevel(15),
            mtu_selector: Selector::EXACTLY,
            mtu: MtuCode::B4096,
            rate_selector: Selector::EXACTLY,
            rate: RateCode::G100,
            packet_life_time_selector: Selector::BEST,
            packet_life_time: 18,
            preference: 9,
            ..PathRecord::default()
        };
        assert_eq!(path, expected);
        assert_eq!(path.to_bytes(), bytes);
    }

    #[test]
    fn rates_have_an_order_that_their_codes_lack() {
        let rates: Vec<u32> = (0..=63).filter_map(|code| RateCode(code).tenths()).collect();
        assert_eq!(rates.len(), 23);
        assert!(RateCode::G5.tenths() < RateCode::G10.tenths() && RateCode::G5 > RateCode::G10);
        assert!(Selector::GREATER_THAN.accepts(2, 1) && !Selector::GREATER_THAN.accepts(1, 1));
        assert!(Selector::LESS_THAN.accepts(0, 1) && Selector::EXACTLY.accepts(1, 1) && Selector::BEST.accepts(0, 9));
    }

    #[test]
    fn a_request_for_many_ways_splits_the_service_id() {
        let mut record =
            MultiPathRecord { sgid_count: 1, dgid_count: 1, service_id_8_msb: 1, service_id_56_lsb: 0x02_0304_0506_0708, ..Default::default() };
        record.gids[1] = Gid([9; 16]);
        let bytes = record.to_bytes();
        assert_eq!(bytes[13..24], [1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((&bytes[24..40], &bytes[40..56]), (&[0; 16][..], &[9; 16][..]));
    }
}
