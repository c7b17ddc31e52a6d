//! Forks at wall pace, where the host schedules children.
//!
//! A child inherits the control socket and the mapping of the shared file. Both belong to its
//! parent. With the socket open in the child, the engine would not notice the parent's end. A child
//! that writes into the slot would act as its parent. So the child drops both at once. It attaches
//! as a process of its own at its first call to the engine. Most children never do.

use crate::{session, shared_memory};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The process that attached. A child by a raw `clone` bypasses the handlers below, but not this
/// check.
static OWNER: AtomicU32 = AtomicU32::new(0);
static ORPHANED: AtomicBool = AtomicBool::new(false);
static CHILD_HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Locks of threads during calls to the engine and transfers. A fork holds them, so that no child
/// inherits a locked one.
const LOCKS: [&Mutex<()>; 5] =
    [&crate::execution_token::CALLS, &shared_memory::PEERS, &crate::ring::PRODUCERS, &shared_memory::CHANGES, &softband_shm_transport::traffic::LOCK];

struct Held(UnsafeCell<[Option<MutexGuard<'static, ()>>; LOCKS.len()]>);
// SAFETY: only the thread that holds a lock touches the place of that lock.
unsafe impl Sync for Held {}
thread_local! {
    /// Places that the calling thread has filled, as bits. Other threads may fork at the same time.
    static FILLED: Cell<u32> = const { Cell::new(0) };
}

static HELD: Held = Held(UnsafeCell::new([const { None }; LOCKS.len()]));

/// Sets the function that a child calls after it has dropped its parent's connection. It may use
/// only async-signal-safe calls.
pub fn set_child_hook(hook: fn()) {
    CHILD_HOOK.store(hook as *mut (), Ordering::Release);
}

/// Installs the fork handlers in this process.
pub fn follow_forks() {
    // SAFETY: the handlers have the required type and live for ever.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Records the calling process as the attached process.
pub(crate) fn note_owner() {
    OWNER.store(own_number(), Ordering::Release);
    crate::execution_token::forget_away();
    ORPHANED.store(false, Ordering::Release);
}

/// Attaches a child that has not attached yet. The caller holds the lock of calls.
pub(crate) fn attach_if_orphaned() -> Result<(), session::AttachError> {
    if !is_attached_process() {
        let_go();
    }
    if ORPHANED.load(Ordering::Acquire) { session::attach_again() } else { Ok(()) }
}

/// Checks whether this is a child that has not attached. Its verbs objects belonged to its parent
/// and are dead.
pub(crate) fn is_orphaned() -> bool {
    ORPHANED.load(Ordering::Relaxed)
}

extern "C" fn before() {
    for (place, lock) in LOCKS.into_iter().enumerate() {
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: this thread holds the lock of this place.
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
        // SAFETY: this thread holds the lock and has put the guard there.
        drop(unsafe { (&mut (*HELD.0.get()))[place].take() });
    }
}

extern "C" fn in_child() {
    let_go();
    release();
}

fn let_go() {
    // First, because it needs the header, which names the file.
    shared_memory::after_fork_in_child();
    session::forget_parent();
    crate::fds::forget_all();
    crate::direct::forget();
    crate::single_threaded::forget();
    note_table_number(0);
    OWNER.store(own_number(), Ordering::Release);
    ORPHANED.store(true, Ordering::Release);
    let hook = CHILD_HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: only `set_child_hook` stores here, and it stores a `fn()`.
        let hook: fn() = unsafe { std::mem::transmute(hook) };
        hook();
    }
}

/// Checks whether this is the process that attached, and not a child by a raw `clone`.
pub(crate) fn is_attached_process() -> bool {
    OWNER.load(Ordering::Acquire) == own_number()
}

/// A separate page: the cached PID, and the number of this process in the tables if that is
/// another.
#[repr(C, align(4096))]
struct Page(AtomicU32, AtomicU32, [u8; 4088]);

/// The kernel clears this page in every child, for every kind of fork.
static NUMBER: Page = Page(AtomicU32::new(0), AtomicU32::new(0), [0; 4088]);

/// Stores the number of this process in the tables; 0 if that is its PID.
pub(crate) fn note_table_number(number: u32) {
    NUMBER.1.store(number, Ordering::Relaxed);
}

/// Returns the number of this process in the tables. The engine of a shared fabric gives it, because
/// PIDs mean nothing in other namespaces.
#[inline]
pub(crate) fn table_number() -> u32 {
    match NUMBER.1.load(Ordering::Relaxed) {
        0 => own_number(),
        number => number,
    }
}

/// Returns the PID of this process. The shim replaces `getpid` of the C library.
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
    // SAFETY: the page holds nothing else, and its contents may become zero. The number is stored
    // only if the kernel promises to clear the page.
    if unsafe { madvise(page, size_of::<Page>(), Advice::LinuxWipeOnFork) }.is_ok() {
        NUMBER.0.store(number, Ordering::Relaxed);
    }
    number
}
