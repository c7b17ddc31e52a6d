//! Queues that peers reach themselves, in wall pace. They lie in a process's file of memory, beyond what addresses there can be
//! ([`super::layout::QUEUES_OFFSET`]).
//!
//! A receive queue is filled by its owner and emptied by the one queue pair that is connected to it, or by the engine, which then
//! says so in [`ReceiveQueueHeader::mode`] and waits until nobody is at it any more. A ring of deliveries belongs to a completion
//! queue: peers put in what their sends complete there, one at a time, and the owner takes it out.

use super::post::PostSge;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What [`ReceiveQueueHeader::mode`] says in its lowest two bits.
pub mod mode {
    /// Requests are posted here, and the peer takes them.
    pub const SHARED: u32 = 0;
    /// Requests go to the engine.
    pub const ENGINE: u32 = 1;
    /// The engine is about to give the queue back: nobody posts or takes for the moment.
    pub const MOVING: u32 = 2;

    pub(super) const MASK: u32 = 3;
}

/// Head of a receive queue. Both counters only grow and wrap at 2^32; the place is counter % capacity. Each side has a cache line of
/// its own, and looks at the other's only when what it remembers of it is used up.
#[repr(C, align(64))]
pub struct ReceiveQueueHeader {
    /// Written by the engine alone: [`mode`] and, above it, a number of the era.
    pub mode: AtomicU32,
    /// Completions that are older than this are not for this queue pair: it was made or reset then.
    pub since_ps: AtomicU64,
    pub produced: LineOf<AtomicU32>,
    pub consumed: LineOf<AtomicU32>,
}

impl ReceiveQueueHeader {
    /// One of [`mode`].
    pub fn mode(&self) -> u32 {
        self.mode.load(Ordering::SeqCst) & mode::MASK
    }

    /// Another mode in the same era. The engine alone does this.
    pub fn set_mode(&self, mode: u32) {
        self.mode.store(self.mode.load(Ordering::SeqCst) & !mode::MASK | mode, Ordering::SeqCst);
    }

    /// Shares the queue again: what anybody remembers of the counters is void. The engine alone does this.
    pub fn begin_era(&self) {
        self.mode.store((self.mode.load(Ordering::SeqCst) & !mode::MASK).wrapping_add(mode::MASK + 1) | mode::SHARED, Ordering::SeqCst);
    }
}

/// Something with a cache line of its own.
#[derive(Default)]
#[repr(C, align(64))]
pub struct LineOf<T>(pub T);

/// Head of an entry; its list follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ReceiveEntry {
    pub wr_id: u64,
    pub count: u32,
    pub reserved: u32,
}

/// Bytes from one entry to the next.
pub const fn entry_bytes(sges: u32) -> usize {
    (size_of::<ReceiveEntry>() + sges as usize * size_of::<PostSge>()).next_multiple_of(32)
}

/// Bytes of a receive queue.
pub const fn receive_queue_bytes(entries: u32, sges: u32) -> usize {
    size_of::<ReceiveQueueHeader>() + entries as usize * entry_bytes(sges)
}

/// Head of a ring of deliveries; the entries follow. The owner does not look at what peers write here: each entry says itself
/// whether it is there.
#[repr(C, align(64))]
pub struct DeliveriesHeader {
    /// Number on the host of the process that is putting something in, or 0.
    pub lock: AtomicU32,
    pub produced: AtomicU32,
    /// What `consumed` was when somebody last had to look.
    pub consumed_seen: AtomicU32,
    pub consumed: LineOf<AtomicU32>,
    /// Not 0: the owner reads times of completions, so whoever puts one in reads the clock.
    pub stamps: LineOf<AtomicU32>,
}

/// What one message completes: a cache line, so that the owner sees all of it at once.
#[repr(C, align(64))]
pub struct Delivery {
    pub wr_id: u64,
    /// The era of the queue pair that it is for began then: a moment before all that the engine completes for it later.
    pub since_ps: u64,
    /// When it was put in, where the owner wants to know; 0 elsewhere.
    pub stamp_ps: u64,
    pub byte_len: u32,
    pub immediate: u32,
    pub qpn: u32,
    pub source_qpn: u32,
    /// [`super::ring::flags`].
    pub flags: u32,
    /// As `enum ibv_wc_opcode`.
    pub opcode: u8,
    pub service_level: u8,
    pub pkey_index: u16,
    pub source_lid: u16,
    pub path_bits: u8,
    pub reserved: u8,
    /// Shared receive queue whose request this completes, or 0.
    pub srq: u32,
    /// Its counter plus one, written last.
    pub sequence: AtomicU32,
}

const _: () = assert!(size_of::<Delivery>() == 64);

/// Bytes of a ring of deliveries.
pub const fn deliveries_bytes(entries: u32) -> usize {
    size_of::<DeliveriesHeader>() + entries as usize * size_of::<Delivery>()
}
