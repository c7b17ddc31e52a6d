//! The management network: a link with a latency and a rate for each host, without loss and without
//! link addresses.

use super::agenda::{Agenda, Due};
use softband_net::{Body, Frame, InterfaceId, LinkDestination, Packet, Unreachable, UnreachableReason};
use softband_sim::{SimDuration, SimTime};
use softband_spec::{FabricSpec, InterfaceKind};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Interfaces of the management network by their addresses.
#[derive(Debug, Default)]
pub(super) struct Network {
    by_address: BTreeMap<IpAddr, (usize, InterfaceId)>,
}

impl Network {
    pub(super) fn of(spec: &FabricSpec) -> Self {
        let mut by_address = BTreeMap::new();
        for (host, description) in spec.hosts.iter().enumerate() {
            // Interface 0 is `lo`.
            for (interface, description) in (1..).map(InterfaceId).zip(&description.interfaces) {
                if description.kind == InterfaceKind::Management {
                    by_address.extend(description.addresses.iter().map(|own| (own.address, (host, interface))));
                }
            }
        }
        Self { by_address }
    }

    /// Returns the receivers of a frame from an interface.
    fn receivers(&self, from: (usize, InterfaceId), to: LinkDestination) -> Vec<(usize, InterfaceId)> {
        match to {
            LinkDestination::Host(address) => self.by_address.get(&address).copied().into_iter().collect(),
            LinkDestination::Link(_) => Vec::new(),
            LinkDestination::Broadcast | LinkDestination::Group(_) => {
                let mut all: Vec<_> = self.by_address.values().copied().filter(|other| *other != from).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }
}

/// Interface of the management network.
#[derive(Debug)]
pub(super) struct ManagementLink {
    latency: SimDuration,
    bytes_per_second: u64,
    /// Time after which a sender learns that no host has an address.
    silence: SimDuration,
    free_at: SimTime,
}

impl ManagementLink {
    pub(super) fn new(latency: SimDuration, bytes_per_second: u64, silence: SimDuration) -> Self {
        Self { latency, bytes_per_second, silence, free_at: SimTime::ZERO }
    }

    /// Sends a frame at `at`, or when earlier frames have left.
    pub(super) fn transmit(
        &mut self,
        network: &Network,
        agenda: &mut Agenda,
        from: (usize, InterfaceId),
        at: SimTime,
        to: LinkDestination,
        frame: Frame,
    ) {
        let (host, interface) = from;
        self.free_at = self.free_at.max(at) + SimDuration::of_bytes(payload_bytes(&frame), self.bytes_per_second);
        agenda.push(self.free_at, Due::Sent { host, interface });
        let receivers = network.receivers(from, to);
        if receivers.is_empty() && matches!(to, LinkDestination::Host(_)) {
            if let Some(frame) = refusal(&frame) {
                agenda.push(self.free_at + self.silence, Due::Arrived { host, interface, frame });
            }
            return;
        }
        for (host, interface) in receivers {
            agenda.push(self.free_at + self.latency, Due::Arrived { host, interface, frame: frame.clone() });
        }
    }
}

/// Returns the bytes that count: the network's rate is that of payload, without headers.
fn payload_bytes(frame: &Frame) -> u64 {
    match frame {
        Frame::Packet(packet) => u64::from(packet.payload_bytes()),
        Frame::Neighbour(_) => 0,
    }
}

/// Returns the ICMP error that the kernel itself reports about a packet to an address without a
/// host.
fn refusal(frame: &Frame) -> Option<Frame> {
    let Frame::Packet(packet) = frame else { return None };
    let (tcp, source_port, destination_port) = match &packet.body {
        Body::Tcp(segment) => (true, segment.source_port, segment.destination_port),
        Body::Udp(datagram) => (false, datagram.source_port, datagram.destination_port),
        Body::Unreachable(_) | Body::Fragment(_) => return None,
    };
    let (source, destination) = (packet.source, packet.destination);
    let unreachable = Unreachable { reason: UnreachableReason::Host, tcp, source_port, destination, destination_port };
    Some(Frame::Packet(Packet { source, destination: source, hop_limit: packet.hop_limit, body: Body::Unreachable(unreachable) }))
}
