//! Queues that peers reach themselves, in wall pace. They lie in a process's file of memory, beyond what addresses there can be
//! ([`super::layout::QUEUES_OFFSET`]).
//!
//! A receive queue is filled by its owner and emptied by the one queue pair that is connected to it, or by the engine, which then
//! says so in [`ReceiveQueueHeader::mode`] and waits until nobody is at it any more. A ring of deliveries belongs to a completion
//! queue: peers put in what their sends complete there, one at a time, and the owner takes it out.

use super::post::PostSge;
use super::ring::Cqe;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Values of [`ReceiveQueueHeader::mode`].
pub mod mode {
    /// Requests are posted here, and the peer takes them.
    pub const SHARED: u32 = 0;
    /// Requests go to the engine.
    pub const ENGINE: u32 = 1;
    /// The engine is about to give the queue back: nobody posts or takes for the moment.
    pub const MOVING: u32 = 2;
}

/// Head of a receive queue. Both counters only grow and wrap at 2^32; the place is counter % capacity.
#[repr(C, align(64))]
pub struct ReceiveQueueHeader {
    /// Written by the engine alone.
    pub mode: AtomicU32,
    pub produced: AtomicU32,
    /// Completions that are older than this are not for this queue pair: it was made or reset then.
    pub since_ps: AtomicU64,
    pub consumed: LineOf<AtomicU32>,
}

/// Something with a cache line of its own.
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

/// Head of a ring of deliveries; the entries follow.
#[repr(C, align(64))]
pub struct DeliveriesHeader {
    /// Number on the host of the process that is putting something in, or 0.
    pub lock: AtomicU32,
    pub produced: AtomicU32,
    pub consumed: LineOf<AtomicU32>,
}

/// Bytes of a ring of deliveries.
pub const fn deliveries_bytes(entries: u32) -> usize {
    size_of::<DeliveriesHeader>() + entries as usize * size_of::<Cqe>()
}
