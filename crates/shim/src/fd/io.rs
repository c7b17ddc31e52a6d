//! `read` and `write`.

use crate::clib::real;
use crate::fd::descriptors::{blocking_natively, is_nonblocking, kind_of, ours};
use crate::fd::random_files;
use crate::runtime::world::{active, errno, fail};
use crate::socket::message::parts;
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
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
}

fn counted(outcome: Result<usize, Errno>) -> ssize_t {
    match outcome {
        Ok(count) => count as ssize_t,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Reads from an object of the engine. Returns `None` for event channels: the verbs library reads
/// them, and their placeholder never becomes readable. The kernel's answer is right for them.
unsafe fn read_object(fd: c_int, entry: Entry, list: &[iovec]) -> Option<ssize_t> {
    match entry.kind {
        Kind::StreamSocket => Some(counted(stream::receive(fd, entry.object, list, 0))),
        Kind::Timer => Some(list.first().map_or(0, |part| timerfd::read(fd, entry.object, part.iov_base, part.iov_len))),
        Kind::DatagramSocket | Kind::CompletionChannel | Kind::AsyncChannel => None,
    }
}

fn native<R: From<i8>>(fd: c_int, events: i16, call: impl FnOnce() -> R) -> R {
    spin::before_native();
    if active() { blocking_natively(fd, events, call) } else { call() }
}

/// Returns whether a native socket may accept a part of the data. Messages go whole.
unsafe fn is_stream(fd: c_int) -> bool {
    let (mut kind, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    let status = real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut len);
    status == 0 && kind == libc::SOCK_STREAM
}

/// Writes more than a pipe or a native socket may have room for, in parts that do not block. Each
/// part waits for room in simulated time, because the reader needs the token to make room. Returns
/// `None` if the data needs no parts.
unsafe fn write_in_parts(fd: c_int, list: &[iovec]) -> Option<ssize_t> {
    let whole: usize = list.iter().map(|part| part.iov_len).sum();
    if whole <= libc::PIPE_BUF || !active() || is_nonblocking(fd) {
        return None;
    }
    let send: unsafe fn(c_int, *const c_void, size_t) -> ssize_t = match kind_of(fd) {
        // If poll reports room, the pipe accepts this many bytes at once.
        // SAFETY: called below with a part of an `iovec` that `write` or `writev` got: readable for
        // its length.
        libc::S_IFIFO => |fd, data, len| unsafe { real::write(fd, data, len.min(libc::PIPE_BUF)) },
        // SAFETY: called below with a part of an `iovec`, too.
        libc::S_IFSOCK if is_stream(fd) => |fd, data, len| unsafe { real::send(fd, data, len, libc::MSG_DONTWAIT) },
        _ => return None,
    };
    let mut written = 0;
    for part in list {
        let mut done = 0;
        while done < part.iov_len {
            let (from, left) = (part.iov_base.cast::<u8>().add(done).cast::<c_void>(), part.iov_len - done);
            let count = native(fd, libc::POLLOUT, || send(fd, from, left));
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    let list = [iovec { iov_base: data, iov_len: len }];
    if let Some(entry) = ours(fd)
        && let Some(count) = read_object(fd, entry, &list)
    {
        return count;
    }
    let count = native(fd, libc::POLLIN, || real::read(fd, data, len));
    random_files::read_on(fd, data, len, count)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    check_room(len, room);
    read(fd, data, len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if let Some(entry) = ours(fd)
        && let Some(result) = read_object(fd, entry, parts(list, count.max(0) as usize))
    {
        return result;
    }
    let done = native(fd, libc::POLLIN, || real::readv(fd, list, count));
    random_files::read_parts_on(fd, list, count, done)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    if let Some(Entry { kind: Kind::StreamSocket, object }) = ours(fd) {
        return counted(stream::send(fd, object, &[iovec { iov_base: data.cast_mut(), iov_len: len }], 0));
    }
    let list = [iovec { iov_base: data.cast_mut(), iov_len: len }];
    if let Some(count) = write_in_parts(fd, &list) {
        return count;
    }
    native(fd, libc::POLLOUT, || real::write(fd, data, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if let Some(Entry { kind: Kind::StreamSocket, object }) = ours(fd) {
        return counted(stream::send(fd, object, parts(list, count.max(0) as usize), 0));
    }
    if let Some(written) = write_in_parts(fd, parts(list, count.max(0) as usize)) {
        return written;
    }
    native(fd, libc::POLLOUT, || real::writev(fd, list, count))
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
