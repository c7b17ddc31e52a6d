//! Wall pace: sockets belong to the kernel, and each host of the fabric has its own loopback
//! address.
//!
//! A program that binds to the unspecified or the loopback address binds to the address of its
//! host. Its connections come from that address. Two hosts may therefore use the same port, and a
//! server sees the host of its client.
//!
//! Programs never see these loopback addresses, which launchers refuse. They see addresses outside
//! 127.0.0.0/8, and this module translates.

use super::address::{self, Given, bind_natively, connect_natively};
use super::open::{family, socket_option};
use super::relayed::{self, is_relayed};
use crate::clib::args::{In, InOut, Out, Zeroed};
use crate::clib::real;
use crate::runtime::world::{errno, set_errno, walled};
use libc::{c_int, sockaddr, socklen_t, timespec};
use softband_client as client;
use softband_ipc::calls::Endpoint;

/// Time for which a client retries `connect`, because it may start before its server.
const PATIENCE_MILLIS: u64 = 10_000;
const RETRY_FIRST_MILLIS: u64 = 1;
const RETRY_LAST_MILLIS: u64 = 50;

/// A socket address of either family.
struct Target {
    bytes: [u8; address::SIZE_V6],
    len: usize,
}

impl Target {
    fn new(family: c_int, v4: u32, port: u16) -> Self {
        let (bytes, len) = address::encode(family, &Endpoint::v4((v4, port)));
        Self { bytes, len }
    }

    fn given(&self) -> Given<'_> {
        Given::of(&self.bytes, self.len as socklen_t)
    }
}

fn own_address() -> u32 {
    client::header().host_address
}

/// Returns the kernel's address to which connections and datagrams for a host go.
fn in_kernel(v4: u32) -> u32 {
    let plain = v4.wrapping_add(client::header().kernel_distance);
    if is_relayed() { relayed::public(v4).unwrap_or(plain) } else { plain }
}

/// Returns the kernel's address to which sockets of this host bind, for one of its addresses.
fn own_in_kernel(v4: u32) -> u32 {
    if is_relayed() { relayed::hidden(v4).unwrap_or(v4) } else { in_kernel(v4) }
}

/// Returns the address of a host for its address in the kernel. Returns any other address
/// unchanged.
fn shown(v4: u32) -> u32 {
    if is_relayed() {
        return relayed::shown(v4).unwrap_or(v4);
    }
    let address = v4.wrapping_sub(client::header().kernel_distance);
    if client::host_name(address).is_some() { address } else { v4 }
}

/// Translates the address that the kernel wrote to `at`. The room was `room` bytes, and the whole
/// address has `len`.
///
/// # Safety
/// `at` is null or has room for `room` bytes.
pub unsafe fn show(at: *mut sockaddr, room: Option<socklen_t>, len: InOut<socklen_t>) {
    let (Some(room), Some(whole)) = (room, len.get()) else { return };
    if !walled() {
        return;
    }
    // SAFETY: the kernel has written at most `room` bytes.
    let given = unsafe { Given::new(at, whole.min(room)) };
    if let Some((v4, port)) = given.read()
        && shown(v4) != v4
    {
        let mut room = room;
        // SAFETY: `at` has room for `room` bytes. The kernel wrote there, so the write cannot fail.
        let _ = unsafe { address::write(given.family(), &Endpoint::v4((shown(v4), port)), at, InOut::of(&mut room)) };
    }
}

fn is_any_or_loopback(v4: u32) -> bool {
    v4 == 0 || v4 == address::LOOPBACK
}

/// Returns whether the addresses of the fabric apply to this socket: TCP and UDP.
fn is_plain(fd: c_int) -> bool {
    let kind = || socket_option::<c_int>(fd, libc::SO_TYPE);
    walled() && matches!(kind(), Some(libc::SOCK_STREAM | libc::SOCK_DGRAM)) && matches!(family(fd), libc::AF_INET | libc::AF_INET6)
}

/// `bind`, as `bind(2)`.
pub fn bind(fd: c_int, at: Given) -> c_int {
    let wanted = if walled() { at.read() } else { None };
    let Some((v4, port)) = wanted.filter(|_| is_plain(fd)) else { return bind_natively(fd, at) };
    let v4 = shown(v4);
    let is_main = is_any_or_loopback(v4) || v4 == own_address();
    let is_own = is_main || is_relayed() && relayed::is_own(v4);
    if !is_own {
        if client::host_name(v4).is_some() {
            set_errno(libc::EADDRNOTAVAIL); // belongs to another host
            return -1;
        }
        return bind_natively(fd, at);
    }
    let own = Target::new(at.family(), own_in_kernel(if is_main { own_address() } else { v4 }), port);
    let status = bind_natively(fd, own.given());
    // A socket for IPv6 only cannot have an address of the fabric.
    if status != 0 && errno() == libc::EINVAL && at.family() == libc::AF_INET6 {
        return bind_natively(fd, at);
    }
    if status == 0 && is_relayed() && is_datagram(fd) { relayed::announce(fd, None) } else { status }
}

fn is_datagram(fd: c_int) -> bool {
    socket_option::<c_int>(fd, libc::SO_TYPE) == Some(libc::SOCK_DGRAM)
}

/// Returns whether the socket has neither an address nor a port yet.
fn is_unbound(fd: c_int) -> bool {
    let mut bytes = [0u8; address::SIZE_V6];
    let mut len = bytes.len() as socklen_t;
    // SAFETY: the buffer has the given length.
    let status = unsafe { real::getsockname(fd, bytes.as_mut_ptr().cast(), InOut::of(&mut len)) };
    status == 0 && Given::of(&bytes, len).read() == Some((0, 0))
}

fn bind_to_own(fd: c_int, v4: u32) {
    let saved = errno();
    bind_natively(fd, Target::new(family(fd), own_in_kernel(v4), 0).given());
    set_errno(saved);
}

/// Binds the source address of outgoing data to this host, for data to `v4`.
fn bind_source(fd: c_int, v4: u32) {
    if is_unbound(fd) {
        if is_relayed() && is_datagram(fd) {
            // The engine has to know the port.
            bind_to_own(fd, own_address());
            relayed::announce(fd, None);
            return;
        }
        let on: c_int = 1;
        // `connect` chooses the port, because a port reserved now would be closed to other
        // connections.
        // SAFETY: the option is an `int`.
        unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, (&raw const on).cast(), size_of::<c_int>() as socklen_t) };
        bind_to_own(fd, if is_relayed() { relayed::source_for(v4) } else { own_address() });
    }
}

/// `listen`, as `listen(2)`.
pub fn listen(fd: c_int, backlog: c_int) -> c_int {
    let is_plain = walled() && is_plain(fd);
    if is_plain && is_unbound(fd) {
        bind_to_own(fd, own_address());
    }
    let status = real::listen(fd, backlog);
    if status == 0 && is_plain && is_relayed() { relayed::announce(fd, Some(backlog)) } else { status }
}

/// Returns the requested address and the target of an address of the fabric. Returns `None` for any
/// other address.
fn target(fd: c_int, to: Given) -> Option<(u32, Target)> {
    let (v4, port) = if walled() { to.read()? } else { return None };
    let v4 = shown(v4);
    let leads_to = if is_any_or_loopback(v4) { own_address() } else { v4 };
    if client::host_name(leads_to).is_none() || !is_plain(fd) {
        return None;
    }
    Some((v4, Target::new(to.family(), in_kernel(leads_to), port)))
}

/// Calls `send` with the fabric address of a datagram.
pub fn fabric_address<R>(fd: c_int, to: Given, send: impl FnOnce(Given) -> R) -> R {
    match target(fd, to) {
        Some((v4, target)) => {
            bind_source(fd, v4);
            send(target.given())
        }
        None => send(to),
    }
}

/// `connect`, as `connect(2)`.
pub fn connect(fd: c_int, to: Given) -> c_int {
    let Some((asked, target)) = target(fd, to) else { return connect_natively(fd, to) };
    bind_source(fd, if is_any_or_loopback(asked) { own_address() } else { asked });
    let waits = socket_option::<c_int>(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && !is_any_or_loopback(asked)
        && !crate::fd::descriptors::is_nonblocking(fd);
    let until = now_millis() + patience_millis(fd);
    let mut pause = RETRY_FIRST_MILLIS;
    loop {
        let status = connect_natively(fd, target.given());
        if status == 0 || errno() != libc::ECONNREFUSED || !waits || now_millis() >= until {
            return status;
        }
        let length = timespec { tv_sec: 0, tv_nsec: (pause * 1_000_000) as i64 };
        // A signal ends the retries, because its handler may be the program's own time limit.
        if real::nanosleep(In::of(&length), Out::NULL) != 0 {
            set_errno(libc::ECONNREFUSED);
            return -1;
        }
        pause = (pause * 2).min(RETRY_LAST_MILLIS);
    }
}

/// Returns the time for `connect` retries, in milliseconds: at most the socket's own time limit.
fn patience_millis(fd: c_int) -> u64 {
    let limit = socket_option::<libc::timeval>(fd, libc::SO_SNDTIMEO).unwrap_or_else(libc::timeval::zeroed);
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
            assert_eq!(target.given().family(), family);
            assert_eq!(target.given().read(), Some((0x7f4d_0002, 4_711)));
        }
    }
}
