//! Sockets that give up their peer or their listening, and may begin again.

use super::Stack;
use crate::error::NetError;
use crate::events::Events;
use crate::socket::Kind;
use crate::socket_id::{Protocol, SocketId};
use crate::tcp::{Connection, Context, State};
use softband_sim::SimTime;

impl Stack {
    /// Ends the connection or the listening of a TCP socket, which may then connect again.
    pub(crate) fn disconnect_stream(&mut self, now: SimTime, id: SocketId) -> Result<(), NetError> {
        match &self.socket_mut(id)?.kind {
            Kind::Idle => {}
            Kind::Datagram(_) => return Err(NetError::Unsupported),
            Kind::Sdp(_) => self.disconnect_sdp(now, id)?,
            Kind::Listener(_) => self.stop_listening(now, id)?,
            Kind::Connection(_) => self.drop_connection(now, id)?,
        }
        Ok(())
    }

    fn drop_connection(&mut self, now: SimTime, id: SocketId) -> Result<(), NetError> {
        self.with_connection(now, id, Connection::abandon);
        let socket = self.socket_mut(id)?;
        let connection = socket.connection()?;
        let (options, memory) = (connection.options().clone(), connection.memory());
        (socket.kind, socket.options) = (Kind::Idle, Some(Box::new(options)));
        self.tcp_memory -= memory;
        self.forget_timer(id);
        self.return_address(Protocol::Stream, id)
    }

    fn stop_listening(&mut self, now: SimTime, id: SocketId) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        let bound = socket.bound;
        let waiting = match std::mem::replace(&mut socket.kind, Kind::Idle) {
            Kind::Listener(listener) => listener.ready_sockets(),
            _ => Vec::new(),
        };
        if let Some(bound) = bound {
            self.ports.unlisten(bound.port(), id);
        }
        self.forget_timer(id);
        self.reset_unaccepted(now, waiting);
        self.return_address(Protocol::Stream, id)?;
        // A program in `accept` wakes, and fails with EINVAL.
        self.ready(id, Events::READABLE | Events::WRITABLE | Events::HANG_UP);
        Ok(())
    }

    /// Gives up an address that the kernel chose. That of `bind` stays.
    pub(super) fn return_address(&mut self, protocol: Protocol, id: SocketId) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        let chosen = socket.bound.filter(|_| socket.asked.is_none());
        (socket.bound, socket.is_ephemeral) = (socket.asked, false);
        if let Some(chosen) = chosen {
            self.ports.free(protocol, chosen.port(), id);
        }
        Ok(())
    }

    /// Ends directions of a socket, as Linux's `inet_shutdown`. A handshake under way and a
    /// listening socket end whole.
    pub(crate) fn shut(&mut self, now: SimTime, id: SocketId, receive: bool, send: bool) -> Result<(), NetError> {
        let state = match &mut self.socket_mut(id)?.kind {
            Kind::Datagram(datagram) => {
                // Linux shuts a socket without a peer too, and wakes it, although the call fails.
                let (events, is_connected) = (datagram.shut(receive, send), datagram.peer.is_some());
                self.ready(id, events);
                return if is_connected { Ok(()) } else { Err(NetError::NotConnected) };
            }
            Kind::Sdp(_) => return self.shut_sdp(now, id, receive, send),
            Kind::Idle => State::Closed,
            Kind::Listener(_) => return if receive { self.disconnect_stream(now, id) } else { Ok(()) },
            Kind::Connection(connection) => connection.state(),
        };
        match state {
            State::SynSent => return self.disconnect_stream(now, id),
            State::Closed | State::TimeWait => {
                self.ready(id, Events::HANG_UP);
                return Err(NetError::NotConnected);
            }
            _ => {}
        }
        let step = |connection: &mut Connection, cx: &mut Context<'_>| {
            if receive {
                connection.shut_receive(cx);
            }
            if send {
                connection.shut_send(cx);
            }
        };
        self.with_connection(now, id, step).ok_or(NetError::BadSocket)
    }
}
