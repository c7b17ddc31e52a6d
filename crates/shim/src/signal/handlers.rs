//! The program's own signal handlers. The system sends a signal at any time, even to a thread that
//! waits for the token. A handler that called this library then would run without the token. The
//! library therefore keeps that signal, and runs its handler after the interrupted call returns.

use crate::clib::args::{In, Out, Zeroed};
use crate::clib::real;
use crate::own_calls;
use crate::process::children;
use crate::runtime::world::{active, is_away, is_parked, keeping_errno};
use crate::signal::actions::{self, in_handler, is_blocked, without_ours_or_calls};
use crate::signal::kept;
use crate::spin;
use libc::{c_int, c_void, sighandler_t, siginfo_t};
use softband_client as client;
use std::cell::{Cell, UnsafeCell};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

const SIGNALS: usize = 65;

/// A value for each signal.
pub struct Table<T>(UnsafeCell<[T; SIGNALS]>);
// SAFETY: a program that changes the action of a signal while another thread takes the signal has a
// race natively, too. The values are plain, and `get` and `set` copy them.
unsafe impl<T: Copy> Sync for Table<T> {}

impl<T: Copy> Table<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new([value; SIGNALS]))
    }

    /// Returns the value of a signal.
    pub fn get(&self, signal: c_int) -> T {
        assert!((signal as usize) < SIGNALS);
        // SAFETY: the element exists, and no reference to it does.
        unsafe { self.0.get().cast::<T>().add(signal as usize).read() }
    }

    /// Replaces the value of a signal.
    pub fn set(&self, signal: c_int, value: T) {
        assert!((signal as usize) < SIGNALS);
        // SAFETY: the element exists, and no reference to it does.
        unsafe { self.0.get().cast::<T>().add(signal as usize).write(value) }
    }
}

// SAFETY: a `sigaction` of zeros is SIG_DFL.
static WANTED: Table<libc::sigaction> = Table::new(unsafe { mem::zeroed() });
/// Bit mask of the signals whose system handler is ours.
static WRAPPED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
}

/// Returns a count that grows with each handler of the program in the calling thread.
pub fn runs() -> u64 {
    RUNS.get()
}

/// Returns whether the program handles a signal in the calling thread.
pub fn handles(signal: c_int) -> bool {
    (1..SIGNALS as c_int).contains(&signal) && WRAPPED.load(Ordering::Acquire) & bit(signal) != 0 && !is_blocked(signal)
}

/// Returns whether the end of a child would run a handler of the program in the calling thread.
pub fn handles_child_signals() -> bool {
    handles(libc::SIGCHLD)
}

fn bit(signal: c_int) -> u64 {
    1 << (signal as u32 % 64)
}

/// Implements `sigaction` for a signal that this library does not use.
///
/// # Safety
/// A handler in `new` has the type that its flags say.
pub unsafe fn set(signal: c_int, new: In<libc::sigaction>, old: Out<libc::sigaction>) -> c_int {
    if !(1..SIGNALS as c_int).contains(&signal) {
        // SAFETY: the C library refuses a number that is no signal, and sets nothing.
        return unsafe { real::sigaction(signal, new, old) };
    }
    let was_wrapped = WRAPPED.load(Ordering::Acquire) & bit(signal) != 0;
    let former = WANTED.get(signal);
    let mut native = libc::sigaction::zeroed();
    let function = new.get().filter(|new| !matches!(new.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN));
    let status = if let Some(mut action) = function {
        WANTED.set(signal, action);
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
        action.sa_sigaction = handler as sighandler_t;
        // A kept signal comes twice, so the handler must remain after the first.
        action.sa_flags = (action.sa_flags | libc::SA_SIGINFO | quiet_stops(signal)) & !libc::SA_RESETHAND;
        action.sa_mask = without_ours_or_calls(action.sa_mask);
        // SAFETY: our handler has three parameters, and the flags say so.
        unsafe { real::sigaction(signal, In::of(&action), Out::of(&mut native)) }
    } else if let Some(mut action) = new.get() {
        action.sa_flags |= quiet_stops(signal);
        // SAFETY: the new action is no function.
        unsafe { real::sigaction(signal, In::of(&action), Out::of(&mut native)) }
    } else {
        // SAFETY: without a new action, the call only reads.
        unsafe { real::sigaction(signal, In::NULL, Out::of(&mut native)) }
    };
    native.sa_flags &= !quiet_stops(signal);
    if status != 0 {
        WANTED.set(signal, former);
        return status;
    }
    if function.is_some() {
        WRAPPED.fetch_or(bit(signal), Ordering::AcqRel);
    } else if !new.is_null() {
        WRAPPED.fetch_and(!bit(signal), Ordering::AcqRel);
    }
    old.set(if was_wrapped { former } else { native });
    0
}

/// Returns the flag without which a stop of a child raises its signal. A user of the machine may stop a
/// program of the run for a while, and its parent must not notice.
fn quiet_stops(signal: c_int) -> c_int {
    if signal == libc::SIGCHLD { libc::SA_NOCLDSTOP } else { 0 }
}

/// Lets stops of children raise no signal, in a process that has not set its action for them.
pub fn begin() {
    let mut action = libc::sigaction::zeroed();
    // SAFETY: the first call only reads. The second sets the same action again, with another flag.
    unsafe {
        real::sigaction(libc::SIGCHLD, In::NULL, Out::of(&mut action));
        if action.sa_sigaction == libc::SIG_DFL {
            action.sa_flags |= quiet_stops(libc::SIGCHLD);
            real::sigaction(libc::SIGCHLD, In::of(&action), Out::NULL);
        }
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    in_handler(|| signalled(signal, info, context));
}

fn signalled(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO; they live during the handler.
    let (description, machine) = unsafe { (*info, &*context.cast::<libc::ucontext_t>()) };
    // SAFETY: `set` made this handler the system's for a signal whose action is a function.
    let run = || unsafe { run(signal, description, context) };
    if !active() {
        run();
    } else if is_away() {
        actions::note_outside(signal);
        outside_time(run);
    } else if is_parked() || spin::is_in_library(machine) {
        keeping_errno(|| keep(signal, &description));
    } else {
        run();
    }
}

/// Keeps the signal, and lets its handler run after the call in progress returns.
fn keep(signal: c_int, info: &siginfo_t) {
    let is_kept = client::thread_slot_number().is_some_and(|thread| kept::keep(thread, signal, info));
    // Without room, the handler still runs, but with another description.
    client::note_signals(if is_kept { actions::KEPT } else { bit(signal) });
}

/// Runs `body` without the thread's slot, because the thread blocks in the system and does not own
/// the slot meanwhile.
fn outside_time(body: impl FnOnce()) {
    let Some(slot) = client::thread_slot_number() else { return body() };
    client::forget_thread();
    body();
    client::bind_thread(slot);
}

/// Runs the program's handler of a signal.
///
/// # Safety
/// The program's action for the signal is a function, and the kernel passed `context` to a handler
/// that still runs.
unsafe fn run(signal: c_int, mut info: siginfo_t, context: *mut c_void) {
    let action = WANTED.get(signal);
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        let mut default = libc::sigaction::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        // SAFETY: the default action is no function.
        unsafe { set(signal, In::of(&default), Out::NULL) };
    }
    if signal == libc::SIGCHLD {
        // SAFETY: the kernel describes SIGCHLD by the child's number.
        children::report_end(unsafe { info.si_pid() });
    }
    RUNS.set(RUNS.get() + 1);
    // SAFETY: `action` is the program's function for this signal; its arguments live here.
    unsafe { call(&action, signal, &raw mut info, context) };
}

/// Calls the program's handler named by `action`, as the kernel would.
///
/// # Safety
/// The program set `action`, which is a function, for this signal. The kernel passed `context` to a
/// handler that still runs, and `info` describes the signal.
pub(crate) unsafe fn call(action: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passed the context to a handler that still runs.
    let machine = unsafe { &*context.cast::<libc::ucontext_t>() };
    own_calls::beside_handler(machine, || {
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: SA_SIGINFO states that the handler takes three arguments.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { mem::transmute(action.sa_sigaction) };
            handler(signal, info, context);
        } else {
            // SAFETY: without SA_SIGINFO, the handler takes the number alone.
            let handler: extern "C" fn(c_int) = unsafe { mem::transmute(action.sa_sigaction) };
            handler(signal);
        }
    });
}
