//! What crosses the verbs boundary by value: requests in, completions out.

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

/// Bytes on their way: a shared buffer and the part of it that is meant. Without a buffer only their number is known.
#[derive(Clone, Debug)]
pub struct PayloadSlice {
    pub buffer: Option<Arc<[u8]>>,
    pub offset: u32,
    pub len: u32,
}

impl PayloadSlice {
    /// None where only their number is known.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |buffer| &buffer[self.offset as usize..][..self.len as usize])
    }
}

/// What a send request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOperation {
    Send {
        immediate: Option<u32>,
    },
    /// A send that also takes back the receiver's window of this key.
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
    /// Eight bytes that are seen whole, behind all that was written before.
    AtomicWrite {
        remote_address: u64,
        rkey: RKey,
    },
    BindWindow(WindowBind),
    /// Takes back a window of this side.
    LocalInvalidate {
        rkey: RKey,
    },
}

/// What binds a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBind {
    pub mw: MwHandle,
    /// The key from now on: the window's own, with eight bits of the program's choice.
    pub rkey: RKey,
    pub mr: Option<MrHandle>,
    pub iova: u64,
    /// 0 takes the key of a window of type 1 back.
    pub len_bytes: u64,
    pub access: Access,
    pub zero_based: bool,
}

/// Where a datagram goes.
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
    /// The shared queue that it was posted to.
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
    /// The key of ours that the message took back.
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
    /// The shared receive queue whose request this completes.
    pub srq: Option<SrqHandle>,
    /// Send requests of this queue pair retired up to and including this one, unsignalled ones too (wraps).
    pub send_retired: u32,
}

/// How large the queues of a queue pair are; the model may round up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCapabilities {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_bytes: u32,
}

/// A queue pair at birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    pub qp_type: QpType,
    pub pd: PdHandle,
    pub send_cq: CqHandle,
    pub recv_cq: CqHandle,
    /// Receive requests come from here; the queue pair has no receive queue of its own then.
    pub srq: Option<SrqHandle>,
    /// Of the receiving side of an extended reliable connection, which has neither protection domain nor completion queues.
    pub xrcd: Option<XrcdHandle>,
    pub capabilities: QpCapabilities,
    /// Every send request completes with a completion.
    pub signal_all: bool,
    /// What it sends to a multicast group does not come back to itself.
    pub block_own_multicast: bool,
}

/// A shared receive queue at birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqInit {
    /// Receive buffers are checked against it, whatever queue pair takes the request (IBTA 10.2.9.1).
    pub pd: PdHandle,
    pub max_wr: u32,
    pub max_sge: u32,
    pub xrc: Option<SrqOfXrc>,
}

/// What makes a shared receive queue one of extended reliable connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqOfXrc {
    pub xrcd: XrcdHandle,
    /// Takes the completions of all queue pairs that deliver to the queue.
    pub cq: CqHandle,
}

/// What `query_srq` tells.
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
    /// Destination GID, hop limit, traffic class, flow label, source GID index where a GRH is asked for.
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

/// What `modify_qp` sets: only what is given changes. Times stay the specification's 5-bit and 3-bit codes.
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
    /// On the way to SQD: raise an event when what was begun is done.
    pub drained_event: Option<bool>,
}

/// What `query_qp` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSnapshot {
    pub init: QpInit,
    pub qpn: Qpn,
    pub state: QpState,
    pub access: Access,
    pub pkey_index: u16,
    /// The key of that index.
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
    /// In SQD: requests that were begun are not done yet.
    pub send_queue_draining: bool,
}

/// A memory region as registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrInit {
    pub owner: ProcessId,
    pub pd: PdHandle,
    /// Where it lies in the program.
    pub address: u64,
    pub len_bytes: u64,
    /// The address by which work requests name its first byte.
    pub iova: u64,
    pub access: Access,
}

/// What `reregister_mr` changes: only what is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrChange {
    pub pd: Option<PdHandle>,
    pub range: Option<MrRange>,
    pub access: Option<Access>,
}

/// Where a memory region lies, and the address by which work requests name its first byte.
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
    /// What the link trained to; the slowest and narrowest while there is none.
    pub rate: LinkRate,
    /// Only ports of InfiniBand links show their LIDs: on Ethernet they are the fabric's own names.
    pub link_layer: LinkLayer,
    /// Its GID table. InfiniBand's has one entry, that of an Ethernet port its link-local and its IPv4 address.
    pub gids: [Option<Gid>; 2],
}

/// Why a verb was refused; the library turns it into an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    #[error("an argument is out of range or names nothing")]
    Invalid,
    #[error("there is no such object, and none was to be made")]
    Absent,
    #[error("the object is still in use")]
    Busy,
    #[error("the HCA has no room for another object of this kind")]
    NoMemory,
    #[error("this part does not offer the operation")]
    Unsupported,
    #[error("the object belongs to another process")]
    Forbidden,
    #[error("nobody on the network has this address")]
    Unresolved,
}

/// The memory of programs, as the model reaches it. Implemented by the engine and by tests.
pub trait HostMemory {
    /// Fills `into` from `address` of `process`.
    ///
    /// # Errors
    /// When the memory is not there (any more).
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault>;
    /// Writes `payload` to `address` of `process`. It may be carried out later, but before the process or `read` looks.
    ///
    /// # Errors
    /// When the memory is not there (any more).
    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault>;
    /// Puts `change(word)` in the place of the word at `address`, and answers what it was. Other changes by this call take place before or
    /// afterwards.
    ///
    /// # Errors
    /// When the memory is not there (any more).
    fn update(&mut self, process: ProcessId, address: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, MemoryFault> {
        read_and_write(self, process, address, change)
    }
}

/// [`HostMemory::update`] where only the model changes memory.
///
/// # Errors
/// When the memory is not there (any more).
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

/// The program's memory is not mapped, or the program is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such memory in the program")]
pub struct MemoryFault;
