//! UDP sockets of the stack.

use super::Stack;
use crate::error::NetError;
use crate::events::Events;
use crate::interface::{InterfaceId, Owner};
use crate::packet::{Body, Datagram, HOP_LIMIT, Packet, UDP_HEADER_BYTES, ip_header_bytes};
use crate::payload::Payload;
use crate::socket::Kind;
use crate::socket_id::{Protocol, SocketId};
use crate::udp::{DatagramSocket, Received};
use std::net::{IpAddr, SocketAddr};

/// Largest IP packet, and with it the largest datagram (RFC 791).
const PACKET_BYTES_MAX: u32 = 65_535;

impl Stack {
    pub(super) fn new_datagram(&self) -> Kind {
        Kind::Datagram(Box::new(DatagramSocket::new(self.kernel.datagram_buffer.initial_bytes)))
    }

    fn bind_for(&mut self, id: SocketId) -> Result<SocketAddr, NetError> {
        let socket = self.socket_mut(id)?;
        if let Some(bound) = socket.bound {
            return Ok(bound);
        }
        let any = SocketAddr::new(socket.family.unspecified(), 0);
        self.bind(id, any)?;
        let socket = self.socket_mut(id)?;
        socket.asked = None;
        socket.bound.ok_or(NetError::Invalid)
    }

    pub(crate) fn connect_datagram(&mut self, id: SocketId, remote: Option<SocketAddr>) -> Result<(), NetError> {
        if let Some(remote) = remote {
            if !self.socket_mut(id)?.family.contains(remote.ip()) {
                return Err(NetError::Invalid);
            }
            let (.., source) = self.way(remote.ip())?;
            let mut bound = self.bind_for(id)?;
            if bound.ip().is_unspecified() {
                bound.set_ip(source);
                self.socket_mut(id)?.bound = Some(bound);
            }
        }
        self.socket_mut(id)?.datagram()?.peer = remote;
        if remote.is_none() {
            self.return_address(Protocol::Datagram, id)?;
        }
        Ok(())
    }

    /// Sends a datagram. Fails with `MessageTooLong` if no packet holds it, as fragments do not exist.
    pub(crate) fn send_datagram(&mut self, id: SocketId, payload: Payload, to: Option<SocketAddr>) -> Result<u32, NetError> {
        let bound = self.bind_for(id)?;
        let socket = self.socket_mut(id)?;
        let family = socket.family;
        let datagram = socket.datagram()?;
        datagram.check_send()?;
        let (loops, may_broadcast, chosen) = (datagram.multicast_loop, datagram.may_broadcast, datagram.multicast_interface);
        let to = to.or(datagram.peer).ok_or(NetError::DestinationRequired)?;
        if !family.contains(to.ip()) || to.port() == 0 {
            return Err(NetError::Invalid);
        }
        let (interface, next, source) = self.way_of_datagram(to.ip(), chosen)?;
        if !may_broadcast && self.interfaces[interface.0 as usize].is_broadcast(to.ip()) {
            return Err(NetError::Denied);
        }
        let source = if bound.ip().is_unspecified() || bound.ip().is_multicast() { source } else { bound.ip() };
        let len = payload.len();
        let whole = len.saturating_add(UDP_HEADER_BYTES + ip_header_bytes(to.ip()));
        let mtu = self.interfaces[interface.0 as usize].config.mtu_bytes;
        if whole > mtu.min(PACKET_BYTES_MAX) {
            return Err(NetError::MessageTooLong);
        }
        let owner = Owner { socket: id, bytes: self.socket_mut(id)?.datagram()?.charge(len)? };
        let body = Body::Udp(Datagram { source_port: bound.port(), destination_port: to.port(), payload });
        let hop_limit = if to.ip().is_multicast() { 1 } else { HOP_LIMIT };
        let packet = Packet { source, destination: to.ip(), hop_limit, body };
        if interface == InterfaceId(0) {
            self.send_packet(packet, Some(owner))?;
            return Ok(len);
        }
        if to.ip().is_multicast() && loops && self.interfaces[interface.0 as usize].groups.contains(&to.ip()) {
            self.give_to_sockets(&packet, true);
        }
        if self.send_by(interface, next, packet, Some(owner)).is_err() {
            // Linux tells of a full queue only to a program with IP_RECVERR.
            self.lose(Some(owner));
        }
        Ok(len)
    }

    /// Returns the way of a datagram. A group lies behind the interface that the program chose, or
    /// else behind that of the route.
    fn way_of_datagram(&self, to: IpAddr, chosen: Option<InterfaceId>) -> Result<(InterfaceId, IpAddr, IpAddr), NetError> {
        if !to.is_multicast() {
            return self.way(to);
        }
        // A group without a route lies behind the first interface, as by a default route.
        let interface = match (chosen, self.way(to)) {
            (Some(interface), _) => interface,
            (None, Ok(way)) => return Ok(way),
            (None, Err(_)) => InterfaceId(1),
        };
        let addresses = self.interfaces.get(interface.0 as usize).map(|at| at.config.addresses.as_slice()).unwrap_or_default();
        let source = addresses.iter().map(|own| own.address).find(|own| own.is_ipv4() == to.is_ipv4());
        Ok((interface, to, source.ok_or(NetError::NetworkUnreachable)?))
    }

    pub(crate) fn set_multicast_interface(&mut self, id: SocketId, interface: Option<InterfaceId>) -> Result<(), NetError> {
        if interface.is_some_and(|interface| interface.0 as usize >= self.interfaces.len()) {
            return Err(NetError::AddressNotAvailable);
        }
        if let Ok(datagram) = self.socket_mut(id)?.datagram() {
            datagram.multicast_interface = interface;
        }
        Ok(())
    }

    pub(super) fn datagram_in(&mut self, interface: InterfaceId, packet: Packet, is_group: bool) {
        if is_group && packet.destination.is_multicast() && !self.interfaces[interface.0 as usize].groups.contains(&packet.destination) {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            return;
        }
        if !self.give_to_sockets(&packet, is_group) && !is_group {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            self.refuse_datagram(&packet);
        }
    }

    /// Gives a datagram to its socket, or to all sockets of its group. Returns whether there is any.
    fn give_to_sockets(&mut self, packet: &Packet, is_group: bool) -> bool {
        let Body::Udp(datagram) = &packet.body else { return false };
        let from = SocketAddr::new(packet.source, datagram.source_port);
        let mut found: Vec<(u32, SocketId)> = self
            .ports
            .of(Protocol::Datagram, datagram.destination_port)
            .filter_map(|id| Some((self.rank(id, from, packet.destination, is_group)?, id)))
            .collect();
        found.sort_by_key(|(rank, id)| (std::cmp::Reverse(*rank), *id));
        let count = if is_group { found.len() } else { 1 };
        let is_known = !found.is_empty();
        for (_, id) in found.into_iter().take(count) {
            let received = Received { from, to: packet.destination, payload: datagram.payload.clone(), len_bytes: datagram.payload.len() };
            let events = self.socket_mut(id).and_then(|socket| Ok(socket.datagram()?.push(received))).unwrap_or(Events::NONE);
            self.ready(id, events);
        }
        is_known
    }

    /// Returns how closely a socket matches a datagram, or `None` if it does not.
    fn rank(&self, id: SocketId, from: SocketAddr, to: IpAddr, is_group: bool) -> Option<u32> {
        let socket = self.sockets.get(&id)?;
        let (Kind::Datagram(datagram), Some(bound)) = (&socket.kind, socket.bound) else { return None };
        let same_family = bound.is_ipv4() == to.is_ipv4();
        let is_own = bound.ip() == to || bound.ip().is_unspecified() && same_family;
        let is_member = !to.is_multicast() || datagram.groups.contains(&to);
        let is_peer = datagram.peer.is_none_or(|peer| peer == from);
        (is_own && is_peer && (!is_group || is_member)).then(|| u32::from(!bound.ip().is_unspecified()) + 2 * u32::from(datagram.peer.is_some()))
    }

    pub(super) fn datagram_failed(&mut self, local: SocketAddr, remote: SocketAddr, error: NetError) {
        let sockets: Vec<SocketId> = self.ports.of(Protocol::Datagram, local.port()).collect();
        for id in sockets {
            let Ok(socket) = self.socket_mut(id) else { continue };
            let is_bound = socket.bound.is_some_and(|bound| bound.ip() == local.ip() || bound.ip().is_unspecified());
            let Ok(datagram) = socket.datagram() else { continue };
            if is_bound && datagram.peer == Some(remote) {
                let events = datagram.fail(error);
                self.ready(id, events);
            }
        }
    }

    /// Joins or leaves a multicast group on an interface.
    pub(crate) fn change_membership(&mut self, id: SocketId, group: IpAddr, interface: InterfaceId, joins: bool) -> Result<(), NetError> {
        if !group.is_multicast() {
            return Err(NetError::Invalid);
        }
        if interface.0 as usize >= self.interfaces.len() {
            return Err(NetError::NoInterface);
        }
        let groups = &mut self.socket_mut(id)?.datagram()?.groups;
        if joins {
            if !groups.insert(group) {
                return Err(NetError::AddressInUse);
            }
            self.interfaces[interface.0 as usize].groups.insert(group);
            return Ok(());
        }
        if !groups.remove(&group) {
            return Err(NetError::AddressNotAvailable);
        }
        let is_used = self.sockets.values().any(|socket| matches!(&socket.kind, Kind::Datagram(datagram) if datagram.groups.contains(&group)));
        if !is_used {
            for interface in &mut self.interfaces {
                interface.groups.remove(&group);
            }
        }
        Ok(())
    }
}
