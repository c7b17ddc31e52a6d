//! Connections to the engine, and the descriptors that cross them.

use crate::calls::Errno;
use crate::session::{engine, is_wall, secret};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use softband_ipc::attach::{FileRequest, SocketRequest};
use softband_ipc::{VERSION, environment};
use std::mem::MaybeUninit;

/// Longest wait for a file. The engine's thread that sends files never waits for a program.
const FILE_LIMIT: std::time::Duration = std::time::Duration::from_secs(2);

/// Returns the file of registered memory with this `number` in the tables. Returns `None` if the
/// engine refuses.
pub(crate) fn fetch_file(number: u32) -> Option<OwnedFd> {
    let socket = connect(engine()?).ok()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(FILE_LIMIT)).ok()?;
    let request = FileRequest { version: VERSION, number, secret: secret() };
    rustix::net::send(&socket, bytemuck::bytes_of(&request), SendFlags::NOSIGNAL).ok()?;
    receive_with_file(&socket, &mut [0; 1]).ok()?.1
}

pub(crate) fn connect(engine: &str) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let address =
        if environment::is_of_shared_fabric(engine) { SocketAddrUnix::new(engine)? } else { SocketAddrUnix::new_abstract_name(engine.as_bytes())? };
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Returns the descriptors by which the engine of a shared fabric sees this process: its folder in
/// `/proc`, `mem` and `maps`. Those that this process cannot open are missing at the end.
pub(crate) fn own_view() -> Vec<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    let parts = [("/proc/self", OFlags::PATH | OFlags::DIRECTORY), ("/proc/self/mem", OFlags::RDWR), ("/proc/self/maps", OFlags::RDONLY)];
    parts.into_iter().map_while(|(path, flags)| open(path, flags | OFlags::CLOEXEC, Mode::empty()).ok()).collect()
}

pub(crate) fn send_with(socket: &OwnedFd, bytes: &[u8], descriptors: &[OwnedFd]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    rustix::net::sendmsg(socket, &[std::io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
}

/// Checks whether this process takes part in a shared fabric, whose engine may live in other
/// namespaces.
#[inline]
pub fn is_shared() -> bool {
    is_wall() && engine().is_some_and(environment::is_of_shared_fabric)
}

/// Creates a socket in the network namespace of a shared fabric's engine, with the arguments of
/// socket(2). Its descriptor is the lowest free number.
///
/// # Errors
/// The engine does not answer, or its kernel refuses the socket.
pub fn shared_socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Errno> {
    if crate::fork::is_orphaned() || !crate::fork::is_attached_process() {
        // A child by fork attaches first: its parent's secret ends with its parent.
        drop(crate::execution_token::lock_calls()?);
    }
    let failed = |error: rustix::io::Errno| Errno(error.raw_os_error());
    let connection = connect(engine().ok_or(Errno(libc::ENETDOWN))?).map_err(failed)?;
    set_socket_timeout(&connection, Timeout::Recv, Some(FILE_LIMIT)).map_err(failed)?;
    let request = SocketRequest { version: VERSION, domain, kind, protocol, secret: secret(), reserved: 0 };
    // An engine that refuses the connection may have answered and hung up by now.
    match rustix::net::send(&connection, bytemuck::bytes_of(&request), SendFlags::NOSIGNAL) {
        Ok(_) | Err(rustix::io::Errno::PIPE) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut answer = [0; 32];
    let (len, made) = loop {
        match receive_with_file(&connection, &mut answer) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Errno(libc::ENETDOWN)),
            Ok(received) => break received,
        }
    };
    drop(connection);
    let [a, b, c, d, ..] = answer;
    match (len, i32::from_ne_bytes([a, b, c, d]), made) {
        (4, 0, Some(made)) => lowest(made, kind & libc::SOCK_CLOEXEC != 0).map_err(failed),
        // The kernel drops descriptors for which this process has no room.
        (4, 0, None) => Err(Errno(libc::EMFILE)),
        (4, errno, None) if errno > 0 => Err(Errno(errno)),
        (4.., ..) => Err(Errno(libc::ENOBUFS)), // a refusal: this user has too many connections
        _ => Err(Errno(libc::ENETDOWN)),
    }
}

/// Moves a descriptor to the lowest free number, which programs expect.
fn lowest(made: OwnedFd, close_on_exec: bool) -> rustix::io::Result<OwnedFd> {
    let other = if close_on_exec { rustix::io::fcntl_dupfd_cloexec(&made, 0) } else { rustix::io::dup(&made) };
    if let Ok(other) = other
        && other.as_raw_fd() < made.as_raw_fd()
    {
        return Ok(other);
    }
    if !close_on_exec {
        rustix::io::fcntl_setfd(&made, rustix::io::FdFlags::empty())?;
    }
    Ok(made)
}

/// Receives bytes and one descriptor, which an exec closes. Returns the number of bytes.
fn receive_with_file(socket: &OwnedFd, bytes: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(socket, &mut [std::io::IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, file))
}
