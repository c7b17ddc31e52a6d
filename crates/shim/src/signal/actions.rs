//! Signals that this library needs for itself (SIGSEGV, SIGTRAP and the engine's), and the
//! program's actions for them.

use crate::clib::real;
use crate::runtime::world::{fail, keeping_errno};
use crate::signal::handlers;
use crate::spin;
use crate::tsc;
use libc::{c_int, c_void, sighandler_t, siginfo_t, sigset_t};
use softband_ipc::layout::SPIN_SIGNAL;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signal code of a processor fault without an address, as a trapped counter read raises it.
const SI_KERNEL: c_int = 0x80;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Actions that the program requested for the signals of this library.
struct Wanted(UnsafeCell<[libc::sigaction; 3]>);
// SAFETY: `sigaction` writes it and handlers read it. A program that changes its action while
// another thread faults has a race natively, too.
unsafe impl Sync for Wanted {}
// SAFETY: all zero is a `sigaction` of SIG_DFL.
static WANTED: Wanted = Wanted(UnsafeCell::new(unsafe { std::mem::zeroed() }));

fn index(signal: c_int) -> Option<usize> {
    match signal {
        libc::SIGSEGV => Some(0),
        libc::SIGTRAP => Some(1),
        SPIN_SIGNAL => Some(2),
        _ => None,
    }
}

unsafe fn wanted(signal: c_int) -> Option<&'static mut libc::sigaction> {
    index(signal).map(|index| &mut (&mut (*WANTED.0.get()))[index])
}

/// Blocks or unblocks the engine's signal, which would kill an image without a handler for it. The
/// signal stays blocked from before an `exec` until the new image has its handler. The mask and
/// pending signals survive `exec`.
pub fn hold_engine_back(how: c_int) {
    let set: u64 = 1 << (SPIN_SIGNAL - 1);
    // SAFETY: the kernel reads a set of eight bytes and does not return the former set.
    unsafe { kernel!(libc::SYS_rt_sigprocmask, how, &raw const set, std::ptr::null_mut::<u64>(), size_of::<u64>()) };
}

/// Takes over the signals. Called once, at attach.
pub fn install() {
    for signal in [libc::SIGSEGV, libc::SIGTRAP, SPIN_SIGNAL] {
        // SAFETY: the handlers have the type that SA_SIGINFO requires.
        unsafe {
            let mut former: libc::sigaction = std::mem::zeroed();
            take(signal, 0, &raw mut former);
            if let Some(wanted) = wanted(signal) {
                *wanted = former;
            }
        }
    }
    INSTALLED.store(true, Ordering::Release);
    hold_engine_back(libc::SIG_UNBLOCK);
}

unsafe fn take(signal: c_int, extra_flags: c_int, former: *mut libc::sigaction) {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = match signal {
        libc::SIGSEGV => on_fault,
        libc::SIGTRAP => on_trap,
        _ => on_spin_signal,
    };
    let mut action: libc::sigaction = std::mem::zeroed();
    action.sa_sigaction = handler as sighandler_t;
    // NODEFER: other handlers of this library may run while a handler waits for the token.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART | extra_flags;
    real::sigaction(signal, &raw const action, former);
}

thread_local! {
    static RESTARTS: Cell<bool> = const { Cell::new(false) };
    static RAISED: Cell<u64> = const { Cell::new(0) };
}

/// Returns whether a call interrupted by the last delivered signals continues by itself (all of
/// them have SA_RESTART).
pub fn restarts() -> bool {
    RESTARTS.get()
}

/// Returns a count that grows with each delivery of signals to the calling thread.
pub fn raised() -> u64 {
    RAISED.get()
}

unsafe fn has_restart(signal: c_int) -> bool {
    let mut action: libc::sigaction = std::mem::zeroed();
    real::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_flags & libc::SA_RESTART != 0
}

unsafe fn is_blocked(signal: c_int) -> bool {
    let mut blocked: sigset_t = std::mem::zeroed();
    real::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked) == 0 && libc::sigismember(&raw const blocked, signal) == 1
}

/// Raises the signals that the engine delivers, natively and in the calling thread. Their handlers
/// have run when this returns.
pub fn raise_all(signals: u64) {
    RAISED.set(RAISED.get() + 1);
    // SAFETY: `has_restart` reads the action of a valid signal into its own structure.
    RESTARTS.set((1..64).filter(|signal| signals & 1 << signal != 0).all(|signal| unsafe { has_restart(signal) }));
    for signal in 1..64 {
        if signals & 1 << signal != 0 {
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            // If this thread blocks the signal, another thread may wait for it.
            // SAFETY: neither call touches memory of ours.
            keeping_errno(|| unsafe {
                if is_blocked(signal) { kernel!(libc::SYS_kill, pid, signal) } else { kernel!(libc::SYS_tgkill, pid, tid, signal) }
            });
        }
    }
}

static HANDLERS: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a handler of this library or the program runs in this process. A handler left by
/// a jump counts forever.
pub fn is_any_handler_running() -> bool {
    HANDLERS.load(Ordering::Acquire) != 0
}

/// Runs the body of a handler and counts it as running.
pub fn in_handler<R>(body: impl FnOnce() -> R) -> R {
    HANDLERS.fetch_add(1, Ordering::AcqRel);
    let result = body();
    HANDLERS.fetch_sub(1, Ordering::AcqRel);
    result
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    in_handler(|| fault(signal, info, context));
}

fn fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both; they live during the handler.
    let (info_ref, machine) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let ours = keeping_errno(|| match info_ref.si_code {
        // SAFETY: a fault with SI_KERNEL comes from an instruction that could be fetched.
        SI_KERNEL => unsafe { tsc::emulate(machine) },
        // SAFETY: a positive code of SIGSEGV marks a fault, so the union holds an address.
        code if code > 0 => spin::on_fault(unsafe { info_ref.si_addr() } as usize, machine),
        _ => false,
    });
    if !ours {
        // SAFETY: the action came from `sigaction` for this signal.
        unsafe { pass_on(signal, info, context) };
    }
}

extern "C" fn on_trap(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    in_handler(|| trapped(signal, info, context));
}

fn trapped(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: as in `on_fault`.
    let machine = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if !keeping_errno(|| spin::on_trap(machine)) {
        // SAFETY: as in `on_fault`.
        unsafe { pass_on(signal, info, context) };
    }
}

extern "C" fn on_spin_signal(_signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let _ = info;
    // SAFETY: as in `on_fault`.
    let machine = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    in_handler(|| keeping_errno(|| spin::on_signal(machine)));
}

/// Applies the program's action to a signal that is not ours.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(wanted) = wanted(signal) else { return };
    let action = *wanted;
    let from_processor = (*info).si_code > 0;
    if action.sa_sigaction == libc::SIG_IGN && !from_processor {
        return;
    }
    if action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN {
        die_of(signal, from_processor);
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        wanted.sa_sigaction = libc::SIG_DFL;
    }
    handlers::call(&action, signal, info, context);
}

/// Applies the default action: the faulting instruction runs again without a handler, or the signal
/// is sent again.
unsafe fn die_of(signal: c_int, from_processor: bool) {
    let mut default: libc::sigaction = std::mem::zeroed();
    default.sa_sigaction = libc::SIG_DFL;
    real::sigaction(signal, &raw const default, std::ptr::null_mut());
    if !from_processor || signal == libc::SIGTRAP {
        raise_all(1 << signal);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    if !INSTALLED.load(Ordering::Acquire) {
        return real::sigaction(signal, new, old);
    }
    let Some(wanted) = wanted(signal) else { return handlers::set(signal, new, old) };
    let former = *wanted;
    if !new.is_null() {
        *wanted = *new;
        // A handler with its own stack survives an overflow of the ordinary stack, so our handler
        // must run there, too.
        take(signal, (*new).sa_flags & libc::SA_ONSTACK, std::ptr::null_mut());
    }
    if !old.is_null() {
        *old = former;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    let mut new: libc::sigaction = std::mem::zeroed();
    let mut old: libc::sigaction = std::mem::zeroed();
    new.sa_sigaction = handler;
    new.sa_flags = libc::SA_RESTART;
    libc::sigaddset(&raw mut new.sa_mask, number);
    if sigaction(number, &raw const new, &raw mut old) != 0 {
        return libc::SIG_ERR;
    }
    old.sa_sigaction
}

/// Returns a copy of `set` that never blocks the signals of this library.
pub unsafe fn without_ours(set: *const sigset_t) -> sigset_t {
    without(set, &[libc::SIGSEGV, libc::SIGTRAP, SPIN_SIGNAL])
}

unsafe fn without(set: *const sigset_t, signals: &[c_int]) -> sigset_t {
    let mut copy = *set;
    for signal in signals {
        libc::sigdelset(&raw mut copy, *signal);
    }
    copy
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    if set.is_null() || how == libc::SIG_UNBLOCK {
        return real::pthread_sigmask(how, set, old);
    }
    let copy = if INSTALLED.load(Ordering::Acquire) {
        without_ours(set)
    } else if crate::runtime::world::walled() {
        // A move of registered memory stops other writers by a fault. The fault would end a thread
        // that blocks SIGSEGV.
        without(set, &[libc::SIGSEGV])
    } else {
        *set
    };
    real::pthread_sigmask(how, &raw const copy, old)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    match pthread_sigmask(how, set, old) {
        0 => 0,
        error => fail(error),
    }
}
