//! Messages that give a connection another alternate path (IBTA 12.8).

use crate::mad::codes::code;
use crate::mad::layout::layout;
use crate::mad::sa::RateCode;
use softband_types::{Gid, Lid, Qpn, ServiceLevel};

layout! {
    /// Requests another alternate path (IBTA 12.8.1).
    pub struct Lap: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// QP of the receiver. Of RD: EE context.
        remote_qpn_eecn: Qpn @ 96, 24;
        /// Longest time before the receiver's message: code n is 4.096 us x 2^n.
        remote_cm_response_timeout: u8 @ 120, 5;
        /// LID of the sender's port.
        alternate_local_lid: Lid @ 160, 16;
        /// LID of the receiver's port.
        alternate_remote_lid: Lid @ 176, 16;
        /// GID of the sender's port.
        alternate_local_gid: Gid @ 192, 128;
        /// GID of the receiver's port.
        alternate_remote_gid: Gid @ 320, 128;
        /// Flow label of a global route.
        alternate_flow_label: u32 @ 448, 20;
        /// Traffic class of a global route.
        alternate_traffic_class: u8 @ 472, 8;
        /// Hop limit of a global route.
        alternate_hop_limit: u8 @ 480, 8;
        /// Largest rate.
        alternate_packet_rate: RateCode @ 490, 6;
        /// SL of packets.
        alternate_sl: ServiceLevel @ 496, 4;
        /// The path stays in the subnet.
        alternate_subnet_local: bool @ 500, 1;
        /// Local ACK timeout of the receiver: code n is 4.096 us x 2^n.
        alternate_local_ack_timeout: u8 @ 504, 5;
        /// Data of the consumer.
        private_data: [u8; 168] @ 512, 1344;
    }
}

layout! {
    /// Answers a LAP (IBTA 12.8.2).
    pub struct Apr: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// Length of the additional information in bytes, from 0 to 72.
        additional_info_length: u8 @ 64, 8;
        /// Result.
        ap_status: ApStatus @ 72, 8;
        /// Additional information, by status.
        additional_info: [u8; 72] @ 96, 576;
        /// Data of the consumer.
        private_data: [u8; 148] @ 672, 1184;
    }
}

code! {
    /// Result of a LAP (IBTA 12.8.2.1).
    pub struct ApStatus(u8) {
        /// The connection has the path.
        LOADED = 0;
        /// The communication ID is unknown.
        INVALID_COMMUNICATION_ID = 1;
        /// Alternate paths are not supported.
        NOT_SUPPORTED = 2;
        /// The path is rejected.
        REJECTED = 3;
        /// Another port serves the connection.
        REDIRECTED = 4;
        /// The connection has the path already.
        IS_CURRENT = 5;
        /// The QP or EE context is unknown.
        QPN_EECN_MISMATCH = 6;
        /// The remote port's LID is unknown.
        INVALID_LID = 7;
        /// The remote port's GID is unknown.
        INVALID_GID = 8;
        /// The flow label is invalid.
        INVALID_FLOW_LABEL = 9;
        /// The traffic class is invalid.
        INVALID_TRAFFIC_CLASS = 10;
        /// The hop limit is invalid.
        INVALID_HOP_LIMIT = 11;
        /// The rate is invalid.
        INVALID_PACKET_RATE = 12;
        /// The SL is invalid.
        INVALID_SL = 13;
    }
}

#[cfg(test)]
mod tests {
    use super::{ApStatus, Apr, Lap};
    use crate::mad::RateCode;
    use softband_types::{Lid, Qpn, ServiceLevel};

    #[test]
    fn another_path_has_its_fields_in_an_order_of_its_own() {
        let message = Lap {
            remote_qpn_eecn: Qpn(9),
            remote_cm_response_timeout: 20,
            alternate_local_lid: Lid(1),
            alternate_remote_lid: Lid(2),
            alternate_flow_label: 0x1_2345,
            alternate_traffic_class: 7,
            alternate_hop_limit: 64,
            alternate_packet_rate: RateCode::G100,
            alternate_sl: ServiceLevel(3),
            alternate_subnet_local: true,
            alternate_local_ack_timeout: 18,
            private_data: [0xDA; 168],
            ..Lap::default()
        };
        let bytes = message.to_bytes();
        assert_eq!(bytes[12..24], [0, 0, 9, 0xA0, 0, 0, 0, 0, 0, 1, 0, 2]);
        assert_eq!(bytes[56..65], [0x12, 0x34, 0x50, 7, 64, 16, 0x38, 0x90, 0xDA]);
    }

    #[test]
    fn an_answer_has_a_status() {
        let answer = Apr { additional_info_length: 1, ap_status: ApStatus::REJECTED, ..Apr::default() };
        assert_eq!(answer.to_bytes()[8..10], [1, 3]);
    }
}
