//! Question to the kernel whether a program listens at an address. The answer holds for sockets
//! that several processes share, too.

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use std::net::SocketAddrV4;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const HEADER_BYTES: usize = 16;
/// `TCP_LISTEN` of tcp_states.h.
const LISTEN: u8 = 10;

/// Connection to the kernel's list of sockets.
#[derive(Debug)]
pub(super) struct Listing(Option<OwnedFd>);

impl Listing {
    /// A machine without the list refuses, and then each listener counts as alive.
    pub(super) fn open() -> Self {
        // SAFETY: creates a descriptor.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, libc::NETLINK_SOCK_DIAG) };
        // SAFETY: the new descriptor has no other owner.
        Self((fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns whether a program listens at an address, if the kernel knows.
    pub(super) fn has_listener(&self, at: SocketAddrV4) -> bool {
        let Some(socket) = &self.0 else { return true };
        let mut answer = [0; 1_024];
        // An answer comes within the call that asks.
        let asked = rustix::io::write(socket, &question(at)).is_ok();
        match rustix::io::read(socket.as_fd(), &mut answer) {
            Ok(count) if asked => is_listening(&answer[..count]),
            _ => true,
        }
    }
}

/// Returns a request for the socket at `at` without a peer (`struct inet_diag_req_v2`).
fn question(at: SocketAddrV4) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, libc::IPPROTO_TCP as u8, 0, 0];
    body.extend_from_slice(&u32::MAX.to_ne_bytes()); // all states
    body.extend_from_slice(&at.port().to_be_bytes());
    body.extend_from_slice(&[0; 2]);
    body.extend_from_slice(&at.ip().octets());
    body.resize(body.len() + 12 + 16 + 4, 0); // rest of the source, destination, interface
    body.extend_from_slice(&[0xff; 8]); // any cookie
    let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&body);
    message
}

fn is_listening(answer: &[u8]) -> bool {
    let kind = answer.get(4..6).and_then(<[u8]>::first_chunk).map(|kind| u16::from_ne_bytes(*kind));
    let error = answer.get(HEADER_BYTES..).and_then(<[u8]>::first_chunk).map(|error| i32::from_ne_bytes(*error));
    match (kind, error) {
        (Some(NLMSG_ERROR), Some(error)) => error != -libc::ENOENT,
        (Some(SOCK_DIAG_BY_FAMILY), _) => answer.get(HEADER_BYTES + 1) == Some(&LISTEN),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn a_listener_counts_until_its_last_descriptor_closes() {
        let listing = Listing::open();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(at) = listener.local_addr().unwrap() else { panic!("an address of IPv4") };
        let (copy, client) = (listener.try_clone().unwrap(), TcpStream::connect(at).unwrap());
        let server = listener.accept().unwrap();
        drop(listener);
        assert!(listing.has_listener(at));
        drop(copy);
        let is_blind = listing.0.is_none();
        assert_eq!(listing.has_listener(at), is_blind, "connections of a closed listener do not count");
        drop((client, server));
    }
}
