//! The socket by which a process gets the events of its channels, in wall pace.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// Socket that notifies one process of events. Unread bytes fill only the buffer of this socket.
#[derive(Debug)]
pub(crate) struct EventSender {
    socket: OwnedFd,
    name: SocketAddrUnix,
}

impl EventSender {
    pub(super) fn new() -> rustix::io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        // The kernel chooses a free name (unix(7), autobind), so no process can have taken it
        // before.
        rustix::net::bind(&socket, &SocketAddrUnix::new_unnamed())?;
        let name = SocketAddrUnix::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(Self { socket, name })
    }

    /// Returns the abstract name of the socket.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.abstract_name().unwrap_or_default()
    }

    /// Sends the bytes of one event. Returns false if the program has no room for them or does not
    /// listen.
    pub(crate) fn send(&self, to: &SocketAddrUnix, event: &[u8]) -> bool {
        rustix::net::sendto(&self.socket, event, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, to).is_ok()
    }
}
