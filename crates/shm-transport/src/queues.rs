//! Queues that peers reach themselves, in wall pace. They lie in a process's memory file, beyond
//! all possible addresses ([`softband_ipc::layout::QUEUES_OFFSET`]).
//!
//! The owner of a receive queue puts requests in. The one connected queue pair takes them out, or
//! the engine does. The engine then sets [`ReceiveQueueHeader::mode`] and waits until nobody else
//! uses the queue. Several consumers (of a shared receive queue) take requests one at a time. A
//! ring of remote CQEs belongs to a CQ. Peers put in the completions of their sends, one peer at a
//! time, and the owner takes them out.

use crate::arming::Arming;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
pub use softband_ipc::layout::LineOf;
use softband_ipc::post::PostSge;

/// Values of the lowest two bits of [`ReceiveQueueHeader::mode`].
pub mod mode {
    /// Programs post requests here, and the peer takes them.
    pub const SHARED: u32 = 0;
    /// Requests go to the engine.
    pub const ENGINE: u32 = 1;
    /// The engine is about to give the queue back. Until then nobody posts or takes.
    pub const MOVING: u32 = 2;

    pub(super) const MASK: u32 = 3;

    /// Returns the mode without its epoch.
    pub const fn of(word: u32) -> u32 {
        word & MASK
    }

    /// Returns the epoch for comparison with others.
    pub const fn epoch_of(word: u32) -> u32 {
        word & !MASK
    }
}

/// Head of a receive queue. Both counters only grow and wrap at 2^32; the place is counter %
/// capacity. Each side has its own cache line. A side reads the other's counter only when its
/// cached value is used up.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct ReceiveQueueHeader {
    /// Written by the engine only: [`mode`] and, above it, the number of the epoch.
    pub mode: AtomicU32,
    /// For queues of several consumers. A thread that leaves fewer requests than this sets it to 0
    /// and notifies the engine. Only the engine sets another value.
    pub limit: AtomicU32,
    /// Time of the last creation, reset or return from the engine. Older completions do not belong
    /// to this queue pair.
    pub since_ps: AtomicU64,
    pub produced: LineOf<AtomicU32>,
    pub consumed: LineOf<AtomicU32>,
    /// For queues of several consumers: the holder of the consumer lock ([`consumer`]), or 0.
    pub consumer: LineOf<AtomicU64>,
}

/// Returns the value of [`ReceiveQueueHeader::consumer`] for a process (by its host process id)
/// that takes a request under `mode`. In another epoch the value is void. Nobody therefore waits
/// for a process that stopped during a take.
pub const fn consumer(mode: u32, pid: u32) -> u64 {
    (mode as u64) << 32 | pid as u64
}

/// Returns the mode and the process id of [`consumer`].
pub const fn split_consumer(consumer: u64) -> (u32, u32) {
    ((consumer >> 32) as u32, consumer as u32)
}

impl ReceiveQueueHeader {
    /// Returns one of [`mode`].
    pub fn mode(&self) -> u32 {
        mode::of(self.mode.load(Ordering::SeqCst))
    }

    /// Sets another mode in the same epoch. Only the engine calls this.
    pub fn set_mode(&self, mode: u32) {
        self.mode.store(self.mode.load(Ordering::SeqCst) & !mode::MASK | mode, Ordering::SeqCst);
    }

    /// Shares the queue again and begins a new epoch, which invalidates all cached counters. Only
    /// the engine calls this. The number must be new to all queues, because another queue may lie
    /// here later.
    pub fn begin_epoch(&self, epoch: u32) {
        self.mode.store(epoch.wrapping_mul(mode::MASK + 1) | mode::SHARED, Ordering::SeqCst);
    }
}

/// Head of an entry; its list follows.
#[cfg(not(loom))]
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ReceiveEntry {
    pub wr_id: u64,
    pub count: u32,
    pub reserved: u32,
}

/// The same for models: a value that a reader may find changed at any time.
#[cfg(loom)]
#[derive(Debug, Default)]
pub struct ReceiveEntry {
    pub wr_id: AtomicU64,
}

#[cfg(not(loom))]
impl ReceiveEntry {
    /// Reads `wr_id` and the length of the list. Others may write at the same time.
    ///
    /// # Safety
    /// `at` is an entry of a mapped queue.
    #[inline(always)]
    pub(crate) unsafe fn read(at: *const Self) -> (u64, u32) {
        // SAFETY: `at` is an entry of a mapped queue. Bad data of a peer is only numbers.
        let head = unsafe { at.read_volatile() };
        (head.wr_id, head.count)
    }

    /// Writes the head.
    ///
    /// # Safety
    /// `at` is an entry of a mapped queue that nobody else writes.
    #[inline(always)]
    pub(crate) unsafe fn write(at: *mut Self, wr_id: u64, count: u32) {
        // SAFETY: `at` is an entry of a mapped queue, and nobody else writes it.
        unsafe { at.write(Self { wr_id, count, reserved: 0 }) };
    }
}

#[cfg(loom)]
impl ReceiveEntry {
    pub(crate) unsafe fn read(at: *const Self) -> (u64, u32) {
        // SAFETY: `at` is an entry of the model's queue, which lives as long as the model.
        (unsafe { &*at }.wr_id.load(Ordering::Relaxed), 0)
    }

    pub(crate) unsafe fn write(at: *mut Self, wr_id: u64, _count: u32) {
        // SAFETY: `at` is an entry of the model's queue; the number in it is an atomic.
        unsafe { &*at }.wr_id.store(wr_id, Ordering::Relaxed);
    }
}

/// Returns the bytes from one entry to the next.
pub const fn entry_bytes(sges: u32) -> usize {
    (size_of::<ReceiveEntry>() + sges as usize * size_of::<PostSge>()).next_multiple_of(32)
}

/// Returns the bytes of a receive queue.
pub const fn receive_queue_bytes(entries: u32, sges: u32) -> usize {
    size_of::<ReceiveQueueHeader>() + entries as usize * entry_bytes(sges)
}

/// Head of a ring of remote CQEs; the entries follow. The owner does not read the peers' counters:
/// each entry shows whether it is present.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct RemoteCqeRingHeader {
    /// Host process id of the process that puts a CQE in, or 0. A sole producer
    /// ([`super::tables::QpEntry::is_sole_producer`]) does not use it.
    pub lock: AtomicU32,
    pub produced: AtomicU32,
    /// Value of `consumed` when a producer last had to read it.
    pub consumed_seen: AtomicU32,
    pub consumed: LineOf<AtomicU32>,
    /// Requests of the owner to peers that put a CQE in: [`wants`].
    pub wants: LineOf<AtomicU32>,
    /// For a CQ that raises events: the kind of event for which it is armed.
    pub arming: LineOf<Arming>,
}

/// Bits of [`RemoteCqeRingHeader::wants`].
pub mod wants {
    /// The owner reads times of completions: read the clock.
    pub const STAMPS: u32 = 1;
    /// The CQ has a channel: check [`super::RemoteCqeRingHeader::arming`] afterwards.
    pub const EVENTS: u32 = 2;
}

/// Completion of one message. It fits a cache line, so the owner sees all of it at once.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct RemoteCqe {
    pub wr_id: u64,
    /// Beginning of the epoch of its queue pair, a moment before all later completions of the
    /// engine for that queue pair.
    pub since_ps: u64,
    /// Time at which it was put in, if the owner wants to know; otherwise 0.
    pub stamp_ps: u64,
    pub byte_len: u32,
    pub immediate: u32,
    pub parties: Parties,
    /// [`softband_ipc::ring::flags`].
    pub flags: u32,
    /// As in `enum ibv_wc_opcode`.
    pub opcode: u32,
    /// Its counter plus one, written last.
    pub sequence: AtomicU32,
    /// Stands for all fields but the last.
    #[cfg(loom)]
    pub track: crate::sync::Track,
}

/// Receiver and sender of a completion: the same for all messages of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    pub qpn: u32,
    pub source_qpn: u32,
    /// Shared receive queue of the completed request, or 0.
    pub srq: u32,
    pub source_lid: u16,
    pub pkey_index: u16,
    pub service_level: u8,
    pub path_bits: u8,
    pub reserved: u16,
}

const _: () = assert!(size_of::<RemoteCqe>() == 64 || cfg!(loom));

/// Returns the bytes of a ring of remote CQEs.
pub const fn remote_cqe_ring_bytes(entries: u32) -> usize {
    size_of::<RemoteCqeRingHeader>() + entries as usize * size_of::<RemoteCqe>()
}
