//! A completion queue: its ring, its channel, and the ring into which peers put completions.

use crate::completion::armable::Armable;
use crate::process::image::{Mapped, Shared};
use rustix::fd::AsFd;
use softband_ipc::calls;
use softband_ipc::ring::Cqe;
use softband_shm_transport::queues::{RemoteCqeRingHeader, remote_cqe_ring_bytes};
use softband_types::HcaId;
use std::sync::atomic::Ordering;

/// Most events of one queue that its program may leave unread. Only a lying peer causes more.
const UNREAD_MAX: u32 = 1024;

/// The ring and the events of a completion queue.
pub(crate) struct CqRecord {
    process: usize,
    hca: u32,
    offset: usize,
    capacity: u32,
    channel: u32,
    cookie: u64,
    events: u64,
    /// Rings of former sizes. The program still takes the remaining entries from them.
    former: Vec<(usize, u32)>,
    /// In wall pace: offset of the ring into which peers put completions, or 0 for none, and its
    /// size.
    remote_cqe_ring: u64,
    remote_cqe_entries: u32,
    /// Arming state of a queue with such a ring and a channel.
    armable: Option<Armable>,
    /// Events that the program has not read yet.
    unread: u32,
}

impl CqRecord {
    /// Creates the rings of a queue of `process` in its shared memory. Returns `None` if that has
    /// no room. Peers reach a ring of their own if `takes_remote_cqes`.
    pub(crate) fn new(process: usize, shared: &mut Shared, cq: &calls::CreateCq, takes_remote_cqes: bool) -> Option<Self> {
        let capacity = cq.entries.max(1);
        let offset = shared.allocate_ring(capacity)?;
        let remote = takes_remote_cqes.then(|| make_remote_cqe_ring(shared, capacity, cq.channel != 0)).flatten();
        let (remote_cqe_ring, remote_cqe_entries, armable) = remote.unwrap_or((0, 0, None));
        Some(Self {
            process,
            hca: cq.hca,
            offset,
            capacity,
            channel: cq.channel,
            cookie: cq.cookie,
            events: 0,
            former: Vec::new(),
            remote_cqe_ring,
            remote_cqe_entries,
            armable,
            unread: 0,
        })
    }

    /// Returns the process that owns the queue.
    pub(crate) fn process(&self) -> usize {
        self.process
    }
    pub(crate) fn hca(&self) -> HcaId {
        HcaId(self.hca)
    }
    /// Returns the offset of the ring in the shared file, in bytes.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
    /// Returns the completion channel of the queue's events, or 0.
    pub(crate) fn channel(&self) -> u32 {
        self.channel
    }
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Returns whether peers put completions into a ring of the queue.
    pub(crate) fn takes_remote_cqes(&self) -> bool {
        self.remote_cqe_ring != 0
    }
    /// Returns the offset of the ring into which peers put completions, or 0.
    pub(crate) fn remote_cqe_ring(&self) -> u64 {
        self.remote_cqe_ring
    }
    /// Returns the number of entries of that ring.
    pub(crate) fn remote_cqe_entries(&self) -> u32 {
        self.remote_cqe_entries
    }
    /// Returns whether the queue holds a completion that the program has not taken.
    pub(crate) fn holds_any(&self, shared: &Shared) -> bool {
        // The engine keeps no mapping of the ring of a queue without events.
        let remote = || self.takes_remote_cqes().then(|| Armable::new(shared, self.remote_cqe_ring, self.remote_cqe_entries)).flatten();
        shared.waiting(self.offset, self.capacity) > 0 || remote().is_some_and(|remote| remote.holds_any())
    }

    pub(crate) fn armable(&self) -> Option<&Armable> {
        self.armable.as_ref()
    }
    /// Returns the number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }
    /// Returns whether the program may get another event before it reads the former ones.
    pub(crate) fn has_room_for_events(&self) -> bool {
        self.unread < UNREAD_MAX
    }

    /// Counts an event. Returns its channel and its cookie.
    pub(super) fn count_event(&mut self) -> (u32, u64) {
        self.events += 1;
        self.unread = self.unread.saturating_add(1);
        (self.channel, self.cookie)
    }

    pub(super) fn note_read(&mut self) {
        self.unread = self.unread.saturating_sub(1);
    }

    /// Puts a completion into the ring. Returns false if the ring is full.
    pub(crate) fn produce(&self, shared: &Shared, cqe: Cqe) -> bool {
        shared.produce(self.offset, self.capacity, cqe)
    }

    /// Gives the queue a ring of `entries`. The engine moves no entries, because the program may be
    /// taking from the present ring at this time. Fails with an errno.
    pub(crate) fn resize(&mut self, shared: &mut Shared, entries: u32) -> Result<(), i32> {
        if self.rings().map(|(offset, capacity)| u64::from(shared.waiting(offset, capacity))).sum::<u64>() > u64::from(entries) {
            return Err(libc::EINVAL); // The new size must hold the waiting completions (IBTA 11.2.6.3).
        }
        let offset = shared.allocate_ring(entries).ok_or(libc::ENOMEM)?;
        self.former.push((self.offset, self.capacity));
        (self.offset, self.capacity) = (offset, entries);
        Ok(())
    }

    fn rings(&self) -> impl Iterator<Item = (usize, u32)> {
        self.former.iter().copied().chain([(self.offset, self.capacity)])
    }

    /// Frees the rings of a destroyed queue.
    pub(crate) fn free(&self, shared: &mut Shared) {
        self.rings().for_each(|(offset, capacity)| shared.free_ring(offset, capacity));
        if self.takes_remote_cqes() {
            shared.free_queue(self.remote_cqe_ring, remote_cqe_ring_bytes(self.remote_cqe_entries));
        }
    }

    /// Releases the lock of an ended process. The entry that it had not finished is not visible
    /// yet.
    pub(super) fn release_lock_of(&self, shared: &Shared, pid: u32) {
        let Some(file) = shared.memory_file().filter(|_| self.takes_remote_cqes()) else { return };
        let Some(ring) = Mapped::new(file.as_fd(), self.remote_cqe_ring, size_of::<RemoteCqeRingHeader>()) else { return };
        // SAFETY: the mapping begins with the header, which consists of atomics.
        let header = unsafe { &*ring.base().cast::<RemoteCqeRingHeader>() };
        let _ = header.lock.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Allocates the ring of remote CQEs for a queue of `capacity`. Returns its offset, its number of
/// entries and its arming state.
fn make_remote_cqe_ring(shared: &mut Shared, capacity: u32, has_channel: bool) -> Option<(u64, u32, Option<Armable>)> {
    let entries = capacity.next_power_of_two();
    let remote_cqe_ring = shared.allocate_queue(remote_cqe_ring_bytes(entries))?;
    let armable = if has_channel { Armable::new(shared, remote_cqe_ring, entries) } else { None };
    if has_channel && armable.is_none() {
        shared.free_queue(remote_cqe_ring, remote_cqe_ring_bytes(entries));
        return None;
    }
    Some((remote_cqe_ring, entries, armable))
}
