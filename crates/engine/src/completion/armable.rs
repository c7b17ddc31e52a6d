//! The arming state of a completion queue into which peers put completions, in wall pace.

use crate::process::image::{Mapped, Shared};
use rustix::fd::AsFd;
use softband_shm_transport::arming::Arming;
use softband_shm_transport::queues::{RemoteCqe, RemoteCqeRingHeader, remote_cqe_ring_bytes};
use std::sync::atomic::Ordering;

/// Shared part of a CQ that raises events. The mapping lasts as long as the queue.
pub(crate) struct Armable {
    ring: Mapped,
    entries: u32,
}

impl Armable {
    /// Maps the ring of `entries` (a power of two) at `remote_cqe_ring`.
    pub(crate) fn new(shared: &Shared, remote_cqe_ring: u64, entries: u32) -> Option<Self> {
        let ring = Mapped::new(shared.memory_file()?.as_fd(), remote_cqe_ring, remote_cqe_ring_bytes(entries))?;
        Some(Self { ring, entries })
    }

    fn header(&self) -> &RemoteCqeRingHeader {
        // SAFETY: the mapping begins with the header, which consists of atomics.
        unsafe { &*self.ring.base().cast::<RemoteCqeRingHeader>() }
    }

    pub(crate) fn arming(&self) -> &Arming {
        &self.header().arming.0
    }

    /// Returns whether the ring holds a completion that the program has not taken.
    pub(crate) fn holds_any(&self) -> bool {
        let counter = self.header().consumed.0.load(Ordering::Relaxed);
        let at = size_of::<RemoteCqeRingHeader>() + (counter % self.entries) as usize * size_of::<RemoteCqe>();
        // SAFETY: the entry lies within the mapping. While others may write, the engine reads only
        // this atomic field of it.
        let sequence = unsafe { &(*self.ring.base().add(at).cast::<RemoteCqe>()).sequence };
        sequence.load(Ordering::Acquire) == counter.wrapping_add(1)
    }
}
