//! Lane 15: packets of subnet management. They need no credits, and go before all data of their
//! port (IBTA 7.6.4).

use super::capture::Leg;
use super::{Departing, Hop, Links, Transit};
use crate::event::Event;
use crate::numbering::Owner;
use crate::pdes::timeline::Source;
use crate::slab::Slab;
use crate::subnet::Subnet;
use softband_model::link::Sending;
use softband_model::management::{ManagementPacket, ways_to_switch};
use softband_model::packet::Packet;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, VirtualLane};
use std::collections::{BTreeMap, VecDeque};

/// Lane of subnet management (IBTA 7.6.4).
const LANE: VirtualLane = VirtualLane(15);
/// Most packets of lane 15 that wait at a port. It discards more: a program could send without end
/// while no time passes. Assumed, as no maker publishes the size of this buffer.
const WAITING_MAX: usize = 4_096;

/// Packets of lane 15 at ports and on cables, and packets between QPs 1 that have arrived.
#[derive(Default)]
pub(super) struct Lane15 {
    packets: Slab<UnderWay>,
    /// Packets by port, in the order in which they are ready. Each has an attempt to send, which
    /// sends the first or tries again.
    waiting: BTreeMap<u32, VecDeque<Waiting>>,
}

/// A packet that waits for its port's link.
struct Waiting {
    ready: SimTime,
    leg: Leg,
    packet: u32,
}

/// A packet, and the port that it leaves or has reached.
struct UnderWay {
    port: u32,
    packet: Box<ManagementPacket>,
}

impl Links {
    /// Keeps a packet that a port has received, until its event takes it.
    pub(crate) fn keep_management(&mut self, port: u32, packet: Box<ManagementPacket>) -> u32 {
        self.lane15.packets.insert(UnderWay { port, packet })
    }

    /// Takes a packet that has arrived, with its port.
    pub(crate) fn take_management(&mut self, packet: u32) -> (u32, Box<ManagementPacket>) {
        let UnderWay { port, packet } = self.lane15.packets.take(packet);
        (port, packet)
    }

    /// Returns the port of a switch or HCA with a number from 1; `None` if it has no such port.
    pub(crate) fn sibling(&self, port: u32, number: u8) -> Option<u32> {
        let own = &self.ports[port as usize];
        let sibling = (port + u32::from(number)).checked_sub(u32::from(own.number.0))?;
        self.ports.get(sibling as usize).filter(|other| other.node == own.node && other.number.0 == number).map(|_| sibling)
    }

    /// Returns the port by which a switch forwards packets with a LID.
    pub(crate) fn output_for(&self, port: u32, lid: Lid) -> Option<u32> {
        let Owner::Switch { switch, .. } = self.ports[port as usize].owner else { return None };
        let node = &self.switches[switch as usize];
        let output = node.first_port + node.switch.route(lid)? as u32;
        self.ports.get(output as usize).filter(|other| other.node == self.ports[port as usize].node).map(|_| output)
    }

    /// Sets the outputs of all switches for the LIDs of the switches, by the fewest hops. Data never
    /// goes there, so the sweep leaves them out.
    pub(crate) fn route_to_switches(&mut self, subnet: &Subnet) {
        let far_ends: Vec<_> = (0..self.switches.len()).map(|switch| self.far_ends(switch)).collect();
        for target in 0..self.switches.len() {
            let lid = subnet.lid(self.switches[target].first_port);
            for (node, way) in self.switches.iter_mut().zip(ways_to_switch(target, &far_ends)) {
                if let Some(output) = way {
                    node.switch.set_route(lid, output);
                }
            }
        }
    }

    /// Returns the switches at the other ends of a switch's cables, with the index of their port.
    fn far_ends(&self, switch: usize) -> Vec<(usize, u8)> {
        let own = self.ports[self.switches[switch].first_port as usize..].iter();
        let own = own.take_while(|port| matches!(port.owner, Owner::Switch { switch: of, .. } if of as usize == switch));
        let owner = |port: &super::Port| match self.ports[port.far_end as usize].owner {
            Owner::Switch { switch, index } => Some((switch as usize, index)),
            Owner::Hca { .. } => None,
        };
        own.filter(|port| port.cabling.is_some()).filter_map(owner).collect()
    }

    /// Returns the delay of a switch from the first bit in to the first bit out by a port.
    pub(crate) fn through(&self, output: u32) -> SimDuration {
        self.ports[output as usize].onward.through
    }
}

impl Hop<'_> {
    /// Sends a packet between QPs 1 by a port, like any datagram. On Ethernet it goes from address to
    /// address.
    pub(crate) fn send_general(&mut self, port: u32, lane: VirtualLane, packet: &ManagementPacket, at: SimTime) {
        let grh = self.subnet.route_of_management(port, packet.dlid);
        let packet = self.links.packet_pool.place(Packet { grh, ..packet.as_datagram() });
        let bytes = packet.bytes(self.links.framing(port));
        let packet = self.links.add(Transit::new(packet, bytes, port, lane));
        self.send(packet, at);
    }

    /// Takes in a datagram for QP 1 of a node. `at` is the arrival of its last bit.
    pub(crate) fn receive_general(&mut self, port: u32, packet: &Packet, at: SimTime) {
        let Some(packet) = ManagementPacket::of_datagram(packet) else { return };
        let packet = self.links.keep_management(port, packet);
        let port = &self.links.ports[port as usize];
        self.timeline.push_arrival(at, port.node, (port.owner.index(), Source::Lane15), Event::ManagementArrival { packet });
    }

    /// Hands a packet of lane 15 to a port, to leave at `at` or later. The packet is lost if the
    /// port has no link, or if the link is down.
    pub(crate) fn send_on_lane15(&mut self, id: u32, packet: Box<ManagementPacket>, leg: Leg, at: SimTime) {
        let port = &self.links.ports[id as usize];
        if port.cabling.is_none() || self.faults.will_be_down(id, at) {
            return;
        }
        let due = at.max(port.free_at());
        let packet = self.links.keep_management(id, packet);
        let waiting = self.links.lane15.waiting.entry(id).or_default();
        if waiting.len() >= WAITING_MAX {
            self.links.take_management(packet);
            return self.links.count_discards(id, 1);
        }
        waiting.insert(waiting.partition_point(|other| other.ready <= at), Waiting { ready: at, leg, packet });
        self.schedule_lane15(id, due);
    }

    fn schedule_lane15(&mut self, id: u32, at: SimTime) {
        let port = &self.links.ports[id as usize];
        self.timeline.push_arrival(at, port.node, (port.owner.index(), Source::Lane15), Event::Lane15Due { port: id });
    }

    /// Lets a port send its next packet of lane 15. Returns the resources that the last packet of
    /// an HCA's port frees.
    pub(crate) fn on_lane15_due(&mut self, id: u32, now: SimTime) -> Option<Departing> {
        let free_at = self.links.ports[id as usize].free_at();
        let waiting = self.links.lane15.waiting.get_mut(&id)?;
        if free_at > now {
            self.schedule_lane15(id, free_at);
            return None;
        }
        let Waiting { leg, packet, .. } = waiting.pop_front()?;
        if waiting.is_empty() {
            self.links.lane15.waiting.remove(&id);
        }
        self.start_on_lane15((id, leg), packet, now)
    }

    fn start_on_lane15(&mut self, (id, leg): (u32, Leg), packet: u32, now: SimTime) -> Option<Departing> {
        let port = &mut self.links.ports[id as usize];
        let departed = if port.departs && port.sending.until <= now { port.take_departing() } else { None };
        let until = now + port.serialisation(ManagementPacket::BYTES);
        // A packet of subnet management has one destination.
        port.count_sent(ManagementPacket::BYTES, Lid::NONE);
        port.returns.settle(now, port.sending);
        port.sending = Sending { from: now, until };
        let (far_end, first_bit, arrival) = (port.far_end, now + port.cable_delay, until + port.cable_delay);
        if let Some(at) = port.next_tx() {
            self.schedule_tx(id, at);
        }
        let captured = self.links.capture.is_some().then(|| self.links.lane15.packets.get(packet).packet.as_datagram());
        if let Some(captured) = &captured {
            self.capture_sent((id, leg), captured, LANE, now);
        }
        if self.faults.will_be_down(id, arrival) || self.faults.draws_loss() {
            self.links.take_management(packet);
            self.faults.count_lost(far_end, ManagementPacket::BYTES, Lid::NONE);
            return departed;
        }
        if let Some(captured) = &captured {
            self.capture_received(id, captured, LANE, first_bit);
        }
        self.links.lane15.packets.get_mut(packet).port = far_end;
        let peer = &self.links.ports[far_end as usize];
        self.timeline.push_arrival(arrival, peer.node, (peer.owner.index(), Source::Lane15), Event::ManagementArrival { packet });
        departed
    }
}
