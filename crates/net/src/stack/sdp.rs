//! Sockets of SDP: their place among the sockets of the host, and their queue pairs' events.

use super::{Addresses, Charge, Effect, Stack};
use crate::error::NetError;
use crate::events::Events;
use crate::interface::InterfaceId;
use crate::payload::Payload;
use crate::sdp::{Connection, Context, Got, Listener, Order, Part, Role, Taken, hello_of};
use crate::socket::{Kind, Socket};
use crate::socket_id::{Protocol, SocketId};
use crate::tcp::ConnectionInfo;
use softband_sim::SimTime;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Numbers of sources, whose addresses need 46 bits.
const SOURCES: u64 = 1 << 25;

impl Stack {
    /// Lets connections of SDP use an interface, whose link has queue pairs.
    pub fn offer_sdp(&mut self, interface: InterfaceId) {
        self.sdp_keys.insert(interface, 0);
    }

    /// Sets the key by which peers on an interface read the host's sources.
    pub fn set_sdp_key(&mut self, interface: InterfaceId, rkey: u32) {
        self.sdp_keys.insert(interface, rkey);
    }

    /// Returns whether an interface of the host offers SDP.
    pub fn offers_sdp(&self) -> bool {
        !self.sdp_keys.is_empty()
    }

    /// Takes the first message of a connection that a peer made. Returns its socket, or `None` if no
    /// socket accepts it.
    pub fn sdp_request(&mut self, now: SimTime, interface: InterfaceId, bytes: &[u8]) -> Option<SocketId> {
        self.now = now;
        let request = hello_of(bytes)?;
        let parent = self.sdp_listener(SocketAddr::V4(request.0.destination))?;
        let (options, buffer) = (self.sockets.get(&parent)?.options.clone()?, self.sdp_buffer(parent));
        let Some(Kind::Sdp(Role::Listener(listener))) = self.sockets.get_mut(&parent).map(|socket| &mut socket.kind) else { return None };
        if !listener.has_room() {
            return None;
        }
        let source = source_of(self.next_socket);
        let mut cx = Context::new(now, &options, &self.kernel, 0);
        let connection = Connection::accept(&request, interface, (buffer, source), &mut cx);
        let (orders, (local, _)) = (cx.orders, connection.addresses());
        let socket = self.sockets.get(&parent)?;
        let id = self.insert(Socket {
            family: socket.family,
            v6_only: socket.v6_only,
            kind: Kind::Sdp(Role::Connection(Box::new(connection))),
            bound: None,
            asked: None,
            reuse_address: socket.reuse_address,
            reuse_port: socket.reuse_port,
            is_ephemeral: false,
            options: Some(options),
            parent: Some(parent),
            device: socket.device,
            hop_limit: socket.hop_limit,
        });
        self.take_port(id, local, false);
        if let Some(Kind::Sdp(Role::Listener(listener))) = self.sockets.get_mut(&parent).map(|socket| &mut socket.kind) {
            listener.push(id);
        }
        self.order((id, interface), orders);
        self.ready(parent, Events::READABLE);
        self.settle(now);
        Some(id)
    }

    /// Takes a message of a connection.
    pub fn sdp_arrived(&mut self, now: SimTime, socket: SocketId, bytes: &[u8]) {
        self.sdp_event(now, socket, |connection, cx| connection.arrived(bytes, cx));
    }

    /// Notes that the HCA has sent the oldest message of a connection.
    pub fn sdp_sent(&mut self, now: SimTime, socket: SocketId) {
        self.sdp_event(now, socket, Connection::sent);
    }

    /// Takes the bytes of a read ([`Order::Read`]).
    pub fn sdp_read(&mut self, now: SimTime, socket: SocketId, data: &Payload) {
        self.sdp_event(now, socket, |connection, cx| connection.read_done(data, cx));
    }

    /// Notes that the queue pair of a connection has failed, or could not be made.
    pub fn sdp_lost(&mut self, now: SimTime, socket: SocketId, error: NetError) {
        self.sdp_event(now, socket, |connection, cx| connection.lost(error, cx));
    }

    fn sdp_event(&mut self, now: SimTime, socket: SocketId, step: impl FnOnce(&mut Connection, &mut Context<'_>)) {
        self.now = now;
        self.with_sdp(now, socket, step);
        self.settle(now);
    }

    /// Returns whether a call that waits for its end has to wait until the socket is writable: its peer
    /// reads the bytes from their place.
    pub fn awaits_peer(&self, socket: SocketId) -> bool {
        matches!(self.sockets.get(&socket).map(|socket| &socket.kind), Some(Kind::Sdp(Role::Connection(connection))) if connection.awaits_peer())
    }

    /// Returns the protocol of a socket.
    pub fn protocol(&self, socket: SocketId) -> Option<Protocol> {
        self.sockets.get(&socket).map(Socket::protocol)
    }

    /// Returns whether a socket of SDP accepts connections to an address of the host.
    pub fn has_sdp_listener(&self, at: SocketAddr) -> bool {
        self.sdp_listener(at).is_some()
    }

    fn sdp_listener(&self, at: SocketAddr) -> Option<SocketId> {
        let listens = |id: &SocketId| {
            let socket = self.sockets.get(id);
            socket.is_some_and(|socket| matches!(socket.kind, Kind::Sdp(Role::Listener(_))) && socket.covers(at.ip()))
        };
        self.ports.of(Protocol::Sdp, at.port()).find(listens)
    }

    /// Returns whether connections of SDP can lead to an address.
    pub fn reaches_by_sdp(&self, address: IpAddr) -> bool {
        self.sdp_way(address.to_canonical()).is_ok_and(|(_, source)| source.is_ipv4())
    }

    /// Runs a step of a connection, then hands out its orders and tells its news. Returns `None` if the
    /// socket has no connection.
    fn with_sdp<R>(&mut self, now: SimTime, id: SocketId, step: impl FnOnce(&mut Connection, &mut Context<'_>) -> R) -> Option<R> {
        let Socket { kind: Kind::Sdp(Role::Connection(connection)), options: Some(options), .. } = self.sockets.get_mut(&id)? else { return None };
        let interface = connection.interface();
        let rkey = self.sdp_keys.get(&interface).copied().unwrap_or(0);
        let mut cx = Context::new(now, options, &self.kernel, rkey);
        let result = step(connection, &mut cx);
        let (orders, events) = (cx.orders, cx.events);
        let is_gone = connection.is_orphan() && connection.is_closed();
        self.order((id, interface), orders);
        if is_gone {
            self.tell(id, Events::GONE | events & Events::LINGERED);
            self.remove(id);
        } else {
            self.tell(id, events);
            self.set_timer_of(id);
        }
        Some(result)
    }

    /// Hands out the orders of a connection. Each post costs as a packet does.
    fn order(&mut self, (socket, interface): (SocketId, InterfaceId), orders: Vec<Order>) {
        for order in orders {
            if matches!(order, Order::Send { .. } | Order::Read { .. }) {
                self.charge(Charge::Sent { interface, packets: 1 });
            }
            self.effects.push_back(Effect::Sdp { socket, interface, order });
        }
    }

    fn sdp_buffer(&self, id: SocketId) -> u32 {
        let own = self.sockets.get(&id).and_then(|socket| socket.options.as_ref()?.send_buffer);
        own.unwrap_or(self.kernel.datagram_buffer.initial_bytes)
    }

    pub(super) fn sdp_readiness(&self, id: SocketId) -> Events {
        match self.sockets.get(&id) {
            Some(Socket { kind: Kind::Sdp(Role::Connection(connection)), options: Some(options), .. }) => connection.readiness(options),
            Some(Socket { kind: Kind::Sdp(Role::Listener(listener)), .. }) => Events::READABLE.when(listener.has_ready()),
            Some(_) => Events::WRITABLE | Events::HANG_UP,
            None => Events::NONE,
        }
    }

    pub(super) fn sdp_timer(&mut self, now: SimTime, id: SocketId) {
        self.with_sdp(now, id, Connection::timer);
    }

    /// Makes a TCP socket without a connection one of SDP. Its port moves to SDP's ports.
    pub(crate) fn use_sdp(&mut self, id: SocketId) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        if !matches!(socket.kind, Kind::Idle) {
            return Err(NetError::Invalid);
        }
        let bound = socket.bound;
        if let Some(bound) = bound {
            if !self.can_bind(id, Protocol::Sdp, bound) {
                return Err(NetError::AddressInUse);
            }
            self.ports.free(Protocol::Stream, bound.port(), id);
            self.ports.take(Protocol::Sdp, bound.port(), id);
        }
        self.socket_mut(id)?.kind = Kind::Sdp(Role::Idle);
        Ok(())
    }

    pub(super) fn listen_sdp(&mut self, id: SocketId, backlog: u32) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        let (family, bound) = (socket.family, socket.bound);
        match &mut socket.kind {
            Kind::Sdp(Role::Listener(listener)) => {
                listener.set_backlog(backlog);
                return Ok(());
            }
            Kind::Sdp(Role::Idle) => {}
            _ => return Err(NetError::Invalid),
        }
        match bound {
            None => self.bind(id, SocketAddr::new(family.unspecified(), 0))?,
            Some(bound) => {
                let mut others = self.ports.of(Protocol::Sdp, bound.port()).filter(|other| *other != id).filter_map(|other| self.sockets.get(&other));
                if others.any(|other| other.bound == Some(bound) && matches!(other.kind, Kind::Sdp(Role::Listener(_)))) {
                    return Err(NetError::AddressInUse);
                }
            }
        }
        self.socket_mut(id)?.kind = Kind::Sdp(Role::Listener(Listener::new(backlog)));
        Ok(())
    }

    /// Opens a socket of SDP that listens as a TCP socket does.
    pub(crate) fn listen_beside(&mut self, id: SocketId, backlog: u32) -> Result<SocketId, NetError> {
        let socket = self.socket_mut(id)?;
        let (Kind::Listener(_), Some(bound)) = (&socket.kind, socket.bound) else { return Err(NetError::Invalid) };
        let address = socket.shown(bound);
        let twin = Socket {
            family: socket.family,
            v6_only: socket.v6_only,
            kind: Kind::Sdp(Role::Idle),
            bound: None,
            asked: None,
            reuse_address: socket.reuse_address,
            reuse_port: socket.reuse_port,
            is_ephemeral: false,
            device: socket.device,
            hop_limit: socket.hop_limit,
            options: socket.options.clone(),
            parent: None,
        };
        let twin = self.insert(twin);
        let listens = self.bind(twin, address).and_then(|()| self.listen(twin, backlog));
        if listens.is_err() {
            self.remove(twin);
        }
        listens.map(|()| twin)
    }

    pub(super) fn accept_sdp(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), NetError> {
        let Kind::Sdp(Role::Listener(listener)) = &mut self.socket_mut(id)?.kind else { return Err(NetError::Invalid) };
        let accepted = listener.pop().ok_or(NetError::WouldBlock)?;
        let socket = self.socket_mut(accepted)?;
        socket.parent = None;
        let (_, remote) = socket.sdp()?.addresses();
        Ok((accepted, socket.shown(remote)))
    }

    /// Begins a connection, which [`NetError::InProgress`] reports.
    pub(crate) fn connect_sdp(&mut self, now: SimTime, id: SocketId, remote: SocketAddr) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        match &mut socket.kind {
            Kind::Sdp(Role::Connection(connection)) => {
                let (has_failed, answer) = (connection.has_failed_to_connect(), connection.connect_again());
                if has_failed {
                    self.disconnect_sdp(now, id)?;
                }
                return answer;
            }
            Kind::Sdp(Role::Idle) if remote.port() != 0 => {}
            _ => return Err(NetError::Invalid),
        }
        let mut remote = socket.canonical(remote)?;
        let (bound, options) = (socket.bound, socket.options.clone().ok_or(NetError::Invalid)?);
        if remote.ip().is_unspecified() {
            remote.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let (interface, source) = self.sdp_way(remote.ip())?;
        let source = bound.map(|bound| bound.ip()).filter(|ip| !ip.is_unspecified()).unwrap_or(source);
        let (IpAddr::V4(own), SocketAddr::V4(remote)) = (source, remote) else { return Err(NetError::HostUnreachable) };
        let port = match bound {
            Some(bound) => bound.port(),
            None => self.port_for(Protocol::Sdp, source, remote.into())?,
        };
        let local = SocketAddrV4::new(own, port);
        if self.has_sdp_connection((local.into(), remote.into())) {
            return Err(NetError::AddressNotAvailable);
        }
        if bound.is_none() {
            self.take_port(id, local.into(), true);
        }
        let (buffer, rkey) = (self.sdp_buffer(id), 0);
        let mut cx = Context::new(now, &options, &self.kernel, rkey);
        let connection = Connection::connect((local, remote), interface, (buffer, source_of(id.0)), &mut cx);
        let orders = cx.orders;
        let socket = self.socket_mut(id)?;
        (socket.kind, socket.bound) = (Kind::Sdp(Role::Connection(Box::new(connection))), Some(local.into()));
        self.order((id, interface), orders);
        Err(NetError::InProgress)
    }

    /// Returns whether a connection has both addresses.
    fn has_sdp_connection(&self, addresses: Addresses) -> bool {
        let has = |id: SocketId| match self.sockets.get(&id).map(|socket| &socket.kind) {
            Some(Kind::Sdp(Role::Connection(connection))) => !connection.is_closed() && connection.addresses() == addresses,
            _ => false,
        };
        self.ports.of(Protocol::Sdp, addresses.0.port()).any(has)
    }

    /// Returns the interface and the own address for a connection. Those within the host use the first
    /// interface.
    fn sdp_way(&self, destination: IpAddr) -> Result<(InterfaceId, IpAddr), NetError> {
        let (interface, _, source) = self.way(destination).map_err(|_| NetError::HostUnreachable)?;
        if interface == InterfaceId(0) {
            let first = self.sdp_keys.keys().next().copied();
            return first.map(|first| (first, source)).ok_or(NetError::HostUnreachable);
        }
        if self.sdp_keys.contains_key(&interface) { Ok((interface, source)) } else { Err(NetError::HostUnreachable) }
    }

    /// Ends the connection or the listening of a socket, which may then connect again.
    pub(super) fn disconnect_sdp(&mut self, now: SimTime, id: SocketId) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        match &socket.kind {
            Kind::Sdp(Role::Connection(_)) => {
                self.with_sdp(now, id, Connection::abandon);
            }
            Kind::Sdp(Role::Listener(_)) => self.abort_waiting(now, id),
            _ => return Ok(()),
        }
        self.socket_mut(id)?.kind = Kind::Sdp(Role::Idle);
        self.forget_timer(id);
        self.return_address(Protocol::Sdp, id)?;
        self.ready(id, Events::READABLE | Events::WRITABLE | Events::HANG_UP);
        Ok(())
    }

    /// Aborts the connections that wait for `accept`.
    fn abort_waiting(&mut self, now: SimTime, id: SocketId) {
        let Ok(socket) = self.socket_mut(id) else { return };
        let Kind::Sdp(Role::Listener(listener)) = std::mem::replace(&mut socket.kind, Kind::Sdp(Role::Idle)) else { return };
        for waiting in listener.into_ready() {
            self.with_sdp(now, waiting, Connection::close_by_abort);
        }
    }

    pub(super) fn shut_sdp(&mut self, now: SimTime, id: SocketId, receive: bool, send: bool) -> Result<(), NetError> {
        match &self.socket_mut(id)?.kind {
            Kind::Sdp(Role::Listener(_)) => return if receive { self.disconnect_sdp(now, id) } else { Ok(()) },
            Kind::Sdp(Role::Connection(connection)) if connection.peer().is_some() => {}
            Kind::Sdp(Role::Connection(connection)) if !connection.is_closed() => return self.disconnect_sdp(now, id),
            _ => return Err(NetError::NotConnected),
        }
        self.with_sdp(now, id, |connection, cx| {
            if receive {
                connection.shut_receive(cx);
            }
            if send {
                connection.shut_send(cx);
            }
        });
        Ok(())
    }

    pub(super) fn close_sdp(&mut self, now: SimTime, id: SocketId) {
        let parent = self.sockets.get_mut(&id).and_then(|socket| socket.parent.take());
        if let Some(Kind::Sdp(Role::Listener(listener))) = parent.and_then(|parent| self.sockets.get_mut(&parent)).map(|socket| &mut socket.kind) {
            listener.forget(id);
        }
        if self.with_sdp(now, id, Connection::close).is_none() {
            self.abort_waiting(now, id);
            self.remove(id);
        }
    }

    pub(crate) fn send_sdp(&mut self, now: SimTime, id: SocketId, payload: &Payload, part: Part) -> Result<u32, NetError> {
        self.socket_mut(id)?.sdp().map_err(|_| NetError::Broken)?;
        let step = self.with_sdp(now, id, |connection, cx| connection.send(payload, part, cx));
        let (taken, charge) = match step.unwrap_or(Err(NetError::BadSocket))? {
            Taken::Copied(bytes) => (bytes, Charge::Copied { bytes }),
            Taken::Pinned(bytes) => (bytes, Charge::Pinned { bytes }),
        };
        self.charge(charge);
        Ok(taken)
    }

    /// Reads up to `most` bytes of a call that wants `rest` more.
    pub(crate) fn receive_sdp(&mut self, now: SimTime, id: SocketId, (most, rest): (u32, u32), peek: bool) -> Result<Payload, NetError> {
        self.socket_mut(id)?.sdp()?;
        let wanted = (most, most.saturating_add(rest));
        let step = self.with_sdp(now, id, |connection, cx| connection.receive(wanted, peek, cx));
        match step.unwrap_or(Err(NetError::BadSocket))? {
            Got::Data(payload, copied) => {
                self.charge(Charge::Copied { bytes: copied });
                Ok(payload)
            }
            Got::Reading(bytes) => {
                self.charge(Charge::Pinned { bytes });
                Err(NetError::WouldBlock)
            }
        }
    }

    pub(crate) fn receive_urgent_sdp(&mut self, id: SocketId, peek: bool) -> Result<u8, NetError> {
        let socket = self.socket_mut(id)?;
        let is_inline = socket.options.as_ref().is_some_and(|options| options.urgent_inline);
        socket.sdp()?.receive_urgent(peek, is_inline)
    }

    pub(crate) fn sdp_info(&mut self, id: SocketId) -> Result<ConnectionInfo, NetError> {
        let receive_buffer = self.kernel.receive_buffer.initial_bytes;
        Ok(self.socket_mut(id)?.sdp()?.info(receive_buffer))
    }

    /// Lets a connection see new options.
    pub(crate) fn sdp_options_changed(&mut self, now: SimTime, id: SocketId, has_new_buffer: bool) {
        let buffer = self.sdp_buffer(id);
        self.with_sdp(now, id, |connection, cx| {
            if has_new_buffer {
                connection.set_buffer(buffer);
            }
            connection.options_changed(cx);
        });
    }
}

/// Returns the number of the source of a socket.
fn source_of(socket: u64) -> u32 {
    (socket % SOURCES) as u32
}
