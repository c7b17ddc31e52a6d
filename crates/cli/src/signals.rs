//! Ctrl-C and similar signals end a run in order, together with every program that it started.

use softband_engine::Interrupt;
use std::sync::OnceLock;

static INTERRUPT: OnceLock<Interrupt> = OnceLock::new();

extern "C" fn raise(_signal: i32) {
    if let Some(interrupt) = INTERRUPT.get() {
        interrupt.raise(); // one atomic store
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP raise the returned interrupt.
pub(crate) fn interrupt_on_signals() -> Interrupt {
    let interrupt = INTERRUPT.get_or_init(Interrupt::default).clone();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, raise as *const () as libc::sighandler_t) };
    }
    interrupt
}

extern "C" fn go_on(_signal: i32) {}

/// Makes a file beyond its size limit (`ulimit -f`) an error like a full disk. Programs of a run
/// get the default handler back.
pub(crate) fn take_file_limit_as_error() {
    // SAFETY: the handler does nothing; the write that raised the signal fails.
    unsafe { libc::signal(libc::SIGXFSZ, go_on as *const () as libc::sighandler_t) };
}

pub(crate) fn default_broken_pipe() {
    // SAFETY: no other thread exists yet. Rust ignores SIGPIPE by default; a command-line tool should not.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
