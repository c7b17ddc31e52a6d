//! The moment in which memory is copied into its file or back. Other threads of the program must
//! not write to it then. It is write-protected, and a thread that writes to it waits in its fault
//! handler.

use super::copy::set_mask;
use crate::refused;
use rustix::mm::{MprotectFlags, mprotect};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Range of the window. `END` is zero while the window is closed. `START` keeps its value.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static LAST_END: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Consecutive faults attributed to a window that had closed meanwhile.
static LATE: AtomicUsize = AtomicUsize::new(0);
const LATE_MAX: usize = 10_000;

/// Thread that is passing a fault on. Below, the program's actions: before the latest and before
/// the first installation of our handler.
static PASSING: AtomicI32 = AtomicI32::new(0);

struct Former(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written under the lock of registrations, before the installation of the handler that
// reads it.
unsafe impl Sync for Former {}
static FORMER: Former = Former(UnsafeCell::new(MaybeUninit::zeroed()));
static FIRST: Former = Former(UnsafeCell::new(MaybeUninit::zeroed()));

/// Write protection of a span, until this is dropped or another mapping replaces the span.
pub(super) struct Window(());

impl Window {
    /// Opens a window. Returns `None` if the span cannot be protected.
    pub(super) fn open(start: usize, end: usize) -> Option<Self> {
        install();
        START.store(start, Ordering::SeqCst);
        LAST_END.store(end, Ordering::SeqCst);
        END.store(end, Ordering::SeqCst);
        let window = Self(());
        // SAFETY: the span is the program's own memory, and threads that write to it meanwhile
        // wait.
        unsafe { mprotect(start as *mut c_void, end - start, MprotectFlags::READ) }.ok().map(|()| window)
    }

    /// Makes the span writable again, unless it was replaced.
    pub(super) fn lift(&self) {
        let (start, end) = (START.load(Ordering::SeqCst), END.load(Ordering::SeqCst));
        // SAFETY: the span is the program's own memory, and this restores the write permission that
        // `open` removed.
        let _ = unsafe { mprotect(start as *mut c_void, end - start, MprotectFlags::READ | MprotectFlags::WRITE) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        LATE.store(0, Ordering::SeqCst);
        END.store(0, Ordering::SeqCst);
    }
}

/// Installs our handler before the program's. It stays: a fault may arrive after its window has
/// closed.
fn install() {
    // SAFETY: plain calls with structures of ours; the handler touches only atomics before it
    // passes the signal on.
    unsafe {
        let mut present = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut present) != 0 || present.sa_sigaction == on_fault as *const () as usize {
            return;
        }
        (*FORMER.0.get()).write(present);
        if !INSTALLED.load(Ordering::SeqCst) {
            (*FIRST.0.get()).write(present);
        }
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = on_fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | present.sa_flags & libc::SA_RESTART;
        // Another signal's handler could write to the window, too, and a fault within this handler
        // ends the program.
        libc::sigfillset(&raw mut ours.sa_mask);
        INSTALLED.store(true, Ordering::SeqCst);
        libc::sigaction(libc::SIGSEGV, &ours, std::ptr::null_mut());
    }
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid description of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    let within = address >= START.load(Ordering::SeqCst) && address < LAST_END.load(Ordering::SeqCst);
    if within && END.load(Ordering::SeqCst) != 0 {
        while END.load(Ordering::SeqCst) != 0 && address < LAST_END.load(Ordering::SeqCst) && address >= START.load(Ordering::SeqCst) {
            rustix::thread::sched_yield();
        }
        return;
    }
    // The window closed between the fault and this line.
    if within && LATE.fetch_add(1, Ordering::SeqCst) < LATE_MAX {
        return;
    }
    // Another window opened meanwhile.
    // SAFETY: the kernel passes a valid description of the fault, and the interrupted context.
    if unsafe { refused::may_succeed(&*info, &*context.cast()) } {
        return;
    }
    pass_on(signal, info, context);
}

/// Handles a fault as the program would have without our handler.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    // A handler that was installed after ours may call ours. Then the action before both applies.
    let is_again = PASSING.swap(me, Ordering::SeqCst) == me;
    let action = if is_again { &FIRST } else { &FORMER };
    // SAFETY: both actions were stored before this handler was installed.
    let former = unsafe { *(*action.0.get()).assume_init_ref() };
    if former.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: all zeros is the default action, and nobody else writes it while a fault is
        // passed on.
        unsafe { (*action.0.get()).write(MaybeUninit::zeroed().assume_init()) };
    }
    block_as(&former, signal, context);
    call(&former, signal, info, context);
    PASSING.store(0, Ordering::SeqCst);
}

/// Blocks the signals that the kernel would have blocked for the program's own handler. The return
/// from our handler undoes it.
fn block_as(former: &libc::sigaction, signal: c_int, context: *mut c_void) {
    // SAFETY: both pointers refer to sets, whose first eight bytes the kernel uses. The kernel
    // filled in the context.
    let [interrupted, wanted] = unsafe {
        [(&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read(), (&raw const former.sa_mask).cast::<u64>().read()]
    };
    let own = if former.sa_flags & libc::SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    set_mask(interrupted | wanted | own);
}

fn call(former: &libc::sigaction, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if former.sa_sigaction == libc::SIG_DFL || former.sa_sigaction == libc::SIG_IGN {
        // The processor repeats the instruction, and then the fault takes its default action.
        // SAFETY: the call only restores the signal's default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: the kernel passes a valid description of the fault. A signal from a process does
        // not repeat by itself.
        if unsafe { (*info).si_code } <= 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::SEGV);
        }
    } else if former.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program installed a handler of this type.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = unsafe { std::mem::transmute(former.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program installed a handler without SA_SIGINFO, which has this type.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(former.sa_sigaction) };
        handler(signal);
    }
}
