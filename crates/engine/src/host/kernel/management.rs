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

/// Behaviour of senders towards an address without a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// Time after which a sender learns that no host answers.
    pub(super) time: SimDuration,
    /// Packets to an address that learn it. Others are lost (`neigh_event_send` of the kernel).
    pub(super) packets: u32,
}

impl Network {
    /// Forgets the addresses of a host that has died.
    pub(super) fn lose(&mut self, host: usize) {
        self.by_address.retain(|_, (other, _)| *other != host);
    }

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

    /// Adds an address of an interface.
    pub(super) fn add(&mut self, address: IpAddr, at: (usize, InterfaceId)) {
        self.by_address.insert(address, at);
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
    silence: Silence,
    /// Times of refusals under way, by the address without a host.
    refusals: BTreeMap<IpAddr, Vec<SimTime>>,
    free_at: SimTime,
}

impl ManagementLink {
    pub(super) fn new(latency: SimDuration, bytes_per_second: u64, silence: Silence) -> Self {
        Self { latency, bytes_per_second, silence, refusals: BTreeMap::new(), free_at: SimTime::ZERO }
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
        if let (true, LinkDestination::Host(address)) = (receivers.is_empty(), to) {
            if let Some(frame) = refusal(&frame)
                && let Some(at) = self.next_refusal(address)
            {
                agenda.push(at, Due::Arrived { host, interface, frame });
            }
            return;
        }
        for (host, interface) in receivers {
            agenda.push(self.free_at + self.latency, Due::Arrived { host, interface, frame: frame.clone() });
        }
    }
}

impl ManagementLink {
    /// Returns the time of the refusal of a packet that leaves now; `None` if too many wait.
    fn next_refusal(&mut self, address: IpAddr) -> Option<SimTime> {
        let now = self.free_at;
        self.refusals.retain(|_, times| {
            times.retain(|at| *at > now);
            !times.is_empty()
        });
        let times = self.refusals.entry(address).or_default();
        if times.len() >= self.silence.packets as usize {
            return None;
        }
        times.push(now + self.silence.time);
        times.last().copied()
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
        Body::Unreachable(_) | Body::Echo(_) | Body::Fragment(_) => return None,
    };
    let (source, destination) = (packet.source, packet.destination);
    let unreachable = Unreachable { reason: UnreachableReason::Host, tcp, source_port, destination, destination_port };
    Some(Frame::Packet(Packet { source, destination: source, hop_limit: packet.hop_limit, body: Body::Unreachable(unreachable) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_packets_to_an_address_without_a_host_are_refused() {
        let silence = Silence { time: SimDuration::from_picos(10), packets: 2 };
        let mut link = ManagementLink::new(SimDuration::ZERO, 1, silence);
        let (a, b) = (IpAddr::from([198, 18, 0, 7]), IpAddr::from([198, 18, 0, 8]));
        let at = |picos| Some(SimTime::from_picos(picos));
        assert_eq!([link.next_refusal(a), link.next_refusal(a), link.next_refusal(a)], [at(10), at(10), None]);
        assert_eq!(link.next_refusal(b), at(10));
        link.free_at = SimTime::from_picos(10);
        assert_eq!((link.next_refusal(a), link.refusals.len()), (at(20), 1));
    }
}
