//! Connections of the stack: life, timers, TIME_WAIT.

use super::{Addresses, Stack, TimerOf};
use crate::error::NetError;
use crate::events::Events;
use crate::sdp::Role;
use crate::socket::{Kind, Socket};
use crate::socket_id::{Family, Protocol, SocketId};
use crate::tcp::{Connection, Context, Listener, Remains, SocketOptions, State};
use softband_sim::SimTime;
use std::net::SocketAddr;

impl Stack {
    pub(crate) fn open(&mut self, family: Family, protocol: Protocol) -> SocketId {
        let (kind, options) = match protocol {
            Protocol::Stream => (Kind::Idle, Some(Box::new(SocketOptions::new(&self.kernel)))),
            Protocol::Datagram | Protocol::Echo => (self.new_datagram(protocol), None),
            Protocol::Sdp => (Kind::Sdp(Role::Idle), Some(Box::new(SocketOptions::new(&self.kernel)))),
        };
        self.insert(Socket {
            family,
            v6_only: false,
            kind,
            bound: None,
            asked: None,
            // Linux creates such sockets with SO_REUSEADDR (`INET_PROTOSW_REUSE`).
            reuse_address: protocol == Protocol::Echo,
            reuse_port: false,
            is_ephemeral: false,
            device: None,
            hop_limit: None,
            options,
            parent: None,
        })
    }

    pub(super) fn insert(&mut self, socket: Socket) -> SocketId {
        let id = SocketId(self.next_socket);
        self.next_socket += 1;
        self.sockets.insert(id, socket);
        id
    }

    /// Runs a step of a connection, then sends its segments and tells its news. Returns `None` if
    /// the socket has no connection.
    pub(crate) fn with_connection<R>(&mut self, now: SimTime, id: SocketId, step: impl FnOnce(&mut Connection, &mut Context<'_>) -> R) -> Option<R> {
        let socket = self.sockets.get_mut(&id)?;
        let (device, remote) = (socket.device, socket.connection().ok()?.remote());
        let path = self.path(device, remote.ip());
        let mut cx = Context::new(now, &self.kernel, path);
        cx.has_memory = self.tcp_memory < u64::from(self.kernel.tcp_memory_bytes);
        let connection = self.sockets.get_mut(&id)?.connection().ok()?;
        let before = (connection.memory(), connection.is_counted(&self.kernel));
        let result = step(connection, &mut cx);
        self.tcp_memory = self.tcp_memory + connection.memory() - before.0;
        self.orphans = self.orphans + u32::from(connection.is_counted(&self.kernel)) - u32::from(before.1);
        if connection.is_starved() {
            self.starved.insert(id);
        }
        let (out, events) = (cx.out, cx.events);
        let (state, is_orphan, local) = (connection.state(), connection.is_orphan(), connection.local());
        let remains = (state == State::TimeWait).then(|| connection.remains());
        for segment in out {
            self.send_segment((local.ip(), remote.ip()), segment, Some(id));
        }
        if let Some(remains) = remains
            && self.forget_connection((local, remote), id)
        {
            self.begin_time_wait(now, (local, remote), remains);
        }
        if state == State::Closed {
            self.forget_connection((local, remote), id);
        }
        if is_orphan && matches!(state, State::Closed | State::TimeWait) {
            self.tell(id, Events::GONE | events & Events::LINGERED);
            self.remove(id);
        } else {
            self.tell(id, events);
            self.set_timer_of(id);
        }
        Some(result)
    }

    /// Wakes the programs that wait for memory, once there is some.
    pub(super) fn feed_starved(&mut self, now: SimTime) {
        if self.tcp_memory < u64::from(self.kernel.tcp_memory_bytes) {
            for id in std::mem::take(&mut self.starved) {
                self.with_connection(now, id, |connection, cx| connection.wake_writer(cx));
            }
        }
    }

    /// Tells the news of a connection, unless it waits for `accept`, so that no program knows it.
    pub(super) fn tell(&mut self, id: SocketId, events: Events) {
        if self.sockets.get(&id).is_some_and(|socket| socket.parent.is_none()) {
            self.ready(id, events);
        }
    }

    /// Takes the connection's addresses from the table, unless a later connection has them. Returns
    /// whether it did.
    fn forget_connection(&mut self, addresses: Addresses, id: SocketId) -> bool {
        self.connections.get(&addresses) == Some(&id) && self.connections.remove(&addresses).is_some()
    }

    /// Forgets a socket and its port.
    pub(super) fn remove(&mut self, id: SocketId) {
        let Some(mut socket) = self.sockets.remove(&id) else { return };
        self.starved.remove(&id);
        if let Ok(datagram) = socket.datagram() {
            for (interface, group) in std::mem::take(&mut datagram.groups) {
                self.leave_group(interface, group);
            }
        }
        if let Ok(connection) = socket.connection() {
            let is_counted = connection.is_counted(&self.kernel);
            self.tcp_memory -= connection.memory();
            self.orphans -= u32::from(is_counted);
        }
        if let Some(bound) = socket.bound {
            self.ports.free(socket.protocol(), bound.port(), id);
        }
        self.forget_timer(id);
    }

    pub(super) fn forget_timer(&mut self, id: SocketId) {
        if let Some(at) = self.queued.remove(&id) {
            self.timers.remove(&(at, TimerOf::Socket(id)));
        }
    }

    pub(super) fn socket_timer(&mut self, now: SimTime, id: SocketId) {
        match self.sockets.get(&id).map(|socket| &socket.kind) {
            Some(Kind::Connection(_)) => drop(self.with_connection(now, id, |connection, cx| connection.timer(cx))),
            Some(Kind::Listener(_)) => self.listener_timer(now, id),
            Some(Kind::Sdp(_)) => self.sdp_timer(now, id),
            _ => {}
        }
    }

    fn listener_timer(&mut self, now: SimTime, id: SocketId) {
        let retries = self.kernel.syn_ack_retries;
        loop {
            let Some(Kind::Listener(listener)) = self.sockets.get_mut(&id).map(|socket| &mut socket.kind) else { return };
            let Some(addresses) = listener.due(now, retries) else { return };
            let path = self.path(self.device_of(id), addresses.1.ip());
            let mut cx = Context::new(now, &self.kernel, path);
            if let Some(socket) = self.sockets.get_mut(&id)
                && let (Kind::Listener(listener), Some(options)) = (&mut socket.kind, &socket.options)
            {
                listener.repeat(addresses, options, &mut cx);
            }
            for segment in cx.out {
                self.answer_segment((addresses.0.ip(), addresses.1.ip()), segment, id);
            }
        }
    }

    /// Makes a socket of a connection that a listening socket received.
    pub(super) fn adopt(&mut self, parent: SocketId, connection: Connection) -> SocketId {
        let (local, remote) = (connection.local(), connection.remote());
        let of_parent = |socket: &Socket| (socket.family, socket.v6_only, socket.reuse_address, socket.reuse_port);
        let (family, v6_only, reuse_address, reuse_port) = self.sockets.get(&parent).map_or((Family::V4, false, false, false), of_parent);
        let (device, hop_limit) = self.sockets.get(&parent).map_or((None, None), |socket| (socket.device, socket.hop_limit));
        let kind = Kind::Connection(Box::new(connection));
        let id = self.insert(Socket {
            family,
            v6_only,
            kind,
            bound: None,
            asked: None,
            reuse_address,
            reuse_port,
            is_ephemeral: false,
            device,
            hop_limit,
            options: None,
            parent: Some(parent),
        });
        self.take_port(id, local, false);
        self.connections.insert((local, remote), id);
        if let Ok(socket) = self.socket_mut(parent)
            && let Kind::Listener(listener) = &mut socket.kind
        {
            listener.push_ready(id);
        }
        self.ready(parent, Events::READABLE);
        id
    }

    pub(crate) fn listen(&mut self, id: SocketId, backlog: u32) -> Result<(), NetError> {
        let backlog = backlog.min(self.kernel.backlog_max);
        let socket = self.socket_mut(id)?;
        match &mut socket.kind {
            Kind::Listener(listener) => {
                listener.set_backlog(backlog);
                return Ok(());
            }
            Kind::Idle => {}
            Kind::Connection(_) => return Err(NetError::Invalid),
            Kind::Datagram(_) => return Err(NetError::Unsupported),
            Kind::Sdp(_) => return self.listen_sdp(id, backlog),
        }
        let (family, bound) = (socket.family, socket.bound);
        match bound {
            // Linux gives a socket without an address an ephemeral port.
            None => self.bind(id, SocketAddr::new(family.unspecified(), 0))?,
            Some(bound) => {
                let shares = socket.reuse_port;
                let mut others = self.ports.listeners(bound.port()).filter_map(|other| self.sockets.get(&other));
                if others.any(|other| other.bound == Some(bound) && !(shares && other.reuse_port)) {
                    return Err(NetError::AddressInUse);
                }
            }
        }
        let secret = self.cookie_secret;
        let socket = self.socket_mut(id)?;
        socket.kind = Kind::Listener(Box::new(Listener::new(backlog, secret)));
        if let Some(bound) = socket.bound {
            self.ports.listen(bound.port(), id);
        }
        Ok(())
    }

    pub(crate) fn accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), NetError> {
        let socket = self.socket_mut(id)?;
        let listener = match &mut socket.kind {
            Kind::Listener(listener) => listener,
            Kind::Datagram(_) => return Err(NetError::Unsupported),
            Kind::Sdp(_) => return self.accept_sdp(id),
            Kind::Idle | Kind::Connection(_) => return Err(NetError::Invalid),
        };
        let accepted = listener.accept().ok_or(NetError::WouldBlock)?;
        let socket = self.socket_mut(accepted)?;
        socket.parent = None;
        let remote = socket.connection()?.remote();
        Ok((accepted, socket.shown(remote)))
    }

    /// Begins a connection, which [`NetError::InProgress`] reports.
    pub(crate) fn connect_stream(&mut self, now: SimTime, id: SocketId, mut remote: SocketAddr) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        if let Kind::Connection(connection) = &mut socket.kind {
            let (has_failed, answer) = (connection.has_failed_to_connect(), connection.connect_again());
            if has_failed {
                self.disconnect_stream(now, id)?;
            }
            return answer;
        }
        if !matches!(socket.kind, Kind::Idle) || remote.port() == 0 {
            return Err(NetError::Invalid);
        }
        remote = socket.canonical(remote)?;
        let (bound, device, options) = (socket.bound, socket.device, socket.options.clone().ok_or(NetError::Invalid)?);
        if remote.ip().is_unspecified() {
            // Linux: the address of any host means this one.
            let loopback = if remote.is_ipv4() { std::net::Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
            remote.set_ip(loopback);
        }
        if remote.ip().is_multicast() {
            return Err(NetError::NetworkUnreachable);
        }
        let (.., source) = self.way_by(device, remote.ip())?;
        let source = bound.map(|bound| bound.ip()).filter(|ip| !ip.is_unspecified()).unwrap_or(source);
        if source.is_ipv4() != remote.is_ipv4() {
            return Err(NetError::NetworkUnreachable);
        }
        let port = match bound {
            Some(bound) => bound.port(),
            None => self.port_for(Protocol::Stream, source, remote)?,
        };
        let local = SocketAddr::new(source, port);
        if self.connections.contains_key(&(local, remote)) || self.time_wait.contains_key(&(local, remote)) {
            return Err(NetError::AddressNotAvailable);
        }
        if bound.is_none() {
            self.take_port(id, local, true);
        }
        let first = self.random.next_u64() as u32;
        let path = self.path(device, remote.ip());
        let mut cx = Context::new(now, &self.kernel, path);
        let connection = Connection::connect((local, remote), first, *options, &mut cx);
        let out = cx.out;
        let socket = self.socket_mut(id)?;
        (socket.kind, socket.options, socket.bound) = (Kind::Connection(Box::new(connection)), None, Some(local));
        self.connections.insert((local, remote), id);
        for segment in out {
            self.send_segment((local.ip(), remote.ip()), segment, Some(id));
        }
        self.set_timer_of(id);
        Err(NetError::InProgress)
    }

    pub(crate) fn close(&mut self, now: SimTime, id: SocketId) -> Result<(), NetError> {
        let ready = match &self.socket_mut(id)?.kind {
            Kind::Connection(_) => {
                self.close_connection(now, id);
                return Ok(());
            }
            Kind::Sdp(_) => {
                self.close_sdp(now, id);
                return Ok(());
            }
            Kind::Listener(listener) => listener.ready_sockets(),
            Kind::Idle | Kind::Datagram(_) => Vec::new(),
        };
        self.remove(id);
        self.reset_unaccepted(now, ready);
        Ok(())
    }

    /// Returns whether a program closed the socket, whose connection still ends.
    pub(super) fn is_closed(&self, id: SocketId) -> bool {
        match self.sockets.get(&id).map(|socket| &socket.kind) {
            Some(Kind::Connection(connection)) => connection.is_orphan(),
            Some(Kind::Sdp(Role::Connection(connection))) => connection.is_orphan(),
            _ => false,
        }
    }

    /// Closes a connection, by a reset if the host has too many that end in the background.
    fn close_connection(&mut self, now: SimTime, id: SocketId) {
        let is_crowded = self.orphans >= self.kernel.orphans_max;
        self.with_connection(now, id, if is_crowded { abort } else { Connection::close });
    }

    /// Resets connections that nobody accepted.
    pub(super) fn reset_unaccepted(&mut self, now: SimTime, sockets: Vec<SocketId>) {
        for socket in sockets.into_iter().filter(|socket| self.sockets.contains_key(socket)).collect::<Vec<_>>() {
            self.with_connection(now, socket, abort);
        }
    }

    pub(super) fn begin_time_wait(&mut self, now: SimTime, addresses: Addresses, remains: Remains) {
        self.end_time_wait(addresses);
        if self.time_wait.len() >= self.kernel.time_wait_max as usize {
            // Linux forgets connections beyond its limit at once.
            return;
        }
        let until = now + self.kernel.time_wait;
        self.time_wait.insert(addresses, (remains, until));
        self.timers.insert((until, TimerOf::TimeWait(addresses)));
    }

    pub(super) fn end_time_wait(&mut self, addresses: Addresses) {
        if let Some((_, until)) = self.time_wait.remove(&addresses) {
            self.timers.remove(&(until, TimerOf::TimeWait(addresses)));
        }
    }
}

/// Closes a connection by a reset.
fn abort(connection: &mut Connection, cx: &mut Context<'_>) {
    connection.set_options(|options| options.linger = Some(Default::default()), cx);
    connection.close(cx);
}
