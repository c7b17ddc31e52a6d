//! The frame of all functions that C calls: catch panics, check pointers, convert errors to the C
//! conventions.

use softband_client::{Errno, warn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs `body`. A panic must not unwind into C: this returns `on_panic` instead.
pub(crate) fn guarded<R>(on_panic: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        warn::once("a verb failed inside libibverbs (the message above says where): please report it");
        on_panic
    })
}

/// Runs a verb that returns 0 or a positive errno. A failure also sets `errno`, as the system call
/// of rdma-core does.
pub(crate) fn status(body: impl FnOnce() -> Result<(), Errno>) -> i32 {
    guarded(Err(Errno(libc::EIO)), body).map_or_else(
        |errno| {
            set_errno(errno);
            errno.0
        },
        |()| 0,
    )
}

/// Runs a verb that returns a value, or -1 with `errno` set.
pub(crate) fn minus_one(body: impl FnOnce() -> Result<i32, Errno>) -> i32 {
    guarded(Err(Errno(libc::EIO)), body).unwrap_or_else(|errno| {
        set_errno(errno);
        -1
    })
}

/// Runs a verb that returns an object, or NULL with `errno` set.
pub(crate) fn object<T>(body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guarded(Err(Errno(libc::EIO)), body).unwrap_or_else(|errno| {
        set_errno(errno);
        std::ptr::null_mut()
    })
}

pub(crate) fn set_errno(Errno(errno): Errno) {
    // SAFETY: the C library's errno of this thread is always writable.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns `pointer`, or `EINVAL` if it is NULL.
pub(crate) fn not_null<T>(pointer: *mut T) -> Result<*mut T, Errno> {
    if pointer.is_null() { Err(Errno(libc::EINVAL)) } else { Ok(pointer) }
}

/// Locks a mutex, even if a former holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
