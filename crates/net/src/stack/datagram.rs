//! UDP sockets of the stack.

use super::Stack;
use super::echo::request_of;
use crate::error::NetError;
use crate::events::Events;
use crate::interface::{InterfaceId, Owner};
use crate::packet::{Body, Datagram, HOP_LIMIT, IPV4_HEADER_BYTES, Packet, UDP_HEADER_BYTES};
use crate::payload::Payload;
use crate::scope;
use crate::socket::Kind;
use crate::socket_id::{Family, Protocol, SocketId};
use crate::udp::{DatagramSocket, Received, Way};
use std::net::{IpAddr, SocketAddr};

/// Largest IP packet, and with it the largest datagram (RFC 791).
const PACKET_BYTES_MAX: u32 = 65_535;

impl Stack {
    pub(super) fn new_datagram(&self, protocol: Protocol) -> Kind {
        Kind::Datagram(Box::new(DatagramSocket::new(self.kernel.datagram_buffer.initial_bytes, protocol == Protocol::Echo)))
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
        let named = remote.and_then(group_interface);
        let remote = match remote {
            Some(remote) => Some(self.socket_mut(id)?.canonical(remote)?),
            None => None,
        };
        if let Some(remote) = remote {
            let (.., source) = self.way_of(id, remote.ip(), named)?;
            let mut bound = self.bind_for(id)?;
            if bound.ip().is_unspecified() {
                bound.set_ip(source);
                self.socket_mut(id)?.bound = Some(bound);
            }
        }
        self.socket_mut(id)?.datagram()?.peer = remote;
        if remote.is_none() {
            let protocol = self.socket_mut(id)?.protocol();
            self.return_address(protocol, id)?;
        }
        Ok(())
    }

    /// Sends a datagram, in fragments if its packet exceeds the MTU. Fails with `MessageTooLong` if no
    /// packet holds it.
    pub(crate) fn send_datagram(&mut self, id: SocketId, payload: Payload, to: Option<SocketAddr>, way: Way) -> Result<u32, NetError> {
        let protocol = self.socket_mut(id)?.protocol();
        if protocol == Protocol::Echo {
            self.check_echo(id, &payload)?;
        }
        let bound = self.bind_for(id)?;
        let by = way.interface.or_else(|| to.and_then(group_interface));
        let way = self.checked_way(id, way, (by, to))?;
        let socket = self.socket_mut(id)?;
        let usual = socket.hop_limit;
        let peer = socket.datagram()?.peer;
        socket.datagram()?.take_error()?;
        let may_broadcast = socket.datagram()?.may_broadcast;
        let to = match to {
            Some(to) if to.port() == 0 && protocol == Protocol::Datagram => return Err(NetError::Invalid),
            Some(to) => socket.canonical(to)?,
            None => peer.ok_or(NetError::DestinationRequired)?,
        };
        if protocol == Protocol::Echo && to.is_ipv4() != (socket.family == Family::V4) {
            // ICMP of IPv6 has no mapped addresses.
            return Err(NetError::Invalid);
        }
        let (interface, next, source) = self.way_of(id, to.ip(), by)?;
        if !may_broadcast && self.interfaces[interface.0 as usize].is_broadcast(to.ip()) {
            return Err(NetError::Denied);
        }
        // Linux looks at the route before it looks at the socket's own end.
        self.socket_mut(id)?.datagram()?.check_send()?;
        let own = Some(bound.ip()).filter(|own| !own.is_unspecified() && !own.is_multicast());
        let source = way.source.or(own).unwrap_or(source);
        if source.is_ipv4() != to.is_ipv4() {
            return Err(NetError::NetworkUnreachable);
        }
        let len = payload.len();
        // The length of an IPv4 packet counts its header, and that of IPv6 does not.
        let own_header = if protocol == Protocol::Echo { 0 } else { UDP_HEADER_BYTES };
        let headers = own_header + if to.is_ipv4() { IPV4_HEADER_BYTES } else { 0 };
        if len.saturating_add(headers) > PACKET_BYTES_MAX {
            return Err(NetError::MessageTooLong);
        }
        let datagram = self.socket_mut(id)?.datagram()?;
        let owner = Owner { socket: id, bytes: datagram.charge(len)? };
        let is_group = to.ip().is_multicast();
        let hop_limit = if is_group { datagram.multicast_hop_limit } else { usual.unwrap_or(HOP_LIMIT) };
        let hop_limit = way.hop_limit.unwrap_or(hop_limit);
        let loops = is_group && datagram.multicast_loop;
        let body = match protocol {
            Protocol::Echo => request_of(&payload, bound.port()),
            _ => Body::Udp(Datagram { source_port: bound.port(), destination_port: to.port(), payload }),
        };
        let packet = Packet { source, destination: to.ip(), hop_limit, body };
        if loops && interface != InterfaceId(0) && self.interfaces[interface.0 as usize].groups.contains_key(&to.ip()) {
            self.give_to_sockets(&packet, interface, true);
        }
        if hop_limit == 0 {
            self.lose(Some(owner));
        } else {
            self.send_in_fragments(interface, next, packet, Some(owner));
        }
        Ok(len)
    }

    /// Returns the way with its source as the stack keeps it. `by` is the interface that the program
    /// named. Fails if the host cannot send this way.
    fn checked_way(&mut self, id: SocketId, way: Way, (by, to): (Option<InterfaceId>, Option<SocketAddr>)) -> Result<Way, NetError> {
        if way.interface.is_some_and(|interface| interface.0 as usize >= self.interfaces.len()) {
            return Err(NetError::NoDevice);
        }
        let device = self.device_of(id);
        // Linux, `ip6_datagram_send_ctl`: any of these says which link a link-local source is on.
        let link = by.or(device).or_else(|| to.and_then(|to| scope::interface_of(scope::of_program(to).ip())));
        let source = way.source.map(|source| link.map_or(source, |link| scope::on_link(source, link)));
        // Linux: a host sends under its own addresses alone.
        if source.is_some_and(|source| !self.is_local(source)) {
            return Err(NetError::Invalid);
        }
        Ok(Way { source, ..way })
    }

    pub(super) fn datagram_in(&mut self, interface: InterfaceId, packet: Packet, is_group: bool) {
        if is_group && packet.destination.is_multicast() && !self.interfaces[interface.0 as usize].groups.contains_key(&packet.destination) {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            return;
        }
        let heard_on = self.heard_on(interface, packet.destination);
        if !self.give_to_sockets(&packet, heard_on, is_group) && !is_group {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            self.refuse_datagram(&packet);
        }
    }

    /// Gives a datagram to its socket, or to all sockets of its group. Returns whether there is any.
    fn give_to_sockets(&mut self, packet: &Packet, interface: InterfaceId, is_group: bool) -> bool {
        let Body::Udp(datagram) = &packet.body else { return false };
        let from = SocketAddr::new(packet.source, datagram.source_port);
        let mut found: Vec<(u32, SocketId)> = self
            .ports
            .of(Protocol::Datagram, datagram.destination_port)
            .filter_map(|id| Some((self.rank(id, from, (interface, packet.destination), is_group)?, id)))
            .collect();
        found.sort_by_key(|(rank, id)| (std::cmp::Reverse(*rank), *id));
        let count = if is_group { found.len() } else { 1 };
        let is_known = !found.is_empty();
        for (_, id) in found.into_iter().take(count) {
            let (payload, len_bytes) = (datagram.payload.clone(), datagram.payload.len());
            let (to, hop_limit, arrived_at) = (packet.destination, packet.hop_limit, self.now);
            let received = Received { from, to, payload, interface, hop_limit, len_bytes, arrived_at };
            let events = self.socket_mut(id).and_then(|socket| Ok(socket.datagram()?.push(received))).unwrap_or(Events::NONE);
            self.ready(id, events);
        }
        is_known
    }

    /// Returns how closely a socket matches a datagram, or `None` if it does not.
    fn rank(&self, id: SocketId, from: SocketAddr, (interface, to): (InterfaceId, IpAddr), is_group: bool) -> Option<u32> {
        let socket = self.sockets.get(&id)?;
        let (Kind::Datagram(datagram), Some(bound)) = (&socket.kind, socket.bound) else { return None };
        // ip(7), IP_MULTICAST_ALL: a socket hears all groups that the host joined, unless it says otherwise.
        let is_member = !to.is_multicast() || datagram.hears_all_groups || datagram.groups.contains(&(interface, to));
        let passes = datagram.filters.get(&(interface, to)).is_none_or(|filter| filter.passes(from.ip()));
        let is_member = is_member && passes;
        let is_peer = datagram.peer.is_none_or(|peer| peer == from);
        let closeness = u32::from(!bound.ip().is_unspecified()) + 2 * u32::from(datagram.peer.is_some()) + 4 * u32::from(socket.device.is_some());
        (socket.covers(to) && socket.hears(interface) && is_peer && (!is_group || is_member)).then_some(closeness)
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
}

/// Returns the interface that a program named beside a group of a link (`sin6_scope_id`).
fn group_interface(to: SocketAddr) -> Option<InterfaceId> {
    match to {
        SocketAddr::V6(v6) if v6.ip().is_multicast() => v6.scope_id().checked_sub(1).map(InterfaceId),
        _ => None,
    }
}
