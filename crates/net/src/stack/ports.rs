//! Ports in use, and ephemeral ones.

use super::{Addresses, Stack};
use crate::error::NetError;
use crate::interface::InterfaceId;
use crate::sdp::Role;
use crate::socket::{Kind, Socket};
use crate::socket_id::{Protocol, SocketId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Sockets by protocol and local port.
#[derive(Debug, Default)]
pub(super) struct Ports {
    taken: BTreeMap<(Protocol, u16), BTreeSet<SocketId>>,
    /// Listening sockets alone, for a port may have thousands of connections.
    listening: BTreeMap<u16, BTreeSet<SocketId>>,
}

impl Ports {
    pub(super) fn take(&mut self, protocol: Protocol, port: u16, socket: SocketId) {
        self.taken.entry((protocol, port)).or_default().insert(socket);
    }
    pub(super) fn listen(&mut self, port: u16, socket: SocketId) {
        self.listening.entry(port).or_default().insert(socket);
    }
    pub(super) fn unlisten(&mut self, port: u16, socket: SocketId) {
        remove(&mut self.listening, port, socket);
    }
    pub(super) fn free(&mut self, protocol: Protocol, port: u16, socket: SocketId) {
        remove(&mut self.taken, (protocol, port), socket);
        if protocol == Protocol::Stream {
            remove(&mut self.listening, port, socket);
        }
    }
    pub(super) fn of(&self, protocol: Protocol, port: u16) -> impl Iterator<Item = SocketId> {
        self.taken.get(&(protocol, port)).into_iter().flatten().copied()
    }
    pub(super) fn listeners(&self, port: u16) -> impl Iterator<Item = SocketId> {
        self.listening.get(&port).into_iter().flatten().copied()
    }
}

fn remove<K: Ord>(map: &mut BTreeMap<K, BTreeSet<SocketId>>, key: K, socket: SocketId) {
    if let Some(sockets) = map.get_mut(&key) {
        sockets.remove(&socket);
        if sockets.is_empty() {
            map.remove(&key);
        }
    }
}

impl Stack {
    /// Returns whether the host has the address, or may listen at it.
    pub(super) fn is_local(&self, address: IpAddr) -> bool {
        let is_loopback = matches!(address, IpAddr::V4(address) if address.is_loopback());
        is_loopback || self.interfaces.iter().any(|interface| interface.has(address))
    }

    /// Returns the interface that has the address.
    pub(super) fn interface_with(&self, address: IpAddr) -> Option<InterfaceId> {
        self.interfaces.iter().position(|interface| interface.has(address)).map(|index| InterfaceId(index as u32))
    }

    /// Gives a socket its local address. Port 0 means an ephemeral one.
    pub(crate) fn bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), NetError> {
        let socket = self.socket_mut(id)?;
        if socket.bound.is_some() || !matches!(socket.kind, Kind::Idle | Kind::Datagram(_) | Kind::Sdp(Role::Idle)) {
            return Err(NetError::Invalid);
        }
        let address = socket.canonical(address).map_err(|_| NetError::Invalid)?;
        let protocol = socket.protocol();
        if !address.ip().is_unspecified() && !address.ip().is_multicast() && !self.is_local(address.ip()) {
            return Err(NetError::AddressNotAvailable);
        }
        let port = match address.port() {
            // Linux takes odd ports for `bind` first, and even ones for `connect`.
            0 => self.ephemeral(1, |stack, port| stack.can_bind(id, protocol, SocketAddr::new(address.ip(), port))).ok_or(NetError::AddressInUse)?,
            port if self.can_bind(id, protocol, address) => port,
            _ => return Err(NetError::AddressInUse),
        };
        let address = SocketAddr::new(address.ip(), port);
        self.take_port(id, address, false);
        self.socket_mut(id)?.asked = Some(address);
        Ok(())
    }

    pub(super) fn take_port(&mut self, id: SocketId, address: SocketAddr, is_ephemeral: bool) {
        if let Ok(socket) = self.socket_mut(id) {
            socket.bound = Some(address);
            socket.is_ephemeral = is_ephemeral;
            let protocol = socket.protocol();
            self.ports.take(protocol, address.port(), id);
        }
    }

    pub(super) fn can_bind(&self, id: SocketId, protocol: Protocol, address: SocketAddr) -> bool {
        let Some(socket) = self.sockets.get(&id) else { return false };
        let (own, is_any) = (address.ip(), address.ip().is_unspecified());
        let overlaps = |other: IpAddr| own == other || is_any && socket.takes_any(own, other);
        let shares_link = |other: &Socket| socket.device.is_none() || other.device.is_none() || socket.device == other.device;
        let free =
            self.ports.of(protocol, address.port()).filter_map(|other| self.sockets.get(&other)).filter(|other| shares_link(other)).all(|other| {
                let reuses = socket.reuse_address && other.reuse_address && !matches!(other.kind, Kind::Listener(_) | Kind::Sdp(Role::Listener(_)));
                reuses || socket.reuse_port && other.reuse_port || !(other.covers(own) || other.bound.is_some_and(|bound| overlaps(bound.ip())))
            });
        let waits = protocol == Protocol::Stream
            && !socket.reuse_address
            && self.time_wait.keys().any(|(local, _)| local.port() == address.port() && overlaps(local.ip()));
        free && !waits
    }

    /// Returns an ephemeral port for a connection to `remote` from `source`.
    pub(super) fn port_for(&mut self, protocol: Protocol, source: IpAddr, remote: SocketAddr) -> Result<u16, NetError> {
        let is_free = |stack: &Self, port| {
            let addresses: Addresses = (SocketAddr::new(source, port), remote);
            let shares = |id: SocketId| stack.sockets.get(&id).is_some_and(|socket| socket.is_ephemeral && protocol == Protocol::Stream);
            !stack.connections.contains_key(&addresses) && !stack.time_wait.contains_key(&addresses) && stack.ports.of(protocol, port).all(shares)
        };
        self.ephemeral(0, is_free).ok_or(NetError::AddressNotAvailable)
    }

    /// Draws an ephemeral port as Linux does: from a random place on, first those of one parity.
    fn ephemeral(&mut self, parity: u16, is_free: impl Fn(&Self, u16) -> bool) -> Option<u16> {
        let (first, last) = (self.kernel.ephemeral_first, self.kernel.ephemeral_last);
        let count = u32::from(last - first) + 1;
        let from = (self.random.next_u64() % u64::from(count)) as u32;
        let ports = |odd: u16| (0..count).map(move |step| first + ((from + step) % count) as u16).filter(move |port| (port - first) % 2 == odd);
        ports(parity).chain(ports(1 - parity)).find(|port| is_free(self, *port))
    }
}
