//! Creates sockets and connections.

use super::address::{self, Given, bind_natively, connect_natively};
use super::diag;
use super::families;
use super::linger;
use super::modelled::is_modelled;
use super::native;
use super::netlink;
use super::resolver::named;
use super::sdp;
use crate::clib::args::{InOut, Zeroed};
use crate::clib::real;
use crate::fd::descriptors::{blocking_natively, is_nonblocking, ours, set_nonblocking, wait_object, wait_or_again};
use crate::fd::kernel_news;
use crate::runtime::world::{active, deadline_after, errno, fail, keeping_errno, timeval_picos, walled};
use libc::{c_int, sockaddr, socklen_t, timeval};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, fds};
use softband_ipc::calls::readiness::{READABLE, WRITABLE};
use softband_ipc::calls::{Object, SocketAddress, SocketListen, SocketNames, SocketNew, op};
use std::os::fd::IntoRawFd;

const TYPE_MASK: c_int = 0xf;

#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && matches!(protocol, libc::NETLINK_ROUTE | libc::NETLINK_RDMA) && named() {
        return netlink::open(kind, protocol);
    }
    if domain == libc::AF_NETLINK && protocol == libc::NETLINK_SOCK_DIAG && diag::is_listed() {
        return netlink::open(kind, protocol);
    }
    if domain == sdp::AF_INET_SDP && kind & TYPE_MASK == libc::SOCK_STREAM && named() {
        return sdp::open(kind, protocol);
    }
    if named() {
        if let Some(errno) = families::refusal(domain, kind & TYPE_MASK, protocol) {
            return fail(errno);
        }
        // The machine's devices are none of the host's, so it hears of no changes.
        if domain == libc::AF_NETLINK && protocol == libc::NETLINK_KOBJECT_UEVENT {
            return netlink::open(kind, protocol);
        }
    }
    // A connection of the fabric has a single path. Linux carries it as TCP after its first packets.
    let protocol = if protocol == families::IPPROTO_MPTCP && named() { libc::IPPROTO_TCP } else { protocol };
    let is_echo = (kind & TYPE_MASK, active() && is_modelled()) == (libc::SOCK_DGRAM, true)
        && matches!((domain, protocol), (libc::AF_INET, libc::IPPROTO_ICMP) | (libc::AF_INET6, libc::IPPROTO_ICMPV6));
    let mut fd = new_socket(domain, kind, protocol);
    if is_echo && fd < 0 {
        // The machine may keep echoes from programs (`ping_group_range`). Any placeholder will do.
        fd = real::socket(domain, kind, 0);
    }
    if walled() && kind & TYPE_MASK == libc::SOCK_STREAM && matches!(domain, libc::AF_INET | libc::AF_INET6) {
        sdp::note_wall_stream();
    }
    if fd < 0 || !active() || !(domain == libc::AF_INET || domain == libc::AF_INET6) {
        return fd;
    }
    let kind = match (kind & TYPE_MASK, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {
            sdp::note_stream();
            Kind::StreamSocket
        }
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::DatagramSocket,
        _ if is_echo => Kind::DatagramSocket,
        _ => return fd,
    };
    let datagram = if is_echo { SocketNew::ECHO } else { u32::from(kind == Kind::DatagramSocket) };
    match client::call::<op::SocketNew>(&SocketNew { datagram, family: domain as u32 }) {
        Ok(Object { object, .. }) => {
            fds::register(fd, Entry { kind, object });
            fd
        }
        Err(Errno(errno)) => {
            real::close(fd);
            fail(errno)
        }
    }
}

/// Creates a socket of the kernel. The addresses of a shared fabric's hosts exist in the network
/// namespace of its engine.
fn new_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let is_of_hosts = matches!(domain, libc::AF_INET | libc::AF_INET6) && matches!(kind & TYPE_MASK, libc::SOCK_STREAM | libc::SOCK_DGRAM);
    if !is_of_hosts || !walled() || !client::is_shared() {
        return real::socket(domain, kind, protocol);
    }
    match client::shared_socket(domain, kind, protocol) {
        Ok(socket) => socket.into_raw_fd(),
        Err(Errno(errno)) => fail(errno),
    }
}

/// Returns the stream socket behind `fd`.
pub fn stream(fd: c_int) -> Option<u32> {
    ours(fd).filter(|entry| entry.kind == Kind::StreamSocket).map(|entry| entry.object)
}

/// Returns the datagram socket behind `fd`.
pub fn datagram_socket(fd: c_int) -> Option<u32> {
    ours(fd).filter(|entry| entry.kind == Kind::DatagramSocket).map(|entry| entry.object)
}

/// Returns the stream or datagram socket behind `fd`.
pub fn plain(fd: c_int) -> Option<u32> {
    stream(fd).or_else(|| datagram_socket(fd))
}

/// Returns the addresses and the state of a socket.
pub fn names(object: u32) -> Result<SocketNames, Errno> {
    client::call::<op::SocketNames>(&Object { object, reserved: 0 })
}

/// Hands `fd` to the kernel from now on, because its peer is not part of this fabric.
pub fn leave_to_kernel(fd: c_int) {
    if let Some(entry) = fds::remove(fd) {
        let _ = client::call::<op::ObjectClose>(&Object { object: entry.object, reserved: 0 });
    }
}

/// Returns an option of a socket of the kernel.
pub fn socket_option<T: Zeroed>(fd: c_int, name: c_int) -> Option<T> {
    let mut value = T::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`.
    let status = unsafe { kernel!(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, name, &raw mut value, &raw mut len) };
    (status == 0).then_some(value)
}

/// Returns the address family of a placeholder.
pub fn family(fd: c_int) -> c_int {
    socket_option(fd, libc::SO_DOMAIN).unwrap_or(libc::AF_INET)
}

/// Returns the deadline of a call on `fd`, by the timeout option that the placeholder keeps.
pub fn timeout_deadline(fd: c_int, option: c_int) -> u64 {
    let Some(value) = socket_option::<timeval>(fd, option) else { return u64::MAX };
    match timeval_picos(&value) {
        0 => u64::MAX,
        duration => deadline_after(duration),
    }
}

/// Implements `bind`.
///
/// # Safety
/// `at` is null or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the address stays in place during the call.
    let at = unsafe { Given::new(at, len) };
    let Some(object) = plain(fd) else { return netlink::bind(fd, at).unwrap_or_else(|| native::bind(fd, at)) };
    if let Err(Errno(errno)) = at.check() {
        return fail(errno);
    }
    if at.read().is_none() && !is_modelled() {
        if at.is_empty() || (len as usize) < size_of::<libc::sockaddr_in>() {
            return fail(libc::EINVAL);
        }
        leave_to_kernel(fd); // an IPv6 address that represents no IPv4 address
        return bind_natively(fd, at);
    }
    let bound = at.endpoint().and_then(|endpoint| client::call::<op::SocketBind>(&SocketAddress { object, flags: at.family_flag(), at: endpoint }));
    match bound {
        Ok(_) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let Some(object) = stream(fd) else { return native::listen(fd, backlog) };
    match client::call::<op::SocketListen>(&SocketListen { object, backlog: backlog.max(0) as u32, flags: sdp::of_server(object), reserved: 0 }) {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Implements `accept`.
///
/// # Safety
/// `peer` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, peer: *mut sockaddr, len: InOut<socklen_t>) -> c_int {
    // SAFETY: the room for the peer is the caller's, and `*len` bytes long.
    unsafe { accept4(fd, peer, len, 0) }
}

/// Implements `accept4`.
///
/// # Safety
/// `peer` is null or has room for `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(fd: c_int, peer: *mut sockaddr, len: InOut<socklen_t>, flags: c_int) -> c_int {
    let Some(object) = stream(fd) else {
        let room = len.get();
        // SAFETY: the kernel writes at most `*len` bytes to `peer`.
        let new = blocking_natively(fd, libc::POLLIN, || unsafe { real::accept4(fd, peer, len, flags) });
        // SAFETY: the room for the peer is the caller's.
        unsafe { native::show(peer, room.filter(|_| new >= 0), len) };
        return new;
    };
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return fail(libc::EINVAL);
    }
    let deadline = timeout_deadline(fd, libc::SO_RCVTIMEO);
    let accepted = loop {
        match client::call::<op::SocketAccept>(&Object { object, reserved: 0 }) {
            Ok(accepted) => break accepted,
            Err(Errno(libc::EAGAIN)) => {
                if let Err(Errno(errno)) = wait_or_again(fd, object, READABLE, deadline) {
                    return fail(errno);
                }
            }
            Err(Errno(errno)) => return fail(errno),
        }
    };
    let family = family(fd);
    let new = real::socket(family, libc::SOCK_STREAM | flags & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK), 0);
    if new < 0 {
        let _ = client::call::<op::ObjectClose>(&Object { object: accepted.object, reserved: 0 });
        return new;
    }
    fds::register(new, Entry { kind: Kind::StreamSocket, object: accepted.object });
    linger::inherit(fd, new);
    if peer.is_null() {
        return new;
    }
    // SAFETY: the room for the peer's address is the caller's, and `*len` bytes long.
    match unsafe { address::write(family, &accepted.peer, peer, len) } {
        Ok(()) => new,
        Err(Errno(errno)) => {
            crate::fd::descriptors::close(new);
            fail(errno)
        }
    }
}

/// Records the peer of a datagram socket. An address without a family removes it.
fn connect_datagram(object: u32, to: Given) -> c_int {
    if !is_modelled() && to.family() == libc::AF_INET6 && to.is_whole() && to.read().is_none() {
        return fail(libc::ENETUNREACH);
    }
    match to.peer(object).and_then(|request| client::call::<op::SocketConnect>(&request)) {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Connects a stream socket on a modelled network. The engine answers as Linux answers a socket that
/// does not wait.
fn connect_modelled(fd: c_int, object: u32, to: Given) -> c_int {
    let request = match to.peer(object) {
        Ok(request) => SocketAddress { flags: request.flags | sdp::of_client(&request), ..request },
        Err(Errno(errno)) => return fail(errno),
    };
    let deadline = timeout_deadline(fd, libc::SO_SNDTIMEO);
    let mut is_first = true;
    loop {
        match client::call::<op::SocketConnect>(&request) {
            Ok(()) => return 0,
            Err(Errno(libc::ENETUNREACH)) if is_first => {
                leave_to_kernel(fd);
                return crate::runtime::world::away(|| connect_natively(fd, to));
            }
            Err(Errno(errno @ (libc::EINPROGRESS | libc::EALREADY))) => {
                if is_nonblocking(fd) {
                    return fail(errno);
                }
                if let Err(Errno(errno)) = wait_object(object, WRITABLE, deadline) {
                    return fail(if errno == libc::EAGAIN { libc::EINPROGRESS } else { errno });
                }
            }
            Err(Errno(errno)) => return fail(errno),
        }
        is_first = false;
    }
}

/// Connects a socket of the kernel. The thread leaves the order of simulated time only to wait: a Unix
/// socket waits for room at its listener. Without a wait, the time of the call depends on no other
/// program, nor on the machine.
fn connect_outside(fd: c_int, to: Given) -> c_int {
    if is_nonblocking(fd) {
        return kernel_news::writing(fd, || connect_natively(fd, to));
    }
    if family(fd) == libc::AF_UNIX {
        let at_once = || {
            set_nonblocking(fd, true);
            let status = connect_natively(fd, to);
            keeping_errno(|| set_nonblocking(fd, false));
            status
        };
        let status = kernel_news::writing(fd, at_once);
        if status == 0 || errno() != libc::EAGAIN {
            return status;
        }
    }
    crate::runtime::world::away(|| connect_natively(fd, to))
}

/// Implements `connect`.
///
/// # Safety
/// `to` is null or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's address outlives the call.
    let to = unsafe { Given::new(to, len) };
    if let Some(object) = datagram_socket(fd) {
        return connect_datagram(object, to);
    }
    let Some(object) = stream(fd) else {
        if netlink::is_route_socket(fd) {
            return 0; // its only peer is the kernel
        }
        if walled() {
            return native::connect(fd, to);
        }
        let is_datagram = || socket_option::<c_int>(fd, libc::SO_TYPE) == Some(libc::SOCK_DGRAM);
        // A datagram socket only records its peer.
        return if active() && !is_datagram() { connect_outside(fd, to) } else { connect_natively(fd, to) };
    };
    if let Err(Errno(errno)) = to.check() {
        return fail(errno);
    }
    if is_modelled() {
        return connect_modelled(fd, object, to);
    }
    let outcome = match to.read().and_then(|_| to.peer(object).ok()) {
        Some(request) => client::call::<op::SocketConnect>(&request),
        None => Err(Errno(libc::ENETUNREACH)),
    };
    match outcome {
        Ok(()) => {}
        Err(Errno(libc::ENETUNREACH)) => {
            leave_to_kernel(fd);
            return connect_outside(fd, to);
        }
        Err(Errno(errno)) => return fail(errno),
    }
    if is_nonblocking(fd) {
        return match client::call::<op::SocketError>(&Object { object, reserved: 0 }) {
            Ok(()) => 0,
            Err(Errno(errno)) => fail(errno),
        };
    }
    let deadline = timeout_deadline(fd, libc::SO_SNDTIMEO);
    loop {
        if let Err(Errno(errno)) = wait_object(object, WRITABLE, deadline) {
            return fail(if errno == libc::EAGAIN { libc::EINPROGRESS } else { errno });
        }
        match client::call::<op::SocketError>(&Object { object, reserved: 0 }) {
            Ok(()) => return 0,
            Err(Errno(libc::EINPROGRESS)) => {}
            Err(Errno(errno)) => return fail(errno),
        }
    }
}
