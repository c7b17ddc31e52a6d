//! `send` and `recv` in all their forms.

use super::address::{self, Given};
use super::control;
use super::datagram::{self, NO_WISH, Sent, Taken};
use super::native::{fabric_address, show};
use super::netlink;
use super::open::{datagram_socket, family, plain, stream};
use super::stream::{receive, send as send_parts};
use crate::clib::args::{In, InOut, slice_mut};
use crate::clib::buffers::{Readable, Writable};
use crate::clib::real;
use crate::fd::descriptors::blocking_natively;
use crate::fd::kernel_news::writing;
use crate::runtime::world::{active, deadline_after, fail, timespec_picos, walled};
use crate::shared::mapping::{before_kernel_writes, before_kernel_writes_parts};
use crate::spin;
use libc::{c_int, c_uint, c_void, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use softband_client::{self as client, Errno};
use softband_ipc::calls::DatagramWish;

/// Most messages of one call (`UIO_MAXIOV`).
const MESSAGES_MAX: usize = 1_024;

fn counted(outcome: Result<usize, Errno>) -> ssize_t {
    match outcome {
        Ok(count) => count as ssize_t,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Makes a native call on a socket of the kernel. Makes watched memory accessible first, because
/// the kernel does not deliver faults to this library.
fn native<R: From<i8>>(fd: c_int, events: i16, flags: c_int, call: impl FnOnce() -> R) -> R {
    spin::before_native();
    let result = if active() && flags & libc::MSG_DONTWAIT == 0 { blocking_natively(fd, events, call) } else { call() };
    if events == libc::POLLIN {
        netlink::note_taken(fd);
    }
    result
}

/// Translates the sender that the kernel wrote into a room of `room` bytes.
///
/// # Safety
/// `from` is null or has room for `room` bytes.
unsafe fn show_sender(fd: c_int, from: *mut sockaddr, room: Option<socklen_t>, len: InOut<socklen_t>) {
    // SAFETY: the room is the caller's in both functions.
    unsafe { if netlink::is_route_socket(fd) { netlink::write_sender(from, room, len) } else { show(from, room, len) } }
}

/// Sends a datagram. Returns `None` if the kernel has to send it.
fn send_datagram(fd: c_int, parts: &[Readable], to: (Option<Given>, DatagramWish), flags: c_int) -> Option<ssize_t> {
    match datagram::send(fd, datagram_socket(fd)?, parts, to, flags) {
        Ok(Sent::Bytes(count)) => Some(count as ssize_t),
        Ok(Sent::LeftToKernel) => None,
        Err(Errno(errno)) => Some(fail(errno)),
    }
}

/// Returns the length that a receiving call reports.
fn length(taken: Taken, flags: c_int) -> usize {
    if flags & libc::MSG_TRUNC == 0 { taken.len } else { taken.whole }
}

/// Receives a datagram into the parts of a message. Returns the message's new fields.
///
/// # Safety
/// The room for the address and the parts has the lengths that the message states.
unsafe fn receive_message(fd: c_int, object: u32, mut given: msghdr, flags: c_int) -> Result<(msghdr, usize), Errno> {
    // SAFETY: the message states the number of its parts, and each part its room.
    let taken = datagram::receive(fd, object, unsafe { Writable::list(given.msg_iov, given.msg_iovlen) }, flags)?;
    if !given.msg_name.is_null() {
        let (name, room) = (given.msg_name.cast(), InOut::of(&mut given.msg_namelen));
        // SAFETY: the address has the room that the message states.
        unsafe { address::write(family(fd), &taken.head.from, name, room) }?;
    }
    // SAFETY: the message states the room for control messages.
    let (len, cut) = unsafe { control::put(fd, family(fd), &taken.head, given.msg_control, given.msg_controllen) };
    given.msg_controllen = len;
    given.msg_flags = cut | if taken.len < taken.whole { libc::MSG_TRUNC } else { 0 };
    Ok((given, length(taken, flags)))
}

/// Implements `send`.
///
/// # Safety
/// `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's bytes do not change during the call.
    if let Some(count) = send_datagram(fd, &[unsafe { Readable::new(data, len) }], (None, NO_WISH), flags) {
        return count;
    }
    match stream(fd) {
        // SAFETY: the caller's bytes do not change during the call.
        Some(object) => counted(send_parts(fd, object, &[unsafe { Readable::new(data, len) }], flags)),
        // SAFETY: the request is the caller's for this call.
        None if netlink::is_route_socket(fd) => netlink::send(fd, &[unsafe { Readable::new(data, len) }]),
        // SAFETY: the kernel reads the caller's `len` bytes.
        None => native(fd, libc::POLLOUT, flags, || writing(fd, || unsafe { real::send(fd, data, len, flags) })),
    }
}

/// Implements `sendto`.
///
/// # Safety
/// `data` has `len` bytes. `to` is null or has `to_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
    if stream(fd).is_some() || netlink::is_route_socket(fd) {
        // A connected stream ignores the address, as the kernel does.
        // SAFETY: without the address, the bytes alone are left.
        return unsafe { send(fd, data, len, flags) };
    }
    // SAFETY: the caller's address stays in place during the call.
    let to = unsafe { Given::new(to, to_len) };
    let destination = (!to.as_ptr().is_null()).then_some(to);
    // SAFETY: the datagram has the caller's bytes.
    if let Some(count) = send_datagram(fd, &[unsafe { Readable::new(data, len) }], (destination, NO_WISH), flags) {
        return count;
    }
    fabric_address(fd, to, |to| {
        // SAFETY: the kernel reads the caller's bytes, and an address with its own length.
        native(fd, libc::POLLOUT, flags, || writing(fd, || unsafe { real::sendto(fd, data, len, flags, to.as_ptr(), to.len()) }))
    })
}

/// Implements `sendmsg`.
///
/// # Safety
/// The address and the parts of the message have the lengths that the message states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: In<msghdr>, flags: c_int) -> ssize_t {
    let given = message.get();
    if let (Some(_), Some(given)) = (datagram_socket(fd), given) {
        // SAFETY: the message states the length of its address.
        let to = (!given.msg_name.is_null()).then(|| unsafe { Given::of_message(given.msg_name.cast(), given.msg_namelen) });
        // SAFETY: each part of the message states its length.
        let parts = unsafe { Readable::list(given.msg_iov, given.msg_iovlen) };
        // SAFETY: the message states the length of its control messages.
        let way = match unsafe { control::wish(&given, parts.iter().map(Readable::len).sum()) } {
            Ok(way) => way,
            Err(Errno(errno)) => return fail(errno),
        };
        if let Some(count) = send_datagram(fd, parts, (to, way), flags) {
            return count;
        }
    }
    match (stream(fd), given) {
        // SAFETY: the message states the number of its parts, and each part its length.
        (Some(object), Some(given)) => counted(send_parts(fd, object, unsafe { Readable::list(given.msg_iov, given.msg_iovlen) }, flags)),
        // SAFETY: the parts are those of the caller's message.
        (None, Some(given)) if netlink::is_route_socket(fd) => netlink::send(fd, unsafe { Readable::list(given.msg_iov, given.msg_iovlen) }),
        (None, Some(mut copy)) if walled() => {
            // SAFETY: the message states the length of its address.
            let to = unsafe { Given::new(copy.msg_name.cast(), copy.msg_namelen) };
            fabric_address(fd, to, |to| {
                copy.msg_name = to.as_ptr().cast_mut().cast();
                copy.msg_namelen = to.len();
                // SAFETY: the copy differs from the caller's message in the address alone.
                unsafe { real::sendmsg(fd, In::of(&copy), flags) }
            })
        }
        // SAFETY: the kernel reads what the caller's message describes.
        _ => native(fd, libc::POLLOUT, flags, || writing(fd, || unsafe { real::sendmsg(fd, message, flags) })),
    }
}

/// Implements `recv`.
///
/// # Safety
/// `data` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    if let Some(object) = datagram_socket(fd) {
        // SAFETY: the room is the caller's, for one datagram.
        let taken = datagram::receive(fd, object, &[unsafe { Writable::new(data, len) }], flags);
        return counted(taken.map(|taken| length(taken, flags)));
    }
    match stream(fd) {
        // SAFETY: nobody else uses the caller's room during the call.
        Some(object) => counted(receive(fd, object, &[unsafe { Writable::new(data, len) }], flags)),
        None => native(fd, libc::POLLIN, flags, || {
            before_kernel_writes(data, len);
            // SAFETY: the kernel writes at most `len` bytes to the caller's room.
            unsafe { real::recv(fd, data, len, flags) }
        }),
    }
}

/// Implements `recvfrom`.
///
/// # Safety
/// `data` has room for `len` bytes. `from` is null or has room for `*from_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: InOut<socklen_t>,
) -> ssize_t {
    if stream(fd).is_some() {
        from_len.set(0); // TCP reports no sender here
        // SAFETY: without the sender, the room for the bytes alone is left.
        return unsafe { recv(fd, data, len, flags) };
    }
    if let Some(object) = datagram_socket(fd) {
        // SAFETY: the datagram's room is the caller's.
        let taken = datagram::receive(fd, object, &[unsafe { Writable::new(data, len) }], flags);
        return counted(taken.and_then(|taken| {
            if !from.is_null() {
                // SAFETY: the room for the sender has `*from_len` bytes.
                unsafe { address::write(family(fd), &taken.head.from, from, from_len) }?;
            }
            Ok(length(taken, flags))
        }));
    }
    let room = from_len.get();
    let count = native(fd, libc::POLLIN, flags, || {
        before_kernel_writes(data, len);
        // SAFETY: the kernel respects the length of both rooms.
        unsafe { real::recvfrom(fd, data, len, flags, from, from_len) }
    });
    // SAFETY: the kernel wrote into the same room.
    unsafe { show_sender(fd, from, room.filter(|_| count >= 0), from_len) };
    count
}

/// Implements `recvmsg`.
///
/// # Safety
/// The room for the address and the parts has the lengths that the message states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: InOut<msghdr>, flags: c_int) -> ssize_t {
    if let (Some(object), Some(given)) = (datagram_socket(fd), message.get()) {
        // SAFETY: the message states the room of its parts and of its address.
        return counted(unsafe { receive_message(fd, object, given, flags) }.map(|(given, count)| {
            message.set(given);
            count
        }));
    }
    match (stream(fd), message.get()) {
        (Some(object), Some(mut given)) => {
            given.msg_namelen = 0;
            given.msg_controllen = 0;
            given.msg_flags = 0;
            message.set(given);
            // SAFETY: the message states the number of its parts, and each part its room.
            counted(receive(fd, object, unsafe { Writable::list(given.msg_iov, given.msg_iovlen) }, flags))
        }
        (_, given) => {
            let count = native(fd, libc::POLLIN, flags, || {
                if let Some(message) = message.get() {
                    // SAFETY: the message has as many parts.
                    unsafe { before_kernel_writes_parts(message.msg_iov, message.msg_iovlen) };
                }
                // SAFETY: the kernel writes into the room that the caller's message describes.
                unsafe { real::recvmsg(fd, message, flags) }
            });
            if let (Some(given), Some(mut after)) = (given.filter(|_| count >= 0), message.get()) {
                // SAFETY: the message states the room for the sender.
                unsafe { show_sender(fd, given.msg_name.cast(), Some(given.msg_namelen), InOut::of(&mut after.msg_namelen)) };
                message.set(after);
            }
            count
        }
    }
}

/// Implements `recv` with a known size of the buffer.
///
/// # Safety
/// `data` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
    crate::fd::io::check_room(len, room);
    // SAFETY: the check ends the process unless `len` bytes fit.
    unsafe { recv(fd, data, len, flags) }
}

/// Implements `recvfrom` with a known size of the buffer.
///
/// # Safety
/// `data` has room for `room` bytes. `from` is null or has room for `*from_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: InOut<socklen_t>,
) -> ssize_t {
    crate::fd::io::check_room(len, room);
    // SAFETY: `len` bytes fit, since the check returned; the rest is the caller's.
    unsafe { recvfrom(fd, data, len, flags, from, from_len) }
}

/// Implements `sendmmsg`.
///
/// # Safety
/// `messages` has `count` elements, each as for [`sendmsg`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if plain(fd).is_none() && !walled() {
        // SAFETY: the kernel uses the caller's `count` messages.
        return native(fd, libc::POLLOUT, flags, || writing(fd, || unsafe { real::sendmmsg(fd, messages, count, flags) }));
    }
    // SAFETY: the caller's array has `count` elements.
    let list = unsafe { slice_mut(messages, (count as usize).min(MESSAGES_MAX)) };
    for (index, message) in list.iter_mut().enumerate() {
        // SAFETY: the message describes memory of the caller.
        let sent = unsafe { sendmsg(fd, In::of(&message.msg_hdr), flags) };
        if sent < 0 {
            return if index > 0 { index as c_int } else { -1 };
        }
        message.msg_len = sent as c_uint;
    }
    list.len() as c_int
}

/// Implements `recvmmsg`.
///
/// # Safety
/// `messages` has `count` elements, each as for [`recvmsg`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: InOut<timespec>) -> c_int {
    if plain(fd).is_none() {
        // SAFETY: the kernel fills the caller's `count` messages.
        return native(fd, libc::POLLIN, flags, || unsafe { real::recvmmsg(fd, messages, count, flags, timeout) });
    }
    // As in the kernel, the time limit counts only after a message has come.
    let deadline = timeout.get().map(|timeout| deadline_after(timespec_picos(&timeout)));
    // SAFETY: the array has `count` elements of the caller.
    let list = unsafe { slice_mut(messages, (count as usize).min(MESSAGES_MAX)) };
    for (index, message) in list.iter_mut().enumerate() {
        let no_wait = index > 0 && flags & libc::MSG_WAITFORONE != 0;
        let flags = flags & !libc::MSG_WAITFORONE | if no_wait { libc::MSG_DONTWAIT } else { 0 };
        // SAFETY: the message states the room of its parts.
        let received = unsafe { recvmsg(fd, InOut::of(&mut message.msg_hdr), flags) };
        if received < 0 {
            return if index > 0 { index as c_int } else { -1 };
        }
        message.msg_len = received as c_uint;
        if deadline.is_some_and(|deadline| deadline <= client::now_ps()) {
            return index as c_int + 1;
        }
    }
    list.len() as c_int
}
