//! The consumer lock of a receive queue, which admits one of several consuming processes at a time
//! ([`crate::queues`]).

use crate::platform::Platform;
use crate::queues::{ReceiveQueueHeader, consumer, mode, split_consumer};
use crate::receive_queue::ReceiveQueue;
use crate::sync::Ordering;
use std::marker::PhantomData;

/// The consumer lock. It is valid until the engine takes the queue over.
pub struct RqConsumerLock<'a, P: Platform> {
    header: &'a ReceiveQueueHeader,
    /// The mode, with its epoch, at the time of locking.
    mode: u32,
    /// The counter of the oldest request.
    front: u32,
    process: PhantomData<P>,
}

impl<P: Platform> ReceiveQueue<P> {
    /// Takes the consumer lock, if it is free. With `asks`, asks the kernel whether a holder has
    /// ended, which costs a system call.
    pub fn try_lock_consumer(&self, asks: bool) -> Option<RqConsumerLock<'_, P>> {
        RqConsumerLock::of(self.header(), asks)
    }
}

impl<'a, P: Platform> RqConsumerLock<'a, P> {
    fn of(header: &'a ReceiveQueueHeader, asks: bool) -> Option<Self> {
        let mode = header.mode.load(Ordering::SeqCst);
        if mode::of(mode) != mode::SHARED {
            return None;
        }
        let holder = header.consumer.0.load(Ordering::Relaxed);
        let is_held = holder != 0 && split_consumer(holder).0 == mode && !(asks && P::is_gone(split_consumer(holder).1));
        if is_held || header.consumer.0.compare_exchange(holder, consumer(mode, P::own_number()), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        Some(Self { header, mode, front: header.consumed.0.load(Ordering::Acquire), process: PhantomData })
    }

    /// Checks whether the data read of the oldest request since locking is valid and no other
    /// process gets the request. This thread may have stopped for so long that the engine continued
    /// without it.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.header.mode.load(Ordering::SeqCst) == self.mode
    }

    /// Removes the oldest request. Returns false if the request was already gone.
    #[inline]
    pub fn take_front(&self) -> bool {
        let next = self.front.wrapping_add(1);
        self.header.consumed.0.compare_exchange(self.front, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Checks whether, after the oldest request was taken, fewer requests are left than the owner's
    /// limit. Returns true once per limit.
    #[inline]
    pub fn reaches_limit(&self) -> bool {
        let limit = self.header.limit.load(Ordering::Relaxed);
        limit != 0 && self.leaves_fewer_than(limit)
    }

    #[cold]
    fn leaves_fewer_than(&self, limit: u32) -> bool {
        let left = self.header.produced.0.load(Ordering::Acquire).wrapping_sub(self.front.wrapping_add(1));
        left < limit && self.is_valid() && self.header.limit.swap(0, Ordering::AcqRel) != 0
    }
}

impl<P: Platform> Drop for RqConsumerLock<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // Another process may have taken the lock because it found this process gone, or the epoch
        // changed.
        let _ = self.header.consumer.0.compare_exchange(consumer(self.mode, P::own_number()), 0, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::platform::tests::Alone;
    use crate::queues::LineOf;
    use crate::sync::{AtomicU32, AtomicU64};

    type Lock<'a> = RqConsumerLock<'a, Alone>;

    fn queue() -> ReceiveQueueHeader {
        let mode = AtomicU32::new(mode::SHARED);
        let zero = || LineOf(AtomicU32::new(0));
        ReceiveQueueHeader {
            mode,
            limit: AtomicU32::new(0),
            since_ps: AtomicU64::new(0),
            produced: zero(),
            consumed: zero(),
            consumer: LineOf(AtomicU64::new(0)),
        }
    }

    #[test]
    fn one_consumer_at_a_time() {
        let queue = queue();
        let first = Lock::of(&queue, false).expect("nobody else is there");
        assert!(Lock::of(&queue, true).is_none());
        assert!(first.is_valid() && first.take_front());
        drop(first);
        let second = Lock::of(&queue, false).expect("the first one has ended");
        assert!(second.take_front() && queue.consumed.0.load(Ordering::Relaxed) == 2);
    }

    #[test]
    fn the_limit_is_told_once_by_whoever_leaves_fewer() {
        let queue = queue();
        queue.limit.store(2, Ordering::Relaxed);
        queue.produced.0.store(4, Ordering::Relaxed);
        let told: Vec<bool> = (0..4)
            .map(|_| {
                let lock = Lock::of(&queue, false).expect("one after another");
                lock.take_front() && lock.reaches_limit()
            })
            .collect();
        assert_eq!(told, [false, false, true, false]);
    }

    #[test]
    fn the_engine_keeps_everybody_out() {
        let queue = queue();
        queue.set_mode(mode::ENGINE);
        assert!(Lock::of(&queue, false).is_none());
    }

    #[test]
    fn who_was_stopped_in_an_earlier_era_neither_takes_nor_holds_others_back() {
        let queue = queue();
        let stopped = Lock::of(&queue, false).expect("nobody else is there");
        // The engine takes over the queue with its two requests, and returns it with one of them.
        queue.set_mode(mode::ENGINE);
        queue.consumed.0.store(2, Ordering::Relaxed);
        queue.begin_epoch(1);
        let next = Lock::of(&queue, false).expect("the epoch is another one");
        assert!(!stopped.is_valid() && !stopped.take_front());
        drop(stopped);
        assert!(Lock::of(&queue, false).is_none(), "the lock is still the next one's");
        assert!(next.take_front());
    }

    #[test]
    fn the_lock_of_a_process_that_is_gone_is_taken_where_somebody_asks() {
        let queue = queue();
        let nobody = 1 << 30;
        queue.consumer.0.store(consumer(mode::SHARED, nobody), Ordering::Relaxed);
        assert!(Lock::of(&queue, false).is_none());
        assert!(Lock::of(&queue, true).is_some());
    }
}
