//! The engine's own access to the time stamp counter.
//!
//! Programs run with reads of the counter trapped, and that is a bit of a processor's control register. In a virtual machine,
//! changing it at every switch between engine and program costs more than the switch (8 of 13 microseconds, measured). So the
//! engine's main thread runs with the same setting; when it wants the time itself (the C library reads the counter for that),
//! the trap lets it through and is set again before the next turn.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static TRAPPED: Cell<bool> = const { Cell::new(false) };
}

static INSTALL: Once = Once::new();

fn set(mode: i32) -> bool {
    // SAFETY: prctl with these arguments touches no memory.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TSC, mode, 0, 0, 0) == 0 }
}

/// Makes the calling thread like the programs. Cheap when it is already.
pub(crate) fn trap() {
    if TRAPPED.get() {
        return;
    }
    INSTALL.call_once(install);
    TRAPPED.set(set(libc::PR_TSC_SIGSEGV));
}

/// Lets the calling thread read the counter again.
pub(crate) fn release() {
    if TRAPPED.replace(false) {
        set(libc::PR_TSC_ENABLE);
    }
}

fn install() {
    // SAFETY: the handler has the type that SA_SIGINFO asks for and calls only async-signal-safe functions.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if TRAPPED.get() {
        release(); // the instruction runs again
        return;
    }
    // A fault of our own: it happens again, and this time it ends the engine as it should.
    // SAFETY: restoring the default action is async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
