//! Short messages: MRA, RTU, and those that end a connection.

use super::codes::CmMessage;
use crate::mad::layout::layout;
use softband_types::Qpn;

layout! {
    /// Asks for more time (IBTA 12.6.6).
    pub struct Mra: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// The message that needs more time.
        message_mraed: CmMessage @ 64, 2;
        /// Time that the sender needs: code n is 4.096 us x 2^n.
        service_timeout: u8 @ 72, 5;
        /// Data of the consumer.
        private_data: [u8; 222] @ 80, 1776;
    }
}

layout! {
    /// Confirms a REP: the connection is ready to use (IBTA 12.6.9).
    pub struct Rtu: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// Data of the consumer.
        private_data: [u8; 224] @ 64, 1792;
    }
}

layout! {
    /// Requests the end of a connection (IBTA 12.6.10).
    pub struct Dreq: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// QP of the receiver. Of RD: EE context.
        remote_qpn_eecn: Qpn @ 64, 24;
        /// Data of the consumer.
        private_data: [u8; 220] @ 96, 1760;
    }
}

layout! {
    /// Confirms the end of a connection (IBTA 12.6.11).
    pub struct Drep: 232 bytes {
        /// Communication ID of the sender.
        local_comm_id: u32 @ 0, 32;
        /// Communication ID of the receiver.
        remote_comm_id: u32 @ 32, 32;
        /// Data of the consumer.
        private_data: [u8; 224] @ 64, 1792;
    }
}

#[cfg(test)]
mod tests {
    use super::{Dreq, Mra, Rtu};
    use crate::mad::{CmMessage, Layout};
    use softband_types::Qpn;

    #[test]
    fn short_messages_differ_after_their_communication_ids() {
        let wait = Mra { message_mraed: CmMessage::OTHER, service_timeout: 24, private_data: [0xDA; 222], ..Mra::default() };
        assert_eq!(wait.to_bytes()[8..11], [0x80, 0xC0, 0xDA]);
        let end = Dreq { local_comm_id: 1, remote_comm_id: 2, remote_qpn_eecn: Qpn(0x123456), private_data: [0xDA; 220] };
        assert_eq!(end.to_bytes()[..13], [0, 0, 0, 1, 0, 0, 0, 2, 0x12, 0x34, 0x56, 0, 0xDA]);
        let mut bytes = [0; 232];
        bytes[8] = 0xDA;
        assert_eq!(Rtu::parse(&bytes).unwrap().private_data[0], 0xDA);
    }
}
