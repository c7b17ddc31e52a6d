//! Departing packets: route, queue, ring.

use super::{Charge, Effect, Stack};
use crate::error::NetError;
use crate::frame::{Frame, LinkDestination};
use crate::interface::{InterfaceId, Owner, Waiting};
use crate::packet::{Body, HOP_LIMIT, Packet, Segment, TCP_HEADER_BYTES, ip_header_bytes};
use crate::scope;
use crate::socket_id::SocketId;
use crate::tcp::Path;
use std::net::IpAddr;

impl Stack {
    /// Returns the interface, the next host and the source for a destination.
    pub(super) fn way(&self, destination: IpAddr) -> Result<(InterfaceId, IpAddr, IpAddr), NetError> {
        if self.is_local(destination) {
            return Ok((InterfaceId(0), destination, destination));
        }
        let route = self.routes.find(destination).ok_or(NetError::NetworkUnreachable)?;
        let same_family = |address: &IpAddr| address.is_ipv4() == destination.is_ipv4();
        let addresses = self.interfaces.get(route.interface.0 as usize).map(|interface| &interface.config.addresses);
        let first = || addresses?.iter().map(|own| own.address).find(same_family);
        let source = route.source.filter(same_family).or_else(first).ok_or(NetError::NetworkUnreachable)?;
        Ok((route.interface, route.gateway.unwrap_or(destination), source))
    }

    /// Returns the way of a socket that uses one interface alone. A destination without a route
    /// counts as one on the link, as in Linux's `ip_route_output_key`.
    pub(super) fn way_by(&self, device: Option<InterfaceId>, destination: IpAddr) -> Result<(InterfaceId, IpAddr, IpAddr), NetError> {
        let Some(device) = device else { return self.way(destination) };
        // Linux keeps each own address at its interface: by another one, it is like any host's.
        if self.is_local(destination) && (device == InterfaceId(0) || self.interface_with(destination) == Some(device)) {
            return Ok((InterfaceId(0), destination, destination));
        }
        let route = self.routes.all().iter().find(|route| route.interface == device && route.contains(destination));
        let addresses = &self.interfaces.get(device.0 as usize).ok_or(NetError::NoDevice)?.config.addresses;
        let first = addresses.iter().map(|own| own.address).find(|address| address.is_ipv4() == destination.is_ipv4());
        let source = route.and_then(|route| route.source).or(first).ok_or(NetError::NetworkUnreachable)?;
        Ok((device, route.and_then(|route| route.gateway).unwrap_or(destination), source))
    }

    /// Returns the interface to which a socket is bound.
    pub(super) fn device_of(&self, socket: SocketId) -> Option<InterfaceId> {
        self.sockets.get(&socket).and_then(|socket| socket.device)
    }

    /// Returns the path of connections to a destination.
    pub(super) fn path(&self, device: Option<InterfaceId>, destination: IpAddr) -> Path {
        let interface = self.way_by(device, destination).map_or(InterfaceId(0), |(interface, ..)| interface);
        let config = &self.interfaces[interface.0 as usize].config;
        let mtu_bytes = self.path_mtus.of(destination, config.mtu_bytes, self.now);
        let mss = mtu_bytes.saturating_sub(ip_header_bytes(destination) + TCP_HEADER_BYTES).max(1);
        let super_segment = if config.has_segmentation { self.kernel.super_segment_bytes.max(mss) } else { mss };
        let room = if interface == InterfaceId(0) { u32::MAX } else { self.interfaces[interface.0 as usize].room() };
        Path { mss, super_segment, super_segment_packets: self.interfaces[interface.0 as usize].super_segment_packets, room }
    }

    pub(super) fn send_segment(&mut self, addresses: (IpAddr, IpAddr), segment: Segment, socket: Option<SocketId>) {
        let bytes = segment.payload.len();
        let owner = socket.map(|socket| Owner { socket, bytes });
        self.send_segment_as(addresses, segment, socket, owner);
    }

    /// Sends a segment of a handshake by the rules of its listening socket.
    pub(super) fn answer_segment(&mut self, addresses: (IpAddr, IpAddr), segment: Segment, listener: SocketId) {
        self.send_segment_as(addresses, segment, Some(listener), None);
    }

    fn send_segment_as(&mut self, addresses: (IpAddr, IpAddr), segment: Segment, by: Option<SocketId>, owner: Option<Owner>) {
        let rules = by.and_then(|id| self.sockets.get(&id)).map_or((None, None), |socket| (socket.device, socket.hop_limit));
        let hop_limit = rules.1.unwrap_or(HOP_LIMIT);
        let packet = Packet { source: addresses.0, destination: addresses.1, hop_limit, body: Body::Tcp(segment) };
        if self.send_packet_by(rules.0, packet, owner).is_err() {
            // A missing route shows by timers alone.
            self.lose(owner);
        }
    }

    /// Sends a packet by its route. Fails if there is none, or if the queue is full.
    pub(super) fn send_packet(&mut self, packet: Packet, owner: Option<Owner>) -> Result<(), NetError> {
        self.send_packet_by(None, packet, owner)
    }

    fn send_packet_by(&mut self, device: Option<InterfaceId>, packet: Packet, owner: Option<Owner>) -> Result<(), NetError> {
        let (interface, next, _) = self.way_by(device, packet.destination)?;
        if interface == InterfaceId(0) {
            self.loop_back(packet, owner);
            return Ok(());
        }
        self.send_by(interface, next, packet, owner)
    }

    /// Sends a packet by an interface to the next host.
    pub(super) fn send_by(&mut self, interface: InterfaceId, next: IpAddr, packet: Packet, owner: Option<Owner>) -> Result<(), NetError> {
        let Some(at) = self.interfaces.get_mut(interface.0 as usize) else { return Err(NetError::NetworkUnreachable) };
        if packet.largest_bytes() > u64::from(at.config.mtu_bytes) {
            at.counters.sent_dropped += 1;
            return Err(NetError::MessageTooLong);
        }
        let to = match packet.destination {
            group if group.is_multicast() => LinkDestination::Group(group),
            all if at.is_broadcast(all) => LinkDestination::Broadcast,
            _ if at.config.link_address.is_some() => return self.send_to_neighbour((interface, next), packet, owner),
            _ => LinkDestination::Host(next),
        };
        self.enqueue(interface, Waiting { to, frame: Frame::Packet(packet), owner })
    }

    /// Queues a frame at its interface.
    pub(super) fn enqueue(&mut self, interface: InterfaceId, waiting: Waiting) -> Result<(), NetError> {
        let Some(at) = self.interfaces.get_mut(interface.0 as usize) else { return Err(NetError::NetworkUnreachable) };
        let refused = at.push(waiting);
        self.fill_ring(interface);
        refused.map_or(Ok(()), |_| Err(NetError::NoBuffers))
    }

    pub(super) fn loop_back(&mut self, packet: Packet, owner: Option<Owner>) {
        let counters = &mut self.interfaces[0].counters;
        counters.sent_packets += u64::from(packet.packets());
        counters.sent_bytes += packet.wire_bytes();
        self.charge(Charge::Sent { interface: InterfaceId(0), packets: packet.packets() });
        self.loopback.push_back(packet);
        // `lo` has no queue, so the bytes leave it at once.
        self.lose(owner);
    }

    /// Moves frames from the queue into the ring.
    pub(super) fn fill_ring(&mut self, interface: InterfaceId) {
        let Some(at) = self.interfaces.get_mut(interface.0 as usize) else { return };
        while let Some(Waiting { to, mut frame, .. }) = at.next() {
            let packets = frame.packets();
            scope::change(&mut frame, scope::plain);
            let to = scope::plain_receiver(to);
            self.effects.push_back(Effect::Charge(Charge::Sent { interface, packets }));
            self.effects.push_back(Effect::Transmit { interface, to, frame });
        }
    }
}
