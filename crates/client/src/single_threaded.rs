//! Detection of single-threaded processes, which need no locked instructions.
//!
//! Locked instructions have two purposes. They exclude other threads of the process. They also
//! order a thread's announcement of a transfer before its first read of the engine's tables
//! ([`softband_shm_transport::epoch_slots`]). A single-threaded process needs neither, because the engine ensures
//! the order. Before the engine reads the announcements, it requests a kernel memory barrier in
//! every program that registered for it.

use crate::session::header;
use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

static NEVER: AtomicU8 = AtomicU8::new(0);
/// Byte that is nonzero while the process is single-threaded.
static IS_SINGLE_THREADED: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const NEVER).cast_mut());

/// Checks whether this is the only thread of the process and its announcements need no locked
/// instruction.
#[inline(always)]
pub fn is_single_threaded() -> bool {
    // SAFETY: the pointer always refers to a byte that lives for ever.
    unsafe { (*IS_SINGLE_THREADED.load(Ordering::Relaxed)).load(Ordering::Relaxed) != 0 }
}

/// Starts the detection after attach, if engine and kernel support it.
pub(crate) fn begin() {
    // The C library (glibc from 2.32 on) keeps this byte nonzero while the process has no other
    // thread.
    // SAFETY: `dlsym` only looks a name up.
    let byte = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !byte.is_null() && header().orders_epoch_slots != 0 && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok() {
        IS_SINGLE_THREADED.store(byte.cast(), Ordering::Release);
    }
}

/// Stops the detection: a child has not registered yet, or several threads use verbs.
pub(crate) fn forget() {
    IS_SINGLE_THREADED.store((&raw const NEVER).cast_mut(), Ordering::Release);
}
