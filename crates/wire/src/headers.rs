//! Headers of packets (IBTA chapters 7, 8 and 9), as layouts with the two views of [`mad`].
//!
//! [`mad`]: crate::mad

use crate::mad::codes::code;
use crate::mad::layout::layout;
use crate::mad::{Description, Layout};
use softband_types::{Gid, Lid, PKey, Psn, QKey, Qpn, ServiceLevel, VirtualLane};

layout! {
    /// Local route header, LRH (IBTA 7.7).
    pub struct Lrh: 8 bytes {
        /// Virtual lane of the link.
        virtual_lane: VirtualLane @ 0, 4;
        /// Version of the link layer: 0.
        link_version: u8 @ 4, 4;
        /// Service level.
        service_level: ServiceLevel @ 8, 4;
        /// Header that follows: [`Lrh::NEXT_BTH`] or [`Lrh::NEXT_GRH`].
        next_header: u8 @ 14, 2;
        /// Destination LID.
        dlid: Lid @ 16, 16;
        /// Length from the LRH to the invariant CRC, in words of 4 bytes.
        packet_words: u16 @ 37, 11;
        /// Source LID.
        slid: Lid @ 48, 16;
    }
}

impl Lrh {
    /// A BTH follows: the packet stays in its subnet.
    pub const NEXT_BTH: u8 = 2;
    /// A GRH follows, and then a BTH.
    pub const NEXT_GRH: u8 = 3;
}

layout! {
    /// Global route header, GRH (IBTA 8.3).
    pub struct Grh: 40 bytes {
        /// Version of the header: 6.
        version: u8 @ 0, 4;
        /// Traffic class.
        traffic_class: u8 @ 4, 8;
        /// Flow label.
        flow_label: u32 @ 12, 20;
        /// Bytes from the end of the GRH to the invariant CRC.
        payload_bytes: u16 @ 32, 16;
        /// Header that follows: [`Grh::NEXT_BTH`].
        next_header: u8 @ 48, 8;
        /// Hop limit.
        hop_limit: u8 @ 56, 8;
        /// Source GID.
        source: Gid @ 64, 128;
        /// Destination GID.
        destination: Gid @ 192, 128;
    }
}

impl Grh {
    /// A BTH follows.
    pub const NEXT_BTH: u8 = 0x1B;
    /// Version of the header.
    pub const VERSION: u8 = 6;
}

layout! {
    /// Base transport header, BTH (IBTA 9.2; annex A10 for both congestion bits).
    pub struct Bth: 12 bytes {
        /// Operation code.
        opcode: Opcode @ 0, 8;
        /// Whether the receiver's completion raises a solicited event.
        solicited: bool @ 8, 1;
        /// State of path migration.
        migrated: bool @ 9, 1;
        /// Bytes of padding after the payload, from 0 to 3.
        pad_bytes: u8 @ 10, 2;
        /// Version of the transport: 0.
        transport_version: u8 @ 12, 4;
        /// Partition key.
        pkey: PKey @ 16, 16;
        /// Forward explicit congestion notification.
        fecn: bool @ 32, 1;
        /// Backward explicit congestion notification.
        becn: bool @ 33, 1;
        /// Receiving queue pair.
        destination: Qpn @ 40, 24;
        /// Whether the sender requests an acknowledgement.
        ack_request: bool @ 64, 1;
        /// Packet sequence number.
        psn: Psn @ 72, 24;
    }
}

code! {
    /// Operation code: a transport service in the upper three bits, and an operation (IBTA 9.2.1).
    pub struct Opcode(u8) {
        /// Service: reliable connection.
        RC = 0x00;
        /// Service: unreliable connection.
        UC = 0x20;
        /// Service: unreliable datagram.
        UD = 0x60;
        /// CN packet (annex A10).
        CONGESTION_NOTIFICATION = 0x80;
        /// Service: extended reliable connection (annex A14).
        XRC = 0xA0;
    }
}

impl Opcode {
    /// Operation: first packet of a send. Middle, last and only packets follow.
    pub const SEND_FIRST: u8 = 0x00;
    /// Operation: middle packet of a send.
    pub const SEND_MIDDLE: u8 = 0x01;
    /// Operation: last packet of a send.
    pub const SEND_LAST: u8 = 0x02;
    /// Operation: last packet of a send with immediate data.
    pub const SEND_LAST_IMMEDIATE: u8 = 0x03;
    /// Operation: only packet of a send.
    pub const SEND_ONLY: u8 = 0x04;
    /// Operation: only packet of a send with immediate data.
    pub const SEND_ONLY_IMMEDIATE: u8 = 0x05;
    /// Operation: first packet of an RDMA write.
    pub const WRITE_FIRST: u8 = 0x06;
    /// Operation: middle packet of an RDMA write.
    pub const WRITE_MIDDLE: u8 = 0x07;
    /// Operation: last packet of an RDMA write.
    pub const WRITE_LAST: u8 = 0x08;
    /// Operation: last packet of an RDMA write with immediate data.
    pub const WRITE_LAST_IMMEDIATE: u8 = 0x09;
    /// Operation: only packet of an RDMA write.
    pub const WRITE_ONLY: u8 = 0x0A;
    /// Operation: only packet of an RDMA write with immediate data.
    pub const WRITE_ONLY_IMMEDIATE: u8 = 0x0B;
    /// Operation: request of an RDMA read.
    pub const READ_REQUEST: u8 = 0x0C;
    /// Operation: first packet of a read's data.
    pub const READ_RESPONSE_FIRST: u8 = 0x0D;
    /// Operation: middle packet of a read's data.
    pub const READ_RESPONSE_MIDDLE: u8 = 0x0E;
    /// Operation: last packet of a read's data.
    pub const READ_RESPONSE_LAST: u8 = 0x0F;
    /// Operation: only packet of a read's data.
    pub const READ_RESPONSE_ONLY: u8 = 0x10;
    /// Operation: acknowledgement, positive or negative.
    pub const ACKNOWLEDGE: u8 = 0x11;
    /// Operation: result of an atomic.
    pub const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
    /// Operation: atomic compare-and-swap.
    pub const COMPARE_SWAP: u8 = 0x13;
    /// Operation: atomic addition.
    pub const FETCH_ADD: u8 = 0x14;
    /// Operation: last packet of a send that invalidates a key.
    pub const SEND_LAST_INVALIDATE: u8 = 0x16;
    /// Operation: only packet of a send that invalidates a key.
    pub const SEND_ONLY_INVALIDATE: u8 = 0x17;
    /// Operation: atomic write (annex A19).
    pub const ATOMIC_WRITE: u8 = 0x1D;

    /// Returns the code of an operation of this service.
    pub const fn of(self, operation: u8) -> Self {
        Self(self.0 | operation)
    }
}

layout! {
    /// Datagram extended transport header, DETH (IBTA 9.3.2).
    pub struct Deth: 8 bytes {
        /// Q_Key of the receiving queue pair.
        qkey: QKey @ 0, 32;
        /// Sending queue pair.
        source: Qpn @ 40, 24;
    }
}

layout! {
    /// RDMA extended transport header, RETH (IBTA 9.3.3).
    pub struct Reth: 16 bytes {
        /// First byte in the responder's memory.
        address: u64 @ 0, 64;
        /// R_Key of the region or window.
        rkey: u32 @ 64, 32;
        /// Length of the whole message.
        len_bytes: u32 @ 96, 32;
    }
}

layout! {
    /// Atomic extended transport header, AtomicETH (IBTA 9.3.4).
    pub struct AtomicEth: 28 bytes {
        /// Address of the word.
        address: u64 @ 0, 64;
        /// R_Key of the region or window.
        rkey: u32 @ 64, 32;
        /// New value, or the summand.
        swap_or_add: u64 @ 96, 64;
        /// Value that the word must have for the exchange.
        compare: u64 @ 160, 64;
    }
}

layout! {
    /// Acknowledgement extended transport header, AETH (IBTA 9.3.5).
    pub struct Aeth: 4 bytes {
        /// Kind of the acknowledgement, with a code.
        syndrome: u8 @ 0, 8;
        /// Number of messages that the responder has completed (MSN).
        messages: u32 @ 8, 24;
    }
}

impl Aeth {
    /// Syndrome of an acknowledgement without a count of credits (IBTA 9.7.5.1.2, table 43).
    pub const ACK: u8 = 0x1F;
    /// Kind of a NAK for a receiver that is not ready. The low five bits are the timer's code.
    pub const RNR_NAK: u8 = 0x20;
    /// Kind of a NAK. The low five bits are the code of the error.
    pub const NAK: u8 = 0x60;
}

layout! {
    /// Atomic acknowledgement extended transport header, AtomicAckETH (IBTA 9.3.5.3).
    pub struct AtomicAckEth: 8 bytes {
        /// Value of the word before the operation.
        original: u64 @ 0, 64;
    }
}

layout! {
    /// Extended reliable connection transport header, XRCETH (IBTA annex A14).
    pub struct XrcEth: 4 bytes {
        /// Number of the shared receive queue.
        srq: u32 @ 8, 24;
    }
}

/// All headers.
pub const HEADERS: &[Description] = &[
    Description::of::<Lrh>(),
    Description::of::<Grh>(),
    Description::of::<Bth>(),
    Description::of::<Deth>(),
    Description::of::<Reth>(),
    Description::of::<AtomicEth>(),
    Description::of::<Aeth>(),
    Description::of::<AtomicAckEth>(),
    Description::of::<XrcEth>(),
];

const _: () = {
    assert!(Lrh::BYTES == crate::LRH_BYTES as usize && Grh::BYTES == crate::GRH_BYTES as usize);
    assert!(Bth::BYTES == crate::BTH_BYTES as usize && Deth::BYTES == crate::DETH_BYTES as usize);
    assert!(Reth::BYTES == crate::RETH_BYTES as usize && AtomicEth::BYTES == crate::ATOMIC_ETH_BYTES as usize);
    assert!(Aeth::BYTES == crate::AETH_BYTES as usize && XrcEth::BYTES == crate::XRC_ETH_BYTES as usize);
    assert!(AtomicAckEth::BYTES == crate::ATOMIC_ACK_ETH_BYTES as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_headers_agree_with_their_reprs() {
        for layout in HEADERS {
            let patterns = [[0; 40], [0xFF; 40], core::array::from_fn(|index| (index * 37 + 11) as u8)];
            for pattern in patterns {
                (layout.assert_views_agree)(&pattern);
                (layout.assert_views_agree)(&pattern[..layout.bytes / 2]);
            }
        }
    }

    #[test]
    fn fields_stand_where_the_specification_has_them() {
        let lrh = Lrh {
            virtual_lane: VirtualLane(15),
            service_level: ServiceLevel(2),
            next_header: Lrh::NEXT_BTH,
            dlid: Lid(0x0102),
            packet_words: 72,
            slid: Lid(0x0304),
            ..Lrh::default()
        };
        assert_eq!(lrh.to_bytes(), [0xF0, 0x22, 1, 2, 0, 72, 3, 4]);
        let bth = Bth {
            opcode: Opcode::UD.of(Opcode::SEND_ONLY),
            solicited: true,
            pad_bytes: 3,
            pkey: PKey(0xFFFF),
            becn: true,
            destination: Qpn(0x0A0B0C),
            ack_request: true,
            psn: Psn::new(0x0D0E0F),
            ..Bth::default()
        };
        assert_eq!(bth.to_bytes(), [0x64, 0xB0, 0xFF, 0xFF, 0x40, 0x0A, 0x0B, 0x0C, 0x80, 0x0D, 0x0E, 0x0F]);
    }
}
