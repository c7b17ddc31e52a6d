//! Messages that resolve a service ID to a QP for datagrams (IBTA 12.11).

use super::codes::SidrStatus;
use crate::mad::layout::layout;
use softband_types::{PKey, QKey, Qpn};

layout! {
    /// Asks for the QP of a service (IBTA 12.11.1).
    pub struct SidrReq: 232 bytes {
        /// Number that the reply repeats.
        request_id: u32 @ 0, 32;
        /// P_Key of packets to the QP.
        p_key: PKey @ 32, 16;
        /// The service.
        service_id: u64 @ 64, 64;
        /// Data of the consumer.
        private_data: [u8; 216] @ 128, 1728;
    }
}

layout! {
    /// Names the QP of a service (IBTA 12.11.2).
    pub struct SidrRep: 232 bytes {
        /// Number of the request.
        request_id: u32 @ 0, 32;
        /// Result.
        status: SidrStatus @ 32, 8;
        /// Length of the additional information in bytes, from 0 to 72.
        additional_info_length: u8 @ 40, 8;
        /// QP of the service.
        qpn: Qpn @ 64, 24;
        /// The service.
        service_id: u64 @ 96, 64;
        /// Q_Key of the QP.
        q_key: QKey @ 160, 32;
        /// Additional information, by status.
        additional_info: [u8; 72] @ 192, 576;
        /// Data of the consumer.
        private_data: [u8; 136] @ 768, 1088;
    }
}

#[cfg(test)]
mod tests {
    use super::{SidrRep, SidrReq, SidrStatus};
    use crate::mad::Layout;
    use softband_types::{PKey, QKey, Qpn};

    #[test]
    fn a_service_is_asked_for_by_its_number() {
        let request = SidrReq { request_id: 1, p_key: PKey(0x8001), service_id: 0x0102_0304_0506_0708, private_data: [0xDA; 216] };
        assert_eq!(request.to_bytes()[..17], [0, 0, 0, 1, 0x80, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0xDA]);
    }

    #[test]
    fn a_reply_names_queue_pair_and_key() {
        let mut bytes = [0; 232];
        bytes[4..24].copy_from_slice(&[2, 72, 0, 0, 0, 0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x11, 0x11]);
        bytes[96] = 0xDA;
        let reply = SidrRep::parse(&bytes).unwrap();
        assert_eq!((reply.status, reply.additional_info_length), (SidrStatus::REJECTED_BY_SERVICE_PROVIDER, 72));
        assert_eq!((reply.qpn, reply.service_id, reply.q_key), (Qpn(9), 0x0102_0304_0506_0708, QKey(0x1111)));
        assert_eq!((reply.private_data[0], reply.to_bytes()), (0xDA, bytes));
    }
}
