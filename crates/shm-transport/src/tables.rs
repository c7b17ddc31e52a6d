//! Data that programs need to move data themselves, in wall pace: a file that the engine writes and
//! programs can only read.
//!
//! An entry is valid while its key (its QP number) is not zero. A thread announces its transfer
//! before it reads entries ([`softband_ipc::layout::SharedHeader::epoch_slots`]). The engine removes an
//! entry and then waits for all transfers under way.

use crate::sync::{AtomicU16, AtomicU32, AtomicU64};

/// Number of keys and queue pairs with an entry. Others go through the engine.
pub const KEYS: usize = if cfg!(loom) { 2 } else { 1 << 16 };
pub const QPS: usize = if cfg!(loom) { 2 } else { 1 << 16 };

/// Value of [`QpEntry::peer`] if the queue pair has no peer for direct work because packets may meet
/// a fault. No entry has this index.
pub const PEER_BEHIND_FAULTS: u32 = u32::MAX;

/// A registered region.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct KeyEntry {
    pub key: AtomicU32,
    pub hca: AtomicU32,
    pub pd: AtomicU32,
    /// Host process id.
    pub pid: AtomicU32,
    /// `IBV_ACCESS_` bits.
    pub access: AtomicU32,
    /// Number of the memory file that contains the region ([`softband_ipc::attach::FileRequest::number`]);
    /// 0 for no file.
    pub file: AtomicU32,
    pub iova: AtomicU64,
    pub address: AtomicU64,
    pub len_bytes: AtomicU64,
    /// Unique number of the region. The engine reuses keys for other regions.
    pub serial: AtomicU64,
}

/// A connected or UD queue pair, or a shared receive queue ([`of_shared_queue`]). A shared receive
/// queue has only domain, process and receive queue, and with XRC a ring of remote CQEs.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct QpEntry {
    pub qpn: AtomicU32,
    pub hca: AtomicU32,
    pub pd: AtomicU32,
    pub pid: AtomicU32,
    /// `IBV_ACCESS_` bits for the peer.
    pub access: AtomicU32,
    /// `enum ibv_qp_state`.
    pub state: AtomicU32,
    /// Index of its connected queue pair, plus one; 0 for none, or [`PEER_BEHIND_FAULTS`].
    pub peer: AtomicU32,
    /// The peer's QPN, as this side has set it. For a shared receive queue: its number in messages.
    pub dest_qpn: AtomicU32,
    /// Changes with these fields of connections and queues. A program need not read an unchanged
    /// entry again.
    pub version: AtomicU32,
    /// Number of the memory file with the queues below ([`softband_ipc::attach::FileRequest::number`]).
    pub file: AtomicU32,
    /// Receive queue that peers may take from: number of requests, and entries per request.
    /// `receive_queue` is its offset in the file, 0 for none.
    pub receive_entries: AtomicU32,
    pub receive_sges: AtomicU32,
    /// Size of the ring below.
    pub remote_cqe_entries: AtomicU32,
    /// XRC domain of an XRC target, or of a shared receive queue that its messages may name; 0 for
    /// none.
    pub xrcd: AtomicU32,
    pub receive_queue: AtomicU64,
    /// Offset of the ring into which peers put completions.
    pub remote_cqe_ring: AtomicU64,
    /// P_Key index and service level of this queue pair for completions of receives. For a UD queue
    /// pair, the second is nonzero if completions state the type of a packet over Ethernet.
    pub pkey_index: AtomicU16,
    pub service_level: AtomicU16,
    /// Nonzero if only the peer of this queue pair puts CQEs into that ring. The peer then takes no
    /// lock.
    pub is_sole_producer: AtomicU32,
    /// Number of completed requests of those that went to the engine.
    pub done: AtomicU32,
    /// `rnr_retry` of its sends.
    pub rnr_retry: AtomicU16,
    /// Most reads and atomics under way. With 0 they fail, which the engine handles.
    pub max_reads: AtomicU16,
    /// The way of its packets, for counters: a [`crate::traffic::Way`]. For datagrams without
    /// destination.
    pub way: AtomicU32,
    /// Index of the shared receive queue that it takes from, plus one; 0 for none.
    pub srq: AtomicU32,
    /// With a shared receive queue: time before which completions do not belong to this queue pair.
    pub since_ps: AtomicU64,
    /// For a UD queue pair: LID of its port, 0 while the port is down; its keys; longest message in
    /// bytes.
    pub lid: AtomicU32,
    pub qkey: AtomicU32,
    pub pkey: AtomicU32,
    pub mtu_bytes: AtomicU32,
    /// GUID of its port; on Ethernet the second half of the link-local address. With the default
    /// subnet prefix it forms the source in a global route.
    pub port_guid: AtomicU64,
}

/// Two cache lines: one more field needs a third.
const _: () = assert!(size_of::<QpEntry>() == 128 || cfg!(loom));

/// Returns the value of [`QpEntry::qpn`] for a shared receive queue with this handle. No queue pair
/// has this number.
pub const fn of_shared_queue(handle: u32) -> u32 {
    handle | SHARED_QUEUE
}

/// Returns the handle of a shared receive queue from [`QpEntry::qpn`]. Returns `None` for a queue
/// pair.
pub const fn shared_queue_of(qpn: u32) -> Option<u32> {
    if qpn & SHARED_QUEUE != 0 { Some(qpn & !SHARED_QUEUE) } else { None }
}

/// Handles and queue pair numbers leave this bit free.
const SHARED_QUEUE: u32 = 1 << 31;

/// The whole file.
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Tables {
    pub keys: [KeyEntry; KEYS],
    pub qps: [QpEntry; QPS],
    /// Counter that grows when the engine removes regions.
    pub withdrawn: AtomicU32,
    /// Counter that grows when a member joins or leaves a multicast group.
    pub groups: AtomicU32,
}

/// Returns the index of a key's entry, if it has one. A key is an index and eight bits of
/// generation.
pub const fn key_index(key: u32) -> Option<usize> {
    let index = (key >> 8) as usize;
    if index < KEYS { Some(index) } else { None }
}
