//! The memory of a receive queue ([`crate::queues`]), as both programs and the engine see it, and
//! the steps by which the engine takes a queue over and gives it back.

use crate::queues::{ReceiveEntry, ReceiveQueueHeader, entry_bytes, mode};
use crate::sync::Ordering;
use softband_ipc::post::PostSge;

/// Most attempts of [`QueueMemory::drain`].
const TRIES_MAX: u32 = 8;

/// Header and entries of a queue, mapped here. The number of entries is a power of two.
#[derive(Clone, Copy)]
pub struct QueueMemory {
    base: *mut u8,
    entries: u32,
    sges: u32,
    entry_bytes: usize,
}

impl QueueMemory {
    /// Returns the queue of `entries` requests with up to `sges` entries each at `base`.
    ///
    /// # Safety
    /// The memory at `base` has the size of this queue
    /// ([`crate::queues::receive_queue_bytes`]), begins with a valid header, and outlives the
    /// result. `entries` is a power of two.
    pub unsafe fn new(base: *mut u8, entries: u32, sges: u32) -> Self {
        Self { base, entries, sges, entry_bytes: entry_bytes(sges) }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the head of the queue.
    #[inline(always)]
    pub fn header(&self) -> &ReceiveQueueHeader {
        // SAFETY: the memory begins with the header, which consists of atomics.
        unsafe { &*self.base.cast::<ReceiveQueueHeader>() }
    }

    /// Returns the address of the entry of a counter.
    #[inline(always)]
    pub(crate) fn entry(&self, counter: u32) -> *mut u8 {
        let index = (counter & (self.entries - 1)) as usize; // a power of two
        self.base.wrapping_add(size_of::<ReceiveQueueHeader>() + index * self.entry_bytes)
    }

    /// Returns the counters of requests put in and taken out.
    pub fn counters(&self) -> (u32, u32) {
        let header = self.header();
        (header.produced.0.load(Ordering::Acquire), header.consumed.0.load(Ordering::Acquire))
    }

    /// Returns the request of a counter: its `wr_id` and its scatter list.
    pub fn read(&self, counter: u32) -> (u64, Vec<PostSge>) {
        let at = self.entry(counter);
        // SAFETY: the entry lies within the memory. Each value that a lying program writes is only
        // a number.
        unsafe {
            let (wr_id, count) = ReceiveEntry::read(at.cast());
            let count = count.min(self.sges) as usize;
            let list = at.add(size_of::<ReceiveEntry>()).cast::<PostSge>();
            (wr_id, (0..count).map(|index| list.add(index).read_volatile()).collect())
        }
    }

    /// Writes a request. Only the engine calls this, while it has the queue.
    pub fn write(&self, counter: u32, wr_id: u64, list: impl ExactSizeIterator<Item = PostSge>) {
        let at = self.entry(counter);
        let count = list.len().min(self.sges as usize);
        // SAFETY: the entry lies within the memory. No other thread uses the queue while the engine
        // has it.
        unsafe {
            ReceiveEntry::write(at.cast(), wr_id, count as u32);
            let to = at.add(size_of::<ReceiveEntry>()).cast::<PostSge>();
            for (index, entry) in list.take(count).enumerate() {
                to.add(index).write(entry);
            }
        }
    }

    /// Begins the takeover: from now on, requests and messages go to the engine. Returns true if
    /// programs had the queue. The engine then waits for quiescence and continues with
    /// [`Self::drain`].
    #[must_use]
    pub fn take_over(&self) -> bool {
        let former = self.header().mode();
        self.header().set_mode(mode::ENGINE);
        former == mode::SHARED
    }

    /// Takes all requests out of a queue that was taken over, oldest first. At most as many as the
    /// queue can hold, even if a program lies. A thread that was stopped while it took one finds
    /// that the queue has advanced, or this finds that the thread has taken it.
    pub fn drain(&self) -> Vec<(u64, Vec<PostSge>)> {
        let consumed_now = &self.header().consumed.0;
        let mut tries = 0;
        loop {
            let (produced, consumed) = self.counters();
            let count = count_of(produced, consumed, self.entries);
            let requests = (0..count).map(|counter| self.read(consumed.wrapping_add(counter))).collect();
            tries += 1;
            if consumed_now.compare_exchange(consumed, produced, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return requests;
            }
            if tries == TRIES_MAX {
                // Only a lying program changes the counter so often.
                consumed_now.store(produced, Ordering::SeqCst);
                return requests;
            }
        }
    }

    /// Begins the return: until its end nobody posts or takes. The engine then waits for quiescence
    /// and ends with [`Self::give_back`], or with [`Self::keep`].
    pub fn begin_return(&self) {
        self.header().set_mode(mode::MOVING);
    }

    /// Checks whether the return is still under way. Another message may have needed the queue
    /// meanwhile.
    pub fn is_returning(&self) -> bool {
        self.header().mode() == mode::MOVING
    }

    /// Ends a return in vain.
    pub fn keep(&self) {
        self.header().set_mode(mode::ENGINE);
    }

    /// Fills the queue with requests from counter `first` on and shares it again. Completions of
    /// peers then belong to the queue pair from `since_ps` on. A queue of several consumers
    /// continues its counters ([`Self::next_counter`]). A thread that was stopped while it took an
    /// earlier request therefore cannot take one of these. `limit` is as in the header.
    pub fn give_back<L>(&self, first: u32, requests: impl ExactSizeIterator<Item = (u64, L)>, since_ps: u64, limit: u32, epoch: u32)
    where
        L: ExactSizeIterator<Item = PostSge>,
    {
        let header = self.header();
        let count = requests.len() as u32;
        for (step, (wr_id, list)) in requests.enumerate() {
            self.write(first.wrapping_add(step as u32), wr_id, list);
        }
        header.consumed.0.store(first, Ordering::SeqCst);
        header.produced.0.store(first.wrapping_add(count), Ordering::SeqCst);
        header.since_ps.store(since_ps, Ordering::SeqCst);
        header.limit.store(limit, Ordering::SeqCst);
        header.begin_epoch(epoch);
    }

    /// Returns the counter of the next request to take.
    pub fn next_counter(&self) -> u32 {
        self.header().consumed.0.load(Ordering::SeqCst)
    }
}

/// Returns the number of requests in a queue by its counters; 0 if the counters are invalid.
pub fn count_of(produced: u32, consumed: u32, entries: u32) -> u32 {
    let count = produced.wrapping_sub(consumed);
    if count <= entries { count } else { 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queues::receive_queue_bytes;

    const ENTRIES: u32 = 4;
    const SGES: u32 = 2;

    /// Memory of a queue, aligned as its header needs it.
    #[repr(C, align(64))]
    struct Memory([u8; receive_queue_bytes(ENTRIES, SGES)]);

    fn requests(wr_ids: std::ops::Range<u64>) -> Vec<(u64, Vec<PostSge>)> {
        let entry = |wr_id: u64| PostSge { address: wr_id << 20, len_bytes: wr_id as u32, lkey: 7 };
        wr_ids.map(|wr_id| (wr_id, vec![entry(wr_id); (wr_id % 3) as usize])).collect()
    }

    fn plain(requests: &[(u64, Vec<PostSge>)]) -> Vec<(u64, &[u8])> {
        requests.iter().map(|(wr_id, list)| (*wr_id, bytemuck::cast_slice(list))).collect()
    }

    #[test]
    fn what_is_given_back_is_drained_again_where_the_counters_wrap() {
        let mut memory = Box::new(Memory([0; receive_queue_bytes(ENTRIES, SGES)]));
        // SAFETY: the memory has this size, zeros are a valid header, and it outlives the queue.
        let queue = unsafe { QueueMemory::new((&raw mut *memory).cast(), ENTRIES, SGES) };
        for (epoch, first) in [(1, 0), (2, u32::MAX - 1)] {
            let given = requests(3..7);
            let lists = given.iter().map(|(wr_id, list)| (*wr_id, list.iter().copied()));
            queue.give_back(first, lists, 5, 2, epoch);
            assert!(queue.take_over() && !queue.take_over(), "once per epoch");
            assert_eq!(plain(&queue.drain()), plain(&given));
            assert!(queue.drain().is_empty());
            assert_eq!(queue.next_counter(), first.wrapping_add(4));
        }
    }

    #[test]
    fn counters_of_a_liar_give_no_requests() {
        assert_eq!([count_of(3, 1, 4), count_of(1, 3, 4), count_of(9, 1, 4)], [2, 0, 0]);
    }
}
