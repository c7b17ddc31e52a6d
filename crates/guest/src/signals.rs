//! Signals that this library needs for itself (SIGSEGV, SIGTRAP and the engine's), and what the program wants done at them.

use crate::handlers;
use crate::real;
use crate::spin;
use crate::tsc;
use crate::world::{fail, keeping_errno};
use libc::{c_int, c_void, sighandler_t, siginfo_t, sigset_t};
use softband_ipc::layout::SPIN_SIGNAL;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A fault that the processor raised without an address: what a trapped counter read looks like.
const SI_KERNEL: c_int = 0x80;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// What the program asked for, by the signals that are ours.
struct Wanted(UnsafeCell<[libc::sigaction; 3]>);
// SAFETY: written by `sigaction` and read by handlers; a program that changes its action while another thread faults races natively, too.
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

/// Holds the engine's signal back, or lets it come: it would kill an image without a handler for it. That is so from before an `exec` until
/// the new image has its own, for what is blocked or pending stays so.
pub fn hold_engine_back(how: c_int) {
    let set: u64 = 1 << (SPIN_SIGNAL - 1);
    // SAFETY: the kernel reads a set of eight bytes and is not asked for the former one.
    unsafe { kernel!(libc::SYS_rt_sigprocmask, how, &raw const set, std::ptr::null_mut::<u64>(), size_of::<u64>()) };
}

/// Takes the signals over. Called once, at attach.
pub fn install() {
    for signal in [libc::SIGSEGV, libc::SIGTRAP, SPIN_SIGNAL] {
        // SAFETY: the handlers have the type that SA_SIGINFO asks for.
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
    // NODEFER: while a handler waits for the token, others of ours may come.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART | extra_flags;
    real::sigaction(signal, &raw const action, former);
}

thread_local! {
    static RESTARTS: Cell<bool> = const { Cell::new(false) };
    static RAISED: Cell<u64> = const { Cell::new(0) };
}

/// Whether a call that the last delivered signals interrupted goes on by itself (SA_RESTART of every one of them).
pub fn restarts() -> bool {
    RESTARTS.get()
}

/// Grows whenever signals are delivered to the calling thread.
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

/// Raises what the engine delivers, natively and in the calling thread, so that handlers have run when this returns.
pub fn raise_all(signals: u64) {
    RAISED.set(RAISED.get() + 1);
    // SAFETY: `has_restart` reads the action of a valid signal into a structure of its own.
    RESTARTS.set((1..64).filter(|signal| signals & 1 << signal != 0).all(|signal| unsafe { has_restart(signal) }));
    for signal in 1..64 {
        if signals & 1 << signal != 0 {
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            // Another thread may wait for one that this one blocks.
            // SAFETY: neither call touches memory of ours.
            keeping_errno(|| unsafe {
                if is_blocked(signal) { kernel!(libc::SYS_kill, pid, signal) } else { kernel!(libc::SYS_tgkill, pid, tid, signal) }
            });
        }
    }
}

static HANDLERS: AtomicUsize = AtomicUsize::new(0);

/// Whether a handler of this process runs, ours or the program's. One that is left by a jump counts for ever.
pub fn is_any_handler_running() -> bool {
    HANDLERS.load(Ordering::Acquire) != 0
}

/// Runs what a handler does.
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
    // SAFETY: the kernel hands over both; they live as long as the handler runs.
    let (info_ref, machine) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let ours = keeping_errno(|| match info_ref.si_code {
        // SAFETY: a fault with SI_KERNEL comes from an instruction that could be fetched.
        SI_KERNEL => unsafe { tsc::emulate(machine) },
        // SAFETY: a positive code of SIGSEGV stands for a fault, so the union holds an address.
        code if code > 0 => spin::on_fault(unsafe { info_ref.si_addr() } as usize, machine),
        _ => false,
    });
    if !ours {
        // SAFETY: the program's action was given to `sigaction` for this signal.
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

/// Does what the program wants at a signal that is not ours.
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

/// Lets the default happen: the faulting instruction runs again without a handler, or the signal is sent again.
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
        // A handler on its own stack means to survive the overflow of the ordinary one, so ours must run there as well.
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

/// A copy of `set` in which the signals that must always get through are not blocked.
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
    } else if crate::world::walled() {
        // The move of registered memory stops other writers by a fault, which ends a thread that has just blocked it.
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
