//! Wakes threads at an exact point of simulated time.
//!
//! Each thread waits for its own timer of the engine, and a thread that wakes it sets that timer to
//! now. A thread waits at any address: a condition, a mutex, a thread record. Threads at an address
//! wake in the order of their arrival.
//!
//! Only the thread with the token uses the table below. The atomics are for threads outside the
//! run.

use crate::signal::{actions, handlers};
use softband_client::{self as client, Errno};
use softband_ipc::calls::readiness::READABLE;
use softband_ipc::calls::{Object, TimerNew, TimerSet, WaitEntry, WaitRequest, op, reason};
use softband_ipc::layout::THREADS_MAX;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

struct Waiter {
    /// The timer of the slot; 0 before its creation.
    bell: AtomicU32,
    /// The address at which it waits; 0 for none.
    address: AtomicUsize,
    order: AtomicU64,
    /// The waiting thread.
    thread: AtomicUsize,
    woken: AtomicBool,
}

static WAITERS: [Waiter; THREADS_MAX] = [const {
    Waiter {
        bell: AtomicU32::new(0),
        address: AtomicUsize::new(0),
        order: AtomicU64::new(0),
        thread: AtomicUsize::new(0),
        woken: AtomicBool::new(false),
    }
}; THREADS_MAX];
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Highest slot that ever waited, plus one. Few processes have many threads.
static SLOTS: AtomicUsize = AtomicUsize::new(0);
static ORDER: AtomicU64 = AtomicU64::new(0);

/// Clears the table in a forked child, which has one thread and no timers yet.
pub fn forget_all() {
    for waiter in &WAITERS {
        waiter.bell.store(0, Ordering::Relaxed);
        waiter.address.store(0, Ordering::Relaxed);
    }
    WAITING.store(0, Ordering::Relaxed);
}

/// How a wait ended that signals can interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Woken,
    /// The deadline came.
    Late,
    /// A handler has run, and the call fails with `EINTR`.
    Interrupted,
    /// A handler has run, and the system would begin the call again.
    Restarts,
}

/// The calling thread's place in line at an address. Dropping it leaves the line.
#[derive(Debug)]
pub struct Place {
    slot: usize,
}

impl Place {
    /// Takes a place at `address`. Returns `None` in a thread that the engine does not know.
    pub fn take(address: usize) -> Option<Self> {
        let slot = client::thread_slot_number()? as usize;
        let waiter = WAITERS.get(slot)?;
        waiter.woken.store(false, Ordering::Relaxed);
        waiter.order.store(ORDER.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        // SAFETY: the call always succeeds (pthread_self(3)).
        waiter.thread.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
        SLOTS.fetch_max(slot + 1, Ordering::Relaxed);
        waiter.address.store(address, Ordering::Release);
        WAITING.fetch_add(1, Ordering::AcqRel);
        let place = Self { slot };
        // The timer comes last: its creation takes a turn of the engine, in which another thread
        // may already wake this thread.
        if waiter.bell.load(Ordering::Relaxed) == 0 {
            let bell = client::call::<op::TimerNew>(&TimerNew { reserved: 0 }).ok()?;
            waiter.bell.store(bell.object, Ordering::Relaxed);
        }
        Some(place)
    }

    /// Returns the object that becomes readable when the thread is woken, for a wait for several
    /// objects. [`Place::hear`] follows it.
    pub fn bell(&self) -> u32 {
        WAITERS[self.slot].bell.load(Ordering::Relaxed)
    }

    /// Silences the bell after it rang, so that the thread can be woken again.
    pub fn hear(&self) {
        let _ = client::call::<op::TimerRead>(&Object { object: self.bell(), reserved: 0 });
        WAITERS[self.slot].woken.store(false, Ordering::Release);
    }

    /// Waits until woken (true) or the deadline (false). Signal handlers run meanwhile and do not
    /// end the wait.
    pub fn wait(&self, deadline: u64) -> bool {
        let waiter = &WAITERS[self.slot];
        loop {
            if waiter.woken.load(Ordering::Acquire) {
                return true;
            }
            if deadline <= client::now_ps() {
                return false;
            }
            if listen(waiter.bell.load(Ordering::Relaxed), deadline).is_err() {
                return true; // the engine refuses: a spurious wake-up for the caller
            }
        }
    }

    /// Waits as [`Place::wait`], but a handler of the program ends the wait.
    pub fn wait_interruptibly(self, deadline: u64) -> End {
        let waiter = &WAITERS[self.slot];
        let mut known = handlers::runs();
        loop {
            if waiter.woken.load(Ordering::Acquire) {
                return End::Woken;
            }
            if deadline <= client::now_ps() {
                return End::Late;
            }
            let Ok(rang) = listen(waiter.bell.load(Ordering::Relaxed), deadline) else { return End::Woken };
            if let Some(end) = interruption(&mut known, deadline).filter(|_| !rang) {
                self.leave_to_next();
                return end;
            }
        }
    }

    /// Leaves the line after a handler. A wake-up by the handler belongs to the next thread, because
    /// the system takes a thread out of the line before it runs a handler.
    fn leave_to_next(self) {
        let waiter = &WAITERS[self.slot];
        let address = waiter.address.load(Ordering::Relaxed);
        let is_woken = waiter.woken.load(Ordering::Relaxed);
        drop(self);
        if is_woken {
            wake(address, 1);
        }
    }
}

/// Returns how a wait ends after handlers of the program, or `None` if no handler has run since `known`
/// runs. The system begins a futex wait without a deadline again after handlers with SA_RESTART.
pub fn interruption(known: &mut u64, deadline: u64) -> Option<End> {
    let before = std::mem::replace(known, handlers::runs());
    if before == *known {
        None
    } else if deadline == u64::MAX && actions::restarts() {
        Some(End::Restarts)
    } else {
        Some(End::Interrupted)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        WAITERS[self.slot].address.store(0, Ordering::Release);
        WAITING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for the bell once. Returns whether it rang.
fn listen(bell: u32, until: u64) -> Result<bool, Errno> {
    let entry = WaitEntry { object: bell, interest: READABLE, ready: 0, seen: 0 };
    let request = WaitRequest { deadline_ps: until, count: 1, reason: reason::LOCK };
    let (reply, _) = client::call_with_tail::<op::Wait>(&request, &[entry], &mut [])?;
    if reply.ready_count > 0 {
        let _ = client::call::<op::TimerRead>(&Object { object: bell, reserved: 0 });
    }
    Ok(reply.ready_count > 0)
}

/// Wakes up to `count` threads that wait at `address`, in their order. Returns the number of woken
/// threads. Each ring of a bell takes a turn of the engine. A woken thread may run in that turn and
/// wait here again. Threads that arrive after the start of this call belong to the next call.
pub fn wake(address: usize, count: usize) -> usize {
    let end = ORDER.load(Ordering::Relaxed);
    let mut woken = 0;
    while woken < count && WAITING.load(Ordering::Acquire) != 0 {
        let Some(first) = first_at(address, end) else { break };
        ring(first);
        woken += 1;
    }
    woken
}

fn ring(waiter: &Waiter) {
    waiter.woken.store(true, Ordering::Release);
    let bell = waiter.bell.load(Ordering::Relaxed);
    if bell != 0 {
        let ring = TimerSet { object: bell, reserved: 0, at_ps: client::now_ps().max(1), interval_ps: 0 };
        let _ = client::call::<op::TimerSet>(&ring);
    }
}

/// Wakes a thread wherever it waits. Its wait ends without a reason.
pub fn wake_thread(thread: usize) {
    let waits = |waiter: &&Waiter| waiter.address.load(Ordering::Acquire) != 0 && waiter.thread.load(Ordering::Relaxed) == thread;
    if let Some(waiter) = WAITERS.iter().take(SLOTS.load(Ordering::Relaxed)).find(waits) {
        ring(waiter);
    }
}

/// Returns the first thread at `address` that arrived before `end`.
fn first_at(address: usize, end: u64) -> Option<&'static Waiter> {
    let waits = |waiter: &&Waiter| {
        let is_here = waiter.address.load(Ordering::Acquire) == address && !waiter.woken.load(Ordering::Acquire);
        is_here && waiter.order.load(Ordering::Relaxed) < end
    };
    WAITERS.iter().take(SLOTS.load(Ordering::Relaxed)).filter(waits).min_by_key(|waiter| waiter.order.load(Ordering::Relaxed))
}

/// Returns whether a thread waits at `address` and has not been woken.
pub fn is_awaited(address: usize) -> bool {
    WAITING.load(Ordering::Acquire) != 0 && first_at(address, u64::MAX).is_some()
}
