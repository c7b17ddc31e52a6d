//! Values that cross the verbs boundary: requests in, completions out.

mod host_memory;
mod objects;
mod shorthand;

pub use host_memory::{HostMemory, MemoryFault, read_and_write};
pub use objects::{
    AddressVector, GlobalRoute, MrChange, MrInit, MrRange, PortSnapshot, QpCapabilities, QpInit, QpModification, QpSnapshot, SrqInit, SrqOfXrc,
    SrqSnapshot,
};

use softband_types::{Access, AhHandle, LKey, Lid, MrHandle, MwHandle, QKey, Qpn, RKey, ServiceLevel, SrqHandle, WcOpcode, WcStatus};
use std::sync::Arc;

/// Scatter/gather entry of a work request: a span of a program's memory, within a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterGatherEntry {
    /// First byte, as the region's `iova` counts.
    pub address: u64,
    /// Length in bytes. 0 means an empty span.
    pub len_bytes: u32,
    /// L_Key of the region.
    pub lkey: LKey,
}

/// Bytes under way: a shared buffer, and the part of it that counts. Without a buffer, the model
/// knows only their number.
#[derive(Clone, Debug)]
pub struct PayloadSlice {
    /// Buffer, or `None` if the run counts bytes without moving them.
    pub buffer: Option<Arc<[u8]>>,
    /// First byte that counts, in bytes from the start of the buffer.
    pub offset: u32,
    /// Number of bytes that count.
    pub len: u32,
}

impl PayloadSlice {
    /// Returns the bytes: an empty slice if the model knows only their number.
    ///
    /// # Panics
    /// If the slice exceeds its buffer.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |buffer| &buffer[self.offset as usize..][..self.len as usize])
    }
}

/// Operation of a send request (IBTA 9.4). Remote addresses count as the remote region or window
/// does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOperation {
    /// Send to a receive request of the peer.
    Send {
        /// Immediate data for the peer's completion, in host order.
        immediate: Option<u32>,
    },
    /// Send that also invalidates a memory window of the receiver.
    SendAndInvalidate {
        /// R_Key of the window.
        rkey: RKey,
    },
    /// RDMA write to the peer's memory.
    RdmaWrite {
        /// First byte of the destination.
        remote_address: u64,
        /// R_Key of the remote region or window.
        rkey: RKey,
        /// Immediate data in host order. With it, the write also takes a receive request of the
        /// peer.
        immediate: Option<u32>,
    },
    /// RDMA read from the peer's memory.
    RdmaRead {
        /// First byte of the source.
        remote_address: u64,
        /// R_Key of the remote region or window.
        rkey: RKey,
    },
    /// Atomic compare-and-swap of 8 bytes. The local buffer gets the former value.
    CompareSwap {
        /// Address of the word, a multiple of 8.
        remote_address: u64,
        /// R_Key of the remote region or window.
        rkey: RKey,
        /// Value that the word must have for the exchange, in host order.
        compare: u64,
        /// New value of the word, in host order.
        swap: u64,
    },
    /// Atomic addition to 8 bytes. The local buffer gets the former value.
    FetchAdd {
        /// Address of the word, a multiple of 8.
        remote_address: u64,
        /// R_Key of the remote region or window.
        rkey: RKey,
        /// Summand in host order. The sum wraps round.
        add: u64,
    },
    /// Write of 8 bytes that readers see whole, behind all earlier writes.
    AtomicWrite {
        /// Address of the word, a multiple of 8.
        remote_address: u64,
        /// R_Key of the remote region or window.
        rkey: RKey,
    },
    /// Bind of a memory window of this side.
    BindWindow(WindowBind),
    /// Invalidation of a memory window of this side.
    LocalInvalidate {
        /// R_Key of the window.
        rkey: RKey,
    },
}

/// Request to bind a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBind {
    /// Memory window.
    pub mw: MwHandle,
    /// R_Key from now on: the window's own, with the low eight bits of the program's choice.
    pub rkey: RKey,
    /// Memory region of the window. `None` is valid only to unbind.
    pub mr: Option<MrHandle>,
    /// First byte of the window, as the region's `iova` counts.
    pub iova: u64,
    /// Length in bytes. 0 unbinds a window of type 1.
    pub len_bytes: u64,
    /// Rights that the window grants. The region must permit them.
    pub access: Access,
    /// Whether peers count from the window's first byte. It requires a window of type 2.
    pub zero_based: bool,
}

/// Destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramDestination {
    /// Address handle with the receiver's address.
    pub ah: AhHandle,
    /// QP of the receiver.
    pub remote_qpn: Qpn,
    /// Q_Key of the receiving QP.
    pub remote_qkey: QKey,
}

/// Send work request.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// Number of the program's choice, which the completion repeats.
    pub wr_id: u64,
    /// Operation, with its remote address.
    pub operation: SendOperation,
    /// Whether the request gives a completion if it succeeds. An error always does.
    pub signaled: bool,
    /// Whether the peer's completion raises a solicited event.
    pub solicited: bool,
    /// Whether the request waits for all earlier RDMA reads and atomics of its QP.
    pub fence: bool,
    /// Payload copied at post time. `entries` is empty then.
    pub inline: Option<PayloadSlice>,
    /// Local memory: source of the payload, or destination of a read or atomic.
    pub entries: Vec<ScatterGatherEntry>,
    /// Destination, on an unreliable datagram QP only.
    pub datagram: Option<DatagramDestination>,
    /// Number of the peer's shared receive queue, on an extended reliable connection only.
    pub xrc_srq: Option<u32>,
}

/// Receive work request.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    /// Number of the program's choice, which the completion repeats.
    pub wr_id: u64,
    /// Local memory that takes the message. It must be as long as the message, or longer.
    pub entries: Vec<ScatterGatherEntry>,
    /// Shared receive queue of the request, or `None` if it was posted to a QP.
    pub srq: Option<SrqHandle>,
}

/// Work completion: the end of a work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Number of the work request.
    pub wr_id: u64,
    /// Success or error. After an error, only `wr_id`, `qpn` and this field are valid.
    pub status: WcStatus,
    /// Operation that is complete.
    pub opcode: WcOpcode,
    /// Length of a received message, or of the data of a read or atomic, in bytes.
    pub byte_len: u32,
    /// Immediate data in host order, if the message has it.
    pub immediate: Option<u32>,
    /// R_Key of this side that the message invalidated.
    pub invalidated: Option<RKey>,
    /// QP of the work request.
    pub qpn: Qpn,
    /// QP that sent a datagram.
    pub source_qpn: Qpn,
    /// Port that sent a datagram, or [`Lid::NONE`].
    pub source_lid: Lid,
    /// LID to which a message was sent, or [`Lid::NONE`].
    pub destination_lid: Lid,
    /// Service level of a received datagram.
    pub service_level: ServiceLevel,
    /// Index of a received datagram's P_Key in the port's table.
    pub pkey_index: u16,
    /// Whether the first 40 bytes of the receive buffer hold a GRH.
    pub has_grh: bool,
    /// Whether the message asked for a solicited event.
    pub solicited: bool,
    /// Shared receive queue of the completed request, if it came from such a queue.
    pub srq: Option<SrqHandle>,
    /// Send requests of the QP that have left its queue, up to and including this request. The
    /// count contains unsignaled requests and wraps round.
    pub send_retired: u32,
}

/// Reason why a verb fails. The drop-in library turns it into an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// An argument is out of range or names nothing (`EINVAL`).
    #[error("an argument is out of range or names nothing")]
    Invalid,
    /// The object does not exist, and the caller did not ask to create it (`ENOENT`).
    #[error("the object does not exist, and the call does not create it")]
    Absent,
    /// Another object still uses this object (`EBUSY`).
    #[error("the object is still in use")]
    Busy,
    /// The HCA has as many objects of the kind as its part permits (`ENOMEM`).
    #[error("the HCA has no room for another object of this kind")]
    NoMemory,
    /// The HCA part does not offer the operation (`EOPNOTSUPP`).
    #[error("this part does not offer the operation")]
    Unsupported,
    /// The object belongs to another process (`EPERM`).
    #[error("the object belongs to another process")]
    Forbidden,
    /// No port of the network has the address (`ETIMEDOUT`).
    #[error("no port of the network has this address")]
    Unresolved,
}
