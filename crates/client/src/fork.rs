//! Forks in wall pace, where children are the host's business.
//!
//! A child inherits the control socket and the mapping of the shared file. Both are its parent's: if it kept the socket, the engine
//! would not hear of the parent's end, and if it wrote into the slot, it would talk in the parent's place. So it lets go of both at
//! once, and attaches as a process of its own when it first asks the engine for something. Most children never do.

use crate::session;
use crate::turn::{CALLS, CallsGuard};
use std::cell::UnsafeCell;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// The process that attached; a child by a raw `clone` comes past the handlers below, but not past this.
static OWNER: AtomicU32 = AtomicU32::new(0);
static ORPHANED: AtomicBool = AtomicBool::new(false);
static CHILD_HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// How often, ten times in a millisecond, the lock is tried: a signal handler that forks in the midst of a call would wait for ever.
const LOCK_TRIES: u32 = 2_000;

/// The lock of calls, held over a fork so that the child does not inherit a call of another thread.
struct Held(UnsafeCell<Option<CallsGuard>>);
// SAFETY: only the thread that forks touches it, and it holds the lock that is in it.
unsafe impl Sync for Held {}
static HELD: Held = Held(UnsafeCell::new(None));

/// Who is told in a child after it has let go of its parent's connection: at that time only calls that are safe in a signal handler
/// may be made.
pub fn set_child_hook(hook: fn()) {
    CHILD_HOOK.store(hook as *mut (), Ordering::Release);
}

/// Follows this process's forks from now on.
pub fn follow_forks() {
    // SAFETY: the handlers have the type that is asked for and live for ever.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// The calling process is the one that is attached.
pub(crate) fn note_owner() {
    OWNER.store(own_number(), Ordering::Release);
    ORPHANED.store(false, Ordering::Release);
}

/// Attaches a child that has not done so yet. The caller holds the lock of calls.
pub(crate) fn attach_if_orphaned() -> Result<(), session::AttachError> {
    if OWNER.load(Ordering::Acquire) != own_number() {
        let_go();
    }
    if ORPHANED.load(Ordering::Acquire) { session::attach_again() } else { Ok(()) }
}

extern "C" fn before() {
    let pause = rustix::thread::Timespec { tv_sec: 0, tv_nsec: 100_000 };
    for _ in 0..LOCK_TRIES {
        let guard = match CALLS.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let _ = rustix::thread::nanosleep(&pause);
                continue;
            }
        };
        // SAFETY: the lock is held, so no other thread is between `before` and one of the handlers after it.
        unsafe { *HELD.0.get() = Some(guard) };
        return;
    }
}

extern "C" fn in_parent() {
    // SAFETY: this thread stored the guard in `before`, or nobody did.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    let_go();
    in_parent();
}

fn let_go() {
    session::forget_parent();
    crate::fds::forget_all();
    OWNER.store(own_number(), Ordering::Release);
    ORPHANED.store(true, Ordering::Release);
    let hook = CHILD_HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: only `set_child_hook` stores here, and it stores a `fn()`.
        let hook: fn() = unsafe { std::mem::transmute(hook) };
        hook();
    }
}

/// The system's number of this process: the C library's `getpid` is the guest's.
fn own_number() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}
