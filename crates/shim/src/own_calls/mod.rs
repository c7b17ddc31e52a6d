//! System calls by a program's own instructions, without a function of the C library: runtimes of
//! other languages (Go, Rust without the C library) and libraries (OpenMP) make them.
//!
//! Syscall User Dispatch (Linux 5.11) stops each system call outside a range of addresses. The range
//! holds the C library and this library, whose calls stay as they are. A stopped call raises SIGSYS.
//! Its handler calls the interposed function instead (`answer`, `routes`). So the call behaves
//! like the same call by the C library.
//!
//! Only a process with such instructions pays for it (`objects` searches for them). Other processes
//! keep the kernel's fast path. At wall pace, only calls about the fabric have other answers than the
//! kernel's (`wall`).

mod answer;
mod children;
mod native;
mod objects;
mod pointers;
mod routes;
mod signals;
mod stack;
mod wall;

pub use pointers::end_try;

use crate::runtime::world::{active, walled};
use crate::signal::actions;
use crate::spin::registers;
use crate::sync::threads;
use objects::Objects;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
const PR_SYS_DISPATCH_OFF: libc::c_int = 0;
const PR_SYS_DISPATCH_ON: libc::c_int = 1;

/// The byte that the kernel reads at each call outside the range: stop it.
static STOP: u8 = 1;
/// Whether the program has a filter of system calls (seccomp).
static HAS_FILTER: AtomicBool = AtomicBool::new(false);
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The range whose calls the kernel lets through.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// The loader's code. The range can lie apart from it.
static LOADER_START: AtomicUsize = AtomicUsize::new(0);
static LOADER_END: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of the thread for which dispatch is on. The child of a fork begins without it.
    static READY: Cell<libc::pid_t> = const { Cell::new(0) };
}

/// Returns whether this process stops calls by own instructions.
pub fn are_stopped() -> bool {
    IS_ON.load(Ordering::Acquire) && !HAS_FILTER.load(Ordering::Relaxed)
}

/// Lets all calls through from now on, because the program has set a filter. The filter must judge
/// them by their instructions.
pub fn leave_to_filter() {
    HAS_FILTER.store(true, Ordering::Relaxed);
}

/// Looks at objects loaded since the last look. The first object with such instructions switches
/// dispatch on.
pub fn look_at_objects() {
    let is_settled = || IS_ON.load(Ordering::Acquire) || HAS_FILTER.load(Ordering::Relaxed);
    if !(active() || walled()) {
        return;
    }
    if !is_settled() && objects::has_news() {
        let found = Objects::search();
        if found.make_calls() {
            switch_on(&found);
        }
    }
    // At wall pace, a thread that is older than dispatch has no turn that would prepare it.
    if READY.get() == 0 && walled() {
        prepare_thread();
    }
}

fn switch_on(found: &Objects) {
    let loader = found.loader();
    LOADER_START.store(loader.start, Ordering::Relaxed);
    LOADER_END.store(loader.end, Ordering::Relaxed);
    let range = found.range_to_let_through();
    if range.is_empty() || !is_supported(&range) || !answer::install() {
        return;
    }
    START.store(range.start, Ordering::Relaxed);
    END.store(range.end, Ordering::Relaxed);
    IS_ON.store(true, Ordering::Release);
    if walled() {
        actions::unmask_calls();
        threads::install();
    }
    prepare_thread();
}

/// Returns whether the kernel knows dispatch. Leaves it off.
fn is_supported(range: &std::ops::Range<usize>) -> bool {
    let is_known = set(PR_SYS_DISPATCH_ON, range.start, range.end - range.start);
    is_known && set(PR_SYS_DISPATCH_OFF, 0, 0)
}

fn set(mode: libc::c_int, start: usize, len: usize) -> bool {
    let byte = if mode == PR_SYS_DISPATCH_ON { &raw const STOP } else { std::ptr::null() };
    // SAFETY: the kernel reads the byte, which lives as long as the process.
    unsafe { kernel!(libc::SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, mode, start, len, byte) == 0 }
}

/// Stops calls by own instructions in the calling thread, if this process does. A thread needs this
/// once, the child of a fork again.
pub fn prepare_thread() {
    if !are_stopped() {
        return;
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    if READY.get() == own || !stack::prepare() {
        return;
    }
    signals::let_through();
    let start = START.load(Ordering::Relaxed);
    if set(PR_SYS_DISPATCH_ON, start, END.load(Ordering::Relaxed) - start) {
        READY.set(own);
    }
}

/// Prepares the calling thread at the start of a turn. Costs nothing in a thread that is ready.
pub fn token_came() {
    if are_stopped() && READY.get() == 0 {
        prepare_thread();
    }
}

/// Lets the calling thread's calls through, until the next turn or signal of the engine.
fn release_thread() {
    if set(PR_SYS_DISPATCH_OFF, 0, 0) {
        READY.set(0);
    }
}

/// Runs a handler of the program, whose own calls must spare the call that the handler has interrupted.
pub fn beside_handler(machine: &libc::ucontext_t, handler: impl FnOnce()) {
    if are_stopped() {
        answer::beside_handler(registers::stack(machine), handler);
    } else {
        handler();
    }
}

/// Gives the memory of an ending thread back.
pub fn thread_ends() {
    stack::give_back();
}

/// Leaves the calls to the program, which uses dispatch itself.
pub fn leave_to_program() {
    if IS_ON.load(Ordering::Acquire) {
        leave_to_filter();
        actions::give_calls_back();
    }
}

/// Notes in the child of a fork that the kernel forgot its dispatch.
pub fn begin_as_child() {
    READY.set(0);
    prepare_thread();
}

/// Returns whether a call comes from the loader.
fn is_loader(caller: usize) -> bool {
    (LOADER_START.load(Ordering::Relaxed)..LOADER_END.load(Ordering::Relaxed)).contains(&caller)
}
