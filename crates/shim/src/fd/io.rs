//! `read` and `write`.

use crate::clib::buffers::{Readable, Writable};
use crate::clib::real;
use crate::fd::descriptors::{blocking_natively, is_nonblocking, kind_of, ours};
use crate::fd::file_costs::{pay_read, pay_write};
use crate::fd::{counter_files, kernel_news, management, own_values, random_files};
use crate::runtime::world::{active, errno, fail};
use crate::shared::mapping::{before_kernel_writes, before_kernel_writes_parts};
use crate::socket::datagram::{self, Sent};
use crate::socket::netlink;
use crate::socket::open::socket_option;
use crate::socket::stream;
use crate::spin;
use crate::time::timerfd;
use libc::{c_int, c_void, iovec, size_t, ssize_t};
use softband_client::Errno;
use softband_client::fds::{Entry, Kind};

/// Implements the check of `_FORTIFY_SOURCE`. Aborts if `len` exceeds `room`.
pub fn check_room(len: size_t, room: size_t) {
    if len > room {
        softband_client::warn::always("buffer overflow detected");
        std::process::abort();
    }
}

fn counted(outcome: Result<usize, Errno>) -> ssize_t {
    match outcome {
        Ok(count) => count as ssize_t,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Returns the object of the engine behind a descriptor, if reads and writes go there. At wall pace
/// only these devices do.
fn object_at(fd: c_int) -> Option<Entry> {
    ours(fd).or_else(|| management::entry(fd))
}

/// Reads from an object of the engine. Returns `None` for event channels: the verbs library reads
/// them, and their placeholder never becomes readable. The kernel's answer is right for them.
fn read_object(fd: c_int, entry: Entry, list: &[Writable]) -> Option<ssize_t> {
    match entry.kind {
        Kind::StreamSocket => Some(counted(stream::receive(fd, entry.object, list, 0))),
        Kind::Timer => Some(list.first().map_or(0, |part| timerfd::read(fd, entry.object, part))),
        Kind::DatagramSocket => Some(counted(datagram::receive(fd, entry.object, list, 0).map(|taken| taken.len))),
        Kind::ManagementDevice | Kind::SubnetManager | Kind::ConnectionManager => Some(management::read(fd, entry, list)),
        Kind::CompletionChannel | Kind::AsyncChannel => None,
    }
}

/// Writes to a socket of the engine. Returns `None` if the kernel has to write.
fn write_object(fd: c_int, parts: &[Readable]) -> Option<ssize_t> {
    match object_at(fd)? {
        entry @ Entry { kind: Kind::ManagementDevice | Kind::SubnetManager | Kind::ConnectionManager, .. } => {
            Some(management::write(fd, entry, parts))
        }
        Entry { kind: Kind::StreamSocket, object } => Some(counted(stream::send(fd, object, parts, 0))),
        Entry { kind: Kind::DatagramSocket, object } => match datagram::send(fd, object, parts, (None, datagram::NO_WISH), 0) {
            Ok(Sent::Bytes(count)) => Some(count as ssize_t),
            Ok(Sent::LeftToKernel) => None,
            Err(Errno(errno)) => Some(fail(errno)),
        },
        _ => None,
    }
}

fn native<R: From<i8>>(fd: c_int, events: i16, call: impl FnOnce() -> R) -> R {
    spin::before_native();
    if !active() {
        return call();
    }
    crate::time::pace::note_work();
    let result = blocking_natively(fd, events, call);
    if events == libc::POLLIN {
        netlink::note_taken(fd);
    }
    result
}

/// Returns whether a native socket may accept a part of the data. Messages go whole.
fn is_stream(fd: c_int) -> bool {
    socket_option::<c_int>(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// Writes more than a pipe or a native socket may have room for, in parts that do not block. Each
/// part waits for room in simulated time, because the reader needs the token to make room. Returns
/// `None` if the data needs no parts.
fn write_in_parts(fd: c_int, list: &[Readable]) -> Option<ssize_t> {
    let whole: usize = list.iter().map(Readable::len).sum();
    if whole <= libc::PIPE_BUF || !active() || is_nonblocking(fd) {
        return None;
    }
    let send: fn(c_int, Readable) -> ssize_t = match kind_of(fd) {
        // If poll reports room, the pipe accepts this many bytes at once.
        libc::S_IFIFO => |fd, part| write_natively(fd, part.part(0, libc::PIPE_BUF)),
        // SAFETY: the kernel reads the bytes of the part.
        libc::S_IFSOCK if is_stream(fd) => |fd, part| unsafe { real::send(fd, part.as_ptr(), part.len(), libc::MSG_DONTWAIT) },
        _ => return None,
    };
    let mut written = 0;
    for part in list {
        let mut done = 0;
        while done < part.len() {
            let count = native(fd, libc::POLLOUT, || kernel_news::writing(fd, || send(fd, part.part(done, usize::MAX))));
            if count < 0 && errno() == libc::EAGAIN {
                continue;
            }
            if count <= 0 {
                return Some(if written > 0 { written } else { count });
            }
            done += count as usize;
            written += count;
        }
    }
    Some(written)
}

fn write_natively(fd: c_int, part: Readable) -> ssize_t {
    // SAFETY: a `Readable` has its bytes during the call.
    unsafe { real::write(fd, part.as_ptr(), part.len()) }
}

/// Implements `read`.
///
/// # Safety
/// `data` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    if let Some(entry) = object_at(fd)
        // SAFETY: the room is the caller's, for this call.
        && let Some(count) = read_object(fd, entry, &[unsafe { Writable::new(data, len) }])
    {
        return count;
    }
    counter_files::refresh(fd);
    let read = || {
        before_kernel_writes(data, len);
        // SAFETY: the kernel writes at most `len` bytes to `data`.
        unsafe { real::read(fd, data, len) }
    };
    // A read of nothing only checks the descriptor, and returns at once.
    let count = if len == 0 { read() } else { native(fd, libc::POLLIN, read) };
    // SAFETY: the kernel filled `count` bytes of the room; the rest is free.
    pay_read(fd, unsafe { random_files::read_on(fd, data, len, count) }, None)
}

/// Implements `read` with a known size of the buffer.
///
/// # Safety
/// `data` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    check_room(len, room);
    // SAFETY: `len` is at most `room`, or the check ended the process.
    unsafe { read(fd, data, len) }
}

/// Implements `readv`.
///
/// # Safety
/// `list` has `count` elements, and each has its room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if let Some(entry) = object_at(fd)
        // SAFETY: the caller's list and its room stay until the call returns.
        && let Some(result) = read_object(fd, entry, unsafe { Writable::list(list, count.max(0) as usize) })
    {
        return result;
    }
    let done = native(fd, libc::POLLIN, || {
        // SAFETY: the list has as many parts.
        unsafe { before_kernel_writes_parts(list, count.max(0) as usize) };
        // SAFETY: the kernel checks the count, and fills the room of the list.
        unsafe { real::readv(fd, list, count) }
    });
    // SAFETY: the list is still the caller's.
    pay_read(fd, unsafe { random_files::read_parts_on(fd, list, count, done) }, None)
}

/// Implements `write`.
///
/// # Safety
/// `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller's bytes do not change during the call.
    let part = unsafe { Readable::new(data, len) };
    if let Some(written) = write_object(fd, &[part]) {
        return written;
    }
    if netlink::is_route_socket(fd) {
        return netlink::send(fd, &[part]);
    }
    if let Some(written) = own_values::write(fd, part.bytes()) {
        return written;
    }
    let natively = || native(fd, libc::POLLOUT, || kernel_news::writing(fd, || write_natively(fd, part)));
    write_in_parts(fd, &[part]).unwrap_or_else(|| pay_write(fd, natively(), None))
}

/// Implements `writev`.
///
/// # Safety
/// `list` has `count` elements, and each has its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's list and its bytes do not change during the call.
    let parts = unsafe { Readable::list(list, count.max(0) as usize) };
    if let Some(written) = write_object(fd, parts) {
        return written;
    }
    if netlink::is_route_socket(fd) {
        return netlink::send(fd, parts);
    }
    if own_values::is_value(fd) {
        let text: Vec<u8> = parts.iter().flat_map(|part| part.bytes().iter().copied()).collect();
        return own_values::write(fd, &text).unwrap_or_else(|| fail(libc::EBADF));
    }
    if let Some(written) = write_in_parts(fd, parts) {
        return written;
    }
    // SAFETY: the kernel checks the count, and reads the bytes of the list.
    let written = native(fd, libc::POLLOUT, || kernel_news::writing(fd, || unsafe { real::writev(fd, list, count) }));
    pay_write(fd, written, None)
}

/// Implements `eventfd_write`, which the C library makes of a `write` of its own.
#[unsafe(no_mangle)]
pub extern "C" fn eventfd_write(fd: c_int, value: u64) -> c_int {
    // SAFETY: the number has its eight bytes.
    let written = unsafe { write(fd, (&raw const value).cast(), size_of_val(&value)) };
    if written == size_of_val(&value) as ssize_t { 0 } else { -1 }
}

/// Implements `eventfd_read`.
///
/// # Safety
/// `value` has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eventfd_read(fd: c_int, value: *mut u64) -> c_int {
    // SAFETY: the caller's number has eight bytes.
    if unsafe { read(fd, value.cast(), size_of::<u64>()) } == size_of::<u64>() as ssize_t { 0 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_bytes_go_through_a_pipe() {
        let mut ends = [0; 2];
        let mut back = [0u8; 3];
        // SAFETY: the buffers have the given lengths.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(write(ends[1], c"abc".as_ptr().cast(), 3), 3);
            assert_eq!(read(ends[0], back.as_mut_ptr().cast(), 3), 3);
            assert_eq!(crate::fd::descriptors::close(ends[0]), 0);
            assert_eq!(crate::fd::descriptors::close(ends[0]), -1);
            assert_eq!(crate::fd::descriptors::close(ends[1]), 0);
        }
        assert_eq!(&back, b"abc");
    }
}
