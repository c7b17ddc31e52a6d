//! A packet as the model carries it: the meaning of its headers, not their bytes.

use crate::link::Framing;
use crate::verbs::api::{GlobalRoute, PayloadSlice};
use softband_types::{Gid, Lid, PKey, Psn, QKey, Qpn, ServiceLevel};
use softband_wire as wire;
use softband_wire::ethernet::{self, Way};
use std::num::NonZeroU32;

/// Place of a packet in its message. An only packet is first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub first: bool,
    pub last: bool,
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRange {
    pub address: u64,
    pub rkey: u32,
    pub len_bytes: u32,
}

/// Reason why a responder refuses a request (IBTA 9.7.5.2.8, NAK codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    PsnSequenceError,
    InvalidRequest,
    RemoteAccessError,
    RemoteOperationalError,
}

/// Operation code, with the contents of its extended headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    Send {
        position: Position,
        immediate: Option<u32>,
        /// Key to invalidate, in the last packet of a message.
        invalidate: Option<u32>,
    },
    /// The first packet of a message carries the `range`.
    Write {
        position: Position,
        range: Option<RemoteRange>,
        immediate: Option<u32>,
    },
    ReadRequest {
        range: RemoteRange,
    },
    CompareSwap {
        address: u64,
        rkey: u32,
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        address: u64,
        rkey: u32,
        add: u64,
    },
    AtomicWrite {
        address: u64,
        rkey: u32,
        value: u64,
    },
    Datagram {
        qkey: QKey,
        immediate: Option<u32>,
    },
    ReadResponse {
        position: Position,
    },
    AtomicAck {
        original: u64,
    },
    Ack,
    Nak(NakCode),
    /// The requester waits for the time of this code in the RNR timer table.
    RnrNak {
        timer_code: u8,
    },
    /// A CN packet: it carries a BECN and nothing else.
    CongestionNotification,
}

impl PacketKind {
    /// Checks whether the packet goes to the requester of its destination.
    pub const fn is_response(&self) -> bool {
        matches!(self, Self::ReadResponse { .. } | Self::AtomicAck { .. } | Self::Ack | Self::Nak(_) | Self::RnrNak { .. })
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
            Self::CongestionNotification => 0,
        }
    }
}

const fn immediate_bytes_of(immediate: &Option<u32>) -> u32 {
    if immediate.is_some() { wire::IMM_DT_BYTES } else { 0 }
}

/// Number of a shared receive queue, 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqNumber(NonZeroU32);

impl SrqNumber {
    pub fn new(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    pub fn get(self) -> u32 {
        self.0.get() - 1
    }
}

/// Packet between two queue pairs. It fits into two cache lines, because many are under way.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Packet {
    pub slid: Lid,
    pub dlid: Lid,
    pub service_level: ServiceLevel,
    pub pkey: PKey,
    pub source: Qpn,
    pub destination: Qpn,
    pub psn: Psn,
    pub ack_request: bool,
    pub solicited: bool,
    /// Forward explicit congestion notification: a switch on its way was congested.
    pub fecn: bool,
    /// Backward explicit congestion notification: a packet to the peer met congestion.
    pub becn: bool,
    pub grh: Option<GlobalRoute>,
    /// Number of the shared receive queue, in requests of extended reliable connections.
    pub xrc_srq: Option<SrqNumber>,
    pub kind: PacketKind,
    pub payload: Option<PayloadSlice>,
}

/// Pool of packets, for reuse.
#[derive(Default)]
pub struct PacketPool {
    #[allow(clippy::vec_box)] // packets keep their addresses
    spare: Vec<Box<Packet>>,
}

impl PacketPool {
    /// Largest number of packets kept: more than come and go within a while.
    const SPARE_MAX: usize = 4_096;

    pub fn place(&mut self, packet: Packet) -> Box<Packet> {
        match self.spare.pop() {
            Some(mut place) => {
                *place = packet;
                place
            }
            None => Box::new(packet),
        }
    }

    pub fn take_back(&mut self, mut place: Box<Packet>) {
        if self.spare.len() < Self::SPARE_MAX {
            place.payload = None;
            self.spare.push(place);
        }
    }
}

impl Packet {
    pub fn payload_bytes(&self) -> u32 {
        self.payload.as_ref().map_or(0, |payload| payload.len)
    }

    /// Returns the bytes that port counters and receive buffers count: from the LRH to the variant
    /// CRC, or a frame from its address to its check sequence.
    pub fn bytes(&self, framing: Framing) -> u32 {
        match framing {
            Framing::Infiniband => {
                let grh = if self.grh.is_some() { wire::GRH_BYTES } else { 0 };
                wire::LRH_BYTES + grh + self.transport_bytes() + wire::VCRC_BYTES
            }
            Framing::Ethernet { .. } => {
                let ip = self.grh.map_or(ethernet::IPV6_BYTES, |route| ethernet::ip_bytes(route.dgid));
                framing.frame_bytes(ip + ethernet::UDP_BYTES + self.transport_bytes()).max(ethernet::FRAME_BYTES_MIN)
            }
        }
    }

    /// Returns the bytes from the BTH to the invariant CRC.
    fn transport_bytes(&self) -> u32 {
        let xrc = if self.xrc_srq.is_some() { wire::XRC_ETH_BYTES } else { 0 };
        // Payload is padded to whole words (IBTA 9.2.3).
        wire::BTH_BYTES + xrc + self.kind.header_bytes() + self.payload_bytes().next_multiple_of(4) + wire::ICRC_BYTES
    }

    /// Returns the bytes before the payload of a received datagram, if it has a global route.
    pub fn route_header(&self, framing: Framing, source: Gid) -> Option<[u8; 40]> {
        let route = self.grh.as_ref()?;
        let bytes = self.transport_bytes();
        Some(match framing {
            Framing::Infiniband => grh_bytes(route, source, bytes),
            Framing::Ethernet { .. } => {
                let way = Way { traffic_class: route.traffic_class, flow_label: route.flow_label, hop_limit: route.hop_limit };
                ethernet::route_header(source, route.dgid, way, bytes)
            }
        })
    }
}

/// Returns a GRH (IBTA 8.3). Its payload length counts from the end of the GRH to the invariant
/// CRC.
fn grh_bytes(route: &GlobalRoute, source: Gid, transport_bytes: u32) -> [u8; 40] {
    let mut bytes = [0; 40];
    let word = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0xF_FFFF;
    bytes[..4].copy_from_slice(&word.to_be_bytes());
    bytes[4..6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
    bytes[6] = 0x1B; // NxtHdr: an IBA transport follows.
    bytes[7] = route.hop_limit;
    bytes[8..24].copy_from_slice(&source.0);
    bytes[24..].copy_from_slice(&route.dgid.0);
    bytes
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
            xrc_srq: None,
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
