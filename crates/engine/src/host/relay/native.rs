//! Sockets of the machine at the engine's ends. None of them waits.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Buffers of the engine's ends in bytes. Bytes in them are under way outside the model.
const BUFFER_BYTES: usize = 128 << 10;
/// Connections that wait while the engine is busy.
const BACKLOG: i32 = 4_096;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn open(kind: SocketType) -> Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, FLAGS, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
    sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES)?;
    Ok(socket)
}

/// Opens a socket that listens.
pub(super) fn listen(at: SocketAddrV4) -> Result<OwnedFd> {
    let socket = open(SocketType::STREAM)?;
    // Earlier connections of the address may still be in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn prepare(connection: &OwnedFd) -> Result<()> {
    sockopt::set_tcp_nodelay(connection, true)?;
    // An urgent byte stays in its place. Otherwise reads would skip it.
    sockopt::set_socket_oobinline(connection, true)
}

/// Accepts a connection. Returns it with its client's address.
pub(super) fn accept(listener: impl AsFd) -> Result<(OwnedFd, SocketAddrV4)> {
    let (socket, from) = rustix::net::acceptfrom_with(listener, FLAGS)?;
    let Some(from) = from.and_then(v4) else { return Err(Errno::AGAIN) };
    prepare(&socket)?;
    Ok((socket, from))
}

/// Begins a connection. Any port serves if `from` is taken.
pub(super) fn connect(from: SocketAddrV4, to: SocketAddrV4) -> Result<OwnedFd> {
    match connect_from(from, to) {
        Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => connect_from(SocketAddrV4::new(*from.ip(), 0), to),
        other => other,
    }
}

fn connect_from(from: SocketAddrV4, to: SocketAddrV4) -> Result<OwnedFd> {
    let socket = open(SocketType::STREAM)?;
    // A client may have connections to several servers from one port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    prepare(&socket)?;
    rustix::net::bind(&socket, &from)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Opens a socket for datagrams.
pub(super) fn datagrams(at: SocketAddrV4) -> Result<OwnedFd> {
    let socket = open(SocketType::DGRAM)?;
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}

/// Receives a datagram. Returns it with its sender's address.
pub(super) fn receive_from(socket: impl AsFd, room: &mut [u8]) -> Result<(usize, SocketAddrV4)> {
    let (count, _, from) = rustix::net::recvfrom(socket, room, RecvFlags::empty())?;
    Ok((count, from.and_then(v4).ok_or(Errno::AGAIN)?))
}

/// Sends a datagram. The receiver's kernel may lose it, as any does.
pub(super) fn send_to(socket: impl AsFd, bytes: &[u8], to: SocketAddrV4) {
    let _ = rustix::net::sendto(socket, bytes, SendFlags::DONTWAIT, &to);
}

/// Returns whether no datagram socket has the address.
pub(super) fn has_no_datagrams(at: SocketAddrV4) -> bool {
    let probe = || {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
        rustix::net::bind(&socket, &at)
    };
    probe().is_ok()
}

/// Returns the state of a connection that has begun: done, under way (`None`), or failed.
pub(super) fn outcome(socket: impl AsFd) -> Option<Result<()>> {
    if let Ok(Err(error)) = sockopt::socket_error(&socket) {
        return Some(Err(error));
    }
    rustix::net::getpeername(socket).is_ok().then_some(Ok(()))
}

pub(super) fn read(socket: impl AsFd, room: &mut [u8]) -> Result<usize> {
    rustix::net::recv(socket, room, RecvFlags::empty()).map(|(count, _)| count)
}

pub(super) fn write(socket: impl AsFd, bytes: &[u8]) -> Result<usize> {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
}

pub(super) fn end(socket: impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Closes a connection by a reset.
pub(super) fn reset(socket: OwnedFd) {
    let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
}

fn v4(address: rustix::net::SocketAddrAny) -> Option<SocketAddrV4> {
    match SocketAddr::try_from(address).ok()? {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    }
}
