//! Whether the process is single-threaded, so that it needs no locked instructions.
//!
//! They do two things: they keep other threads of the process out, and they let the announcement that a thread moves data come before its
//! first read of the engine's tables ([`crate::epoch_slots`]). A process of one thread needs neither, where the engine sees to the second:
//! before it reads the announcements it has the kernel put a barrier between all instructions of every program that has asked for that.

use crate::session::header;
use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

static NEVER: AtomicU8 = AtomicU8::new(0);
/// What says so.
static IS_SINGLE_THREADED: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const NEVER).cast_mut());

/// Whether this is the only thread of the process, and what it announces needs no locked instruction.
#[inline(always)]
pub fn is_single_threaded() -> bool {
    // SAFETY: always a byte that is there for ever.
    unsafe { (*IS_SINGLE_THREADED.load(Ordering::Relaxed)).load(Ordering::Relaxed) != 0 }
}

/// The process has attached: from now on it is asked whether it has one thread, where engine and kernel can do their part.
pub(crate) fn begin() {
    // The C library (glibc from 2.32 on) keeps count: while this byte is not zero, there is no other thread.
    // SAFETY: looks a name up.
    let byte = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !byte.is_null() && header().orders_epoch_slots != 0 && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok() {
        IS_SINGLE_THREADED.store(byte.cast(), Ordering::Release);
    }
}

/// A child has asked for nothing yet; or more than one thread has to do with verbs, and will have.
pub(crate) fn forget() {
    IS_SINGLE_THREADED.store((&raw const NEVER).cast_mut(), Ordering::Release);
}
