//! What programs must know to move data themselves, in wall pace: a file that the engine writes and programs can only read.
//!
//! An entry is valid while its key (its QP number) is not zero. A thread announces its transfer before it reads entries
//! ([`super::layout::SharedHeader::epoch_slots`]). The engine takes an entry away and then waits for all transfers under way.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Keys and queue pairs that have an entry; those beyond go through the engine.
pub const KEYS: usize = 1 << 16;
pub const QPS: usize = 1 << 16;

/// A registered region.
#[repr(C, align(64))]
pub struct KeyEntry {
    pub key: AtomicU32,
    pub hca: AtomicU32,
    pub pd: AtomicU32,
    /// The host's number of the process.
    pub pid: AtomicU32,
    /// `IBV_ACCESS_` bits.
    pub access: AtomicU32,
    /// Which descriptor of the engine is the file in which the region lies, plus one; 0 where it lies in none.
    pub file: AtomicU32,
    pub iova: AtomicU64,
    pub address: AtomicU64,
    pub len_bytes: AtomicU64,
    /// Never the same twice: keys come again, with other regions behind them.
    pub serial: AtomicU64,
}

/// A connected queue pair, or one for datagrams; or a shared receive queue ([`of_shared_queue`]). The latter has domain, process and
/// receive queue only, and a ring of remote CQEs if it is an extended one's.
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
    /// Entry of the queue pair that it is connected to, plus one; 0 for none.
    pub peer: AtomicU32,
    /// The peer's number, as this side has set it; or the one by which messages name a shared receive queue.
    pub dest_qpn: AtomicU32,
    /// Another one after each change of these fields of connections and queues: a program that has looked before need not look again.
    pub version: AtomicU32,
    /// Which descriptor of the engine is the file with the queues below, plus one.
    pub file: AtomicU32,
    /// The receive queue that peers may take from: where in the file, 0 for none; how many requests, with how many entries each.
    pub receive_entries: AtomicU32,
    pub receive_sges: AtomicU32,
    /// Size of the ring below.
    pub remote_cqe_entries: AtomicU32,
    /// Of a target of extended reliable connections, and of the queues that its messages may name: their domain, 0 for none.
    pub xrcd: AtomicU32,
    pub receive_queue: AtomicU64,
    /// The ring into which peers put what completes.
    pub remote_cqe_ring: AtomicU64,
    /// What completions of receives say of this queue pair: its own P_Key index and service level.
    pub pkey_index: AtomicU16,
    pub service_level: AtomicU16,
    /// Not 0: nobody but the peer of this one puts anything into that ring, and takes no lock for it.
    pub is_sole_producer: AtomicU32,
    /// How many of the requests that went to the engine are done.
    pub done: AtomicU32,
    /// `rnr_retry` of what it sends.
    pub rnr_retry: AtomicU32,
    /// How many reads and atomics it may have under way; with 0 they fail, which is the engine's.
    pub max_reads: AtomicU32,
    /// Entry of the shared receive queue that it takes from, plus one; 0 for none.
    pub srq: AtomicU32,
    /// Where it takes from one: what completes before this is not for the queue pair as it is now.
    pub since_ps: AtomicU64,
    /// Of a queue pair for datagrams: the LID of its port, 0 while that is down; its keys; the longest message in bytes.
    pub lid: AtomicU32,
    pub qkey: AtomicU32,
    pub pkey: AtomicU32,
    pub mtu_bytes: AtomicU32,
    /// The GUID of its port, on Ethernet the second half of its link-local address: with the default subnet prefix in front of it what a
    /// global route names as the source.
    pub port_guid: AtomicU64,
}

/// Two cache lines: one more field needs a third.
const _: () = assert!(size_of::<QpEntry>() == 128);

/// What stands in [`QpEntry::qpn`] for a shared receive queue, given its handle: no queue pair has such a number.
pub const fn of_shared_queue(handle: u32) -> u32 {
    handle | SHARED_QUEUE
}

/// The shared receive queue of an entry with this in [`QpEntry::qpn`], if it is one's.
pub const fn shared_queue_of(qpn: u32) -> Option<u32> {
    if qpn & SHARED_QUEUE != 0 { Some(qpn & !SHARED_QUEUE) } else { None }
}

/// Handles and queue pair numbers leave this bit free.
const SHARED_QUEUE: u32 = 1 << 31;

/// The whole file.
#[repr(C)]
pub struct Tables {
    pub keys: [KeyEntry; KEYS],
    pub qps: [QpEntry; QPS],
    /// Grows whenever regions are taken away.
    pub withdrawn: AtomicU32,
    /// Grows whenever somebody joins or leaves a multicast group.
    pub groups: AtomicU32,
}

/// Where the entry of a key is, if it has one: keys are an index and eight bits of generation.
pub const fn key_index(key: u32) -> Option<usize> {
    let index = (key >> 8) as usize;
    if index < KEYS { Some(index) } else { None }
}
