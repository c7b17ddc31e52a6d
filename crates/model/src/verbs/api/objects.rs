//! Attributes of verbs objects: given when a program creates or changes them, and queried.

use crate::management::agent::LinkState;
use softband_types::{
    Access, CqHandle, Gid, HcaId, Lid, LinkLayer, LinkRate, Lmc, Mtu, OperationalVls, PKey, PdHandle, PortNumber, ProcessId, Psn, QKey, QpState,
    QpType, Qpn, ServiceLevel, SrqHandle, XrcdHandle,
};

/// Sizes of a QP's queues. The model uses them as given; the limits are those of the HCA's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCapabilities {
    /// Outstanding send requests, from 0 to the HCA's `max_qp_wr`. The default is 128.
    pub max_send_wr: u32,
    /// Outstanding receive requests, from 0 to the HCA's `max_qp_wr`. The default is 128.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send request, from 0 to the HCA's `max_sge`. The default is 1.
    pub max_send_sge: u32,
    /// Scatter entries of a receive request, from 0 to the HCA's `max_sge`. The default is 1.
    pub max_recv_sge: u32,
    /// Inline payload of a send request in bytes, from 0 (the default) to the HCA's
    /// `max_inline_bytes`.
    pub max_inline_bytes: u32,
}

/// Attributes of a new QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain of the QP and its local memory.
    pub pd: PdHandle,
    /// CQ of send requests.
    pub send_cq: CqHandle,
    /// CQ of receive requests. It may be the same.
    pub recv_cq: CqHandle,
    /// Source of receive requests. With it, the QP has no receive queue of its own.
    pub srq: Option<SrqHandle>,
    /// Domain of the receiving side of an extended reliable connection. That side has neither
    /// protection domain nor CQs.
    pub xrcd: Option<XrcdHandle>,
    /// Sizes of the queues.
    pub capabilities: QpCapabilities,
    /// Whether every send request gives a completion, like a signaled request.
    pub signal_all: bool,
    /// Whether messages to a multicast group do not come back to the QP that sends them.
    pub block_own_multicast: bool,
}

/// Attributes of a new shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqInit {
    /// Domain of the receive buffers. It counts for each queue pair that takes a request (IBTA
    /// 10.2.9.1).
    pub pd: PdHandle,
    /// Outstanding receive requests, from 1 to the HCA's `max_srq_wr`.
    pub max_wr: u32,
    /// Scatter entries of a receive request, from 0 to the HCA's `max_srq_sge`.
    pub max_sge: u32,
    /// Domain and CQ of a queue for extended reliable connections, or `None` for other queues.
    pub xrc: Option<SrqOfXrc>,
}

/// Attributes of a shared receive queue for extended reliable connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqOfXrc {
    /// Domain whose receiving QPs deliver to the queue.
    pub xrcd: XrcdHandle,
    /// CQ of all messages that the queue takes.
    pub cq: CqHandle,
}

/// Result of `query_srq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqSnapshot {
    /// HCA of the queue.
    pub hca: HcaId,
    /// Attributes of the queue, with its present size.
    pub init: SrqInit,
    /// Number of waiting requests below which the queue raises an event. 0 means no event.
    pub limit: u32,
}

/// Destination of a connected QP or address handle. The default names no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddressVector {
    /// Destination LID on InfiniBand: of a port, or of a multicast group. The model sets it on
    /// Ethernet.
    pub dlid: Lid,
    /// Service level of all packets.
    pub service_level: ServiceLevel,
    /// Low bits of the source LID. The model stores the value and does not use it: each port has a
    /// single LID.
    pub source_path_bits: u8,
    /// Code of a static rate limit. The model stores the value and does not use it.
    pub static_rate: u8,
    /// Port of the HCA that sends.
    pub port: PortNumber,
    /// Contents of the GRH, if packets must have one. Ethernet requires it.
    pub grh: Option<GlobalRoute>,
}

/// Contents of a GRH (IBTA 8.3), or of the IP header that takes its place on Ethernet. The default
/// of each field is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GlobalRoute {
    /// Destination GID.
    pub dgid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Index of the source GID in the sending port's table.
    pub sgid_index: u8,
    /// Hop limit, from 0 to 255.
    pub hop_limit: u8,
    /// Traffic class, 8 bits.
    pub traffic_class: u8,
}

/// Attributes that `modify_qp` sets: `None` leaves an attribute as it is. Times are the
/// specification's 5-bit and 3-bit codes. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpModification {
    /// New state.
    pub state: Option<QpState>,
    /// State in which the QP is supposed to be. The verb fails in any other state.
    pub current_state: Option<QpState>,
    /// Rights of the peer.
    pub access: Option<Access>,
    /// Index of the P_Key in the port's table.
    pub pkey_index: Option<u16>,
    /// Port of the HCA, from 1 on.
    pub port: Option<PortNumber>,
    /// Q_Key of a datagram QP.
    pub qkey: Option<QKey>,
    /// Address of the peer.
    pub address_vector: Option<AddressVector>,
    /// Path MTU: largest payload of a packet on the way to the peer.
    pub path_mtu: Option<Mtu>,
    /// Code of the local ACK timeout, from 0 to 31: 4.096 us x 2^code. 0 means no timeout.
    pub local_ack_timeout: Option<u8>,
    /// Repeats after a timeout or NAK, from 0 to 7.
    pub retry_count: Option<u8>,
    /// Repeats after an RNR NAK, from 0 to 6. 7 means without end.
    pub rnr_retry: Option<u8>,
    /// PSN of the first packet expected.
    pub receive_psn: Option<Psn>,
    /// PSN of the first packet sent.
    pub send_psn: Option<Psn>,
    /// RDMA reads and atomics that this side may have outstanding, from 0 to the HCA's
    /// `max_rd_atomic`.
    pub max_rd_atomic: Option<u8>,
    /// RDMA reads and atomics that the peer may have outstanding at this side, from 0 to the HCA's
    /// `max_rd_atomic`.
    pub max_dest_rd_atomic: Option<u8>,
    /// Code of the wait that this side's RNR NAKs ask for, from 0 to 31.
    pub min_rnr_timer: Option<u8>,
    /// QP of the peer.
    pub dest_qpn: Option<Qpn>,
    /// On the way to SQD: whether to raise an event when all work that was begun is done.
    pub drained_event: Option<bool>,
}

/// Attributes of a QP: the result of `query_qp`. A new QP has zeros, the smallest path MTU and no
/// rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSnapshot {
    /// Attributes that the program gave at creation.
    pub init: QpInit,
    /// Number of the QP.
    pub qpn: Qpn,
    /// State of the QP.
    pub state: QpState,
    /// Rights of the peer.
    pub access: Access,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// P_Key at `pkey_index`.
    pub pkey: PKey,
    /// Port of the HCA; 0 before the QP has a port.
    pub port: PortNumber,
    /// Q_Key of a datagram QP.
    pub qkey: QKey,
    /// Address of the peer.
    pub address_vector: AddressVector,
    /// Path MTU: largest payload of a packet on the way to the peer.
    pub path_mtu: Mtu,
    /// Code of the local ACK timeout, from 0 to 31: 4.096 us x 2^code. 0 means no timeout.
    pub local_ack_timeout: u8,
    /// Repeats after a timeout or NAK, from 0 to 7.
    pub retry_count: u8,
    /// Repeats after an RNR NAK, from 0 to 6. 7 means without end.
    pub rnr_retry: u8,
    /// PSN of the next packet expected.
    pub receive_psn: Psn,
    /// PSN of the next new packet.
    pub send_psn: Psn,
    /// RDMA reads and atomics that this side may have outstanding, from 0 to the HCA's
    /// `max_rd_atomic`.
    pub max_rd_atomic: u8,
    /// RDMA reads and atomics that the peer may have outstanding at this side, from 0 to the HCA's
    /// `max_rd_atomic`.
    pub max_dest_rd_atomic: u8,
    /// Code of the wait that this side's RNR NAKs ask for, from 0 to 31.
    pub min_rnr_timer: u8,
    /// QP of the peer.
    pub dest_qpn: Qpn,
    /// In SQD: whether some requests that were begun are not done yet.
    pub send_queue_draining: bool,
}

/// Attributes of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrInit {
    /// Process that registers the memory.
    pub owner: ProcessId,
    /// Protection domain of the region.
    pub pd: PdHandle,
    /// First byte in the program's address space.
    pub address: u64,
    /// Length in bytes, at least 1. Neither `address` nor `iova` plus the length may exceed 2^64 -
    /// 1.
    pub len_bytes: u64,
    /// Address by which work requests name the first byte. Programs mostly use `address`.
    pub iova: u64,
    /// Rights. `remote_write` and `remote_atomic` require `local_write`.
    pub access: Access,
}

/// Changes by `reregister_mr`: `None` leaves an attribute as it is. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrChange {
    /// New protection domain.
    pub pd: Option<PdHandle>,
    /// New place.
    pub range: Option<MrRange>,
    /// New rights.
    pub access: Option<Access>,
}

/// Place of a memory region, and the address by which work requests name its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrRange {
    /// First byte in the program's address space.
    pub address: u64,
    /// Length in bytes, at least 1.
    pub len_bytes: u64,
    /// Address by which work requests name the first byte.
    pub iova: u64,
}

/// State of a port as its owner queries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSnapshot {
    /// HCA of the port.
    pub hca: HcaId,
    /// Whether the port is Active.
    pub active: bool,
    /// State of the port; `None` for Down.
    pub state: Option<LinkState>,
    /// Whether a manager has disabled the port.
    pub is_disabled: bool,
    /// LID that the subnet manager assigned.
    pub lid: Lid,
    /// LMC that the subnet manager assigned: the number of the port's LIDs from `lid` on.
    pub lmc: Lmc,
    /// LID of the subnet manager, or [`Lid::NONE`] without a link.
    pub sm_lid: Lid,
    /// Largest MTU of the port.
    pub mtu_max: Mtu,
    /// MTU of the link (NeighborMTU), or the port's largest MTU without a link.
    pub mtu_active: Mtu,
    /// Data lanes that the port can operate (VLCap).
    pub vl_cap: OperationalVls,
    /// Rate that the link trained to, or 1X SDR without a link.
    pub rate: LinkRate,
    /// Link layer. Programs see LIDs of InfiniBand ports only: on Ethernet, LIDs are the fabric's
    /// own names.
    pub link_layer: LinkLayer,
    /// GID table. On InfiniBand it has a single entry. On Ethernet it has the port's link-local and
    /// IPv4 addresses.
    pub gids: [Option<Gid>; 2],
}
