//! Signals that came while their thread could not run a handler. Each thread keeps its own, one of
//! each standard signal and all real-time signals, in the order of their arrival (signal(7)).
//!
//! A handler of the system adds a signal, and another handler may interrupt it. Each entry therefore
//! changes hands by one atomic word.

use libc::{c_int, siginfo_t};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

const ENTRIES: usize = 256;
/// Values of [`Entry::state`] for an entry without a signal and for an entry in a caller's hands.
const FREE: u64 = 0;
const BUSY: u64 = 1;
/// The first real-time signal of the system. The C library keeps two of them.
const FIRST_REAL_TIME: c_int = 32;

struct Entry {
    /// [`FREE`], [`BUSY`], or the place in the order of arrival.
    state: AtomicU64,
    /// The slot of the thread.
    thread: AtomicU32,
    signal: AtomicI32,
    info: UnsafeCell<siginfo_t>,
}

// SAFETY: only the caller that made the entry busy uses its description.
unsafe impl Sync for Entry {}

static KEPT: [Entry; ENTRIES] = [const {
    Entry {
        state: AtomicU64::new(FREE),
        thread: AtomicU32::new(0),
        signal: AtomicI32::new(0),
        // SAFETY: `siginfo_t` consists of numbers and pointers, for which all zero is valid.
        info: UnsafeCell::new(unsafe { std::mem::zeroed() }),
    }
}; ENTRIES];
static ARRIVALS: AtomicU64 = AtomicU64::new(BUSY + 1);

impl Entry {
    fn is_of(&self, thread: u32) -> bool {
        self.state.load(Ordering::Acquire) > BUSY && self.thread.load(Ordering::Relaxed) == thread
    }

    /// Makes the entry busy, if its state is still `from`.
    fn take(&self, from: u64) -> bool {
        self.state.compare_exchange(from, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Keeps a signal of a thread. Returns false without room for it.
pub fn keep(thread: u32, signal: c_int, info: &siginfo_t) -> bool {
    let is_kept = |entry: &Entry| entry.is_of(thread) && entry.signal.load(Ordering::Relaxed) == signal;
    if signal < FIRST_REAL_TIME && KEPT.iter().any(is_kept) {
        return true;
    }
    let Some(entry) = KEPT.iter().find(|entry| entry.take(FREE)) else { return false };
    entry.thread.store(thread, Ordering::Relaxed);
    entry.signal.store(signal, Ordering::Relaxed);
    // SAFETY: the entry is busy by this call, so nothing else uses the description.
    unsafe { entry.info.get().write(*info) };
    entry.state.store(ARRIVALS.fetch_add(1, Ordering::Relaxed), Ordering::Release);
    true
}

/// Takes the next signal of a thread: of those with the lowest number the first to arrive, as the
/// system does.
pub fn take(thread: u32) -> Option<(c_int, siginfo_t)> {
    loop {
        let place = |entry: &&Entry| (entry.signal.load(Ordering::Relaxed), entry.state.load(Ordering::Relaxed));
        let next = KEPT.iter().filter(|entry| entry.is_of(thread)).min_by_key(place)?;
        let arrival = next.state.load(Ordering::Acquire);
        if arrival > BUSY && next.is_of(thread) && next.take(arrival) {
            // SAFETY: the entry is busy by this call, so nothing else uses the description.
            let kept = (next.signal.load(Ordering::Relaxed), unsafe { next.info.get().read() });
            next.state.store(FREE, Ordering::Release);
            return Some(kept);
        }
    }
}

/// Forgets all signals in a forked child, which inherits none.
pub fn forget_all() {
    KEPT.iter().for_each(|entry| entry.state.store(FREE, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clib::args::Zeroed;

    fn keep_numbered(thread: u32, signal: c_int, number: c_int) -> bool {
        let mut info = siginfo_t::zeroed();
        info.si_errno = number;
        keep(thread, signal, &info)
    }

    fn numbers(thread: u32) -> Vec<(c_int, c_int)> {
        std::iter::from_fn(|| take(thread)).map(|(signal, info)| (signal, info.si_errno)).collect()
    }

    #[test]
    fn a_thread_keeps_each_real_time_signal_and_one_of_each_standard_signal() {
        let real_time = libc::SIGRTMIN() + 3;
        for number in 1..=3 {
            assert!(keep_numbered(1_000, real_time, number));
            assert!(keep_numbered(1_000, libc::SIGUSR1, number));
            assert!(keep_numbered(1_001, libc::SIGUSR1, number));
        }
        assert_eq!(numbers(1_000), [(libc::SIGUSR1, 1), (real_time, 1), (real_time, 2), (real_time, 3)]);
        assert_eq!(numbers(1_001), [(libc::SIGUSR1, 1)]);
        // Freed entries keep the order of arrival.
        assert!((0..4).all(|number| keep_numbered(1_002, real_time, number)));
        assert_eq!(take(1_002).map(|(_, info)| info.si_errno), Some(0));
        assert!(keep_numbered(1_002, real_time, 4));
        assert_eq!(numbers(1_002), [1, 2, 3, 4].map(|number| (real_time, number)));
        // Too many signals find no room, and standard signals of their threads stay.
        let kept = (0..2 * ENTRIES as c_int).filter(|number| keep_numbered(1_003, real_time, *number)).count();
        assert_eq!(kept, ENTRIES);
        assert!(!keep_numbered(1_004, libc::SIGUSR1, 0));
        assert_eq!(numbers(1_003).len(), ENTRIES);
    }
}
