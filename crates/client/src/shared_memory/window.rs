//! The moment in which a span of memory is copied into its file, or back: other threads of the program must not write to it then.
//! It is write-protected for that moment, and a thread that writes all the same waits in the handler of its fault.

use super::copy::set_mask;
use rustix::mm::{MprotectFlags, mprotect};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Where the window is; `END` is zero while it is closed, and `START` is kept.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static LAST_END: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Faults in a row that are laid to a window that has closed meanwhile.
static LATE: AtomicUsize = AtomicUsize::new(0);
const LATE_MAX: usize = 10_000;

/// The thread in which a fault is being passed on, and how the program's own handling was before ours was put in the first time.
static PASSING: AtomicI32 = AtomicI32::new(0);

struct Former(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written before the handler that reads it is installed, under the lock of registrations.
unsafe impl Sync for Former {}
static FORMER: Former = Former(UnsafeCell::new(MaybeUninit::zeroed()));
static FIRST: Former = Former(UnsafeCell::new(MaybeUninit::zeroed()));

/// Write-protects a span until this is dropped, or until something else is mapped in its place.
pub(super) struct Window(());

impl Window {
    /// `None` when the span cannot be protected.
    pub(super) fn open(start: usize, end: usize) -> Option<Self> {
        install();
        START.store(start, Ordering::SeqCst);
        LAST_END.store(end, Ordering::SeqCst);
        END.store(end, Ordering::SeqCst);
        let window = Self(());
        // SAFETY: the span is the program's own memory; what writes to it meanwhile waits.
        unsafe { mprotect(start as *mut c_void, end - start, MprotectFlags::READ) }.ok().map(|()| window)
    }

    /// Makes the span writable again, where it is still what it was.
    pub(super) fn lift(&self) {
        let (start, end) = (START.load(Ordering::SeqCst), END.load(Ordering::SeqCst));
        // SAFETY: the stretch is the program's own memory, and this gives back the right to write that `open` took.
        let _ = unsafe { mprotect(start as *mut c_void, end - start, MprotectFlags::READ | MprotectFlags::WRITE) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        LATE.store(0, Ordering::SeqCst);
        END.store(0, Ordering::SeqCst);
    }
}

/// Puts our handler before the program's. It stays: a fault may be delivered after its window has closed.
fn install() {
    // SAFETY: plain calls with structures of ours; the handler only touches atomics before it passes the signal on.
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
        // A handler of another signal could write to the window, too, and a fault within this handler ends the program.
        libc::sigfillset(&raw mut ours.sa_mask);
        INSTALLED.store(true, Ordering::SeqCst);
        libc::sigaction(libc::SIGSEGV, &ours, std::ptr::null_mut());
    }
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over the fault's description.
    let address = unsafe { (*info).si_addr() } as usize;
    let within = address >= START.load(Ordering::SeqCst) && address < LAST_END.load(Ordering::SeqCst);
    if within && END.load(Ordering::SeqCst) != 0 {
        while END.load(Ordering::SeqCst) != 0 && address < LAST_END.load(Ordering::SeqCst) && address >= START.load(Ordering::SeqCst) {
            rustix::thread::sched_yield();
        }
        return;
    }
    // The window has closed between the fault and this.
    if within && LATE.fetch_add(1, Ordering::SeqCst) < LATE_MAX {
        return;
    }
    pass_on(signal, info, context);
}

/// Does with the fault what would have been done without us.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    // A handler that was put in after ours may pass on to ours: then what was there before both is meant.
    let is_again = PASSING.swap(me, Ordering::SeqCst) == me;
    let action = if is_again { &FIRST } else { &FORMER };
    // SAFETY: both actions were stored before this handler was installed.
    let former = unsafe { *(*action.0.get()).assume_init_ref() };
    if former.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: all zeros is the default action; nobody else writes it while a fault is passed on.
        unsafe { (*action.0.get()).write(MaybeUninit::zeroed().assume_init()) };
    }
    block_as(&former, signal, context);
    call(&former, signal, info, context);
    PASSING.store(0, Ordering::SeqCst);
}

/// Blocks the signals that the kernel would have blocked for the program's own handler. The return from ours undoes it.
fn block_as(former: &libc::sigaction, signal: c_int, context: *mut c_void) {
    // SAFETY: both are sets, and the kernel uses the first eight bytes of a set. It filled the context in.
    let [interrupted, wanted] = unsafe {
        [(&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read(), (&raw const former.sa_mask).cast::<u64>().read()]
    };
    let own = if former.sa_flags & libc::SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    set_mask(interrupted | wanted | own);
}

fn call(former: &libc::sigaction, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if former.sa_sigaction == libc::SIG_DFL || former.sa_sigaction == libc::SIG_IGN {
        // The instruction is run again, and then the fault does what it does by itself.
        // SAFETY: gives the signal back its own meaning.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: as in `on_fault`. A signal that a process sent does not come again by itself.
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
