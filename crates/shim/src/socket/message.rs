//! `send` and `recv` in all their forms.

use super::native::fabric_address;
use super::open::stream;
use super::stream::{receive, send as send_parts};
use crate::clib::real;
use crate::fd::descriptors::blocking_natively;
use crate::runtime::world::{active, fail, walled};
use crate::spin;
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use softband_client::Errno;

fn counted(outcome: Result<usize, Errno>) -> ssize_t {
    match outcome {
        Ok(count) => count as ssize_t,
        Err(Errno(errno)) => fail(errno),
    }
}

fn part(data: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec { iov_base: data.cast_mut(), iov_len: len }]
}

/// Returns the parts of a message.
pub unsafe fn parts<'a>(list: *const iovec, count: usize) -> &'a [iovec] {
    if list.is_null() || count == 0 { &[] } else { std::slice::from_raw_parts(list, count) }
}

/// Makes a native call on a socket of the kernel. Makes watched memory accessible first, because
/// the kernel does not deliver faults to this library.
fn native<R: From<i8>>(fd: c_int, events: i16, flags: c_int, call: impl FnOnce() -> R) -> R {
    spin::before_native();
    if active() && flags & libc::MSG_DONTWAIT == 0 { blocking_natively(fd, events, call) } else { call() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    match stream(fd) {
        Some(object) => counted(send_parts(fd, object, &part(data, len), flags)),
        None => native(fd, libc::POLLOUT, flags, || real::send(fd, data, len, flags)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
    match stream(fd) {
        // A connected stream ignores the address, as the kernel does.
        Some(object) => counted(send_parts(fd, object, &part(data, len), flags)),
        None => fabric_address(fd, to, to_len, |to, to_len| native(fd, libc::POLLOUT, flags, || real::sendto(fd, data, len, flags, to, to_len))),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    match stream(fd) {
        Some(object) => counted(send_parts(fd, object, parts((*message).msg_iov, (*message).msg_iovlen), flags)),
        None if walled() => {
            let mut copy = *message;
            fabric_address(fd, copy.msg_name.cast(), copy.msg_namelen, |to, to_len| {
                copy.msg_name = to.cast_mut().cast();
                copy.msg_namelen = to_len;
                real::sendmsg(fd, &raw const copy, flags)
            })
        }
        None => native(fd, libc::POLLOUT, flags, || real::sendmsg(fd, message, flags)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    match stream(fd) {
        Some(object) => counted(receive(fd, object, &part(data, len), flags)),
        None => native(fd, libc::POLLIN, flags, || real::recv(fd, data, len, flags)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
    match stream(fd) {
        Some(object) => {
            if !from_len.is_null() {
                *from_len = 0; // TCP reports no sender here
            }
            counted(receive(fd, object, &part(data, len), flags))
        }
        None => native(fd, libc::POLLIN, flags, || real::recvfrom(fd, data, len, flags, from, from_len)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    match stream(fd) {
        Some(object) => {
            let message = &mut *message;
            message.msg_namelen = 0;
            message.msg_controllen = 0;
            message.msg_flags = 0;
            counted(receive(fd, object, parts(message.msg_iov, message.msg_iovlen), flags))
        }
        None => native(fd, libc::POLLIN, flags, || real::recvmsg(fd, message, flags)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
    crate::fd::io::check_room(len, room);
    recv(fd, data, len, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    crate::fd::io::check_room(len, room);
    recvfrom(fd, data, len, flags, from, from_len)
}
