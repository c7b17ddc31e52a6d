//! Names and options of a socket, and the shutdown of its directions.

use super::address;
use super::control::UDP_SEGMENT;
use super::interfaces;
use super::modelled;
use super::native::show;
use super::netlink;
use super::open::{datagram_socket, family, names, plain, stream};
use crate::clib::args::InOut;
use crate::clib::real;
use crate::runtime::world::{fail, walled};
use libc::{c_int, c_void, sockaddr, socklen_t};
use softband_client::{self as client, Errno};
use softband_ipc::calls::{Object, SocketOption, SocketShutdown, op, socket_option};

/// Options of a datagram socket about long datagrams (udp(7)).
const UDP_CORK: c_int = 1;
const UDP_GRO: c_int = 104;

/// Implements `getsockname`.
///
/// # Safety
/// `out` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, out: *mut sockaddr, len: InOut<socklen_t>) -> c_int {
    let Some(object) = plain(fd) else {
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
    // SAFETY: `out` has room for `*len` bytes, or is null.
    let written = names(object).and_then(|names| unsafe { address::write(family(fd), &names.local, out, len) });
    outcome(written)
}

/// Implements `getpeername`.
///
/// # Safety
/// `out` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, out: *mut sockaddr, len: InOut<socklen_t>) -> c_int {
    let Some(object) = plain(fd) else {
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
            outcome(unsafe { address::write(family(fd), &names.peer, out, len) })
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
    let Some(object) = plain(fd) else { return original() };
    let is_error = level == libc::SOL_SOCKET && name == libc::SO_ERROR;
    if modelled::is_modelled() && !is_error {
        // SAFETY: the room for the value is the caller's.
        return unsafe { modelled::get(object, level, name, value, len) }.unwrap_or_else(original);
    }
    if level != libc::SOL_SOCKET {
        return original();
    }
    let answer = match name {
        libc::SO_ERROR => match client::call::<op::SocketError>(&Object { object, reserved: 0 }) {
            Ok(()) | Err(Errno(libc::EINPROGRESS | libc::ENOTCONN)) => 0,
            Err(Errno(errno)) => errno,
        },
        libc::SO_RCVBUF if stream(fd).is_none() => option(object, socket_option::RECEIVE_BUFFER),
        libc::SO_SNDBUF if stream(fd).is_none() => option(object, socket_option::SEND_BUFFER),
        libc::SO_ACCEPTCONN => names(object).map_or(0, |names| c_int::from(names.listening != 0)),
        _ => return original(),
    };
    // SAFETY: the room for the value is the caller's.
    unsafe { put_value(&answer.to_ne_bytes(), value, len) }
}

/// Writes the value of an option, truncated to the available room.
///
/// # Safety
/// `value` is null or has room for `*len` bytes.
pub unsafe fn put_value(answer: &[u8], value: *mut c_void, len: InOut<socklen_t>) -> c_int {
    let Some(room) = len.get().filter(|_| !value.is_null()) else { return fail(libc::EFAULT) };
    let Ok(room) = usize::try_from(room.cast_signed()) else { return fail(libc::EINVAL) };
    let count = room.min(answer.len());
    // SAFETY: `value` has room for `room` bytes, and `answer` has `count` bytes.
    unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), value.cast::<u8>(), count) };
    len.set(count as socklen_t);
    0
}

fn outcome(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Returns an option that the engine keeps.
fn option(object: u32, name: u32) -> c_int {
    client::call::<op::SocketOption>(&SocketOption { object, name, value: 0, set: 0 }).map_or(0, |option| option.value as c_int)
}

/// Returns the engine's name of an option, for options that change what the engine does.
fn engine_option(fd: c_int, level: c_int, name: c_int) -> Option<u32> {
    match (level, name) {
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Some(socket_option::ONLY_V6),
        (libc::SOL_SOCKET, _) if datagram_socket(fd).is_none() => None,
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => Some(socket_option::RECEIVE_BUFFER),
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => Some(socket_option::SEND_BUFFER),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT) => Some(socket_option::SHARE_ADDRESS),
        _ => None,
    }
}

/// Returns whether a socket is of the fabric, with interfaces that the kernel does not know.
fn is_of_fabric(fd: c_int) -> bool {
    plain(fd).is_some() || walled() && matches!(family(fd), libc::AF_INET | libc::AF_INET6)
}

/// Binds a socket to an interface of the host. All its packets take the only one, so none changes.
fn bind_to_device(name: &[u8]) -> c_int {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if name.is_empty() || interfaces::of_name(name).is_some() { 0 } else { fail(libc::ENODEV) }
}

/// Implements `setsockopt`. The placeholder keeps all options. The engine learns those that it acts
/// on.
///
/// # Safety
/// `value` is null or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    if level == libc::SOL_NETLINK && netlink::is_route_socket(fd) {
        return 0; // the options select what the answers here do not contain
    }
    let is_long_datagram = level == libc::IPPROTO_UDP && matches!(name, UDP_CORK | UDP_SEGMENT | UDP_GRO);
    if is_long_datagram && datagram_socket(fd).is_some() {
        return fail(libc::ENOPROTOOPT);
    }
    if let Some(object) = plain(fd).filter(|_| modelled::is_modelled())
        // SAFETY: the value has `len` bytes, or is null.
        && let Some(status) = unsafe { modelled::set(object, level, name, value, len) }
    {
        return status;
    }
    if level == libc::SOL_SOCKET && name == libc::SO_BINDTODEVICE && is_of_fabric(fd) {
        // SAFETY: the value has `len` bytes, or is null.
        return bind_to_device(unsafe { crate::clib::args::slice(value.cast::<u8>(), len as usize) });
    }
    // SAFETY: the kernel reads at most `len` bytes.
    let status = unsafe { real::setsockopt(fd, level, name, value, len) };
    let known = engine_option(fd, level, name).filter(|_| !modelled::is_modelled());
    let (Some(object), Some(name)) = (plain(fd), known) else { return status };
    if status != 0 || value.is_null() || (len as usize) < size_of::<c_int>() {
        return status;
    }
    // SAFETY: the value has at least the bytes of a number.
    let value = unsafe { value.cast::<u32>().read_unaligned() };
    outcome(client::call::<op::SocketOption>(&SocketOption { object, name, value, set: 1 }).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let Some(object) = plain(fd) else { return real::shutdown(fd, how) };
    if !(0..=2).contains(&how) {
        return fail(libc::EINVAL);
    }
    match client::call::<op::SocketShutdown>(&SocketShutdown { object, how: how as u32 }) {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}
