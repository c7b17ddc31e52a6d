//! Names and options of a socket, and the shutdown of its directions.

use super::address;
use super::native::show;
use super::netlink;
use super::open::{family, stream};
use crate::clib::args::InOut;
use crate::clib::real;
use crate::runtime::world::fail;
use libc::{c_int, c_void, sockaddr, socklen_t};
use softband_client::{self as client, Errno};
use softband_ipc::calls::{Object, SocketNames, SocketShutdown, op};

fn names(object: u32) -> Result<SocketNames, Errno> {
    client::call::<op::SocketNames>(&Object { object, reserved: 0 })
}

/// Implements `getsockname`.
///
/// # Safety
/// `out` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, out: *mut sockaddr, len: InOut<socklen_t>) -> c_int {
    let Some(object) = stream(fd) else {
        // SAFETY: `out` has room for `*len` bytes, or is null.
        if let Some(status) = unsafe { netlink::name(fd, out, len) } {
            return status;
        }
        let room = len.get();
        // SAFETY: the kernel writes at most `*len` bytes to `out`.
        let status = unsafe { real::getsockname(fd, out, len) };
        // SAFETY: the room is the caller's.
        unsafe { show(out, room.filter(|_| status == 0), len) };
        return status;
    };
    match names(object) {
        Ok(names) => {
            // SAFETY: `out` has room for `*len` bytes, or is null.
            unsafe { address::write(family(fd), names.local_address, names.local_port as u16, out, len) };
            0
        }
        Err(Errno(errno)) => fail(errno),
    }
}

/// Implements `getpeername`.
///
/// # Safety
/// `out` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, out: *mut sockaddr, len: InOut<socklen_t>) -> c_int {
    let Some(object) = stream(fd) else {
        let room = len.get();
        // SAFETY: the kernel truncates the peer's address to the room of the caller.
        let status = unsafe { real::getpeername(fd, out, len) };
        // SAFETY: the kernel wrote into the same room.
        unsafe { show(out, room.filter(|_| status == 0), len) };
        return status;
    };
    match names(object) {
        Ok(names) if names.connected != 0 => {
            // SAFETY: the caller's room is `*len` bytes long, unless it is null.
            unsafe { address::write(family(fd), names.peer_address, names.peer_port as u16, out, len) };
            0
        }
        Ok(_) => fail(libc::ENOTCONN),
        Err(Errno(errno)) => fail(errno),
    }
}

/// Implements `getsockopt`.
///
/// # Safety
/// `value` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: InOut<socklen_t>) -> c_int {
    // SAFETY: the kernel respects the length of the caller's room.
    let original = || unsafe { real::getsockopt(fd, level, name, value, len) };
    let Some(object) = stream(fd).filter(|_| level == libc::SOL_SOCKET) else { return original() };
    let answer = match name {
        libc::SO_ERROR => match client::call::<op::SocketError>(&Object { object, reserved: 0 }) {
            Ok(()) | Err(Errno(libc::EINPROGRESS | libc::ENOTCONN)) => 0,
            Err(Errno(errno)) => errno,
        },
        libc::SO_ACCEPTCONN => names(object).map_or(0, |names| c_int::from(names.listening != 0)),
        _ => return original(),
    };
    let Some(room) = len.get().filter(|_| !value.is_null()) else { return fail(libc::EFAULT) };
    let count = (room as usize).min(size_of::<c_int>());
    // SAFETY: `value` has room for `room` bytes, and `answer` has `count` bytes.
    unsafe { std::ptr::copy_nonoverlapping((&raw const answer).cast::<u8>(), value.cast::<u8>(), count) };
    len.set(count as socklen_t);
    0
}

/// Implements `setsockopt`.
///
/// # Safety
/// `value` is null or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    if level == libc::SOL_NETLINK && netlink::is_route_socket(fd) {
        return 0; // the options select what the answers here do not contain
    }
    // SAFETY: the kernel reads the caller's `len` bytes.
    unsafe { real::setsockopt(fd, level, name, value, len) }
}

#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let Some(object) = stream(fd) else { return real::shutdown(fd, how) };
    if !(0..=2).contains(&how) {
        return fail(libc::EINVAL);
    }
    match client::call::<op::SocketShutdown>(&SocketShutdown { object, how: how as u32 }) {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}
