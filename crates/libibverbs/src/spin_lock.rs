//! A lock for critical sections of some ten nanoseconds. It needs one locked instruction to lock,
//! none to unlock, and none at all in a single-threaded process.

use softband_client::direct::{PendingGuard, TablesGuard, announce, guard_tables};
use softband_client::is_single_threaded;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

/// Attempts before a thread yields the processor, which the holder may need.
const SPINS: u32 = 200;
/// Yields before a thread sleeps between attempts.
const YIELDS: u32 = 100;

#[derive(Default)]
pub(crate) struct SpinLock<T> {
    /// PID of the holder's process, or 0. A forked child may find it held by a thread that it does
    /// not have.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}
// SAFETY: one thread at a time accesses the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}

pub(crate) struct Held<'a, T>(&'a SpinLock<T>);

impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        self.try_lock().unwrap_or_else(|| {
            self.wait(softband_client::process_id());
            Held(self)
        })
    }

    /// Locks the value if nobody holds it.
    #[inline(always)]
    fn try_lock(&self) -> Option<Held<'_, T>> {
        let me = softband_client::process_id();
        if !is_single_threaded() {
            let taken = self.holder.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed);
            return taken.is_ok().then(|| Held(self));
        }
        if self.holder.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // A signal handler that runs in between unlocks it before it ends.
        self.holder.store(me, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Held(self))
    }

    /// Locks the value and guards the engine's tables. The guard is `None` if no tables exist.
    #[inline(always)]
    pub(crate) fn lock_and_guard(&self) -> (Held<'_, T>, Option<TablesGuard>) {
        let announced = announce();
        match self.try_lock() {
            Some(held) => (held, announced.map(PendingGuard::guard_after_lock)),
            None => {
                drop(announced); // no thread waits for a lock with an announcement
                (self.lock(), guard_tables())
            }
        }
    }

    #[cold]
    fn wait(&self, me: u32) {
        let mut spins = 0u32;
        loop {
            let holder = self.holder.load(Ordering::Relaxed);
            let may_be_taken = holder == 0 || holder != me;
            if may_be_taken && self.holder.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            spins = spins.saturating_add(1);
            if spins < SPINS {
                std::hint::spin_loop();
            } else if spins < SPINS + YIELDS {
                std::thread::yield_now();
            } else {
                // The holder may have a lower priority and need this processor.
                let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 50_000 });
            }
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        let counter = SpinLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *counter.lock() += 1));
            }
        });
        assert_eq!(*counter.lock(), 80_000);
    }

    #[test]
    fn what_a_process_holds_that_is_not_this_one_is_taken() {
        let value = SpinLock::new(7);
        value.holder.store(softband_client::process_id() + 1, Ordering::Relaxed);
        assert_eq!(*value.lock(), 7);
    }
}
