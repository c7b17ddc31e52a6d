//! The program's own signal handlers. The system sends a signal at any time, even to a thread that
//! waits for the token. A handler that called this library then would run without the token. The
//! library therefore keeps that signal, and runs its handler after the interrupted call returns.

use crate::clib::real;
use crate::process::children;
use crate::runtime::world::{active, is_away, is_parked, keeping_errno};
use crate::signal::actions::{in_handler, without_ours};
use crate::spin;
use libc::{c_int, c_void, sighandler_t, siginfo_t};
use softband_client as client;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, ptr};

const SIGNALS: usize = 65;

struct Table<T>(UnsafeCell<[T; SIGNALS]>);
// SAFETY: a program that changes the action of a signal while another thread takes the signal has a
// race natively, too.
unsafe impl<T> Sync for Table<T> {}
// SAFETY: all zero is a valid value of both types.
static WANTED: Table<libc::sigaction> = Table(UnsafeCell::new(unsafe { mem::zeroed() }));
// SAFETY: `siginfo_t` consists of numbers and pointers, for which all zero is valid.
static KEPT: Table<siginfo_t> = Table(UnsafeCell::new(unsafe { mem::zeroed() }));
/// Bit mask of the signals whose system handler is ours.
static WRAPPED: AtomicU64 = AtomicU64::new(0);
/// Bit mask of the signals whose system description [`KEPT`] holds.
static HAS_KEPT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
}

/// Returns a count that grows with each handler of the program in the calling thread.
pub fn runs() -> u64 {
    RUNS.get()
}

/// Returns whether the end of a child would run a handler of the program in the calling thread.
pub fn hears_children() -> bool {
    if WRAPPED.load(Ordering::Acquire) & bit(libc::SIGCHLD) == 0 {
        return false;
    }
    // SAFETY: the set is ours. Without a new set, the call only writes the former set. `sigset_t`
    // consists of numbers.
    unsafe {
        let mut blocked: libc::sigset_t = mem::zeroed();
        real::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut blocked) == 0 && libc::sigismember(&raw const blocked, libc::SIGCHLD) == 0
    }
}

fn bit(signal: c_int) -> u64 {
    1 << (signal as u32 % 64)
}

unsafe fn wanted(signal: c_int) -> &'static mut libc::sigaction {
    &mut (&mut (*WANTED.0.get()))[signal as usize]
}

/// Implements `sigaction` for a signal that this library does not use.
pub unsafe fn set(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    if !(1..SIGNALS as c_int).contains(&signal) {
        return real::sigaction(signal, new, old);
    }
    let was_wrapped = WRAPPED.load(Ordering::Acquire) & bit(signal) != 0;
    let former = *wanted(signal);
    let mut native: libc::sigaction = mem::zeroed();
    let is_function = !new.is_null() && !matches!((*new).sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    let status = if is_function {
        *wanted(signal) = *new;
        let mut action = *new;
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
        action.sa_sigaction = handler as sighandler_t;
        // A kept signal comes twice, so the handler must remain after the first.
        action.sa_flags = (action.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
        action.sa_mask = without_ours(&raw const (*new).sa_mask);
        real::sigaction(signal, &raw const action, &raw mut native)
    } else {
        real::sigaction(signal, new, &raw mut native)
    };
    if status != 0 {
        *wanted(signal) = former;
        return status;
    }
    if is_function {
        WRAPPED.fetch_or(bit(signal), Ordering::AcqRel);
    } else if !new.is_null() {
        WRAPPED.fetch_and(!bit(signal), Ordering::AcqRel);
    }
    if !old.is_null() {
        *old = if was_wrapped { former } else { native };
    }
    0
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    in_handler(|| signalled(signal, info, context));
}

fn signalled(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both; they live during the handler.
    unsafe {
        if !active() {
            run(signal, info, context);
        } else if is_away() {
            outside_time(|| run(signal, info, context));
        } else if is_parked() || spin::is_in_library(&*context.cast()) {
            keeping_errno(|| keep(signal, info));
        } else {
            run(signal, info, context);
        }
    }
}

/// Keeps the signal, and lets its handler run after the call in progress returns.
unsafe fn keep(signal: c_int, info: *const siginfo_t) {
    (&mut (*KEPT.0.get()))[signal as usize] = *info;
    HAS_KEPT.fetch_or(bit(signal), Ordering::AcqRel);
    client::note_signals(bit(signal));
}

/// Runs `body` without the thread's slot, because the thread blocks in the system and does not own
/// the slot meanwhile.
fn outside_time(body: impl FnOnce()) {
    let Some(slot) = client::thread_slot_number() else { return body() };
    client::forget_thread();
    body();
    client::bind_thread(slot);
}

unsafe fn run(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let action = *wanted(signal);
    let mut kept = (&(*KEPT.0.get()))[signal as usize];
    let is_kept = HAS_KEPT.fetch_and(!bit(signal), Ordering::AcqRel) & bit(signal) != 0;
    let info = if is_kept { &raw mut kept } else { info };
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        let mut default: libc::sigaction = mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        set(signal, &raw const default, ptr::null_mut());
    }
    if signal == libc::SIGCHLD {
        children::tell_end((*info).si_pid());
    }
    RUNS.set(RUNS.get() + 1);
    call(&action, signal, info, context);
}

/// Calls the program's handler named by `action`, as the kernel would.
pub(crate) unsafe fn call(action: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = mem::transmute(action.sa_sigaction);
        handler(signal, info, context);
    } else {
        let handler: extern "C" fn(c_int) = mem::transmute(action.sa_sigaction);
        handler(signal);
    }
}
