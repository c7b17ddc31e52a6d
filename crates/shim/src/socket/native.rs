//! Wall pace: sockets belong to the kernel, and each host of the fabric has its own loopback
//! address.
//!
//! A program that binds to the unspecified or the loopback address binds to the address of its
//! host. Its connections come from that address. Two hosts may therefore use the same port, and a
//! server sees the host of its client.

use super::address;
use super::open::family;
use crate::clib::real;
use crate::runtime::world::{errno, set_errno, walled};
use libc::{c_int, sockaddr, sockaddr_in6, socklen_t, timespec};
use softband_client as client;

/// Time for which a client retries `connect`, because it may start before its server.
const PATIENCE_MILLIS: u64 = 10_000;
const RETRY_FIRST_MILLIS: u64 = 1;
const RETRY_LAST_MILLIS: u64 = 50;

/// A socket address of either family.
struct Target {
    bytes: [u8; size_of::<sockaddr_in6>()],
    len: socklen_t,
}

impl Target {
    fn new(family: c_int, v4: u32, port: u16) -> Self {
        let mut target = Self { bytes: [0; size_of::<sockaddr_in6>()], len: size_of::<sockaddr_in6>() as socklen_t };
        // SAFETY: there is room for the larger of both.
        unsafe { address::write(family, v4, port, target.bytes.as_mut_ptr().cast(), &raw mut target.len) };
        target
    }

    fn as_ptr(&self) -> *const sockaddr {
        self.bytes.as_ptr().cast()
    }
}

fn own_address() -> u32 {
    client::header().host_address
}

fn is_any_or_loopback(v4: u32) -> bool {
    v4 == 0 || v4 == address::LOOPBACK
}

unsafe fn option(fd: c_int, name: c_int) -> c_int {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    real::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len);
    value
}

/// Returns whether the addresses of the fabric apply to this socket: TCP and UDP.
unsafe fn is_plain(fd: c_int) -> bool {
    walled() && matches!(option(fd, libc::SO_TYPE), libc::SOCK_STREAM | libc::SOCK_DGRAM) && matches!(family(fd), libc::AF_INET | libc::AF_INET6)
}

unsafe fn family_of(at: *const sockaddr) -> c_int {
    c_int::from(at.cast::<u16>().read_unaligned())
}

/// `bind`, as `bind(2)`.
pub unsafe fn bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    let wanted = if walled() { address::read(at, len) } else { None };
    let Some((v4, port)) = wanted.filter(|_| is_plain(fd)) else { return real::bind(fd, at, len) };
    if !is_any_or_loopback(v4) {
        if v4 != own_address() && client::host_name(v4).is_some() {
            set_errno(libc::EADDRNOTAVAIL); // belongs to another host
            return -1;
        }
        return real::bind(fd, at, len);
    }
    let own = Target::new(family_of(at), own_address(), port);
    let status = real::bind(fd, own.as_ptr(), own.len);
    // A socket for IPv6 only cannot have an address of the fabric.
    if status != 0 && errno() == libc::EINVAL && family_of(at) == libc::AF_INET6 { real::bind(fd, at, len) } else { status }
}

/// Returns whether the socket has neither an address nor a port yet.
unsafe fn is_unbound(fd: c_int) -> bool {
    let mut bytes = [0u8; size_of::<sockaddr_in6>()];
    let mut len = bytes.len() as socklen_t;
    real::getsockname(fd, bytes.as_mut_ptr().cast(), &raw mut len) == 0 && address::read(bytes.as_ptr().cast(), len) == Some((0, 0))
}

unsafe fn bind_to_own(fd: c_int) {
    let saved = errno();
    let own = Target::new(family(fd), own_address(), 0);
    real::bind(fd, own.as_ptr(), own.len);
    set_errno(saved);
}

/// Binds the source address of outgoing data to this host.
unsafe fn bind_source(fd: c_int) {
    if is_unbound(fd) {
        let on: c_int = 1;
        // `connect` chooses the port, because a port reserved now would be closed to other
        // connections.
        libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, (&raw const on).cast(), size_of::<c_int>() as socklen_t);
        bind_to_own(fd);
    }
}

/// `listen`, as `listen(2)`.
pub unsafe fn listen(fd: c_int, backlog: c_int) -> c_int {
    if walled() && is_plain(fd) && is_unbound(fd) {
        bind_to_own(fd);
    }
    real::listen(fd, backlog)
}

/// Returns the requested address and the target of an address of the fabric. Returns `None` for any
/// other address.
unsafe fn target(fd: c_int, to: *const sockaddr, len: socklen_t) -> Option<(u32, Target)> {
    let (v4, port) = if walled() { address::read(to, len)? } else { return None };
    let leads_to = if is_any_or_loopback(v4) { own_address() } else { v4 };
    if client::host_name(leads_to).is_none() || !is_plain(fd) {
        return None;
    }
    Some((v4, Target::new(family_of(to), leads_to, port)))
}

/// Calls `send` with the fabric address of a datagram.
pub unsafe fn fabric_address<R>(fd: c_int, to: *const sockaddr, len: socklen_t, send: impl FnOnce(*const sockaddr, socklen_t) -> R) -> R {
    match target(fd, to, len) {
        Some((_, target)) => {
            bind_source(fd);
            send(target.as_ptr(), target.len)
        }
        None => send(to, len),
    }
}

/// `connect`, as `connect(2)`.
pub unsafe fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let Some((asked, target)) = target(fd, to, len) else { return real::connect(fd, to, len) };
    bind_source(fd);
    let waits = option(fd, libc::SO_TYPE) == libc::SOCK_STREAM && !is_any_or_loopback(asked) && !crate::fd::descriptors::is_nonblocking(fd);
    let until = now_millis() + patience_millis(fd);
    let mut pause = RETRY_FIRST_MILLIS;
    loop {
        let status = real::connect(fd, target.as_ptr(), target.len);
        if status == 0 || errno() != libc::ECONNREFUSED || !waits || now_millis() >= until {
            return status;
        }
        let length = timespec { tv_sec: 0, tv_nsec: (pause * 1_000_000) as i64 };
        // A signal ends the retries, because its handler may be the program's own time limit.
        if real::nanosleep(&raw const length, std::ptr::null_mut()) != 0 {
            set_errno(libc::ECONNREFUSED);
            return -1;
        }
        pause = (pause * 2).min(RETRY_LAST_MILLIS);
    }
}

/// Returns the time for `connect` retries, in milliseconds: at most the socket's own time limit.
unsafe fn patience_millis(fd: c_int) -> u64 {
    let mut limit = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<libc::timeval>() as socklen_t;
    real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, (&raw mut limit).cast(), &raw mut len);
    match limit.tv_sec as u64 * 1_000 + limit.tv_usec as u64 / 1_000 {
        0 => PATIENCE_MILLIS,
        limit => limit.min(PATIENCE_MILLIS),
    }
}

fn now_millis() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_keeps_its_family() {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let target = Target::new(family, 0x7f4d_0002, 4_711);
            // SAFETY: `as_ptr` points to `len` bytes of the target, which outlives both calls.
            unsafe {
                assert_eq!(family_of(target.as_ptr()), family);
                assert_eq!(address::read(target.as_ptr(), target.len), Some((0x7f4d_0002, 4_711)));
            }
        }
    }
}
