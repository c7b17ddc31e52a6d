//! A packet as the model carries it: the meaning of its headers, not their bytes.

use crate::link::Framing;
use crate::verbs::api::{GlobalRoute, PayloadSlice};
use softband_types::{Gid, Lid, PKey, Psn, QKey, QpType, Qpn, ServiceLevel, WcOpcode};
use softband_wire as wire;

mod image;

pub use image::LinkAddresses;

/// Place of a packet in its message. An only packet is first and last; a middle packet is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Whether the packet begins its message.
    pub first: bool,
    /// Whether the packet ends its message.
    pub last: bool,
}

impl Position {
    /// Checks whether the packet is neither the first nor the last of its message.
    pub const fn is_middle(self) -> bool {
        !self.first && !self.last
    }
}

/// RDMA extended transport header, RETH: memory of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRange {
    /// First byte, as the region or window of `rkey` names it.
    pub address: u64,
    /// R_Key of a memory region or window.
    pub rkey: u32,
    /// Length of the whole message in bytes, from 0 to 2^31.
    pub len_bytes: u32,
}

/// Reason why a responder refuses a request (IBTA 9.7.5.2.8, NAK codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// The packet's PSN is later than the expected PSN: an earlier packet is lost.
    PsnSequenceError,
    /// The responder does not support the request, or its length does not fit.
    InvalidRequest,
    /// The R_Key does not permit the request at its address.
    RemoteAccessError,
    /// The responder cannot complete the request for a reason of its own.
    RemoteOperationalError,
}

/// Operation code, with the contents of its extended headers (IBTA 9.2 and 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Part of a send.
    Send {
        /// Place of the packet in its message.
        position: Position,
        /// Immediate data, in host order, in the last packet of a message.
        immediate: Option<u32>,
        /// R_Key to invalidate, in the last packet of a message.
        invalidate: Option<u32>,
    },
    /// Part of an RDMA write.
    Write {
        /// Place of the packet in its message.
        position: Position,
        /// Destination, in the first packet of a message.
        range: Option<RemoteRange>,
        /// Immediate data, in host order, in the last packet of a message.
        immediate: Option<u32>,
    },
    /// Request of an RDMA read.
    ReadRequest {
        /// Memory that the responder reads.
        range: RemoteRange,
    },
    /// Request of an atomic compare-and-swap of 8 bytes.
    CompareSwap {
        /// Address of the word, a multiple of 8.
        address: u64,
        /// R_Key of its region or window.
        rkey: u32,
        /// Value that the word must have for the exchange, in host order.
        compare: u64,
        /// New value of the word, in host order.
        swap: u64,
    },
    /// Request of an atomic addition to 8 bytes.
    FetchAdd {
        /// Address of the word, a multiple of 8.
        address: u64,
        /// R_Key of its region or window.
        rkey: u32,
        /// Summand in host order. The sum wraps round.
        add: u64,
    },
    /// Request of an atomic write of 8 bytes.
    AtomicWrite {
        /// Address of the word, a multiple of 8.
        address: u64,
        /// R_Key of its region or window.
        rkey: u32,
        /// New value of the word, in host order.
        value: u64,
    },
    /// Unreliable datagram: a whole message.
    Datagram {
        /// Q_Key that the receiving QP must have.
        qkey: QKey,
        /// Immediate data, in host order.
        immediate: Option<u32>,
    },
    /// Part of the data of an RDMA read.
    ReadResponse {
        /// Place of the packet in the response.
        position: Position,
    },
    /// Response to an atomic operation.
    AtomicAck {
        /// Value of the word before the operation, in host order.
        original: u64,
    },
    /// Acknowledgement of all packets up to its PSN.
    Ack,
    /// Negative acknowledgement, with its reason.
    Nak(NakCode),
    /// Negative acknowledgement of a message without a receive request (receiver not ready).
    RnrNak {
        /// Code of the requester's wait, from 0 to 31: see
        /// [`rnr_wait`](crate::transport::rnr_wait).
        timer_code: u8,
    },
    /// CN packet (IBTA annex A10): it carries a BECN and nothing else.
    CongestionNotification,
    /// Raw Ethernet frame of a network interface. It has no BTH: the payload begins with the MAC header
    /// and ends before the check sequence.
    Frame,
}

impl PacketKind {
    /// Checks whether the packet goes to the requester of its destination.
    pub const fn is_response(&self) -> bool {
        matches!(self, Self::ReadResponse { .. } | Self::AtomicAck { .. } | Self::Ack | Self::Nak(_) | Self::RnrNak { .. })
    }

    /// Returns the operation on this side's memory that the packet begins.
    pub const fn begun_operation(&self) -> Option<WcOpcode> {
        match self {
            Self::Write { position, .. } if position.first => Some(WcOpcode::RdmaWrite),
            Self::ReadRequest { .. } => Some(WcOpcode::RdmaRead),
            Self::CompareSwap { .. } => Some(WcOpcode::CompareSwap),
            Self::FetchAdd { .. } | Self::AtomicWrite { .. } => Some(WcOpcode::FetchAdd),
            _ => None,
        }
    }

    /// Returns the bytes of extended transport headers (IBTA 9.3 and the table of operation codes
    /// in 9.2).
    const fn header_bytes(&self) -> u32 {
        match self {
            Self::Send { immediate, invalidate, .. } => immediate_bytes_of(immediate) + if invalidate.is_some() { wire::IETH_BYTES } else { 0 },
            Self::Write { range, immediate, .. } => immediate_bytes_of(immediate) + if range.is_some() { wire::RETH_BYTES } else { 0 },
            Self::ReadRequest { .. } => wire::RETH_BYTES,
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => wire::ATOMIC_ETH_BYTES,
            Self::AtomicWrite { .. } => wire::RETH_BYTES + wire::ATOMIC_WRITE_BYTES,
            Self::Datagram { immediate, .. } => immediate_bytes_of(immediate) + wire::DETH_BYTES,
            Self::ReadResponse { position } => {
                if position.first || position.last {
                    wire::AETH_BYTES
                } else {
                    0
                }
            }
            Self::AtomicAck { .. } => wire::AETH_BYTES + wire::ATOMIC_ACK_ETH_BYTES,
            Self::Ack | Self::Nak(_) | Self::RnrNak { .. } => wire::AETH_BYTES,
            Self::CongestionNotification | Self::Frame => 0,
        }
    }
}

const fn immediate_bytes_of(immediate: &Option<u32>) -> u32 {
    if immediate.is_some() { wire::IMM_DT_BYTES } else { 0 }
}

/// Number of a shared receive queue in packets of extended reliable connections, 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqNumber([u8; 3]);

impl SrqNumber {
    /// Makes the number of a queue, from 0 to 2^24 - 1.
    pub fn new(number: u32) -> Self {
        Self(low_bytes(number))
    }

    /// Returns the number, from 0 to 2^24 - 1.
    pub fn get(self) -> u32 {
        number_of(self.0)
    }
}

/// Number of messages that a responder has completed (MSN, IBTA 9.7.7.1), 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCount([u8; 3]);

impl MessageCount {
    /// Makes the count of the low 24 bits of `number`.
    pub fn new(number: u32) -> Self {
        Self(low_bytes(number))
    }

    /// Returns the count, from 0 to 2^24 - 1.
    pub fn get(self) -> u32 {
        number_of(self.0)
    }
}

fn low_bytes(number: u32) -> [u8; 3] {
    let [_, high, middle, low] = number.to_be_bytes();
    [high, middle, low]
}

fn number_of([high, middle, low]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, high, middle, low])
}

/// Number that some packets carry in their extended headers. No packet has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carried {
    /// No number.
    #[default]
    Nothing,
    /// Shared receive queue, in requests of extended reliable connections.
    XrcSrq(SrqNumber),
    /// Completed messages, in responses.
    Messages(MessageCount),
}

/// Packet between two queue pairs: the meaning of its headers, and its payload. It fits into two
/// cache lines, because many packets are under way.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Packet {
    /// Source LID: port that sends the packet.
    pub slid: Lid,
    /// Destination LID: a port, or a multicast group.
    pub dlid: Lid,
    /// Service level, from which each port derives a virtual lane.
    pub service_level: ServiceLevel,
    /// Partition key of the sender.
    pub pkey: PKey,
    /// QP that sends the packet.
    pub source: Qpn,
    /// QP that receives the packet.
    pub destination: Qpn,
    /// Packet sequence number. Responses have the PSN of their request.
    pub psn: Psn,
    /// Whether the sender requests an acknowledgement (AckReq of the BTH).
    pub ack_request: bool,
    /// Whether the receiver's completion raises a solicited event (SE of the BTH).
    pub solicited: bool,
    /// Forward explicit congestion notification: a switch on the packet's way was congested (IBTA
    /// annex A10).
    pub fecn: bool,
    /// Backward explicit congestion notification: an earlier packet to the peer met congestion.
    pub becn: bool,
    /// Global route header, if the packet has one. On Ethernet it becomes an IP header.
    pub grh: Option<GlobalRoute>,
    /// Number in the extended headers.
    pub carried: Carried,
    /// Type of the QP that sends the packet, which selects the transport service.
    pub service: QpType,
    /// Operation code and extended headers.
    pub kind: PacketKind,
    /// Payload, or `None` for a packet without payload.
    pub payload: Option<PayloadSlice>,
}

/// Pool of packets, for reuse. It keeps at most 4,096 packets.
#[derive(Default)]
pub struct PacketPool {
    #[allow(clippy::vec_box)] // packets keep their addresses
    spare: Vec<Box<Packet>>,
}

impl PacketPool {
    /// Largest number of packets kept: more than come and go within a while.
    const SPARE_MAX: usize = 4_096;

    /// Puts a packet into a box from the pool, or into a new box if the pool is empty.
    pub fn place(&mut self, packet: Packet) -> Box<Packet> {
        match self.spare.pop() {
            Some(mut place) => {
                *place = packet;
                place
            }
            None => Box::new(packet),
        }
    }

    /// Returns a box to the pool and drops its payload.
    pub fn take_back(&mut self, mut place: Box<Packet>) {
        if self.spare.len() < Self::SPARE_MAX {
            place.payload = None;
            self.spare.push(place);
        }
    }
}

impl Packet {
    /// Returns the number of the shared receive queue, in requests of extended reliable
    /// connections.
    pub fn xrc_srq(&self) -> Option<SrqNumber> {
        match self.carried {
            Carried::XrcSrq(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the bytes of payload, without padding.
    pub fn payload_bytes(&self) -> u32 {
        self.payload.as_ref().map_or(0, |payload| payload.len)
    }

    /// Returns the bytes of payload that the MTU of an RDMA link limits. Interfaces keep to their MTU
    /// themselves.
    pub fn limited_bytes(&self) -> u32 {
        if matches!(self.kind, PacketKind::Frame) { 0 } else { self.payload_bytes() }
    }

    /// Returns the bytes that port counters and receive buffers count: from the LRH to the variant
    /// CRC, or a frame from its address to its check sequence.
    pub fn bytes(&self, framing: Framing) -> u32 {
        if matches!(self.kind, PacketKind::Frame) {
            return framing.raw_bytes(self.payload_bytes());
        }
        framing.packet_bytes(self.grh.map(|route| route.dgid), self.transport_bytes())
    }

    /// Returns the bytes from the BTH to the invariant CRC.
    fn transport_bytes(&self) -> u32 {
        let xrc = if self.xrc_srq().is_some() { wire::XRC_ETH_BYTES } else { 0 };
        // Payload is padded to whole words (IBTA 9.2.3).
        wire::BTH_BYTES + xrc + self.kind.header_bytes() + self.payload_bytes().next_multiple_of(4) + wire::ICRC_BYTES
    }

    /// Returns the 40 bytes before the payload of a received datagram, or `None` if the packet has
    /// no global route. `source` is the GID of the sending port.
    pub fn route_header(&self, framing: Framing, source: Gid) -> Option<[u8; 40]> {
        self.grh.as_ref().map(|route| framing.route_header(route, source, self.transport_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(dgid: Option<Gid>, kind: PacketKind) -> Packet {
        Packet {
            slid: Lid(1),
            dlid: Lid(2),
            service_level: ServiceLevel(0),
            pkey: PKey::DEFAULT_FULL,
            source: Qpn(1),
            destination: Qpn(2),
            psn: Psn::new(0),
            ack_request: false,
            solicited: false,
            fecn: false,
            becn: false,
            grh: dgid.map(|dgid| GlobalRoute { dgid, ..GlobalRoute::default() }),
            carried: Carried::Nothing,
            service: QpType::Rc,
            kind,
            payload: None,
        }
    }

    #[test]
    fn packets_are_small() {
        assert!(size_of::<Packet>() <= 128);
        assert_eq!([0, 1, 0xFF_FFFF].map(|number| SrqNumber::new(number).get()), [0, 1, 0xFF_FFFF]);
    }

    #[test]
    fn each_framing_has_its_own_headers() {
        let ipv4 = Some(Gid::of_ipv4([10, 77, 0, 2]));
        let (plain, tagged) = (Framing::Ethernet { tagged: false }, Framing::Ethernet { tagged: true });
        let ack = |dgid, framing| packet(dgid, PacketKind::Ack).bytes(framing);
        // Ethernet 14, IP 20 or 40, UDP 8, BTH 12, AETH 4, ICRC 4, FCS 4; LRH 8, GRH 40, VCRC 2.
        assert_eq!((ack(ipv4, plain), ack(ipv4, tagged), ack(Some(Gid::default()), plain)), (66, 70, 86));
        assert_eq!((ack(None, Framing::Infiniband), ack(ipv4, Framing::Infiniband)), (30, 70));
        assert_eq!(packet(ipv4, PacketKind::CongestionNotification).bytes(plain), 64, "no frame is shorter");
    }
}
