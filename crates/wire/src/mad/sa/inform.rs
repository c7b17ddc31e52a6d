//! InformInfo: a subscription to notices (IBTA 13.4.8.3).

use crate::mad::layout::layout;
use crate::mad::subnet::TrapNumber;
use softband_types::{Gid, Lid, Qpn};

layout! {
    /// A subscription to notices (IBTA 13.4.8.3).
    pub struct InformInfo: 36 bytes {
        /// GID of the only wanted issuer. It is 0 if `lid_range_begin` selects issuers.
        gid: Gid @ 0, 128;
        /// First LID of wanted issuers. 0xFFFF selects all.
        lid_range_begin: Lid @ 128, 16;
        /// Last LID of wanted issuers.
        lid_range_end: Lid @ 144, 16;
        /// 1 selects events of IBTA, and 0 those of vendors.
        is_generic: u8 @ 176, 8;
        /// 1 begins the subscription, and 0 ends it.
        subscribe: u8 @ 184, 8;
        /// Severity, as [`NoticeType`](crate::mad::NoticeType). 0xFFFF selects all.
        notice_type: u16 @ 192, 16;
        /// Number of the event, or the vendor's device. 0xFFFF selects all.
        trap_number: TrapNumber @ 208, 16;
        /// QP of the subscriber.
        qpn: Qpn @ 224, 24;
        /// Longest time before the subscriber responds: code n is 4.096 us x 2^n.
        resp_time_value: u8 @ 251, 5;
        /// Kind of the issuer's node, or the vendor. 0xFFFFFF selects all.
        producer_type: u32 @ 264, 24;
    }
}

layout! {
    /// A subscription and its subscriber (IBTA 15.2.5.12).
    pub struct InformInfoRecord: 60 bytes {
        /// GID of the subscriber.
        subscriber_gid: Gid @ 0, 128;
        /// Number of the subscription among those of the subscriber.
        inform_info_enum: u16 @ 128, 16;
        /// The subscription.
        inform_info: InformInfo @ 192, 288;
    }
}

#[cfg(test)]
mod tests {
    use super::{InformInfo, InformInfoRecord};
    use crate::mad::{Layout, TrapNumber};
    use softband_types::{Lid, Qpn};

    #[test]
    fn a_subscription_is_read_as_in_the_specification() {
        let mut bytes = [0; 36];
        bytes[16..36].copy_from_slice(&[0xFF, 0xFF, 0, 0, 0, 0, 1, 1, 0xFF, 0xFF, 0, 64, 0, 0, 1, 0x12, 0, 0xFF, 0xFF, 0xFF]);
        let expected = InformInfo {
            lid_range_begin: Lid::PERMISSIVE,
            is_generic: 1,
            subscribe: 1,
            notice_type: 0xFFFF,
            trap_number: TrapNumber::GID_IN_SERVICE,
            qpn: Qpn(1),
            resp_time_value: 18,
            producer_type: 0xFF_FFFF,
            ..InformInfo::default()
        };
        assert_eq!(InformInfo::parse(&bytes), Ok(expected));
        assert_eq!(expected.to_bytes(), bytes);
        let record = InformInfoRecord { inform_info: expected, ..Default::default() };
        assert_eq!(record.to_bytes()[24..], bytes);
    }
}
