//! Raw Ethernet frames of network interfaces: from a host's ring over bus and link, and back. The kernel
//! of a host sends and receives them; they have no queue pair.

use super::send_engine::transit;
use super::{Hcas, Hop};
use crate::link::Transit;
use crate::notice::Notice;
use softband_model::bus::ReadPurpose;
use softband_model::packet::{Carried, Packet, PacketKind};
use softband_model::verbs::api::PayloadSlice;
use softband_sim::SimTime;
use softband_types::{HcaId, Lid, PKey, Psn, QpType, Qpn, ServiceLevel};
use std::sync::Arc;

/// Stands for a frame where other packets name their queue pair and epoch.
pub(super) const FRAME: (u32, u32) = (u32::MAX, 0);
/// Frames in each ring of an HCA's port. Assumed: the sizes of rings that drivers of HCAs have at first.
const RING_FRAMES: u32 = 1_024;

/// A frame that a host has posted.
pub(super) struct PostedFrame {
    port: u32,
    destination: Lid,
    bytes: Arc<[u8]>,
}

/// Frames in the rings of a port.
#[derive(Clone, Copy, Default)]
pub(super) struct Rings {
    /// Frames between the kernel and the link.
    sending: u32,
    /// Frames that have arrived, and which the kernel has not taken.
    arrived: u32,
    missed: u64,
}

impl Hcas {
    /// Takes a place in the transmit ring of a port. Returns false if the ring is full.
    pub(crate) fn take_transmit_place(&mut self, port: u32) -> bool {
        let most = self.ring_sizes(port).0;
        let rings = self.rings.entry(port).or_default();
        let has_place = rings.sending < most;
        rings.sending += u32::from(has_place);
        has_place
    }

    /// Gives places in the receive ring of a port back.
    pub(crate) fn return_frames(&mut self, port: u32, frames: u32) {
        let rings = self.rings.entry(port).or_default();
        rings.arrived = rings.arrived.saturating_sub(frames);
    }

    /// Returns the frames for which the receive ring of a port had no buffer.
    pub(crate) fn frames_missed(&self, port: u32) -> u64 {
        self.rings.get(&port).map_or(0, |rings| rings.missed)
    }

    /// Keeps a frame until its event takes it.
    pub(crate) fn keep_frame(&mut self, port: u32, destination: Lid, bytes: Arc<[u8]>) -> u32 {
        self.posted_frames.insert(PostedFrame { port, destination, bytes })
    }

    /// Returns the sizes of a port's rings, to and from the link.
    fn ring_sizes(&self, port: u32) -> (u32, u32) {
        self.nodes[self.ports[port as usize].hca as usize].rings.unwrap_or((RING_FRAMES, RING_FRAMES))
    }

    /// Reads a frame over the bus, and hands it to the link.
    pub(crate) fn on_frame_posted(&mut self, hop: &mut Hop<'_>, frame: u32, now: SimTime) {
        let PostedFrame { port, destination, bytes } = self.posted_frames.take(frame);
        let node = &mut self.nodes[self.ports[port as usize].hca as usize];
        let (shared, memory) = (&mut self.buses[node.shared_bus as usize], &mut self.memories[node.place.0]);
        let at = node.bus.read(shared, memory, now, bytes.len() as u32, ReadPurpose::Request) + node.part.transmit_processing;
        let lane = self.lane_at(hop.links, port, ServiceLevel(0));
        if !hop.links.can_send(port, lane) || hop.faults.will_be_down(port, at) {
            hop.links.count_discards(port, 1);
            return self.report_sent(hop, port, at);
        }
        let packet = hop.links.packet_pool().place(packet_of(hop.subnet.lid(port), destination, bytes));
        let mut transit = transit(hop.links, packet, port, lane);
        (transit.staged, transit.completes) = (true, Some(Box::new(FRAME)));
        let staged = self.ports[port as usize].staged(lane);
        staged.held += 1;
        staged.held_bytes += transit.bytes;
        let packet = hop.links.add(transit);
        hop.send(packet, at);
    }

    /// Frees the place of a frame that has left, and reports it to the kernel.
    pub(super) fn report_sent(&mut self, hop: &mut Hop<'_>, port: u32, at: SimTime) {
        let hca = self.ports[port as usize].hca;
        let rings = self.rings.entry(port).or_default();
        rings.sending = rings.sending.saturating_sub(1);
        let at = at + self.nodes[hca as usize].part.completion_write;
        hop.timeline.report(at, hca, Notice::FrameSent { hca: HcaId(hca), port: hop.links.number(port) });
    }

    /// Writes an arrived frame to the host, if it is for this port and the ring has a buffer. Returns the
    /// time at which the port's buffer is free.
    pub(super) fn receive_frame(&mut self, hop: &mut Hop<'_>, transit: &Transit, now: SimTime) -> SimTime {
        let (port, tail) = (transit.port, transit.tail);
        let Some(bytes) = transit.packet.payload.as_ref().and_then(|payload| payload.buffer.clone()) else { return tail };
        // Switches also flood frames to addresses that they do not know.
        let is_for_all = bytes.first().is_some_and(|first| first & 1 == 1);
        if !is_for_all && !bytes.starts_with(&hop.subnet.mac(hop.subnet.lid(port))) {
            return tail;
        }
        let most = self.ring_sizes(port).1;
        let rings = self.rings.entry(port).or_default();
        if rings.arrived >= most {
            rings.missed += 1;
            return tail;
        }
        rings.arrived += 1;
        let hca = self.ports[port as usize].hca;
        let node = &mut self.nodes[hca as usize];
        let (shared, memory) = (&mut self.buses[node.shared_bus as usize], &mut self.memories[node.place.0]);
        let start = tail.max(now) + node.part.receive_processing;
        let done = node.bus.write(shared, memory, now, start, start, bytes.len() as u32);
        let at = done + node.part.completion_write;
        hop.timeline.report(at, hca, Notice::FrameArrived { hca: HcaId(hca), port: hop.links.number(port), frame: bytes });
        tail
    }
}

fn packet_of(slid: Lid, dlid: Lid, bytes: Arc<[u8]>) -> Packet {
    Packet {
        slid,
        dlid,
        service_level: ServiceLevel(0),
        pkey: PKey::DEFAULT_FULL,
        source: Qpn(0),
        destination: Qpn(0),
        psn: Psn::new(0),
        ack_request: false,
        solicited: false,
        fecn: false,
        becn: false,
        grh: None,
        carried: Carried::Nothing,
        service: QpType::Ud,
        kind: PacketKind::Frame,
        payload: Some(PayloadSlice { len: bytes.len() as u32, offset: 0, buffer: Some(bytes) }),
    }
}
