//! Consumer side of a CQ's ring.

use crate::session::shared_base;
use softband_ipc::layout::SHARED_BYTES;
use softband_ipc::ring::{CqRingHeader, Cqe, entry_offset, ring_bytes};
use std::sync::atomic::Ordering;

/// The program's end of a CQ's ring. It admits one consumer at a time: the caller holds the CQ's
/// lock.
#[derive(Clone, Debug)]
pub struct CompletionRing {
    offset: usize,
    capacity: u32,
    /// Rings before a resize that still held entries. Their entries come first.
    former: Vec<CompletionRing>,
    /// Completions taken in all, from former rings as well (wraps).
    taken: u32,
}

impl CompletionRing {
    /// Returns the ring that the engine has laid out at `offset`, for `capacity` completions.
    ///
    /// # Panics
    /// Panics if the ring does not lie within the shared memory.
    pub fn new(offset: u64, capacity: u32) -> Self {
        let offset = usize::try_from(offset).expect("offset fits");
        assert!(capacity > 0 && offset.checked_add(ring_bytes(capacity)).is_some_and(|end| end <= SHARED_BYTES), "ring within the file");
        Self { offset, capacity, former: Vec::new(), taken: 0 }
    }

    fn header(&self) -> &'static CqRingHeader {
        crate::ahead::catch_up();
        // SAFETY: `new` checked the range; the header consists of atomics.
        unsafe { &*shared_base().add(self.offset).cast::<CqRingHeader>() }
    }

    /// Returns the maximal number of completions in the ring.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the number of completions taken in all (wraps).
    pub fn all_taken(&self) -> u32 {
        self.taken
    }

    /// Returns the number of waiting completions, in former rings as well.
    pub fn all_waiting(&self) -> u32 {
        self.former.iter().map(Self::waiting).sum::<u32>() + self.waiting()
    }

    /// Returns the number of completions produced in all (wraps).
    pub fn all_produced(&self) -> u32 {
        self.taken.wrapping_add(self.all_waiting())
    }

    /// Returns the number of waiting completions in this ring.
    pub fn waiting(&self) -> u32 {
        let header = self.header();
        header.produced.load(Ordering::Acquire).wrapping_sub(header.consumed.load(Ordering::Relaxed))
    }

    /// Checks whether the ring lost a completion for want of room.
    pub fn overflowed(&self) -> bool {
        self.header().overflowed.load(Ordering::Acquire) != 0
    }

    /// Continues with another ring after all entries of this ring.
    pub fn replace(&mut self, next: Self) {
        let mut former = std::mem::replace(self, next);
        self.former = std::mem::take(&mut former.former);
        self.taken = former.taken;
        self.former.push(former);
    }

    /// Returns the time of the oldest completion, in picoseconds.
    pub fn front_ps(&self) -> Option<u64> {
        if let Some(time) = self.former.iter().find_map(Self::front_ps) {
            return Some(time);
        }
        if self.waiting() == 0 {
            return None;
        }
        let at = self.offset + entry_offset(self.header().consumed.load(Ordering::Relaxed), self.capacity);
        // SAFETY: the index is below the capacity that `new` checked, and the engine wrote the
        // entry before it moved `produced`.
        Some(unsafe { (*shared_base().add(at).cast::<Cqe>()).time_ps })
    }

    /// Removes all entries for which `goes` returns true, at any position, to make room. Returns
    /// their positions as values of the counter `all_taken`.
    pub fn sweep(&mut self, goes: &mut impl FnMut(&Cqe) -> bool) -> Vec<u32> {
        let mut gone = Vec::new();
        let mut first = self.taken;
        for ring in self.former.iter().chain([&*self]) {
            let header = ring.header();
            let (consumed, waiting) = (header.consumed.load(Ordering::Relaxed), ring.waiting());
            // SAFETY: the index is below the capacity that `new` checked, and the engine has
            // written all waiting entries.
            let place = |counter| unsafe { shared_base().add(ring.offset + entry_offset(counter, ring.capacity)).cast::<Cqe>() };
            let left = close_up(consumed, waiting, place, |position, cqe| {
                let goes = goes(cqe);
                if goes {
                    gone.push(first.wrapping_add(position));
                }
                goes
            });
            header.consumed.store(left, Ordering::Release);
            first = first.wrapping_add(waiting);
        }
        self.taken = self.taken.wrapping_add(gone.len() as u32);
        gone
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
        // SAFETY: the index is below the capacity that `new` checked. The engine wrote the entry
        // before it moved `produced`.
        let cqe = unsafe { shared_base().add(at).cast::<Cqe>().read() };
        header.consumed.store(consumed.wrapping_add(1), Ordering::Release);
        self.taken = self.taken.wrapping_add(1);
        Some(cqe)
    }
}

/// Removes entries from those that wait in a ring, from `consumed` on. The others move up to the
/// end, so the producer continues unhindered. Returns their new first counter. `goes` gets the
/// position of each entry, newest first.
fn close_up(consumed: u32, waiting: u32, place: impl Fn(u32) -> *mut Cqe, mut goes: impl FnMut(u32, &Cqe) -> bool) -> u32 {
    let mut begin = consumed.wrapping_add(waiting);
    for position in (0..waiting).rev() {
        // SAFETY: the caller provides valid places for all waiting entries and is their only user.
        let cqe = unsafe { place(consumed.wrapping_add(position)).read() };
        if !goes(position, &cqe) {
            begin = begin.wrapping_sub(1);
            // SAFETY: the entry of this place has been read, and the caller is the only user of all
            // places.
            unsafe { place(begin).write(cqe) };
        }
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_up(consumed: u32, qpns: &[u32], gone: u32) -> (Vec<u32>, Vec<u32>) {
        let cqe = |qpn| Cqe { qpn, ..bytemuck::Zeroable::zeroed() };
        let mut ring = [cqe(0); 4];
        let base = ring.as_mut_ptr();
        let place = |counter: u32| base.wrapping_add(counter as usize % 4);
        for (qpn, counter) in qpns.iter().zip(0..) {
            // SAFETY: the place lies in the array.
            unsafe { place(consumed.wrapping_add(counter)).write(cqe(*qpn)) };
        }
        let end = consumed.wrapping_add(qpns.len() as u32);
        let mut positions = Vec::new();
        let begin = close_up(consumed, qpns.len() as u32, place, |position, cqe| {
            let goes = cqe.qpn == gone;
            positions.extend(goes.then_some(position));
            goes
        });
        // SAFETY: the place lies in the array, and the loop above or `close_up` has written it.
        let left = (0..end.wrapping_sub(begin)).map(|step| unsafe { (*place(begin.wrapping_add(step))).qpn });
        (left.collect(), positions)
    }

    #[test]
    fn what_stays_in_a_ring_keeps_its_order() {
        assert_eq!(closed_up(0, &[1, 2, 1, 3], 1), (vec![2, 3], vec![2, 0]));
        assert_eq!(closed_up(3, &[1, 2], 5), (vec![1, 2], vec![]));
        assert_eq!(closed_up(u32::MAX - 1, &[4, 5, 4, 6], 4), (vec![5, 6], vec![2, 0]), "the counters wrap");
        assert_eq!(closed_up(7, &[4, 4], 4), (vec![], vec![1, 0]));
    }
}
