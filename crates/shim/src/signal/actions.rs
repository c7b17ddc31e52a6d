//! Signals that this library needs for itself (SIGSEGV, SIGTRAP and the engine's), and the
//! program's actions for them.

use crate::ahead::dispatch;
use crate::clib::args::{In, Out, Zeroed};
use crate::clib::real;
use crate::own_calls;
use crate::runtime::world::{fail, keeping_errno};
use crate::signal::call_names;
use crate::signal::handlers::{self, Table};
use crate::signal::kept;
use crate::spin;
use crate::tsc;
use libc::{c_int, c_void, sighandler_t, siginfo_t, sigset_t};
use softband_client as client;
use softband_ipc::layout::SPIN_SIGNAL;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signal code of a processor fault without an address, as a trapped counter read raises it.
const SI_KERNEL: c_int = 0x80;

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Whether this library handles SIGSYS for calls by the program's own instructions.
static TAKES_CALLS: AtomicBool = AtomicBool::new(false);

/// The kernel demands its own return from handlers by this flag.
pub const SA_RESTORER: u64 = 0x0400_0000;

/// The action of a signal, as the kernel reads it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KernelAction {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

/// Signals of this library.
const OURS: [c_int; 3] = [libc::SIGSEGV, libc::SIGTRAP, SPIN_SIGNAL];

/// Actions that the program requested for the signals of this library.
// SAFETY: a `sigaction` of zeros is SIG_DFL.
static WANTED: Table<libc::sigaction> = Table::new(unsafe { std::mem::zeroed() });

/// Returns whether this library keeps the program's action for a signal, and handles the signal.
pub fn is_ours(signal: c_int) -> bool {
    OURS.contains(&signal) || (signal == libc::SIGSYS && TAKES_CALLS.load(Ordering::Acquire))
}

/// Blocks or unblocks the engine's signal, which would kill an image without a handler for it. The
/// signal stays blocked from before an `exec` until the new image has its handler. The mask and
/// pending signals survive `exec`.
pub fn hold_engine_back(how: c_int) {
    let set: u64 = 1 << (SPIN_SIGNAL - 1);
    // SAFETY: the kernel reads the eight bytes of `set`, and writes no former set to null.
    unsafe { kernel!(libc::SYS_rt_sigprocmask, how, &raw const set, std::ptr::null_mut::<u64>(), size_of::<u64>()) };
}

/// Runs a wait in the kernel for news that belong to the present moment of simulated time. The engine
/// sends its signal after a wall-clock time, which would take the thread to another moment.
pub fn at_one_moment<R>(wait: impl FnOnce() -> R) -> R {
    /// Lets the signal through, also if a cancellation ends the wait.
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            hold_engine_back(libc::SIG_UNBLOCK);
        }
    }
    hold_engine_back(libc::SIG_BLOCK);
    let _held = Held;
    wait()
}

/// Takes over the signals. Called once, at attach.
pub fn install() {
    for signal in OURS {
        WANTED.set(signal, take(signal, 0));
    }
    handlers::begin();
    INSTALLED.store(true, Ordering::Release);
    hold_engine_back(libc::SIG_UNBLOCK);
}

/// Takes over the engine's signal alone. In wall pace it asks for MPI calls. Called once, at
/// attach.
pub fn install_for_questions() {
    WANTED.set(SPIN_SIGNAL, take(SPIN_SIGNAL, 0));
    hold_engine_back(libc::SIG_UNBLOCK);
}

/// Makes `handler` the system's for SIGSYS. It gets the kernel's frame, and returns by `restorer`.
/// The program's action stays for [`pass_on`]. Returns false if the kernel refuses.
pub fn take_calls(handler: usize, restorer: usize) -> bool {
    let mut former = libc::sigaction::zeroed();
    // SAFETY: without a new action, the call only reads.
    if unsafe { real::sigaction(libc::SIGSYS, In::NULL, Out::of(&mut former)) } != 0 {
        return false;
    }
    let flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART | libc::SA_ONSTACK;
    // The handler unblocks the signals when its frame has its place. Faults come at any time.
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    let mask = !faults.iter().fold(0, |mask, signal| mask | 1_u64 << (signal - 1));
    let action = KernelAction { handler, flags: flags as u64 | SA_RESTORER, restorer, mask };
    // SAFETY: the caller passes a handler and a restorer that fit the flags.
    if unsafe { kernel!(libc::SYS_rt_sigaction, libc::SIGSYS, &raw const action, std::ptr::null_mut::<KernelAction>(), size_of::<u64>()) } != 0 {
        return false;
    }
    WANTED.set(libc::SIGSYS, former);
    TAKES_CALLS.store(true, Ordering::Release);
    true
}

/// Lets SIGSYS through during the program's handlers, which may make calls by own instructions. The
/// kernel ends a thread that blocks SIGSYS when it stops a call of the thread.
pub fn unmask_calls() {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGSYS) {
        let mut present = KernelAction::default();
        // SAFETY: without a new action, the call only writes to `present`.
        let status = unsafe { kernel!(libc::SYS_rt_sigaction, signal, std::ptr::null::<KernelAction>(), &raw mut present, size_of::<u64>()) };
        let bit = 1_u64 << (libc::SIGSYS - 1);
        if status == 0 && present.handler > libc::SIG_IGN && present.mask & bit != 0 {
            present.mask &= !bit;
            // SAFETY: the action is the present one, with another set.
            unsafe { kernel!(libc::SYS_rt_sigaction, signal, &raw const present, std::ptr::null_mut::<KernelAction>(), size_of::<u64>()) };
        }
    }
}

/// Gives SIGSYS back to the program, which stops calls itself.
pub fn give_calls_back() {
    TAKES_CALLS.store(false, Ordering::Release);
    let wanted = WANTED.get(libc::SIGSYS);
    // SAFETY: the action is the program's own.
    unsafe { real::sigaction(libc::SIGSYS, In::of(&wanted), Out::NULL) };
}

/// Sets the handler of this library for a signal. Returns the former action.
fn take(signal: c_int, extra_flags: c_int) -> libc::sigaction {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = match signal {
        libc::SIGSEGV => on_fault,
        libc::SIGTRAP => on_trap,
        _ => on_spin_signal,
    };
    let mut action = libc::sigaction::zeroed();
    action.sa_sigaction = handler as sighandler_t;
    // NODEFER: other handlers of this library may run while a handler waits for the token.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART | extra_flags;
    let mut former = libc::sigaction::zeroed();
    // SAFETY: the handler has three parameters, as SA_SIGINFO requires, and never unwinds.
    unsafe { real::sigaction(signal, In::of(&action), Out::of(&mut former)) };
    former
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

/// Notes that a signal has interrupted a call while the engine did not wait for the thread.
pub fn note_outside(signal: c_int) {
    RESTARTS.set(has_restart(signal));
}

/// Returns a count that grows with each delivery of signals to the calling thread.
pub fn raised() -> u64 {
    RAISED.get()
}

fn has_restart(signal: c_int) -> bool {
    let mut action = libc::sigaction::zeroed();
    // SAFETY: without a new action, the call only reads.
    let status = unsafe { real::sigaction(signal, In::NULL, Out::of(&mut action)) };
    status == 0 && action.sa_flags & libc::SA_RESTART != 0
}

/// Returns whether the calling thread blocks a signal.
pub fn is_blocked(signal: c_int) -> bool {
    let mut blocked = sigset_t::zeroed();
    real::pthread_sigmask(libc::SIG_BLOCK, In::NULL, Out::of(&mut blocked)) == 0 && contains(&blocked, signal)
}

/// Returns whether a set has a signal.
pub fn contains(set: &sigset_t, signal: c_int) -> bool {
    // SAFETY: the call reads the set, and refuses numbers that are no signals.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// Adds a signal to a set.
pub fn add_signal(set: &mut sigset_t, signal: c_int) {
    // SAFETY: the call changes the set, and refuses numbers that are no signals.
    unsafe { libc::sigaddset(set, signal) };
}

/// Bit of the signals to raise that stands for all that the thread has kept. No signal has number 0.
pub const KEPT: u64 = 1;

/// Raises the signals that the engine delivers or the thread has kept, natively and in the calling
/// thread. Their handlers have run when this returns.
pub fn raise_all(signals: u64) {
    RAISED.set(RAISED.get() + 1);
    let mut all_restart = true;
    let mut raise = |signal, info: Option<&siginfo_t>| {
        all_restart &= has_restart(signal);
        keeping_errno(|| raise_here(signal, info));
    };
    for signal in (1..64).filter(|signal| signals & 1 << signal != 0) {
        raise(signal, None);
    }
    if signals & KEPT != 0 {
        while let Some((signal, info)) = client::thread_slot_number().and_then(kept::take) {
            raise(signal, Some(&info));
        }
    }
    RESTARTS.set(all_restart);
}

/// Raises a signal in the calling thread, with a description if it has any. If this thread blocks the
/// signal, another thread may wait for it.
fn raise_here(signal: c_int, info: Option<&siginfo_t>) {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    let blocked = is_blocked(signal);
    if let Some(info) = info {
        let info: *const siginfo_t = info;
        // SAFETY: the kernel reads the description, which lives during the call.
        let status = unsafe {
            if blocked { kernel!(libc::SYS_rt_sigqueueinfo, pid, signal, info) } else { kernel!(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info) }
        };
        if status == 0 {
            return;
        }
    }
    // SAFETY: both calls take only numbers. The handlers that run are those of the program.
    unsafe { if blocked { kernel!(libc::SYS_kill, pid, signal) } else { kernel!(libc::SYS_tgkill, pid, tid, signal) } };
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
    let result = dispatch::in_handler(body);
    HANDLERS.fetch_sub(1, Ordering::AcqRel);
    result
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    in_handler(|| fault(signal, info, context));
}

fn fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO; they live during the handler.
    let (info_ref, machine) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let ours = keeping_errno(|| match info_ref.si_code {
        // SAFETY: a fault with SI_KERNEL comes from an instruction that could be fetched.
        SI_KERNEL => unsafe { tsc::emulate(machine) },
        // SAFETY: a positive code of SIGSEGV marks a fault, so the union holds an address.
        code if code > 0 => spin::on_fault(unsafe { info_ref.si_addr() } as usize, machine),
        _ => false,
    });
    if !ours && !own_calls::end_try(machine) && !keeping_errno(|| tries_again(info_ref, machine)) {
        // SAFETY: the kernel passed both to the handler, which still runs.
        unsafe { pass_on(signal, info, context) };
    }
}

/// Returns whether the thread should try its access again, and names that once on standard error.
/// The fault can come in an allocation, so nothing here allocates.
fn tries_again(info: &siginfo_t, machine: &libc::ucontext_t) -> bool {
    const LINE: &[u8] = b"softband: an access that its mapping permits faulted; the thread tries it again\n";
    static SAID: AtomicBool = AtomicBool::new(false);
    let may_succeed = client::refused::may_succeed(info, machine);
    if may_succeed && !SAID.swap(true, Ordering::Relaxed) {
        let _ = rustix::io::write(rustix::stdio::stderr(), LINE);
    }
    may_succeed
}

extern "C" fn on_trap(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    in_handler(|| trapped(signal, info, context));
}

fn trapped(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the third argument of a handler with SA_SIGINFO is the interrupted context.
    let machine = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if !keeping_errno(|| spin::on_trap(machine)) {
        // SAFETY: the kernel passed both to the handler of SIGTRAP, which still runs.
        unsafe { pass_on(signal, info, context) };
    }
}

extern "C" fn on_spin_signal(_signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let _ = info;
    // SAFETY: `take` set SA_SIGINFO for this signal, so the third argument is the context.
    let machine = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    in_handler(|| {
        keeping_errno(|| {
            if call_names::are_wanted() {
                call_names::answer();
            } else if client::is_wall() {
                client::leave_without_engine();
            } else {
                own_calls::token_came();
                spin::on_signal(machine);
            }
        });
    });
}

/// Applies the program's action to a signal that is not ours.
///
/// # Safety
/// The kernel passed `info` and `context` to a handler that still runs.
pub unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // The program's handler may do anything, and the end of the process must have its place.
    client::catch_up();
    let action = WANTED.get(signal);
    // SAFETY: the kernel's description of the signal lives as long as the handler runs.
    let from_processor = unsafe { (*info).si_code } > 0;
    if action.sa_sigaction == libc::SIG_IGN && !from_processor {
        return;
    }
    if action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN {
        die_of(signal, from_processor);
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        let mut next = action;
        next.sa_sigaction = libc::SIG_DFL;
        WANTED.set(signal, next);
    }
    // SAFETY: the program set this action for the signal, and it is a function.
    unsafe { handlers::call(&action, signal, info, context) };
}

/// Applies the default action: the faulting instruction runs again without a handler, or the signal
/// is sent again. A trap and a forbidden call are over.
pub fn die_of(signal: c_int, from_processor: bool) {
    let mut default = libc::sigaction::zeroed();
    default.sa_sigaction = libc::SIG_DFL;
    // SAFETY: the default action is no function.
    unsafe { real::sigaction(signal, In::of(&default), Out::NULL) };
    if !from_processor || matches!(signal, libc::SIGTRAP | libc::SIGSYS) {
        raise_all(1 << signal);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sigaction(signal: c_int, new: In<libc::sigaction>, old: Out<libc::sigaction>) -> c_int {
    if !INSTALLED.load(Ordering::Acquire) && (signal != libc::SIGSYS || !is_ours(signal)) {
        let mut unmasked = new.get();
        if own_calls::are_stopped()
            && let Some(action) = &mut unmasked
        {
            action.sa_mask = without_calls(action.sa_mask);
        }
        // SAFETY: the program answers for the handler that it sets.
        return unsafe { real::sigaction(signal, unmasked.as_ref().map_or(In::NULL, In::of), old) };
    }
    if !is_ours(signal) {
        // SAFETY: a handler that the program passes to `sigaction` has the type that its flags say.
        return unsafe { handlers::set(signal, new, old) };
    }
    let former = WANTED.get(signal);
    if let Some(new) = new.get() {
        WANTED.set(signal, new);
        // A handler with its own stack survives an overflow of the ordinary stack, so our handler
        // must run there, too.
        if OURS.contains(&signal) {
            take(signal, new.sa_flags & libc::SA_ONSTACK);
        }
    }
    old.set(former);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    let mut new = libc::sigaction::zeroed();
    let mut old = libc::sigaction::zeroed();
    new.sa_sigaction = handler;
    new.sa_flags = libc::SA_RESTART;
    add_signal(&mut new.sa_mask, number);
    if sigaction(number, In::of(&new), Out::of(&mut old)) != 0 {
        return libc::SIG_ERR;
    }
    old.sa_sigaction
}

/// Returns a copy of `set` that never blocks the signals of this library. The kernel ends a thread that
/// blocks SIGSYS when it stops a call of the thread.
pub fn without_ours(set: sigset_t) -> sigset_t {
    let set = without(set, &OURS);
    if own_calls::are_stopped() { without(set, &[libc::SIGSYS]) } else { set }
}

/// Returns a copy of `set` that never blocks SIGSYS either, for handlers. The program's own calls may
/// begin to raise it after the program has set the handler.
pub fn without_ours_or_calls(set: sigset_t) -> sigset_t {
    without(without(set, &OURS), &[libc::SIGSYS])
}

/// Returns a copy of `set` that does not block SIGSYS.
pub fn without_calls(set: sigset_t) -> sigset_t {
    without(set, &[libc::SIGSYS])
}

fn without(mut set: sigset_t, signals: &[c_int]) -> sigset_t {
    for signal in signals {
        // SAFETY: the call changes our copy of the set, which is initialised.
        unsafe { libc::sigdelset(&raw mut set, *signal) };
    }
    set
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_sigmask(how: c_int, set: In<sigset_t>, old: Out<sigset_t>) -> c_int {
    let Some(wanted) = set.get().filter(|_| how != libc::SIG_UNBLOCK) else { return real::pthread_sigmask(how, set, old) };
    let allowed = if INSTALLED.load(Ordering::Acquire) {
        without_ours(wanted)
    } else if crate::runtime::world::walled() {
        // A move of registered memory stops other writers by a fault. The fault would end a thread
        // that blocks SIGSEGV. The first process of a namespace ends by the engine's signal.
        let allowed = without(wanted, if client::is_init() { &[libc::SIGSEGV, SPIN_SIGNAL] } else { &[libc::SIGSEGV] });
        if own_calls::are_stopped() { without_calls(allowed) } else { allowed }
    } else {
        wanted
    };
    real::pthread_sigmask(how, In::of(&allowed), old)
}

#[unsafe(no_mangle)]
pub extern "C" fn sigprocmask(how: c_int, set: In<sigset_t>, old: Out<sigset_t>) -> c_int {
    match pthread_sigmask(how, set, old) {
        0 => 0,
        error => fail(error),
    }
}
