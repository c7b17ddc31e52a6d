//! A capture: the bytes of packets at ports, in the order of their times.

use super::{Hop, Links};
use softband_model::packet::Packet;
use softband_sim::SimTime;
use softband_types::VirtualLane;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Takes the packets of a capture.
pub trait PacketSink: Send {
    /// Takes a packet from its LRH to its variant CRC, or a frame without its check sequence. `at`
    /// is the time of its first bit at the port, and never earlier than in the call before. Returns
    /// whether the sink wants more packets.
    fn take(&mut self, at: SimTime, bytes: &[u8]) -> bool;

    /// Ends the capture: no packet follows.
    fn finish(&mut self);
}

/// Leg of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    /// From the node that made the packet.
    First,
    /// From a switch that forwards it.
    Later,
}

/// The capture of a fabric.
pub(super) struct Capture {
    sink: Box<dyn PacketSink>,
    /// Ports with both directions. `None`: the first leg of each packet.
    ports: Option<BTreeSet<u32>>,
    /// Packets that arrive later, by time and number.
    arriving: BinaryHeap<Reverse<(SimTime, u64, Vec<u8>)>>,
    number: u64,
    is_full: bool,
}

impl Capture {
    fn takes_sent(&self, port: u32, leg: Leg) -> bool {
        self.ports.as_ref().map_or(leg == Leg::First, |ports| ports.contains(&port))
    }

    fn takes_received(&self, port: u32) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.contains(&port))
    }

    /// Hands over the packets that have arrived by `now`.
    fn catch_up(&mut self, now: SimTime) {
        while let Some(Reverse((at, ..))) = self.arriving.peek()
            && *at <= now
            && let Some(Reverse((at, _, bytes))) = self.arriving.pop()
        {
            self.is_full |= !self.sink.take(at, &bytes);
        }
    }
}

impl Links {
    /// Captures packets from now on. `ports` have both directions; without them, each packet counts
    /// once, at the port of the node that made it.
    pub(crate) fn capture(&mut self, ports: Option<BTreeSet<u32>>, sink: Box<dyn PacketSink>) {
        self.end_capture();
        self.capture = Some(Box::new(Capture { sink, ports, arriving: BinaryHeap::new(), number: 0, is_full: false }));
    }

    /// Ends the capture, with the packets that are still on cables.
    pub(crate) fn end_capture(&mut self) {
        if let Some(mut capture) = self.capture.take() {
            capture.catch_up(SimTime::MAX);
            capture.sink.finish();
        }
    }
}

impl Hop<'_> {
    /// Captures a packet that leaves by a port at `now`.
    #[cold]
    pub(super) fn capture_sent(&mut self, (by, leg): (u32, Leg), packet: &Packet, lane: VirtualLane, now: SimTime) {
        let Some(capture) = &mut self.links.capture else { return };
        capture.catch_up(now);
        if capture.takes_sent(by, leg) {
            let image = packet.image(self.links.ports[by as usize].framing, &self.subnet.link_addresses(packet, lane));
            capture.is_full |= !capture.sink.take(now, &image);
        }
        if capture.is_full {
            self.links.end_capture();
        }
    }

    /// Captures a packet that has left by a port, when its first bit reaches the other end at `at`.
    #[cold]
    pub(super) fn capture_received(&mut self, by: u32, packet: &Packet, lane: VirtualLane, at: SimTime) {
        let port = &self.links.ports[by as usize];
        let Some(capture) = self.links.capture.as_mut().filter(|capture| capture.takes_received(port.far_end)) else { return };
        let image = packet.image(port.framing, &self.subnet.link_addresses(packet, lane));
        capture.number += 1;
        capture.arriving.push(Reverse((at, capture.number, image)));
    }

    /// Sends a packet over the cable of a port, and captures it at both ends.
    #[cold]
    pub(super) fn cross_captured(&mut self, id: u32, by: u32, leg: Leg) {
        let transit = self.links.packets.get(id);
        let (packet, lane, head) = (transit.packet.clone(), transit.lane, transit.head);
        let sent = head.checked_sub(self.links.ports[by as usize].cable_delay).unwrap_or_default();
        self.capture_sent((by, leg), &packet, lane, sent);
        if self.faults.has_plan() && self.is_lost_on_cable(id, by) {
            return;
        }
        self.capture_received(by, &packet, lane, head);
        self.reach_far_end(id, by);
    }
}
