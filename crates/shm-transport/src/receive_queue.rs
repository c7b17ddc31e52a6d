//! The two ends of a receive queue that peers consume ([`crate::queues`]): the posting side
//! and the sending side.

use crate::platform::Platform;
use crate::prefetch::{will_read, will_write};
use crate::queue_memory::QueueMemory;
use crate::queues::{ReceiveEntry, ReceiveQueueHeader, mode, receive_queue_bytes};
use crate::sync::{AtomicU32, Ordering};
use crate::tables::QpEntry;
use crate::tables_guard::TablesGuard;
use softband_ipc::post::PostSge;
use std::marker::PhantomData;

/// Prefetch distance, in entries.
const AHEAD: u32 = 6;

/// A queue, mapped here.
pub struct ReceiveQueue<P: Platform> {
    memory: QueueMemory,
    place: Place,
    /// The sender's last read of `produced` and of mode and epoch. The sender reads again after it
    /// has used them up.
    seen_produced: AtomicU32,
    seen_mode: AtomicU32,
    process: PhantomData<P>,
}
// SAFETY: each thread that touches the queue holds a `TablesGuard` and the lock of its side; the
// counters are atomics.
unsafe impl<P: Platform> Send for ReceiveQueue<P> {}
// SAFETY: threads reach an entry only with the lock of their side; all fields that both sides touch
// are atomics.
unsafe impl<P: Platform> Sync for ReceiveQueue<P> {}

/// Location and size of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    file: u32,
    offset: u64,
    entries: u32,
    sges: u32,
}

impl Place {
    fn of(entry: &QpEntry) -> Option<Self> {
        let offset = entry.receive_queue.load(Ordering::Relaxed);
        let (entries, sges) = (entry.receive_entries.load(Ordering::Relaxed), entry.receive_sges.load(Ordering::Relaxed));
        let file = entry.file.load(Ordering::Relaxed);
        (offset != 0 && file != 0 && entries.is_power_of_two()).then_some(Self { file, offset, entries, sges })
    }

    fn bytes(&self) -> usize {
        receive_queue_bytes(self.entries, self.sges)
    }
}

/// Result of posting a receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    Here,
    /// The engine has to take it.
    ForEngine,
    /// Retry after a moment: the queue is changing its owner.
    Later,
}

impl<P: Platform> ReceiveQueue<P> {
    /// Returns the queue of the queue pair with this entry, if it has one.
    pub fn of(entry: &QpEntry) -> Option<Self> {
        let place = Place::of(entry)?;
        let base = P::map_part(place.file, place.offset, place.bytes())?;
        // SAFETY: the mapping has this size, and `drop` ends it.
        let memory = unsafe { QueueMemory::new(base, place.entries, place.sges) };
        let seen_mode = AtomicU32::new(u32::MAX);
        Some(Self { memory, place, seen_produced: AtomicU32::new(0), seen_mode, process: PhantomData })
    }

    /// Checks whether this is still the queue of that queue pair.
    #[inline]
    pub fn is_of(&self, entry: &QpEntry) -> bool {
        Place::of(entry) == Some(self.place)
    }

    pub(crate) fn header(&self) -> &ReceiveQueueHeader {
        self.memory.header()
    }

    fn entry(&self, counter: u32) -> *mut u8 {
        self.memory.entry(counter)
    }

    /// Posts a request. The queue has room, because the caller has reserved a place. One thread at
    /// a time.
    #[inline]
    pub fn post(&self, _guard: &TablesGuard<P>, wr_id: u64, list: &[PostSge]) -> Posted {
        let header = self.header();
        match header.mode() {
            mode::SHARED => {}
            mode::MOVING => return Posted::Later,
            _ => return Posted::ForEngine,
        }
        let produced = header.produced.0.load(Ordering::Relaxed);
        let at = self.entry(produced);
        let count = list.len().min(self.place.sges as usize);
        // SAFETY: the entry lies within the mapping, and the peer does not read it before
        // `produced` has moved on.
        unsafe {
            ReceiveEntry::write(at.cast(), wr_id, count as u32);
            let to = at.add(size_of::<ReceiveEntry>()).cast::<PostSge>();
            for (index, entry) in list[..count].iter().enumerate() {
                // Field by field, as programs have just written them: a wider load would wait until
                // those stores reach the cache.
                (&raw mut (*to.add(index)).address).write_volatile(entry.address);
                (&raw mut (*to.add(index)).len_bytes).write_volatile(entry.len_bytes);
                (&raw mut (*to.add(index)).lkey).write_volatile(entry.lkey);
            }
        }
        header.produced.0.store(produced.wrapping_add(1), Ordering::Release);
        will_write(self.entry(produced.wrapping_add(AHEAD)));
        Posted::Here
    }

    /// Returns the oldest request, if any. One thread at a time. The result is valid only if the
    /// mode is unchanged afterwards.
    #[inline(always)]
    pub fn front(&self, mode: Mode) -> Option<Front<'_, P>> {
        let consumed = self.header().consumed.0.load(Ordering::Relaxed);
        // Other processes may have taken more than this side has seen.
        let is_used_up = self.seen_produced.load(Ordering::Relaxed).wrapping_sub(consumed) as i32 <= 0;
        if is_used_up || self.seen_mode.load(Ordering::Relaxed) != mode.0 {
            let produced = self.header().produced.0.load(Ordering::Acquire);
            self.seen_mode.store(mode.0, Ordering::Relaxed);
            self.seen_produced.store(produced, Ordering::Relaxed);
            if produced == consumed {
                return None;
            }
        }
        let at = self.entry(consumed);
        // SAFETY: the entry lies within the mapping.
        let (wr_id, count) = unsafe { ReceiveEntry::read(at.cast()) };
        let next = at.wrapping_add(size_of::<ReceiveEntry>()).cast::<PostSge>();
        Some(Front { wr_id, next, left: count.min(self.place.sges), queue: PhantomData })
    }

    /// Returns the owner and the epoch of the queue.
    #[inline(always)]
    pub fn mode(&self) -> Mode {
        Mode(self.header().mode.load(Ordering::SeqCst))
    }

    /// Removes the oldest request. The caller is the only consumer ([`crate::rq_consumer_lock`]).
    #[inline(always)]
    pub fn take_front(&self) {
        let consumed = &self.header().consumed.0;
        let next = consumed.load(Ordering::Relaxed).wrapping_add(1);
        consumed.store(next, Ordering::Release);
        will_read(self.entry(next.wrapping_add(AHEAD)));
    }

    /// Returns the time before which the queue holds nothing for this queue pair, in picoseconds.
    pub fn since_ps(&self) -> u64 {
        self.header().since_ps.load(Ordering::Relaxed)
    }
}

/// Owner of a queue, and its epoch, which changes with each change of owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// Checks whether programs own the queue. Returns `None` while the owner changes.
    #[inline]
    pub fn is_shared(self) -> Option<bool> {
        match mode::of(self.0) {
            mode::SHARED => Some(true),
            mode::MOVING => None,
            _ => Some(false),
        }
    }
}

/// The oldest request of a queue, as an iterator over its scatter list.
pub struct Front<'a, P: Platform> {
    pub wr_id: u64,
    next: *const PostSge,
    left: u32,
    queue: PhantomData<&'a ReceiveQueue<P>>,
}

impl<P: Platform> Front<'_, P> {
    /// Returns the only entry of the list, if its length is one.
    #[inline(always)]
    pub fn only(&self) -> Option<PostSge> {
        // SAFETY: an entry of the list is left, so `next` lies within the mapping; the peer's writes only change numbers.
        (self.left == 1).then(|| unsafe { self.next.read_volatile() })
    }
}

impl<P: Platform> Iterator for Front<'_, P> {
    type Item = PostSge;

    #[inline(always)]
    fn next(&mut self) -> Option<PostSge> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: the entry lies within the queue's mapping, because the count is not used up.
        let entry = unsafe { self.next.read_volatile() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }
}

impl<P: Platform> Drop for ReceiveQueue<P> {
    fn drop(&mut self) {
        // SAFETY: the mapping has this size, and nobody has a reference into it.
        unsafe { P::unmap_part(self.memory.base(), self.place.bytes()) };
    }
}
