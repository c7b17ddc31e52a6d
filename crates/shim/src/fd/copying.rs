//! `sendfile`, `splice`, `tee` and `vmsplice`. The kernel cannot move bytes from or to a socket of
//! the engine, so they go through a buffer. The rules are those of Linux 6 (fs/splice.c,
//! fs/read_write.c).

use crate::clib::args::InOut;
use crate::clib::buffers::{Readable, Writable};
use crate::clib::real;
use crate::fd::descriptors::{blocking_natively, is_nonblocking, kind_of, ours, poll_natively};
use crate::fd::{io, kernel_news};
use crate::runtime::world::{active, errno, fail};
use crate::signal::actions;
use crate::socket::datagram::{self, Sent};
use crate::socket::modelled::pay_for_call;
use crate::socket::open::{datagram_socket, plain, socket_option, stream};
use crate::socket::stream::{CHUNK_BYTES, Sending, receive_more};
use crate::spin;
use libc::{c_int, c_uint, iovec, loff_t, off_t, pollfd, size_t, ssize_t};
use softband_client::fds::Kind;
use softband_client::{Errno, warn};

/// More bytes than a datagram can have. A send of as many fails (EMSGSIZE).
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// Most bytes of one call (`MAX_RW_COUNT`).
const COUNT_MAX: usize = 0x7fff_f000;
const FLAGS: c_uint = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

fn counted(outcome: Result<usize, Errno>) -> ssize_t {
    match outcome {
        Ok(count) => count as ssize_t,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Returns the count of a call of the system, or its error.
fn outcome(count: ssize_t) -> Result<usize, Errno> {
    usize::try_from(count).map_err(|_| Errno(errno()))
}

/// Returns the access mode of a descriptor. Fails with `EBADF` if it is not open.
fn access_mode(fd: c_int) -> Result<c_int, Errno> {
    // SAFETY: the question for the flags has no argument.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    if flags < 0 || flags & libc::O_PATH != 0 { Err(Errno(libc::EBADF)) } else { Ok(flags & libc::O_ACCMODE) }
}

fn must_be_open(fd: c_int, refused: c_int) -> Result<(), Errno> {
    if access_mode(fd)? == refused { Err(Errno(libc::EBADF)) } else { Ok(()) }
}

fn is_pipe(fd: c_int) -> bool {
    kind_of(fd) == libc::S_IFIFO
}

/// Returns the unread bytes of a pipe.
fn unread(pipe: c_int) -> usize {
    let mut count: c_int = 0;
    // SAFETY: FIONREAD writes an `int`.
    unsafe { kernel!(libc::SYS_ioctl, pipe, libc::FIONREAD, &raw mut count) };
    count.max(0) as usize
}

/// Returns the events of `events` that a descriptor of the kernel has now.
fn events_now(fd: c_int, events: i16) -> i16 {
    let mut set = [pollfd { fd, events, revents: 0 }];
    poll_natively(&mut set, 0);
    set[0].revents
}

/// Waits until a descriptor of the kernel has `events`, or its other end is gone.
fn wait_natively(fd: c_int, events: i16) -> Result<(), Errno> {
    let waited: c_int = blocking_natively(fd, events, || poll_natively(&mut [pollfd { fd, events, revents: 0 }], -1));
    if waited < 0 { Err(Errno(errno())) } else { Ok(()) }
}

/// Returns whether a call with these flags waits for a pipe.
fn may_wait(pipe: c_int, flags: c_uint) -> bool {
    flags & libc::SPLICE_F_NONBLOCK == 0 && !is_nonblocking(pipe)
}

/// Returns the position of a file in which `sendfile` begins.
fn start(from: c_int, offset: Option<off_t>) -> Result<off_t, Errno> {
    let position = match kind_of(from) {
        libc::S_IFREG | libc::S_IFBLK | libc::S_IFCHR => {
            // SAFETY: the call takes numbers.
            let position = unsafe { libc::lseek(from, 0, libc::SEEK_CUR) };
            (position >= 0).then_some(position)
        }
        _ => None,
    };
    match (position, offset) {
        (None, Some(_)) => Err(Errno(libc::ESPIPE)),
        (None, None) => Err(Errno(libc::EINVAL)),
        (_, Some(offset)) if offset < 0 => Err(Errno(libc::EINVAL)),
        (Some(position), offset) => Ok(offset.unwrap_or(position)),
    }
}

/// Passes at most `count` bytes of a file to `put`, chunk by chunk, until the file or `put` ends.
fn read_chunks(from: c_int, mut at: off_t, count: usize, mut put: impl FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
    let mut left = count;
    let mut chunk = vec![0; CHUNK_BYTES.min(count)];
    while left > 0 {
        let len = left.min(CHUNK_BYTES);
        // SAFETY: the chunk has room for `len` bytes.
        let taken = outcome(unsafe { real::pread(from, chunk.as_mut_ptr().cast(), len, at) })?;
        if taken == 0 {
            break;
        }
        put(&chunk[..taken])?;
        at += taken as off_t;
        left -= taken;
    }
    Ok(())
}

/// Sends a part of a file to a stream socket of the engine.
fn send_file(fd: c_int, object: u32, from: c_int, at: off_t, count: usize) -> Result<usize, Errno> {
    let mut sending = Sending::begin(fd, object, 0, None);
    let outcome = read_chunks(from, at, count, |mut rest| {
        while !rest.is_empty() {
            rest = &rest[sending.some(rest)?..];
        }
        Ok(())
    });
    sending.end(outcome)
}

/// Writes a part of a file to a socket of the kernel that waits for its reader.
fn write_file(fd: c_int, from: c_int, at: off_t, count: usize) -> Result<usize, Errno> {
    let mut written = 0;
    let outcome = read_chunks(from, at, count, |mut rest| {
        while !rest.is_empty() {
            // SAFETY: a slice has its own length of bytes.
            let count = outcome(unsafe { io::write(fd, rest.as_ptr().cast(), rest.len()) })?;
            written += count;
            rest = &rest[count..];
        }
        Ok(())
    });
    if written > 0 { Ok(written) } else { outcome.map(|()| 0) }
}

/// Sends a part of a file as one datagram.
fn send_file_datagram(fd: c_int, object: u32, from: c_int, at: off_t, count: usize) -> Result<usize, Errno> {
    let mut whole = Vec::new();
    read_chunks(from, at, count.min(DATAGRAM_BYTES_MAX), |part| {
        whole.extend_from_slice(part);
        Ok(())
    })?;
    if whole.is_empty() { Ok(0) } else { send_datagram(fd, object, &whole) }
}

/// Moves the bytes of a pipe to a datagram socket, as one datagram.
fn to_datagram(pipe: c_int, fd: c_int, object: u32, count: usize, flags: c_uint) -> Result<usize, Errno> {
    if may_wait(pipe, flags) {
        wait_natively(pipe, libc::POLLIN)?;
    }
    let len = unread(pipe).min(count).min(DATAGRAM_BYTES_MAX);
    if len == 0 {
        return if events_now(pipe, libc::POLLIN) & libc::POLLHUP != 0 { Ok(0) } else { Err(Errno(libc::EAGAIN)) };
    }
    let mut bytes = vec![0u8; len];
    // SAFETY: the buffer has room for `len` bytes.
    let taken = outcome(unsafe { real::read(pipe, bytes.as_mut_ptr().cast(), len) })?;
    send_datagram(fd, object, &bytes[..taken])
}

fn send_datagram(fd: c_int, object: u32, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the slice has its own length.
    let part = unsafe { Readable::new(bytes.as_ptr().cast(), bytes.len()) };
    match datagram::send(fd, object, &[part], (None, datagram::NO_WISH), 0)? {
        Sent::Bytes(count) => Ok(count),
        // SAFETY: the kernel reads the bytes of the slice.
        Sent::LeftToKernel => outcome(unsafe { real::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) }),
    }
}

/// Refuses a datagram socket of the engine as a source. Kernels before 6.5 do so, too.
fn refuse_datagrams(fd: c_int, call: &str) -> Result<(), Errno> {
    if ours(fd).is_none_or(|entry| entry.kind != Kind::DatagramSocket) {
        return Ok(());
    }
    warn::once(&format!("{call} does not support datagram sockets in simulated time"));
    Err(Errno(libc::EOPNOTSUPP))
}

/// Copies from a file through a buffer, with the checks of `sendfile`.
fn copy_file(out: c_int, from: c_int, offset: InOut<off_t>, count: usize) -> Result<usize, Errno> {
    must_be_open(from, libc::O_WRONLY)?;
    let at = start(from, offset.get())?;
    if count > isize::MAX as usize {
        return Err(Errno(libc::EINVAL));
    }
    let count = count.min(COUNT_MAX);
    let sent = match (stream(out), datagram_socket(out)) {
        (Some(object), _) => send_file(out, object, from, at, count)?,
        (None, Some(object)) => send_file_datagram(out, object, from, at, count)?,
        (None, None) => write_file(out, from, at, count)?,
    };
    if offset.is_null() {
        // SAFETY: the call moves the position of a file.
        unsafe { libc::lseek(from, at + sent as off_t, libc::SEEK_SET) };
    } else {
        offset.set(at + sent as off_t);
    }
    Ok(sent)
}

/// Returns whether `out` is a socket of the kernel whose peer may need the token to read.
fn is_waiting_socket(out: c_int) -> bool {
    active() && kind_of(out) == libc::S_IFSOCK && !is_nonblocking(out) && socket_option::<c_int>(out, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

#[unsafe(no_mangle)]
pub extern "C" fn sendfile(out: c_int, from: c_int, offset: InOut<off_t>, count: size_t) -> ssize_t {
    if active() && stream(from).is_some() && is_pipe(out) {
        return if offset.is_null() { counted(from_socket(from, out, count, 0)) } else { fail(libc::ESPIPE) };
    }
    if plain(out).is_some() || is_waiting_socket(out) {
        return counted(copy_file(out, from, offset, count));
    }
    spin::before_native();
    let mut at = offset.get();
    let place = at.as_mut().map_or(std::ptr::null_mut(), |at| &raw mut *at);
    // SAFETY: the place is null or a local number.
    let sent = with_room(out, 0, || unsafe { real::sendfile(out, from, place, count) });
    if let Some(at) = at {
        offset.set(at);
    }
    sent
}

/// Implements the name of `sendfile` for large files.
#[unsafe(no_mangle)]
pub extern "C" fn sendfile64(out: c_int, from: c_int, offset: InOut<off_t>, count: size_t) -> ssize_t {
    sendfile(out, from, offset, count)
}

/// Runs a call of the kernel that writes to `out`, after a wait for room in a pipe.
fn with_room(out: c_int, flags: c_uint, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let call = || kernel_news::writing(out, call);
    if active() && is_pipe(out) && may_wait(out, flags) { blocking_natively(out, libc::POLLOUT, call) } else { call() }
}

/// Runs a call of the kernel that moves bytes from one descriptor to another, after waits for bytes
/// and for room.
fn moving(from: c_int, out: c_int, flags: c_uint, call: impl FnOnce() -> ssize_t) -> ssize_t {
    spin::before_native();
    let waits = active() && matches!(kind_of(from), libc::S_IFIFO | libc::S_IFSOCK) && may_wait(from, flags);
    let call = || with_room(out, flags, call);
    if waits { blocking_natively(from, libc::POLLIN, call) } else { call() }
}

/// Moves bytes of a pipe to a stream socket. Takes only bytes for which the socket has room.
fn to_socket(pipe: c_int, fd: c_int, object: u32, count: usize, flags: c_uint) -> Result<usize, Errno> {
    let mut sending = Sending::begin(fd, object, 0, None);
    let (mut left, mut is_first) = (count.min(COUNT_MAX), true);
    let mut chunk = vec![0; CHUNK_BYTES.min(left)];
    let mut one = |sending: &mut Sending| {
        if is_first && may_wait(pipe, flags) {
            wait_natively(pipe, libc::POLLIN)?;
        }
        if unread(pipe) == 0 {
            let is_over = !is_first || events_now(pipe, libc::POLLIN) & libc::POLLHUP != 0;
            return if is_over { Ok(false) } else { Err(Errno(libc::EAGAIN)) };
        }
        let room = sending.room()?;
        // Another thread may have emptied the pipe meanwhile.
        let len = unread(pipe).min(room).min(left).min(chunk.len());
        if len > 0 {
            // SAFETY: the chunk has room for `len` bytes, and the pipe has them.
            let taken = outcome(unsafe { real::read(pipe, chunk.as_mut_ptr().cast(), len) })?;
            sending.all(&chunk[..taken])?;
            left -= taken;
            is_first = false;
        }
        Ok(left > 0)
    };
    let outcome = loop {
        match one(&mut sending) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    sending.end(outcome)
}

/// Waits for room in a pipe, and returns the bytes that fit for certain.
fn pipe_room(pipe: c_int, waits: bool) -> Result<usize, Errno> {
    if waits {
        wait_natively(pipe, libc::POLLOUT)?;
    }
    let events = events_now(pipe, libc::POLLOUT);
    if events & libc::POLLERR != 0 {
        return Err(Errno(libc::EPIPE));
    }
    if events & libc::POLLOUT == 0 {
        return Err(Errno(libc::EAGAIN));
    }
    // A pipe with bytes may have them in many pages.
    if unread(pipe) > 0 {
        return Ok(libc::PIPE_BUF);
    }
    // SAFETY: the question for the size has no argument.
    Ok(unsafe { real::fcntl(pipe, libc::F_GETPIPE_SZ, 0) }.max(libc::PIPE_BUF as c_int) as usize)
}

/// Writes bytes to a pipe that had room for them. Waits if another thread took the room.
fn fill(pipe: c_int, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        // SAFETY: the rest of a slice has its own length.
        match outcome(unsafe { io::write(pipe, bytes.as_ptr().cast(), bytes.len()) }) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno(libc::EAGAIN)) => {
                crate::fd::poll::wait(&mut [pollfd { fd: pipe, events: libc::POLLOUT, revents: 0 }], u64::MAX)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Moves bytes of a stream socket to a pipe. Takes only bytes for which the pipe has room.
fn from_socket(fd: c_int, pipe: c_int, count: usize, flags: c_uint) -> Result<usize, Errno> {
    let object = stream(fd).ok_or(Errno(libc::EBADF))?;
    pay_for_call();
    let count = count.min(COUNT_MAX);
    let mut chunk = vec![0u8; CHUNK_BYTES.min(count)];
    let mut moved = 0;
    while moved < count {
        let room = match pipe_room(pipe, moved == 0 && may_wait(pipe, flags)) {
            Ok(room) => room,
            Err(_) if moved > 0 => break,
            Err(error) => {
                if error == Errno(libc::EPIPE) {
                    actions::raise_all(1 << libc::SIGPIPE);
                }
                return Err(error);
            }
        };
        let len = room.min(count - moved).min(chunk.len());
        // SAFETY: the chunk has room for `len` bytes, and nothing else uses it.
        let part = unsafe { Writable::new(chunk.as_mut_ptr().cast(), len) };
        let taken = match receive_more(fd, object, &[part], if moved > 0 { libc::MSG_DONTWAIT } else { 0 }) {
            Ok(0) => break,
            Ok(taken) => taken,
            Err(_) if moved > 0 => break,
            Err(error) => return Err(error),
        };
        fill(pipe, &chunk[..taken])?;
        moved += taken;
    }
    Ok(moved)
}

/// Moves bytes between a pipe and a socket of the engine, with the checks of `splice`.
fn move_bytes(from: c_int, offset: InOut<loff_t>, out: c_int, out_offset: InOut<loff_t>, count: usize, flags: c_uint) -> Result<usize, Errno> {
    if count == 0 {
        return Ok(0);
    }
    if flags & !FLAGS != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let (from_pipe, to_pipe) = (is_pipe(from), is_pipe(out));
    access_mode(from).and(access_mode(out))?;
    if from_pipe && !offset.is_null() || to_pipe && !out_offset.is_null() {
        return Err(Errno(libc::ESPIPE));
    }
    must_be_open(from, libc::O_WRONLY)?;
    must_be_open(out, libc::O_RDONLY)?;
    if !offset.is_null() || !out_offset.is_null() {
        return Err(Errno(libc::EINVAL)); // a socket has no position
    }
    match (stream(from), stream(out)) {
        (None, Some(object)) if from_pipe => to_socket(from, out, object, count, flags),
        (Some(_), None) if to_pipe => from_socket(from, out, count, flags),
        (None, None) if from_pipe => match datagram_socket(out) {
            Some(object) => to_datagram(from, out, object, count, flags),
            None => Err(Errno(libc::EINVAL)),
        },
        _ => Err(Errno(libc::EINVAL)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn splice(from: c_int, offset: InOut<loff_t>, out: c_int, out_offset: InOut<loff_t>, count: size_t, flags: c_uint) -> ssize_t {
    if let Err(Errno(errno)) = refuse_datagrams(from, "splice") {
        return fail(errno);
    }
    if stream(from).is_some() || plain(out).is_some() {
        return counted(move_bytes(from, offset, out, out_offset, count, flags));
    }
    let (mut at, mut out_at) = (offset.get(), out_offset.get());
    let place = |at: &mut Option<loff_t>| at.as_mut().map_or(std::ptr::null_mut(), |at| &raw mut *at);
    let (from_place, out_place) = (place(&mut at), place(&mut out_at));
    // SAFETY: each place is null or a local number.
    let moved = moving(from, out, flags, || unsafe { real::splice(from, from_place, out, out_place, count, flags) });
    for (at, caller) in [(at, offset), (out_at, out_offset)] {
        if let Some(at) = at {
            caller.set(at);
        }
    }
    moved
}

#[unsafe(no_mangle)]
pub extern "C" fn tee(from: c_int, out: c_int, count: size_t, flags: c_uint) -> ssize_t {
    // SAFETY: the call takes numbers.
    moving(from, out, flags, || unsafe { real::tee(from, out, count, flags) })
}

/// Implements `vmsplice`.
///
/// # Safety
/// `parts` has `count` elements, and each has its bytes or its room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmsplice(fd: c_int, parts: *const iovec, count: size_t, flags: c_uint) -> ssize_t {
    spin::before_native();
    let reads = access_mode(fd) == Ok(libc::O_RDONLY);
    let call = || {
        if reads {
            // SAFETY: the caller's list has `count` elements.
            unsafe { crate::shared::mapping::before_kernel_writes_parts(parts, count) };
        }
        // SAFETY: the kernel reads or fills what the list describes.
        unsafe { real::vmsplice(fd, parts, count, flags) }
    };
    if !reads {
        return with_room(fd, flags, call);
    }
    if active() && may_wait(fd, flags) { blocking_natively(fd, libc::POLLIN, call) } else { call() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_position_and_a_pipe_has_none() {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors; the name is a string.
        let file = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::memfd_create(c"x".as_ptr(), 0)
        };
        assert_eq!(start(file, None), Ok(0));
        assert_eq!(start(file, Some(7)), Ok(7));
        assert_eq!(start(file, Some(-1)), Err(Errno(libc::EINVAL)));
        assert_eq!(start(ends[0], None), Err(Errno(libc::EINVAL)));
        assert_eq!(start(ends[0], Some(0)), Err(Errno(libc::ESPIPE)));
        assert_eq!(must_be_open(ends[0], libc::O_WRONLY), Ok(()));
        assert_eq!(must_be_open(ends[0], libc::O_RDONLY), Err(Errno(libc::EBADF)));
        assert_eq!(pipe_room(ends[1], true).map(|room| room >= libc::PIPE_BUF), Ok(true));
        for fd in [file, ends[0], ends[1]] {
            assert_eq!(crate::fd::descriptors::close(fd), 0);
        }
    }
}
