//! POSIX asynchronous I/O. A transfer from or to a file is complete when the call returns, and
//! takes its time (`file_costs`) in the call. The C library would use threads of its own, outside
//! simulated time, and would run functions of the program in them. Other descriptors are left to
//! the C library.

use crate::clib::args::{In, InOut, Managed, slice};
use crate::clib::real;
use crate::fd::descriptors::kind_of;
use crate::fd::processor_files;
use crate::runtime::world::{active, away, deadline_after, errno, fail, keeping_errno, timespec_picos};
use crate::signal::actions::at_one_moment;
use crate::sync::threads;
use crate::time::pace::Patience;
use libc::{aiocb, c_int, c_void, ssize_t, timespec};
use softband_client::{self as client, Errno};
use softband_ipc::calls::reason;
use std::ffi::CString;

/// Offsets of fields that the C library keeps for itself (bits/types of aio.h, x86-64), and of the
/// function and the attributes of a notification by a thread.
const ERROR_AT: usize = 112;
const RESULT_AT: usize = 120;
const NOTIFY_FUNCTION_AT: usize = 16;
const SIGEV_SIGNAL: c_int = 0;
const SIGEV_THREAD: c_int = 2;

/// Returns whether the engine's side carries out requests for this descriptor: it never waits for
/// another program.
fn is_file(fd: c_int) -> bool {
    matches!(kind_of(fd), libc::S_IFREG | libc::S_IFBLK) || is_memory_device(fd)
}

/// Returns whether a descriptor is one of the devices of memory, such as `/dev/null` (Linux,
/// devices.txt: major number 1).
fn is_memory_device(fd: c_int) -> bool {
    const MEMORY_DEVICES: u32 = 1;
    // SAFETY: the number is not -1. `fstat` fails if it is unused.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd.max(0)) };
    let about = rustix::fs::fstat(borrowed);
    about.is_ok_and(|about| about.st_mode & libc::S_IFMT == libc::S_IFCHR && rustix::fs::major(about.st_rdev) == MEMORY_DEVICES)
}

/// A function of the program and its argument, for a notification by a thread.
struct Notification {
    function: extern "C" fn(usize),
    value: usize,
}

extern "C" fn notify(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the creator of the thread passed a boxed notification.
    let given = unsafe { Box::from_raw(argument.cast::<Notification>()) };
    (given.function)(given.value);
    std::ptr::null_mut()
}

/// Carries out a request by `transfer`, and notifies the program.
///
/// # Safety
/// The request is initialised and belongs to the caller.
unsafe fn complete(request: *mut aiocb, transfer: impl FnOnce(&aiocb) -> ssize_t) -> c_int {
    // SAFETY: the request is initialised.
    let (result, event) = unsafe { (keeping_errno(|| (transfer(&*request), errno())), &(*request).aio_sigevent) };
    let (result, error) = result;
    let bytes = request.cast::<u8>();
    // SAFETY: the fields lie within the request.
    unsafe {
        bytes.add(RESULT_AT).cast::<ssize_t>().write(result);
        bytes.add(ERROR_AT).cast::<c_int>().write(if result < 0 { error } else { 0 });
    }
    match event.sigev_notify {
        SIGEV_SIGNAL => {
            crate::process::pid::sigqueue(crate::process::pid::own_number(), event.sigev_signo, event.sigev_value);
        }
        SIGEV_THREAD => {
            // SAFETY: the function follows the kind of the notification.
            let function = unsafe { std::ptr::from_ref(event).cast::<u8>().add(NOTIFY_FUNCTION_AT).cast::<extern "C" fn(usize)>().read() };
            let given = Box::into_raw(Box::new(Notification { function, value: event.sigev_value.sival_ptr as usize }));
            let mut thread = 0;
            // SAFETY: the new thread owns the notification, and nothing else joins it.
            unsafe {
                if threads::pthread_create(InOut::of(&mut thread), Managed::NULL, notify, given.cast()) == 0 {
                    threads::pthread_detach(thread);
                }
            }
        }
        _ => {}
    }
    0
}

/// Implements `aio_read`.
///
/// # Safety
/// The request and its room belong to the call until it is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_read(request: *mut aiocb) -> c_int {
    // SAFETY: the request is initialised.
    if !active() || !is_file(unsafe { (*request).aio_fildes }) {
        // SAFETY: the C library gets the caller's request.
        return unsafe { real::aio_read(request) };
    }
    // SAFETY: the request states its room.
    unsafe { complete(request, |of| libc::pread(of.aio_fildes, of.aio_buf, of.aio_nbytes, of.aio_offset)) }
}

/// Implements `aio_write`.
///
/// # Safety
/// The request and its bytes belong to the call until it is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write(request: *mut aiocb) -> c_int {
    // SAFETY: the request is initialised.
    if !active() || !is_file(unsafe { (*request).aio_fildes }) {
        // SAFETY: the request is the caller's.
        return unsafe { real::aio_write(request) };
    }
    // SAFETY: the request states its bytes.
    unsafe { complete(request, |of| libc::pwrite(of.aio_fildes, of.aio_buf, of.aio_nbytes, of.aio_offset)) }
}

/// Implements `aio_fsync`.
///
/// # Safety
/// The request belongs to the call until it is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_fsync(operation: c_int, request: *mut aiocb) -> c_int {
    // SAFETY: the request is initialised.
    if !active() || !is_file(unsafe { (*request).aio_fildes }) {
        // SAFETY: the C library judges the operation.
        return unsafe { real::aio_fsync(operation, request) };
    }
    // SAFETY: `fsync` takes a number.
    unsafe { complete(request, |of| libc::fsync(of.aio_fildes) as ssize_t) }
}

/// Implements the name of `aio_read` for large files.
///
/// # Safety
/// As for [`aio_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_read64(request: *mut aiocb) -> c_int {
    // SAFETY: both names have one contract on this machine.
    unsafe { aio_read(request) }
}

/// Implements the name of `aio_write` for large files.
///
/// # Safety
/// As for [`aio_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_write64(request: *mut aiocb) -> c_int {
    // SAFETY: the contract of both names is the same here.
    unsafe { aio_write(request) }
}

/// Implements the name of `aio_fsync` for large files.
///
/// # Safety
/// As for [`aio_fsync`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aio_fsync64(operation: c_int, request: *mut aiocb) -> c_int {
    // SAFETY: the structures of both names are equal here.
    unsafe { aio_fsync(operation, request) }
}

/// Waits, in wall-clock time, until the C library's threads for such requests sleep. They come to the
/// end of a transfer at this moment of simulated time, however late the machine lets them run.
fn settle_helpers() {
    /// Longest wait, and the pause between two looks.
    const LOOKS: u32 = 10_000;
    const LOOK: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 200_000 };
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    for _ in 0..LOOKS {
        let Ok(threads) = keeping_errno(|| std::fs::read_dir("/proc/self/task")) else { return };
        let numbers = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_awake = |number: i32| {
            let stat = CString::new(format!("/proc/self/task/{number}/stat")).ok().and_then(|path| processor_files::read(&path));
            let state = stat.as_deref().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
            number != own && matches!(state, Some('R' | 'D' | 'T'))
        };
        if !numbers.into_iter().any(is_awake) {
            return;
        }
        let _ = at_one_moment(|| rustix::thread::nanosleep(&LOOK));
    }
}

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
    // SAFETY: each element is null or points to a request.
    let given = || requests.iter().filter_map(|request| unsafe { request.as_ref() });
    if given().all(|request| is_file(request.aio_fildes)) {
        // A transfer from or to a file ends by itself.
        return natively(In::NULL);
    }
    let is_done = || {
        settle_helpers();
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
