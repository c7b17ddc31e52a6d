//! ClassPortInfo: the port that serves a class (IBTA 13.4.8.1).

use super::layout::layout;
use softband_types::{Gid, Lid, PKey, QKey, Qpn, ServiceLevel};

layout! {
    /// Describes the support of a class, and the port that serves it (IBTA 13.4.8.1).
    pub struct ClassPortInfo: 72 bytes {
        /// Version of the datagram format.
        base_version: u8 @ 0, 8;
        /// Version of the class.
        class_version: u8 @ 8, 8;
        /// Abilities. Bits 8 to 15 depend on the class.
        capability_mask: u16 @ 16, 16;
        /// Abilities that depend on the class.
        capability_mask2: u32 @ 32, 27;
        /// Longest time before a response: code n is 4.096 us x 2^n.
        resp_time_value: u8 @ 59, 5;
        /// GID of the port that serves the class.
        redirect_gid: Gid @ 64, 128;
        /// Traffic class of requests.
        redirect_tc: u8 @ 192, 8;
        /// SL of requests.
        redirect_sl: ServiceLevel @ 200, 4;
        /// Flow label of requests.
        redirect_fl: u32 @ 204, 20;
        /// LID of the port that serves the class. It is 0 if requests need a global route.
        redirect_lid: Lid @ 224, 16;
        /// P_Key of requests.
        redirect_p_key: PKey @ 240, 16;
        /// QP of requests. It is 0 without redirection.
        redirect_qp: Qpn @ 264, 24;
        /// Q_Key of requests.
        redirect_q_key: QKey @ 288, 32;
        /// GID of the port that receives traps.
        trap_gid: Gid @ 320, 128;
        /// Traffic class of traps.
        trap_tc: u8 @ 448, 8;
        /// SL of traps.
        trap_sl: ServiceLevel @ 456, 4;
        /// Flow label of traps.
        trap_fl: u32 @ 460, 20;
        /// LID of the port that receives traps.
        trap_lid: Lid @ 480, 16;
        /// P_Key of traps.
        trap_p_key: PKey @ 496, 16;
        /// Hop limit of traps.
        trap_hl: u8 @ 512, 8;
        /// QP of traps.
        trap_qp: Qpn @ 520, 24;
        /// Q_Key of traps.
        trap_q_key: QKey @ 544, 32;
    }
}

#[cfg(test)]
mod tests {
    use super::ClassPortInfo;
    use crate::mad::Layout;
    use softband_types::{Lid, QKey, Qpn};

    #[test]
    fn redirection_stands_before_traps() {
        let info = ClassPortInfo {
            base_version: 1,
            class_version: 2,
            capability_mask: 0x0200,
            capability_mask2: 1,
            resp_time_value: 18,
            redirect_lid: Lid(0x0A0B),
            redirect_qp: Qpn(1),
            redirect_q_key: QKey(0x8001_0000),
            trap_qp: Qpn(2),
            ..ClassPortInfo::default()
        };
        let bytes = info.to_bytes();
        assert_eq!(bytes[..8], [1, 2, 2, 0, 0, 0, 0, 0x32]);
        assert_eq!(bytes[28..40], [0x0A, 0x0B, 0, 0, 0, 0, 0, 1, 0x80, 1, 0, 0]);
        assert_eq!(bytes[64..68], [0, 0, 0, 2]);
        assert_eq!(ClassPortInfo::view(&bytes).capability_mask2(), 1);
    }
}
