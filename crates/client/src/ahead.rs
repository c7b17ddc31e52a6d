//! Computation ahead of the engine.
//!
//! A thread that knows the length of its next computation announces it. The engine then goes on
//! beside the thread, up to the end of the computation in simulated time. Until then the thread may
//! only compute and read its own clock. Its first other action ([`catch_up`]) ends the computation:
//! the thread's clock moves to the end, and the thread waits until the engine comes there.
//!
//! All ways to the engine lead through [`catch_up`]: calls, posts, and looks at completion rings.
//! The shim leads the system calls of the program there.

use crate::execution_token::{advance_ps, deliver_signals, give, note_progress, run_hook, wait_asleep, wake_engine};
use crate::session::{thread_pointer, thread_slot};
use softband_ipc::calls::Op;
use softband_ipc::layout::token;
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Thread pointer of the thread that computes ahead, or 0. Other threads of its process run only
/// after it has caught up.
static AHEAD: AtomicUsize = AtomicUsize::new(0);
static BEFORE_CATCH_UP: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// Announced computation that the clock does not show yet, in picoseconds.
    static REST: Cell<u64> = const { Cell::new(0) };
    static IS_ANNOUNCED: Cell<bool> = const { Cell::new(false) };
}

/// Sets the function that runs in a thread before it catches up. The shim sets it.
pub fn set_catch_up_hook(hook: fn()) {
    BEFORE_CATCH_UP.store(hook as *mut (), Ordering::Release);
}

/// Checks whether the calling thread computes ahead.
pub fn is_ahead() -> bool {
    let ahead = AHEAD.load(Ordering::Relaxed);
    ahead != 0 && ahead == thread_pointer()
}

/// Announces that the calling thread now computes for `picos`, of the modelled host. Returns false
/// in a thread that the engine does not know.
pub(crate) fn announce(picos: u64) -> bool {
    let Some(slot) = thread_slot() else { return false };
    REST.set(picos);
    IS_ANNOUNCED.set(true);
    note_progress();
    let end = slot.clock_ps.load(Ordering::Relaxed).saturating_add(picos);
    slot.ahead_until_ps.store(end, Ordering::Relaxed);
    AHEAD.store(thread_pointer(), Ordering::Relaxed);
    slot.token.store(token::AHEAD, Ordering::SeqCst);
    wake_engine(slot);
    true
}

/// Takes the announcement of the computation that ends now. Returns false if there was none.
pub(crate) fn take_announcement() -> bool {
    IS_ANNOUNCED.replace(false)
}

/// Waits until the engine has come to the end of the announced computation, if the calling thread
/// computes ahead.
#[inline]
pub fn catch_up() {
    if AHEAD.load(Ordering::Relaxed) != 0 {
        catch_up_if_ahead();
    }
}

#[cold]
fn catch_up_if_ahead() {
    let Some(slot) = thread_slot().filter(|_| is_ahead()) else { return };
    AHEAD.store(0, Ordering::Relaxed);
    run_hook(&BEFORE_CATCH_UP);
    advance_ps(REST.take());
    slot.payload_len.store(0, Ordering::Relaxed);
    give(slot, Op::Sync);
    // Others compute meanwhile, on all processors.
    wait_asleep(slot);
    deliver_signals(slot);
}
