//! Values that cross the verbs boundary: requests in, completions out.

use softband_types::{
    Access, AhHandle, CqHandle, Gid, HcaId, LKey, Lid, LinkLayer, LinkRate, MrHandle, Mtu, MwHandle, OperationalVls, PKey, PdHandle, PortNumber,
    ProcessId, Psn, QKey, QpState, QpType, Qpn, RKey, ServiceLevel, SrqHandle, WcOpcode, WcStatus, XrcdHandle,
};
use std::sync::Arc;

/// A span of a program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterGatherEntry {
    pub address: u64,
    pub len_bytes: u32,
    pub lkey: LKey,
}

/// Bytes on their way: a shared buffer, and the part of it that counts. Without a buffer, only
/// their number is known.
#[derive(Clone, Debug)]
pub struct PayloadSlice {
    pub buffer: Option<Arc<[u8]>>,
    pub offset: u32,
    pub len: u32,
}

impl PayloadSlice {
    /// Returns the bytes: none if only their number is known.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |buffer| &buffer[self.offset as usize..][..self.len as usize])
    }
}

/// Operation of a send request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOperation {
    Send {
        immediate: Option<u32>,
    },
    /// Send that also invalidates the receiver's window of this key.
    SendAndInvalidate {
        rkey: RKey,
    },
    RdmaWrite {
        remote_address: u64,
        rkey: RKey,
        immediate: Option<u32>,
    },
    RdmaRead {
        remote_address: u64,
        rkey: RKey,
    },
    CompareSwap {
        remote_address: u64,
        rkey: RKey,
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        remote_address: u64,
        rkey: RKey,
        add: u64,
    },
    /// Write of eight bytes that readers see whole, behind all earlier writes.
    AtomicWrite {
        remote_address: u64,
        rkey: RKey,
    },
    BindWindow(WindowBind),
    /// Invalidation of a window of this side.
    LocalInvalidate {
        rkey: RKey,
    },
}

/// Request to bind a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBind {
    pub mw: MwHandle,
    /// Key from now on: the window's own, with eight bits of the program's choice.
    pub rkey: RKey,
    pub mr: Option<MrHandle>,
    pub iova: u64,
    /// 0 unbinds a window of type 1.
    pub len_bytes: u64,
    pub access: Access,
    pub zero_based: bool,
}

/// Destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramDestination {
    pub ah: AhHandle,
    pub remote_qpn: Qpn,
    pub remote_qkey: QKey,
}

/// A send work request.
#[derive(Clone, Debug)]
pub struct SendRequest {
    pub wr_id: u64,
    pub operation: SendOperation,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    /// Payload copied at post time; `entries` is empty then.
    pub inline: Option<PayloadSlice>,
    pub entries: Vec<ScatterGatherEntry>,
    pub datagram: Option<DatagramDestination>,
    /// Number of the shared receive queue that an extended reliable connection delivers to.
    pub xrc_srq: Option<u32>,
}

/// A receive work request.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    pub wr_id: u64,
    pub entries: Vec<ScatterGatherEntry>,
    /// Shared queue that the request was posted to.
    pub srq: Option<SrqHandle>,
}

/// A work completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub wr_id: u64,
    pub status: WcStatus,
    pub opcode: WcOpcode,
    pub byte_len: u32,
    /// In host order.
    pub immediate: Option<u32>,
    /// Key of this side that the message invalidated.
    pub invalidated: Option<RKey>,
    pub qpn: Qpn,
    pub source_qpn: Qpn,
    pub source_lid: Lid,
    pub service_level: ServiceLevel,
    pub pkey_index: u16,
    /// Whether the first 40 bytes of the receive buffer hold a GRH.
    pub has_grh: bool,
    /// Whether the message asked for a solicited event.
    pub solicited: bool,
    /// Shared receive queue of the completed request.
    pub srq: Option<SrqHandle>,
    /// Send requests of this queue pair retired up to and including this one, with unsignaled
    /// requests (wraps).
    pub send_retired: u32,
}

/// Sizes of a queue pair's queues; the model may round up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCapabilities {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_bytes: u32,
}

/// Attributes of a new queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    pub qp_type: QpType,
    pub pd: PdHandle,
    pub send_cq: CqHandle,
    pub recv_cq: CqHandle,
    /// Source of receive requests. The queue pair has no receive queue of its own then.
    pub srq: Option<SrqHandle>,
    /// Domain of the receiving side of an extended reliable connection, which has neither
    /// protection domain nor completion queues.
    pub xrcd: Option<XrcdHandle>,
    pub capabilities: QpCapabilities,
    /// Whether every send request gives a completion.
    pub signal_all: bool,
    /// Whether messages to a multicast group do not come back to the queue pair that sends them.
    pub block_own_multicast: bool,
}

/// Attributes of a new shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqInit {
    /// Domain of the receive buffers. It counts for each queue pair that takes a request (IBTA
    /// 10.2.9.1).
    pub pd: PdHandle,
    pub max_wr: u32,
    pub max_sge: u32,
    pub xrc: Option<SrqOfXrc>,
}

/// Attributes of a shared receive queue of extended reliable connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqOfXrc {
    pub xrcd: XrcdHandle,
    /// Completion queue of all queue pairs that deliver to the shared queue.
    pub cq: CqHandle,
}

/// Result of `query_srq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqSnapshot {
    pub hca: HcaId,
    pub init: SrqInit,
    pub limit: u32,
}

/// Destination of a connected QP or address handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddressVector {
    pub dlid: Lid,
    pub service_level: ServiceLevel,
    pub source_path_bits: u8,
    pub static_rate: u8,
    pub port: PortNumber,
    /// Destination GID, hop limit, traffic class, flow label and source GID index, if a GRH is
    /// requested.
    pub grh: Option<GlobalRoute>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GlobalRoute {
    pub dgid: Gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// Attributes that `modify_qp` sets: only the given ones change. Times stay the specification's
/// 5-bit and 3-bit codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpModification {
    pub state: Option<QpState>,
    pub current_state: Option<QpState>,
    pub access: Option<Access>,
    pub pkey_index: Option<u16>,
    pub port: Option<PortNumber>,
    pub qkey: Option<QKey>,
    pub address_vector: Option<AddressVector>,
    pub path_mtu: Option<Mtu>,
    pub local_ack_timeout: Option<u8>,
    pub retry_count: Option<u8>,
    pub rnr_retry: Option<u8>,
    pub receive_psn: Option<Psn>,
    pub send_psn: Option<Psn>,
    pub max_rd_atomic: Option<u8>,
    pub max_dest_rd_atomic: Option<u8>,
    pub min_rnr_timer: Option<u8>,
    pub dest_qpn: Option<Qpn>,
    /// On the way to SQD: whether to raise an event when work that was begun is done.
    pub drained_event: Option<bool>,
}

/// Result of `query_qp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSnapshot {
    pub init: QpInit,
    pub qpn: Qpn,
    pub state: QpState,
    pub access: Access,
    pub pkey_index: u16,
    /// Key at `pkey_index`.
    pub pkey: PKey,
    pub port: PortNumber,
    pub qkey: QKey,
    pub address_vector: AddressVector,
    pub path_mtu: Mtu,
    pub local_ack_timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub receive_psn: Psn,
    pub send_psn: Psn,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub dest_qpn: Qpn,
    /// In SQD: whether requests that were begun are not done yet.
    pub send_queue_draining: bool,
}

/// Memory region as registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrInit {
    pub owner: ProcessId,
    pub pd: PdHandle,
    /// Address in the program.
    pub address: u64,
    pub len_bytes: u64,
    /// Address by which work requests name the first byte.
    pub iova: u64,
    pub access: Access,
}

/// Changes by `reregister_mr`: only the given attributes change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrChange {
    pub pd: Option<PdHandle>,
    pub range: Option<MrRange>,
    pub access: Option<Access>,
}

/// Place of a memory region, and the address by which work requests name its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrRange {
    pub address: u64,
    pub len_bytes: u64,
    pub iova: u64,
}

/// State of a port as its owner queries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSnapshot {
    pub hca: HcaId,
    pub active: bool,
    pub lid: Lid,
    pub sm_lid: Lid,
    pub mtu_max: Mtu,
    pub mtu_active: Mtu,
    pub vl_cap: OperationalVls,
    /// Rate that the link trained to; the slowest and narrowest rate without a link.
    pub rate: LinkRate,
    /// Link layer. Only ports of InfiniBand links show their LIDs: on Ethernet, LIDs are the
    /// fabric's own names.
    pub link_layer: LinkLayer,
    /// GID table. On InfiniBand it has one entry. On Ethernet it has the port's link-local and IPv4
    /// addresses.
    pub gids: [Option<Gid>; 2],
}

/// Reason why a verb was refused; the library turns it into an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    #[error("an argument is out of range or names nothing")]
    Invalid,
    #[error("the object does not exist, and the call does not create it")]
    Absent,
    #[error("the object is still in use")]
    Busy,
    #[error("the HCA has no room for another object of this kind")]
    NoMemory,
    #[error("this part does not offer the operation")]
    Unsupported,
    #[error("the object belongs to another process")]
    Forbidden,
    #[error("no port of the network has this address")]
    Unresolved,
}

/// Memory of programs, as the model reaches it. The engine and tests implement it.
pub trait HostMemory {
    /// Fills `into` from `address` of `process`.
    ///
    /// # Errors
    /// If the memory does not exist (any more).
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault>;
    /// Writes `payload` to `address` of `process`. The write may happen later, but before the
    /// process or `read` looks.
    ///
    /// # Errors
    /// If the memory does not exist (any more).
    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault>;
    /// Replaces the word at `address` by `change(word)` and returns the former word. Other updates
    /// of the word happen before or afterwards.
    ///
    /// # Errors
    /// If the memory does not exist (any more).
    fn update(&mut self, process: ProcessId, address: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, MemoryFault> {
        read_and_write(self, process, address, change)
    }
}

/// Implements [`HostMemory::update`] for memory that only the model changes.
///
/// # Errors
/// If the memory does not exist (any more).
pub fn read_and_write<M: HostMemory + ?Sized>(
    memory: &mut M,
    process: ProcessId,
    address: u64,
    change: &dyn Fn(u64) -> u64,
) -> Result<u64, MemoryFault> {
    let mut bytes = [0; 8];
    memory.read(process, address, &mut bytes)?;
    let original = u64::from_ne_bytes(bytes);
    let buffer = Some(Arc::from(change(original).to_ne_bytes().as_slice()));
    memory.write(process, address, &PayloadSlice { buffer, offset: 0, len: 8 })?;
    Ok(original)
}

/// Fault: the program's memory is not mapped, or the program is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such memory in the program")]
pub struct MemoryFault;
