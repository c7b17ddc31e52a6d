//! POSIX asynchronous I/O. The C library carries it out in threads of its own, outside simulated
//! time, so that a transfer costs no simulated time.

use crate::clib::args::{In, slice};
use crate::clib::real;
use crate::fd::descriptors::kind_of;
use crate::runtime::world::{active, away, deadline_after, fail, timespec_picos};
use crate::time::pace::Patience;
use libc::{aiocb, c_int, timespec};
use softband_client::{self as client, Errno};
use softband_ipc::calls::reason;

/// Implements `aio_suspend`. The C library would compare the kernel's clock with the simulated one.
///
/// # Safety
/// `list` has `count` elements. Each is null or a request under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_suspend(list: *const *const aiocb, count: c_int, timeout: In<timespec>) -> c_int {
    // SAFETY: the C library gets the caller's arguments.
    let natively = |timeout| unsafe { real::aio_suspend(list, count, timeout) };
    if !active() {
        return natively(timeout);
    }
    // SAFETY: the caller's list has `count` elements.
    let requests = unsafe { slice(list, count.max(0) as usize) };
    // SAFETY: a request lives until it is complete.
    let is_file = |request: &&aiocb| matches!(kind_of(request.aio_fildes), libc::S_IFREG | libc::S_IFBLK);
    // SAFETY: as above.
    let given = || requests.iter().filter_map(|request| unsafe { request.as_ref() });
    if given().all(|request| is_file(&request)) {
        // A transfer from or to a file ends by itself.
        return natively(In::NULL);
    }
    let is_done = || {
        given().any(|request| {
            // SAFETY: the request is the caller's.
            unsafe { libc::aio_error(request) != libc::EINPROGRESS }
        })
    };
    let deadline = timeout.get().map_or(u64::MAX, |timeout| deadline_after(timespec_picos(&timeout)));
    let patience = Patience::of(reason::DESCRIPTOR);
    while !is_done() {
        if deadline <= client::now_ps() {
            return fail(libc::EAGAIN);
        }
        if patience.is_over() && deadline == u64::MAX {
            return away(|| natively(In::NULL));
        }
        if let Err(Errno(errno)) = patience.step(deadline) {
            return fail(errno);
        }
    }
    0
}

/// Implements the name of `aio_suspend` for large files.
///
/// # Safety
/// `list` has `count` elements. Each is null or a request under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_suspend64(list: *const *const aiocb, count: c_int, timeout: In<timespec>) -> c_int {
    // SAFETY: all files are large on this machine, so both names have one contract.
    unsafe { aio_suspend(list, count, timeout) }
}
