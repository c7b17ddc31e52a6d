//! The engine's own access to the time stamp counter (TSC).
//!
//! Programs run with trapped TSC reads. The trap is a bit in a control register of the processor.
//! In a virtual machine, its change at every switch costs more than the switch itself (8 of 13
//! microseconds, measured). The engine's main thread therefore runs with the same setting. When it
//! reads the time, the C library reads the TSC. The trap then allows the read, and the engine sets
//! the trap again before the next turn.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static TRAPPED: Cell<bool> = const { Cell::new(false) };
}

static INSTALL: Once = Once::new();

fn set(mode: i32) -> bool {
    // SAFETY: prctl with these arguments accesses no memory.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TSC, mode, 0, 0, 0) == 0 }
}

/// Traps TSC reads of the calling thread, as for programs. Cheap if the trap is already set.
pub(crate) fn trap() {
    if TRAPPED.get() {
        return;
    }
    INSTALL.call_once(install);
    TRAPPED.set(set(libc::PR_TSC_SIGSEGV));
}

/// Allows TSC reads of the calling thread again.
pub(crate) fn release() {
    if TRAPPED.replace(false) {
        set(libc::PR_TSC_ENABLE);
    }
}

fn install() {
    // SAFETY: the handler has the type that SA_SIGINFO requires. It calls only async-signal-safe
    // functions.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if TRAPPED.get() {
        release(); // the processor repeats the instruction
        return;
    }
    // This is the engine's own fault. It repeats and then ends the engine, as it should.
    // SAFETY: `signal` is async-signal-safe, and this call only restores the default action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
