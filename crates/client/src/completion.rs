//! Taking completions out of a ring.

use crate::session::shared_base;
use softband_ipc::layout::SHARED_BYTES;
use softband_ipc::ring::{CqRingHeader, Cqe, entry_offset, ring_bytes};
use std::sync::atomic::Ordering;

/// The program's end of a completion queue's ring. One consumer at a time: the caller holds the CQ's lock.
#[derive(Clone, Debug)]
pub struct CompletionRing {
    offset: usize,
    capacity: u32,
    /// Rings of former sizes that were not empty when this one took over: what they hold comes first.
    former: Vec<CompletionRing>,
    /// How many completions were taken in all, out of former rings as well (wraps).
    taken: u32,
}

impl CompletionRing {
    /// The ring that the engine has laid at `offset`.
    ///
    /// # Panics
    /// When it does not lie within the shared memory.
    pub fn new(offset: u64, capacity: u32) -> Self {
        let offset = usize::try_from(offset).expect("offset fits");
        assert!(capacity > 0 && offset.checked_add(ring_bytes(capacity)).is_some_and(|end| end <= SHARED_BYTES), "ring within the file");
        Self { offset, capacity, former: Vec::new(), taken: 0 }
    }

    fn header(&self) -> &'static CqRingHeader {
        // SAFETY: `new` checked the range; the header consists of atomics.
        unsafe { &*shared_base().add(self.offset).cast::<CqRingHeader>() }
    }

    /// How many completions it holds at most.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many completions were taken in all (wraps).
    pub fn all_taken(&self) -> u32 {
        self.taken
    }

    /// How many completions wait, in former rings as well.
    pub fn all_waiting(&self) -> u32 {
        self.former.iter().map(Self::waiting).sum::<u32>() + self.waiting()
    }

    /// How many completions there were in all (wraps).
    pub fn all_produced(&self) -> u32 {
        self.taken.wrapping_add(self.all_waiting())
    }

    /// Completions that wait to be taken.
    pub fn waiting(&self) -> u32 {
        let header = self.header();
        header.produced.load(Ordering::Acquire).wrapping_sub(header.consumed.load(Ordering::Relaxed))
    }

    /// Whether a completion was lost for want of room.
    pub fn overflowed(&self) -> bool {
        self.header().overflowed.load(Ordering::Acquire) != 0
    }

    /// Goes on with another ring when what this one holds has been taken.
    pub fn replace(&mut self, next: Self) {
        let mut former = std::mem::replace(self, next);
        self.former = std::mem::take(&mut former.former);
        self.taken = former.taken;
        self.former.push(former);
    }

    /// When the oldest completion came.
    pub fn front_ps(&self) -> Option<u64> {
        if let Some(time) = self.former.iter().find_map(Self::front_ps) {
            return Some(time);
        }
        if self.waiting() == 0 {
            return None;
        }
        let at = self.offset + entry_offset(self.header().consumed.load(Ordering::Relaxed), self.capacity);
        // SAFETY: as in `take`.
        Some(unsafe { (*shared_base().add(at).cast::<Cqe>()).time_ps })
    }

    /// Takes the oldest completion.
    pub fn take(&mut self) -> Option<Cqe> {
        while let Some(former) = self.former.first_mut() {
            if let Some(cqe) = former.take() {
                self.taken = self.taken.wrapping_add(1);
                return Some(cqe);
            }
            self.former.remove(0);
        }
        if self.waiting() == 0 {
            return None;
        }
        let header = self.header();
        let consumed = header.consumed.load(Ordering::Relaxed);
        let at = self.offset + entry_offset(consumed, self.capacity);
        // SAFETY: the index is below the capacity that `new` checked; the engine wrote the entry before it moved `produced`.
        let cqe = unsafe { shared_base().add(at).cast::<Cqe>().read() };
        header.consumed.store(consumed.wrapping_add(1), Ordering::Release);
        self.taken = self.taken.wrapping_add(1);
        Some(cqe)
    }
}
