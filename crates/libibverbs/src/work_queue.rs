//! Fill levels of send and receive queues.

use softband_client::{advance_ps, is_wall, now_ps, set_clock_at_least};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Fill level of a queue: requests that were posted and have not completed. The counters wrap.
pub(crate) struct WorkQueue {
    room: AtomicU32,
    posted: AtomicU32,
    retired: AtomicU32,
    /// Posted requests that the posting thread executed itself.
    carried_out: AtomicU32,
    /// Requests given to the engine, and below, those of them known to be done.
    given: AtomicU32,
    given_done: AtomicU32,
    /// In simulated time: clock of the last post.
    posted_at_ps: AtomicU64,
}

impl WorkQueue {
    pub(crate) fn new(room: u32) -> Self {
        let zero = || AtomicU32::new(0);
        Self {
            room: AtomicU32::new(room),
            posted: zero(),
            retired: zero(),
            carried_out: zero(),
            given: zero(),
            given_done: zero(),
            posted_at_ps: AtomicU64::new(0),
        }
    }

    /// Charges a post of `cost` picoseconds, in simulated time. The post follows the last post to
    /// this queue: the thread that made it can be ahead by the cost of its own verbs.
    pub(crate) fn charge(&self, cost: u64) {
        if is_wall() {
            return;
        }
        set_clock_at_least(self.posted_at_ps.load(Ordering::Relaxed));
        advance_ps(cost);
        self.posted_at_ps.store(now_ps(), Ordering::Relaxed);
    }

    /// Takes the place of one request. Returns false if the queue is full. One thread at a time.
    #[inline]
    pub(crate) fn take_place(&self) -> bool {
        let (retired, room) = (self.retired.load(Ordering::Acquire), self.room.load(Ordering::Relaxed));
        let posted = self.posted.load(Ordering::Relaxed);
        let has_room = posted.wrapping_sub(retired) < room;
        if has_room {
            self.posted.store(posted.wrapping_add(1), Ordering::Release);
        }
        has_room
    }

    pub(crate) fn places_left(&self) -> usize {
        let under_way = self.posted.load(Ordering::Acquire).wrapping_sub(self.retired.load(Ordering::Acquire));
        self.room.load(Ordering::Relaxed).saturating_sub(under_way) as usize
    }

    /// Returns the place of a request that was not posted after all. One thread at a time, as for
    /// `take_place`.
    pub(crate) fn give_back(&self) {
        self.posted.store(self.posted.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
    }

    pub(crate) fn retire_one(&self) {
        self.retired.fetch_add(1, Ordering::AcqRel);
    }

    /// As `retire_one`, for the one thread at a time that takes completions of this queue.
    #[inline]
    pub(crate) fn retire_next(&self) {
        let retired = self.retired.load(Ordering::Relaxed);
        // A malicious peer may complete more requests than were posted.
        if retired != self.posted.load(Ordering::Acquire) {
            self.retired.store(retired.wrapping_add(1), Ordering::Release);
        }
    }

    /// Retires all requests up to the `count`th. One thread at a time, as for `retire_next`.
    #[inline]
    pub(crate) fn retire_up_to(&self, count: u32) {
        if count.wrapping_sub(self.retired.load(Ordering::Relaxed)) as i32 > 0 {
            self.retired.store(count, Ordering::Release);
        }
    }

    /// Checks whether all requests given to the engine are known to be done.
    pub(crate) fn is_settled(&self) -> bool {
        self.given.load(Ordering::Acquire) == self.given_done.load(Ordering::Acquire)
    }

    /// Checks whether the engine has done all given requests, even if their completions were not
    /// taken.
    pub(crate) fn is_done(&self, done: u32) -> bool {
        let is_done = self.given.load(Ordering::Acquire) == done;
        if is_done {
            // An unsignaled request has no completion that could retire it.
            self.given_done.store(done, Ordering::Release);
        }
        is_done
    }

    /// Adds requests given to the engine, or removes them by a number that wraps.
    pub(crate) fn note_given(&self, count: u32) {
        self.given.fetch_add(count, Ordering::AcqRel);
    }

    /// Counts a request that its poster executed. Returns its number among all requests. One thread
    /// at a time, as for `take_place`.
    #[inline]
    pub(crate) fn note_carried_out(&self) -> u32 {
        self.carried_out.store(self.carried_out.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        self.posted.load(Ordering::Relaxed)
    }

    /// Retires the engine's requests up to the `count`th. Requests that posters execute are done
    /// before the engine gets more.
    pub(crate) fn retire_given_up_to(&self, count: u32) {
        if count.wrapping_sub(self.given_done.load(Ordering::Relaxed)) as i32 > 0 {
            self.given_done.store(count, Ordering::Release);
        }
        self.retire_up_to(count.wrapping_add(self.carried_out.load(Ordering::Acquire)));
    }

    /// Changes the size of the queue.
    pub(crate) fn resize(&self, room: u32) {
        self.room.store(room, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        for counter in [&self.posted, &self.retired, &self.carried_out, &self.given, &self.given_done] {
            counter.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_full_until_work_is_seen_to_be_done() {
        let queue = WorkQueue::new(2);
        assert!(queue.take_place() && queue.take_place());
        assert!(!queue.take_place(), "two places");
        queue.retire_up_to(2);
        queue.retire_up_to(1);
        assert!(queue.take_place() && queue.take_place(), "an older count does not take back");
        assert!(!queue.take_place());
        queue.give_back();
        assert!(queue.take_place());
    }

    #[test]
    fn more_that_completes_than_was_posted_does_not_fill_a_queue() {
        let queue = WorkQueue::new(1);
        queue.retire_next();
        assert!(queue.take_place() && !queue.take_place());
        queue.retire_next();
        queue.retire_next();
        assert!(queue.take_place() && !queue.take_place());
    }

    #[test]
    fn the_counters_of_a_queue_wrap() {
        let queue = WorkQueue::new(1);
        queue.posted.store(u32::MAX, Ordering::Relaxed);
        queue.retired.store(u32::MAX, Ordering::Relaxed);
        assert!(queue.take_place() && !queue.take_place());
        queue.retire_up_to(0);
        assert!(queue.take_place());
    }
}
