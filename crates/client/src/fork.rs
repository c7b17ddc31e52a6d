//! Forks in wall pace, where children are the host's business.
//!
//! A child inherits the control socket and the mapping of the shared file. Both are its parent's: if it kept the socket, the engine
//! would not hear of the parent's end, and if it wrote into the slot, it would talk in the parent's place. So it lets go of both at
//! once, and attaches as a process of its own when it first asks the engine for something. Most children never do.

use crate::{session, shared_memory};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The process that attached; a child by a raw `clone` comes past the handlers below, but not past this.
static OWNER: AtomicU32 = AtomicU32::new(0);
static ORPHANED: AtomicBool = AtomicBool::new(false);
static CHILD_HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// What threads hold while they talk to the engine or move data, held over a fork so that a child does not inherit it locked.
const LOCKS: [&Mutex<()>; 4] = [&crate::execution_token::CALLS, &shared_memory::PEERS, &crate::ring::PRODUCERS, &shared_memory::CHANGES];

struct Held(UnsafeCell<[Option<MutexGuard<'static, ()>>; LOCKS.len()]>);
// SAFETY: each place is touched only by the thread that holds the lock of it.
unsafe impl Sync for Held {}
thread_local! {
    /// Which of the places the calling thread has filled: others may fork at the same time.
    static FILLED: Cell<u32> = const { Cell::new(0) };
}

static HELD: Held = Held(UnsafeCell::new([const { None }; LOCKS.len()]));

/// Sets the function that a child calls after it has let go of its parent's connection: only calls that are safe in a signal handler
/// may be made then.
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
    if !is_attached_process() {
        let_go();
    }
    if ORPHANED.load(Ordering::Acquire) { session::attach_again() } else { Ok(()) }
}

/// Whether this is a child that has not attached: what it holds of verbs was its parent's, and is dead.
pub(crate) fn is_orphaned() -> bool {
    ORPHANED.load(Ordering::Relaxed)
}

extern "C" fn before() {
    for (place, lock) in LOCKS.into_iter().enumerate() {
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held.
        unsafe { (&mut (*HELD.0.get()))[place] = Some(guard) };
        FILLED.set(FILLED.get() | 1 << place);
    }
    shared_memory::before_fork();
}

extern "C" fn in_parent() {
    shared_memory::after_fork_in_parent();
    release();
}

fn release() {
    let filled = FILLED.replace(0);
    for place in (0..LOCKS.len()).rev().filter(|place| filled & 1 << place != 0) {
        // SAFETY: this thread holds the lock, and has put it there.
        drop(unsafe { (&mut (*HELD.0.get()))[place].take() });
    }
}

extern "C" fn in_child() {
    let_go();
    release();
}

fn let_go() {
    // Before the header goes: it names the file.
    shared_memory::after_fork_in_child();
    session::forget_parent();
    crate::fds::forget_all();
    crate::direct::forget();
    crate::single_threaded::forget();
    OWNER.store(own_number(), Ordering::Release);
    ORPHANED.store(true, Ordering::Release);
    let hook = CHILD_HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: only `set_child_hook` stores here, and it stores a `fn()`.
        let hook: fn() = unsafe { std::mem::transmute(hook) };
        hook();
    }
}

/// Whether this is the process that attached, and not a child by a raw `clone`.
pub(crate) fn is_attached_process() -> bool {
    OWNER.load(Ordering::Acquire) == own_number()
}

/// A page of its own.
#[repr(C, align(4096))]
struct Page(AtomicU32, [u8; 4092]);

/// The kernel empties this in every child, however it was forked: this process's number, once it was asked for.
static NUMBER: Page = Page(AtomicU32::new(0), [0; 4092]);

/// The system's number of this process: the C library's `getpid` is the guest's.
#[inline]
pub fn own_number() -> u32 {
    match NUMBER.0.load(Ordering::Relaxed) {
        0 => ask_number(),
        number => number,
    }
}

#[cold]
fn ask_number() -> u32 {
    use rustix::mm::{Advice, madvise};
    let number = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let page = (&raw const NUMBER).cast_mut().cast();
    // SAFETY: the page holds nothing else, and what is in it may become zero. It is kept only if the kernel promises to empty it.
    if unsafe { madvise(page, size_of::<Page>(), Advice::LinuxWipeOnFork) }.is_ok() {
        NUMBER.0.store(number, Ordering::Relaxed);
    }
    number
}
