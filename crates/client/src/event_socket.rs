//! Descriptors for which programs at wall pace wait in the kernel: sockets on which the engine sends a
//! byte for each event of an object.

use crate::calls::{Errno, call};
use crate::connection::{is_shared, shared_socket};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, socket_with};
use softband_ipc::calls::{EventSocket, op};

/// Creates the socket of an object. An exec closes it.
///
/// # Errors
/// The kernel or the engine has no room for it.
pub fn event_socket(object: u32) -> Result<OwnedFd, Errno> {
    let failed = |error: rustix::io::Errno| Errno(error.raw_os_error());
    let mut names = EventSocket { object, name_len: 0, name: [0; 8] };
    let sender = call::<op::EventSocket>(&names)?;
    let socket = if is_shared() {
        // Abstract names belong to a network namespace.
        shared_socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?
    } else {
        socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(failed)?
    };
    let sender = sender.name.get(..sender.name_len as usize).ok_or(Errno(libc::EPROTO))?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(sender).map_err(failed)?).map_err(failed)?;
    // The kernel chooses a free name (unix(7), autobind).
    bind(&socket, &SocketAddrUnix::new_unnamed()).map_err(failed)?;
    let own = SocketAddrUnix::try_from(getsockname(&socket).map_err(failed)?).map_err(failed)?;
    let own = own.abstract_name().ok_or(Errno(libc::EADDRNOTAVAIL))?;
    names.name.get_mut(..own.len()).ok_or(Errno(libc::ENAMETOOLONG))?.copy_from_slice(own);
    names.name_len = own.len() as u32;
    call::<op::EventSocket>(&names)?;
    Ok(socket)
}
