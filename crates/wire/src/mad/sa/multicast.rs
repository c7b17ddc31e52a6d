//! MCMemberRecord: multicast groups and their members.

use super::path::{RateCode, Selector};
use crate::mad::codes::flags;
use crate::mad::layout::layout;
use crate::mad::subnet::MtuCode;
use softband_types::{Gid, Lid, PKey, QKey, ServiceLevel};

layout! {
    /// A multicast group and a member (IBTA 15.2.5.17).
    pub struct McMemberRecord: 52 bytes {
        /// GID of the group. It is 0 if the SA selects it.
        mgid: Gid @ 0, 128;
        /// GID of the member.
        port_gid: Gid @ 128, 128;
        /// Q_Key of packets.
        q_key: QKey @ 256, 32;
        /// LID of the group.
        mlid: Lid @ 288, 16;
        /// Comparison of `mtu` in a request.
        mtu_selector: Selector @ 304, 2;
        /// Path MTU.
        mtu: MtuCode @ 306, 6;
        /// Traffic class of the global route.
        tclass: u8 @ 312, 8;
        /// P_Key of packets.
        p_key: PKey @ 320, 16;
        /// Comparison of `rate` in a request.
        rate_selector: Selector @ 336, 2;
        /// Rate.
        rate: RateCode @ 338, 6;
        /// Comparison of `packet_life_time` in a request.
        packet_life_time_selector: Selector @ 344, 2;
        /// Longest time of a packet: code n is 4.096 us x 2^n.
        packet_life_time: u8 @ 346, 6;
        /// SL of packets.
        sl: ServiceLevel @ 352, 4;
        /// Flow label of the global route.
        flow_label: u32 @ 356, 20;
        /// Hop limit of the global route.
        hop_limit: u8 @ 376, 8;
        /// Scope of the group, as in its GID.
        scope: u8 @ 384, 4;
        /// Kinds of membership.
        join_state: JoinState @ 388, 4;
        /// Another port joined for the member.
        proxy_join: bool @ 392, 1;
    }
}

flags! {
    /// Kinds of membership (IBTA 15.2.5.17).
    pub struct JoinState(u8) {
        /// The member receives and sends. The group lives as long as it has full members.
        FULL_MEMBER = 1;
        /// The member receives and sends.
        NON_MEMBER = 2;
        /// The member only sends.
        SEND_ONLY_NON_MEMBER = 4;
        /// The member only sends. The group lives as long as it has full members.
        SEND_ONLY_FULL_MEMBER = 8;
    }
}

#[cfg(test)]
mod tests {
    use super::{JoinState, McMemberRecord};
    use crate::mad::{Layout, MtuCode, RateCode, Selector};
    use softband_types::{Gid, Lid, PKey, QKey, ServiceLevel};

    #[test]
    fn a_membership_is_read_as_in_the_specification() {
        let mut bytes = [0; 52];
        bytes[..16].fill(0xFF);
        bytes[16..32].fill(0xFE);
        bytes[32..50].copy_from_slice(&[0, 0, 0x0B, 0x1B, 0xC0, 1, 0x84, 7, 0xFF, 0xFF, 0x83, 0x92, 0x31, 0x23, 0x45, 64, 0x21, 0x80]);
        let member = McMemberRecord::parse(&bytes).unwrap();
        let expected = McMemberRecord {
            mgid: Gid([0xFF; 16]),
            port_gid: Gid([0xFE; 16]),
            q_key: QKey(0x0B1B),
            mlid: Lid(0xC001),
            mtu_selector: Selector::EXACTLY,
            mtu: MtuCode::B2048,
            tclass: 7,
            p_key: PKey::DEFAULT_FULL,
            rate_selector: Selector::EXACTLY,
            rate: RateCode::G10,
            packet_life_time_selector: Selector::EXACTLY,
            packet_life_time: 18,
            sl: ServiceLevel(3),
            flow_label: 0x1_2345,
            hop_limit: 64,
            scope: 2,
            join_state: JoinState::FULL_MEMBER,
            proxy_join: true,
        };
        assert_eq!(member, expected);
        assert_eq!(member.to_bytes(), bytes);
    }
}
