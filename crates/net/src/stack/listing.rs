//! Lists of sockets, as `ss` and `/proc/net/tcp` show them.

use super::Stack;
use crate::interface::InterfaceId;
use crate::scope;
use crate::socket::{Kind, Socket};
use crate::socket_id::{Family, Protocol, SocketId};
use crate::tcp::{ConnectionInfo, State};
use std::net::SocketAddr;
use std::ops::Bound::{Excluded, Unbounded};

/// Place in the list of a host's sockets. Sockets have the order of their ages; connections in TIME_WAIT
/// follow, by their addresses. So a list goes on behind a socket that has gone meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPlace {
    /// A socket's number.
    Socket(u64),
    /// Local address and peer of a connection in TIME_WAIT, as the list shows them.
    TimeWait(SocketAddr, SocketAddr),
}

/// State of a socket in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A UDP socket, with a peer or without.
    Datagram,
    /// It accepts connections.
    Listening,
    /// It has a connection, or had one.
    Connection(State),
}

/// Description of a socket.
#[derive(Clone, Debug)]
pub struct SocketDescription {
    /// Socket, unless the kernel alone knows it.
    pub socket: Option<SocketId>,
    /// Protocol.
    pub protocol: Protocol,
    /// Family of the socket's addresses.
    pub family: Family,
    /// State.
    pub state: Listed,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub peer: Option<SocketAddr>,
    /// Bytes that the program has not read, or connections that it has not accepted.
    pub unread: u64,
    /// Bytes that the peer has not acknowledged, or connections that may wait.
    pub unsent: u64,
    /// Datagrams that the full queue dropped.
    pub drops: u64,
    /// Interface to which the socket is bound.
    pub device: Option<InterfaceId>,
    /// Numbers of a connection.
    pub info: Option<ConnectionInfo>,
}

impl Stack {
    /// Returns the first socket with an address at a place behind `after`, and its place.
    pub fn next_listed(&self, after: Option<ListPlace>) -> Option<(ListPlace, SocketDescription)> {
        let behind = match after {
            Some(ListPlace::TimeWait(local, remote)) => Excluded((scope::of_program(local), scope::of_program(remote))),
            Some(ListPlace::Socket(_)) | None => Unbounded,
        };
        if behind == Unbounded {
            let after = if let Some(ListPlace::Socket(after)) = after { Excluded(SocketId(after)) } else { Unbounded };
            let mut sockets = self.sockets.range((after, Unbounded));
            if let Some(found) = sockets.find_map(|(id, socket)| Some((ListPlace::Socket(id.0), describe(*id, socket)?))) {
                return Some(found);
            }
        }
        let ((local, remote), _) = self.time_wait.range((behind, Unbounded)).next()?;
        let (local, remote) = (scope::shown(*local), scope::shown(*remote));
        let description = SocketDescription {
            socket: None,
            protocol: Protocol::Stream,
            family: if local.is_ipv4() { Family::V4 } else { Family::V6 },
            state: Listed::Connection(State::TimeWait),
            local,
            peer: Some(remote),
            unread: 0,
            unsent: 0,
            drops: 0,
            device: None,
            info: None,
        };
        Some((ListPlace::TimeWait(local, remote), description))
    }
}

fn describe(id: SocketId, socket: &Socket) -> Option<SocketDescription> {
    let local = socket.shown(socket.bound?);
    let (state, peer, unread, unsent, drops, info) = match &socket.kind {
        // The lists of TCP and UDP hold no other sockets.
        Kind::Idle | Kind::Sdp(_) => return None,
        Kind::Datagram(datagram) if datagram.is_echo => return None,
        Kind::Listener(listener) => {
            (Listed::Listening, None, listener.ready_sockets().len() as u64, listener.backlog().into(), listener.overflows(), None)
        }
        Kind::Connection(connection) => {
            let info = connection.info();
            (Listed::Connection(info.state), Some(connection.remote()), info.unread_bytes, info.unacknowledged_bytes, 0, Some(info))
        }
        Kind::Datagram(datagram) => (Listed::Datagram, datagram.peer, datagram.queued_bytes(), datagram.bytes_below(), datagram.drops(), None),
    };
    // Linux lists no connection that has never been.
    if state == Listed::Connection(State::Closed) {
        return None;
    }
    Some(SocketDescription {
        socket: Some(id).filter(|_| socket.parent.is_none()),
        protocol: socket.protocol(),
        family: socket.family,
        state,
        local,
        peer: peer.map(|peer| socket.shown(peer)),
        unread,
        unsent,
        drops,
        device: socket.device,
        info,
    })
}
