//! Message queues and semaphores of System V. The system never begins their waits again after a signal
//! (signal(7)). The engine's own signal also ends them, so the library begins them again.

use crate::clib::real;
use crate::runtime::world::{active, errno};
use crate::signal::handlers;
use libc::{c_int, c_long, c_void, sembuf, size_t, ssize_t};

/// Repeats a call that a signal has ended until it has another end, or a handler of the program has
/// run.
fn unless_handled<R: PartialEq + From<i8>>(mut call: impl FnMut() -> R) -> R {
    let known = handlers::runs();
    loop {
        let result = call();
        let is_ours = result == R::from(-1) && errno() == libc::EINTR && handlers::runs() == known;
        if !is_ours || !active() {
            return result;
        }
    }
}

/// Implements `msgrcv`.
///
/// # Safety
/// `message` has room for a type and `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgrcv(queue: c_int, message: *mut c_void, size: size_t, kind: c_long, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    unless_handled(|| unsafe { real::msgrcv(queue, message, size, kind, flags) })
}

/// Implements `msgsnd`.
///
/// # Safety
/// `message` has a type and `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgsnd(queue: c_int, message: *const c_void, size: size_t, flags: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    unless_handled(|| unsafe { real::msgsnd(queue, message, size, flags) })
}

/// Implements `semop`.
///
/// # Safety
/// `operations` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semop(set: c_int, operations: *mut sembuf, count: size_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unless_handled(|| unsafe { real::semop(set, operations, count) })
}
