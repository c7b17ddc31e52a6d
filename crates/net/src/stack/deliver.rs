//! Arriving packets: to connections, listening sockets and UDP sockets.

use super::{Addresses, Charge, Stack};
use crate::error::NetError;
use crate::frame::Frame;
use crate::interface::InterfaceId;
use crate::packet::{Body, HOP_LIMIT, Packet, Segment, Unreachable, UnreachableReason};
use crate::scope;
use crate::sequence::SeqNumber;
use crate::socket::Kind;
use crate::socket_id::SocketId;
use crate::tcp::{Connection, Context, Remains, reset_for};
use softband_sim::SimTime;
use std::net::{IpAddr, SocketAddr};

impl Stack {
    pub(super) fn frame_in(&mut self, now: SimTime, interface: InterfaceId, mut frame: Frame) {
        let Some(at) = self.interfaces.get_mut(interface.0 as usize) else { return };
        at.note_received(&frame);
        scope::change(&mut frame, |address| scope::on_link(address, interface));
        let packet = match frame {
            Frame::Packet(packet) => packet,
            Frame::Neighbour(message) => {
                self.charge(Charge::Received { interface, packets: 1 });
                self.neighbour_in(interface, &message);
                return;
            }
        };
        // Linux without `bc_forwarding` keeps broadcasts of its other subnets, too.
        let is_group = packet.destination.is_multicast() || self.interfaces.iter().any(|at| at.is_broadcast(packet.destination));
        self.charge(Charge::Received { interface, packets: packet.packets() });
        // RFC 1122, 3.2.1.3, and RFC 4291, 2.5.3: no link brings addresses of `lo`.
        if interface != InterfaceId(0) && (packet.source.is_loopback() || packet.destination.is_loopback()) {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            return;
        }
        if !is_group && !self.is_local(packet.destination) {
            return self.forward(interface, packet);
        }
        let (source, destination) = (packet.source, packet.destination);
        match packet.body {
            Body::Tcp(_) if is_group => {}
            Body::Tcp(segment) => self.segment_in(now, interface, (source, destination), &segment),
            Body::Udp(_) => self.datagram_in(interface, packet, is_group),
            Body::Echo(_) => self.echo_in(interface, packet, is_group),
            Body::Fragment(_) => self.fragment_in(interface, packet, is_group),
            Body::Unreachable(unreachable) => self.unreachable_in(now, destination, &unreachable),
        }
    }

    /// Returns the interface on which sockets hear a packet: that of an own address, although packets to
    /// it cross `lo` (`inet_iif` of Linux).
    pub(super) fn heard_on(&self, interface: InterfaceId, destination: IpAddr) -> InterfaceId {
        let owner = || self.interface_with(destination).filter(|_| interface == InterfaceId(0));
        owner().unwrap_or(interface)
    }

    fn segment_in(&mut self, now: SimTime, interface: InterfaceId, (source, destination): (IpAddr, IpAddr), segment: &Segment) {
        let local = SocketAddr::new(destination, segment.destination_port);
        let remote = SocketAddr::new(source, segment.source_port);
        let interface = self.heard_on(interface, destination);
        if let Some(socket) = self.connections.get(&(local, remote)).copied().filter(|id| self.hears(*id, interface)) {
            self.with_connection(now, socket, |connection, cx| connection.segment_in(segment, cx));
            return;
        }
        if let Some((remains, _)) = self.time_wait.get(&(local, remote)).copied() {
            if !is_new_connection(&remains, segment) {
                self.answer_in_time_wait(now, (local, remote), &remains, segment);
                return;
            }
            // RFC 9293, 3.10.7.4, and RFC 6191: a later SYN begins a new connection.
            self.end_time_wait((local, remote));
        }
        match self.listener(interface, (local, remote)) {
            Some(listener) => self.handshake_in(now, listener, (local, remote), segment),
            None if segment.flags.rst => {}
            None => self.send_segment((destination, source), reset_for(segment), None),
        }
    }

    /// Returns the listening socket for an address: that of the address itself, or of any. Sockets that
    /// share it (`SO_REUSEPORT`) share the connections, by a hash of their addresses.
    fn listener(&self, interface: InterfaceId, addresses: Addresses) -> Option<SocketId> {
        let local = addresses.0;
        let rank = |id: &SocketId| {
            let socket = self.sockets.get(id).filter(|socket| socket.covers(local.ip()) && socket.hears(interface))?;
            let bound = socket.bound?;
            // Linux prefers a socket of the packet's own interface and family.
            let strangeness = [bound.ip() != local.ip(), bound.is_ipv4() != local.is_ipv4(), socket.device.is_none()];
            Some(strangeness.into_iter().map(u8::from).sum())
        };
        let found: Vec<(u8, SocketId)> = self.ports.listeners(local.port()).filter_map(|id| Some((rank(&id)?, id))).collect();
        let best = found.iter().map(|(rank, _)| *rank).min()?;
        let sharing: Vec<SocketId> = found.into_iter().filter(|(rank, _)| *rank == best).map(|(_, id)| id).collect();
        if sharing.len() == 1 {
            return sharing.first().copied();
        }
        // The end of a handshake goes where it began, although sockets come and go.
        let holds = |id: &&SocketId| matches!(self.sockets.get(id).map(|socket| &socket.kind), Some(Kind::Listener(at)) if at.holds(addresses));
        sharing.iter().find(holds).or_else(|| sharing.get(share_of(addresses, sharing.len()))).copied()
    }

    fn hears(&self, id: SocketId, interface: InterfaceId) -> bool {
        self.sockets.get(&id).is_some_and(|socket| socket.hears(interface))
    }

    fn handshake_in(&mut self, now: SimTime, listener: SocketId, addresses: Addresses, segment: &Segment) {
        let first = self.random.next_u64() as u32;
        let path = self.path(self.device_of(listener), addresses.1.ip());
        let mut context = Context::new(now, &self.kernel, path);
        let handshake = match self.sockets.get_mut(&listener) {
            Some(socket) => match (&mut socket.kind, &socket.options) {
                (Kind::Listener(listener), Some(options)) => listener.segment_in(addresses, segment, first, options, &mut context),
                _ => None,
            },
            None => None,
        };
        let made = handshake.map(|handshake| Connection::accepted(handshake, &mut context));
        let out = context.out;
        for segment in out {
            self.answer_segment((addresses.0.ip(), addresses.1.ip()), segment, listener);
        }
        if let Some(connection) = made {
            let socket = self.adopt(listener, connection);
            // The segment may bring data.
            self.with_connection(now, socket, |connection, cx| connection.segment_in(segment, cx));
        }
        self.set_timer_of(listener);
    }

    /// Acknowledges a late segment of a connection in TIME_WAIT, and begins its time again.
    fn answer_in_time_wait(&mut self, now: SimTime, addresses: Addresses, remains: &Remains, segment: &Segment) {
        if segment.flags.rst {
            // Linux without tcp_rfc1337: a reset at the expected number ends TIME_WAIT.
            if segment.seq == SeqNumber::of(remains.expected) {
                self.end_time_wait(addresses);
            }
            return;
        }
        if segment.payload.is_empty() && !segment.flags.fin && !segment.flags.syn {
            return;
        }
        let mut ack = reset_for(segment);
        ack.flags.rst = false;
        ack.flags.ack = true;
        ack.seq = SeqNumber::of(remains.next);
        ack.ack = SeqNumber::of(remains.expected);
        if segment.flags.fin {
            self.begin_time_wait(now, addresses, *remains);
        }
        self.send_segment((addresses.0.ip(), addresses.1.ip()), ack, None);
    }

    pub(super) fn unreachable_in(&mut self, now: SimTime, local: IpAddr, unreachable: &Unreachable) {
        let local = SocketAddr::new(local, unreachable.source_port);
        let remote = SocketAddr::new(unreachable.destination, unreachable.destination_port);
        let error = match unreachable.reason {
            UnreachableReason::Port => NetError::Refused,
            UnreachableReason::Host | UnreachableReason::HopLimit => NetError::HostUnreachable,
            UnreachableReason::Network => NetError::NetworkUnreachable,
            UnreachableReason::TooLong { mtu_bytes } => return self.path_shrank(now, (local, remote), unreachable.tcp, mtu_bytes),
        };
        // Linux tells such fates to a UDP socket only with `IP_RECVERR`.
        let is_soft = matches!(unreachable.reason, UnreachableReason::HopLimit | UnreachableReason::Network);
        if unreachable.tcp {
            if let Some(socket) = self.connections.get(&(local, remote)).copied() {
                self.with_connection(now, socket, |connection, cx| connection.unreachable(error, cx));
            }
        } else if !is_soft {
            self.datagram_failed(local, remote, error);
        }
    }

    pub(super) fn refuse_datagram(&mut self, packet: &Packet) {
        if let Body::Udp(datagram) = &packet.body {
            let unreachable = Unreachable {
                reason: UnreachableReason::Port,
                tcp: false,
                source_port: datagram.source_port,
                destination: packet.destination,
                destination_port: datagram.destination_port,
            };
            let answer =
                Packet { source: packet.destination, destination: packet.source, hop_limit: HOP_LIMIT, body: Body::Unreachable(unreachable) };
            // RFC 1122, 3.2.2: an error message about a lost error message does not exist.
            let _ = self.send_packet(answer, None);
        }
    }
}

/// Returns the share of a connection's addresses among `count`, by a fixed hash (FNV-1a). Linux's
/// hash has a key that changes at each start.
fn share_of(addresses: Addresses, count: usize) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for address in [addresses.0, addresses.1] {
        match address.ip() {
            IpAddr::V4(address) => address.octets().into_iter().for_each(&mut mix),
            IpAddr::V6(address) => address.octets().into_iter().for_each(&mut mix),
        }
        address.port().to_be_bytes().into_iter().for_each(&mut mix);
    }
    // The low bits of FNV-1a alone follow the parity of the input.
    ((hash ^ hash >> 32) % count.max(1) as u64) as usize
}

/// Returns whether a SYN is later than all that the old connection had.
fn is_new_connection(remains: &Remains, segment: &Segment) -> bool {
    let clock = segment.options.timestamps.zip(remains.recent);
    let is_later_clock = clock.is_some_and(|(timestamps, recent)| SeqNumber(recent).is_before(SeqNumber(timestamps.value)));
    segment.flags.syn && !segment.flags.rst && !segment.flags.ack && (SeqNumber::of(remains.expected).is_before(segment.seq) || is_later_clock)
}
