//! Messages that establish a connection, and the REJ that prevents it.

use super::codes::{CmMessage, CmServiceType, RejectReason};
use crate::mad::layout::layout;
use crate::mad::sa::RateCode;
use crate::mad::subnet::MtuCode;
use softband_types::{Gid, Guid, Lid, PKey, Psn, QKey, Qpn, ServiceLevel};

layout! {
    /// Requests a connection (IBTA 12.6.5).
    pub struct Req: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Service that the connection is for.
        service_id: u64 @ 64, 64;
        /// GUID of the sender's HCA.
        local_ca_guid: Guid @ 128, 64;
        /// Q_Key of the sender. Only RD has a Q_Key.
        local_q_key: QKey @ 224, 32;
        /// QP of the sender.
        local_qpn: Qpn @ 256, 24;
        /// RDMA reads and atomics that the sender can serve at a time.
        responder_resources: u8 @ 280, 8;
        /// EE context of the sender. Only RD has EE contexts.
        local_eecn: u32 @ 288, 24;
        /// RDMA reads and atomics that the sender wants to have under way.
        initiator_depth: u8 @ 312, 8;
        /// EE context of the receiver. Only RD has EE contexts.
        remote_eecn: u32 @ 320, 24;
        /// Longest time before the receiver's message: code n is 4.096 us x 2^n.
        remote_cm_response_timeout: u8 @ 344, 5;
        /// Transport service.
        transport_service_type: CmServiceType @ 349, 2;
        /// The sender supports end-to-end flow control.
        end_to_end_flow_control: bool @ 351, 1;
        /// PSN of the receiver's first packet.
        starting_psn: Psn @ 352, 24;
        /// Longest time before the sender's message: code n is 4.096 us x 2^n.
        local_cm_response_timeout: u8 @ 376, 5;
        /// Retries of the receiver after errors.
        retry_count: u8 @ 381, 3;
        /// P_Key of packets.
        p_key: PKey @ 384, 16;
        /// Path MTU.
        path_mtu: MtuCode @ 400, 4;
        /// The sender reuses an RDC. Only RD has RDCs.
        rdc_exists: bool @ 404, 1;
        /// Retries of the receiver after RNR NAKs. 7 is without limit.
        rnr_retry_count: u8 @ 405, 3;
        /// Retries of messages.
        max_cm_retries: u8 @ 408, 4;
        /// The sender's QP has an SRQ.
        srq: bool @ 412, 1;
        /// Transport service of [`CmServiceType::EXTENDED`]: 1 is XRC.
        extended_transport_type: u8 @ 413, 3;
        /// Primary path.
        primary_path: CmPath @ 416, 352;
        /// Alternate path. All its fields are 0 if the connection has no alternate path.
        alternate_path: CmPath @ 768, 352;
        /// Data of the consumer.
        private_data: [u8; 92] @ 1120, 736;
    }
}

layout! {
    /// Path of a connection in a REQ, as its sender sees it (IBTA 12.6.5).
    pub struct CmPath: 44 bytes {
        /// LID of the sender's port.
        local_lid: Lid @ 0, 16;
        /// LID of the receiver's port.
        remote_lid: Lid @ 16, 16;
        /// GID of the sender's port.
        local_gid: Gid @ 32, 128;
        /// GID of the receiver's port.
        remote_gid: Gid @ 160, 128;
        /// Flow label of a global route.
        flow_label: u32 @ 288, 20;
        /// Largest rate.
        packet_rate: RateCode @ 314, 6;
        /// Traffic class of a global route.
        traffic_class: u8 @ 320, 8;
        /// Hop limit of a global route.
        hop_limit: u8 @ 328, 8;
        /// SL of packets.
        sl: ServiceLevel @ 336, 4;
        /// The path stays in the subnet.
        subnet_local: bool @ 340, 1;
        /// Local ACK timeout of the receiver: code n is 4.096 us x 2^n.
        local_ack_timeout: u8 @ 344, 5;
    }
}

layout! {
    /// Accepts a connection (IBTA 12.6.8).
    pub struct Rep: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// Q_Key of the sender. Only RD has a Q_Key.
        local_q_key: QKey @ 64, 32;
        /// QP of the sender.
        local_qpn: Qpn @ 96, 24;
        /// EE context of the sender. Only RD has EE contexts.
        local_eecn: u32 @ 128, 24;
        /// PSN of the receiver's first packet.
        starting_psn: Psn @ 160, 24;
        /// RDMA reads and atomics that the sender can serve at a time.
        responder_resources: u8 @ 192, 8;
        /// RDMA reads and atomics that the sender has under way.
        initiator_depth: u8 @ 200, 8;
        /// Longest time before the sender acknowledges: code n is 4.096 us x 2^n.
        target_ack_delay: u8 @ 208, 5;
        /// 0 accepts the alternate path, 1 does not support it, and 2 rejects it.
        failover_accepted: u8 @ 213, 2;
        /// The sender supports end-to-end flow control.
        end_to_end_flow_control: bool @ 215, 1;
        /// Retries of the receiver after RNR NAKs. 7 is without limit.
        rnr_retry_count: u8 @ 216, 3;
        /// The sender's QP has an SRQ.
        srq: bool @ 219, 1;
        /// GUID of the sender's HCA.
        local_ca_guid: Guid @ 224, 64;
        /// Data of the consumer.
        private_data: [u8; 196] @ 288, 1568;
    }
}

layout! {
    /// Rejects a message (IBTA 12.6.7).
    pub struct Rej: 232 bytes {
        /// Communication ID of the sender. It is 0 if the sender has none.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// The rejected message.
        message_rejected: CmMessage @ 64, 2;
        /// Length of the additional information in bytes, from 0 to 72.
        reject_info_length: u8 @ 72, 7;
        /// Reason.
        reason: RejectReason @ 80, 16;
        /// Additional information, by reason.
        additional_info: [u8; 72] @ 96, 576;
        /// Data of the consumer.
        private_data: [u8; 148] @ 672, 1184;
    }
}

#[cfg(test)]
mod tests {
    use super::{CmPath, CmServiceType, Rej, RejectReason, Rep, Req};
    use crate::mad::{CmMessage, Layout, MtuCode, RateCode};
    use softband_types::{Guid, Lid, PKey, Psn, Qpn, ServiceLevel};

    #[test]
    fn a_request_is_written_as_in_the_specification() {
        let path = CmPath {
            local_lid: Lid(1),
            remote_lid: Lid(2),
            flow_label: 0x1_2345,
            packet_rate: RateCode::G100,
            traffic_class: 7,
            hop_limit: 64,
            sl: ServiceLevel(3),
            subnet_local: true,
            local_ack_timeout: 18,
            ..CmPath::default()
        };
        let mut request = Req {
            local_comm_id: 0x0102_0304,
            service_id: 0x0106_4853,
            local_ca_guid: Guid(0xCA),
            local_qpn: Qpn(0x11),
            responder_resources: 16,
            initiator_depth: 4,
            remote_cm_response_timeout: 20,
            transport_service_type: CmServiceType::UC,
            end_to_end_flow_control: true,
            starting_psn: Psn::new(0x0A0B0C),
            local_cm_response_timeout: 20,
            retry_count: 7,
            p_key: PKey::DEFAULT_FULL,
            path_mtu: MtuCode::B4096,
            rnr_retry_count: 6,
            max_cm_retries: 15,
            srq: true,
            primary_path: path,
            ..Req::default()
        };
        request.private_data[91] = 0xDA;
        let bytes = request.to_bytes();
        assert_eq!(bytes[..4], [1, 2, 3, 4]);
        assert_eq!(bytes[12..24], [1, 6, 0x48, 0x53, 0, 0, 0, 0, 0, 0, 0, 0xCA]);
        assert_eq!(bytes[32..44], [0, 0, 0x11, 16, 0, 0, 0, 4, 0, 0, 0, 0xA3]);
        assert_eq!(bytes[44..56], [0x0A, 0x0B, 0x0C, 0xA7, 0xFF, 0xFF, 0x56, 0xF8, 0, 1, 0, 2]);
        assert_eq!(bytes[88..96], [0x12, 0x34, 0x50, 16, 7, 64, 0x38, 0x90]);
        assert_eq!((bytes[96..140].iter().all(|byte| *byte == 0), bytes[231]), (true, 0xDA));
        assert_eq!(Req::parse(&bytes), Ok(request));
    }

    #[test]
    fn an_acceptance_is_read_as_in_the_specification() {
        let mut bytes = [0; 232];
        bytes[12..16].copy_from_slice(&[0, 0, 0x22, 0]);
        bytes[20..36].copy_from_slice(&[1, 2, 3, 0, 4, 5, 0x7B, 0xF0, 0, 0, 0, 0, 0, 0, 0, 0xCA]);
        bytes[36] = 0xDA;
        let reply = Rep::parse(&bytes).unwrap();
        assert_eq!((reply.local_qpn, reply.starting_psn), (Qpn(0x22), Psn::new(0x010203)));
        assert_eq!((reply.responder_resources, reply.initiator_depth), (4, 5));
        assert_eq!((reply.target_ack_delay, reply.failover_accepted, reply.end_to_end_flow_control), (15, 1, true));
        assert_eq!((reply.rnr_retry_count, reply.srq, reply.local_ca_guid, reply.private_data[0]), (7, true, Guid(0xCA), 0xDA));
        assert_eq!(reply.to_bytes(), bytes);
    }

    #[test]
    fn a_rejection_has_a_reason_and_two_kinds_of_data() {
        let mut reject = Rej { message_rejected: CmMessage::REP, reject_info_length: 72, reason: RejectReason::CONSUMER_REJECT, ..Rej::default() };
        (reject.additional_info[71], reject.private_data[147]) = (0xA0, 0xDA);
        let bytes = reject.to_bytes();
        assert_eq!(bytes[8..12], [0x40, 144, 0, 28]);
        assert_eq!((bytes[83], bytes[231]), (0xA0, 0xDA));
    }
}
