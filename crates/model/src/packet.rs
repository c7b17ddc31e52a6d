//! A packet as the model carries it: what its headers mean, not their bytes.

use crate::verbs::api::{GlobalRoute, PayloadSlice};
use softband_types::{Gid, Lid, PKey, Psn, QKey, Qpn, ServiceLevel};
use softband_wire as wire;

/// Where in its message a packet stands. An only packet is first and last.
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

/// Why a responder refuses a request (IBTA 9.7.5.2.8, NAK codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    PsnSequenceError,
    InvalidRequest,
    RemoteAccessError,
    RemoteOperationalError,
}

/// The operation code with what its extended headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    Send {
        position: Position,
        immediate: Option<u32>,
        /// Key to take back, in the last packet of a message.
        invalidate: Option<u32>,
    },
    /// `range` stands in the first packet of a message.
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
    /// The requester waits as long as this code of the RNR timer table says.
    RnrNak {
        timer_code: u8,
    },
    /// A CN packet: it carries a BECN and nothing else.
    CongestionNotification,
}

impl PacketKind {
    /// Whether it goes to the requester of its destination.
    pub const fn is_response(&self) -> bool {
        matches!(self, Self::ReadResponse { .. } | Self::AtomicAck { .. } | Self::Ack | Self::Nak(_) | Self::RnrNak { .. })
    }

    /// Bytes of extended transport headers (IBTA 9.3 and the table of operation codes in 9.2).
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

/// A packet between two queue pairs.
#[derive(Clone, Debug)]
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
    /// Backward explicit congestion notification: a packet to the peer had met congestion.
    pub becn: bool,
    pub grh: Option<GlobalRoute>,
    /// Number of the shared receive queue: requests of extended reliable connections carry it.
    pub xrc_srq: Option<u32>,
    pub kind: PacketKind,
    pub payload: Option<PayloadSlice>,
}

impl Packet {
    pub fn payload_bytes(&self) -> u32 {
        self.payload.as_ref().map_or(0, |payload| payload.len as u32)
    }

    /// From the local route header to the variant CRC: what port counters and receive buffers see.
    pub fn bytes(&self) -> u32 {
        let grh = if self.grh.is_some() { wire::GRH_BYTES } else { 0 };
        let xrc = if self.xrc_srq.is_some() { wire::XRC_ETH_BYTES } else { 0 };
        // Payload is padded to whole words (IBTA 9.2.3).
        wire::BASE_BYTES + grh + xrc + self.kind.header_bytes() + self.payload_bytes().next_multiple_of(4)
    }
}

/// The 40 bytes of a GRH in front of `payload_bytes` (IBTA 8.3): what a datagram's receiver finds before the payload.
pub fn grh_bytes(route: &GlobalRoute, source: Gid, packet_bytes: u32) -> [u8; 40] {
    let mut bytes = [0; 40];
    let word = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0xF_FFFF;
    bytes[..4].copy_from_slice(&word.to_be_bytes());
    // From after the GRH to the invariant CRC, the LRH and the variant CRC left out.
    let len = packet_bytes - wire::GRH_BYTES - wire::LRH_BYTES - 2;
    bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    bytes[6] = 0x1B; // NxtHdr: an IBA transport follows.
    bytes[7] = route.hop_limit;
    bytes[8..24].copy_from_slice(&source.0);
    bytes[24..].copy_from_slice(&route.dgid.0);
    bytes
}
