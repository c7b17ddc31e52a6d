//! `send` and `recv` in all their forms.

use super::address::Given;
use super::native::{fabric_address, show};
use super::netlink;
use super::open::stream;
use super::stream::{receive, send as send_parts};
use crate::clib::args::{In, InOut};
use crate::clib::buffers::{Readable, Writable};
use crate::clib::real;
use crate::fd::descriptors::blocking_natively;
use crate::runtime::world::{active, fail, walled};
use crate::spin;
use libc::{c_int, c_void, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use softband_client::Errno;

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
    if active() && flags & libc::MSG_DONTWAIT == 0 { blocking_natively(fd, events, call) } else { call() }
}

/// Translates the sender that the kernel wrote into a room of `room` bytes.
///
/// # Safety
/// `from` is null or has room for `room` bytes.
unsafe fn show_sender(fd: c_int, from: *mut sockaddr, room: Option<socklen_t>, len: InOut<socklen_t>) {
    // SAFETY: the room is the caller's in both functions.
    unsafe { if netlink::is_route_socket(fd) { netlink::write_sender(from, room, len) } else { show(from, room, len) } }
}

/// Implements `send`.
///
/// # Safety
/// `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    match stream(fd) {
        // SAFETY: the caller's bytes do not change during the call.
        Some(object) => counted(send_parts(fd, object, &[unsafe { Readable::new(data, len) }], flags)),
        // SAFETY: the request is the caller's for this call.
        None if netlink::is_route_socket(fd) => netlink::send(fd, &[unsafe { Readable::new(data, len) }]),
        // SAFETY: the kernel reads the caller's `len` bytes.
        None => native(fd, libc::POLLOUT, flags, || unsafe { real::send(fd, data, len, flags) }),
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
    fabric_address(fd, to, |to| {
        // SAFETY: the kernel reads the caller's bytes, and an address with its own length.
        native(fd, libc::POLLOUT, flags, || unsafe { real::sendto(fd, data, len, flags, to.as_ptr(), to.len()) })
    })
}

/// Implements `sendmsg`.
///
/// # Safety
/// The address and the parts of the message have the lengths that the message states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: In<msghdr>, flags: c_int) -> ssize_t {
    let given = message.get();
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
        _ => native(fd, libc::POLLOUT, flags, || unsafe { real::sendmsg(fd, message, flags) }),
    }
}

/// Implements `recv`.
///
/// # Safety
/// `data` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    match stream(fd) {
        // SAFETY: nobody else uses the caller's room during the call.
        Some(object) => counted(receive(fd, object, &[unsafe { Writable::new(data, len) }], flags)),
        // SAFETY: the kernel writes at most `len` bytes to the caller's room.
        None => native(fd, libc::POLLIN, flags, || unsafe { real::recv(fd, data, len, flags) }),
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
    let room = from_len.get();
    // SAFETY: the kernel respects the length of both rooms.
    let count = native(fd, libc::POLLIN, flags, || unsafe { real::recvfrom(fd, data, len, flags, from, from_len) });
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
            // SAFETY: the kernel writes into the room that the caller's message describes.
            let count = native(fd, libc::POLLIN, flags, || unsafe { real::recvmsg(fd, message, flags) });
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
