//! An HCA's send engine: selects the next packet to read from memory, and the time at which it is
//! ready for the link.

use super::congestion::FlowOf;
use super::{Hcas, Hop};
use crate::event::Event;
use crate::link::{Links, Transit};
use softband_model::bus::ReadPurpose;
use softband_model::packet::Packet;
use softband_model::transport::{Emission, Environment, MessageKind, Side};
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;
use softband_types::{ServiceLevel, VirtualLane};

/// A side of a queue pair that has something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub qp: u32,
    pub side: Side,
}

/// The next message or packet of a side, with its engine, port and lane.
struct Next {
    starts: Option<MessageKind>,
    engine: usize,
    port: u32,
    lane: VirtualLane,
    service_level: ServiceLevel,
    inline_bytes: u32,
}

impl Next {
    fn flow(&self, work: Work) -> FlowOf {
        FlowOf { qp: work.qp, port: self.port, service_level: self.service_level }
    }
}

impl Hcas {
    /// Adds a side to the engine's queue, unless it is there already, and runs the engine.
    pub(super) fn wake(&mut self, hop: &mut Hop<'_>, qp: u32, side: Side, memory: &mut dyn HostMemory, now: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        let hca = slot.qp.hca.0;
        if !std::mem::replace(&mut slot.queued[side as usize], true) {
            self.nodes[hca as usize].ready.push_back(Work { qp, side });
        }
        self.pump(hop, hca, memory, now);
    }

    pub(crate) fn on_engine_free(&mut self, hop: &mut Hop<'_>, hca: u32, engine: u16, memory: &mut dyn HostMemory, now: SimTime) {
        let node = &mut self.nodes[hca as usize];
        let engine = &mut node.engines[engine as usize];
        engine.waits = false;
        if let Some(work) = engine.starters.pop_front() {
            node.ready.push_front(work);
        }
        self.pump(hop, hca, memory, now);
    }

    /// Reads packets ahead, sides in turn, until no side has work or all places are taken.
    pub(super) fn pump(&mut self, hop: &mut Hop<'_>, hca: u32, memory: &mut dyn HostMemory, now: SimTime) {
        while let Some(work) = self.nodes[hca as usize].ready.pop_front() {
            let Some(next) = self.next_of(hop.links, work, now) else {
                if let Some(slot) = self.slot_mut(work.qp) {
                    slot.queued[work.side as usize] = false;
                }
                continue;
            };
            if let Some(until) = self.held_back_until(hca, next.flow(work), now) {
                self.hold_back(hop.timeline, hca, work, next.flow(work), until);
                continue;
            }
            let engine = &mut self.nodes[hca as usize].engines[next.engine];
            if next.starts.is_some() && now < engine.free {
                engine.starters.push_back(work);
                continue;
            }
            let staged = self.ports[next.port as usize].staged(next.lane);
            if !staged.has_place(&self.nodes[hca as usize].part) {
                staged.parked.push_back(work);
                continue;
            }
            if next.starts.is_some() {
                let at = self.use_context_to_start(hca, work.qp, now);
                if at > now {
                    let engine = &mut self.nodes[hca as usize].engines[next.engine];
                    engine.free = at;
                    engine.starters.push_back(work);
                    continue;
                }
            }
            self.emit(hop, hca, work, &next, memory, now);
            if !self.waits_for_place(hca, work, &next) {
                self.nodes[hca as usize].ready.push_back(work);
            }
        }
        for (index, engine) in self.nodes[hca as usize].engines.iter_mut().enumerate() {
            if !engine.starters.is_empty() && !engine.waits {
                engine.waits = true;
                let at = engine.free.max(now);
                hop.timeline.push(at, hca, Event::EngineFree { hca, engine: index as u16 });
            }
        }
    }

    /// Parks a side in the middle of a message if it would be next but no place is free. Returns
    /// whether it parked.
    fn waits_for_place(&mut self, hca: u32, work: Work, next: &Next) -> bool {
        let is_mid_message = || self.slot(work.qp).is_some_and(|slot| slot.qp.requester.is_mid_message());
        let node = &self.nodes[hca as usize];
        let is_next = node.ready.is_empty() && self.injection.is_none() && work.side == Side::Requester && is_mid_message();
        let staged = self.ports[next.port as usize].staged(next.lane);
        let waits = is_next && !staged.has_place(&node.part);
        if waits {
            staged.parked.push_back(work);
        }
        waits
    }

    fn next_of(&self, links: &Links, work: Work, now: SimTime) -> Option<Next> {
        let slot = self.slot(work.qp)?;
        let port = slot.port?;
        let a = &slot.qp.attributes;
        let (starts, service_level, inline_bytes) = match work.side {
            Side::Requester => {
                if slot.fetching {
                    return None;
                }
                let pending = slot.qp.requester.pending(a, &self.verbs)?;
                (pending.starts, pending.service_level, pending.inline_bytes)
            }
            Side::Responder => {
                if !slot.qp.responder.pending(now) {
                    return None;
                }
                (None, a.address_vector.service_level, 0)
            }
        };
        let engine = a.qpn.0 as usize % self.nodes[slot.qp.hca.0 as usize].engines.len();
        Some(Next { starts, engine, port, lane: self.lane_at(links, port, service_level), service_level, inline_bytes })
    }

    /// Returns the lane of a service level at an HCA's port.
    pub(crate) fn lane_at(&self, links: &Links, port: u32, service_level: ServiceLevel) -> VirtualLane {
        links.cabling(port).map_or(VirtualLane(0), |cabling| self.ports[port as usize].sl2vl.lane(service_level, cabling.vls))
    }

    fn emit(&mut self, hop: &mut Hop<'_>, hca: u32, work: Work, next: &Next, memory: &mut dyn HostMemory, now: SimTime) {
        let lids = hop.subnet.lids(next.port);
        let Some(slot) = self.qps[work.qp as usize].as_deref_mut() else { return };
        let a = &slot.qp.attributes;
        let mut env = Environment { verbs: &mut self.verbs, memory, chunks: &mut self.chunks, packets: hop.links.packet_pool(), lids };
        let (emission, qp_error) = match work.side {
            Side::Requester => (slot.qp.requester.emit(a, slot.qp.hca, &mut env, now), None),
            Side::Responder => slot.qp.responder.emit(a, slot.qp.hca, &mut env),
        };
        let epoch = slot.qp.epoch;
        if let Some(kind) = next.starts {
            let node = &mut self.nodes[hca as usize];
            let gap = kind.gap(&node.part.gaps);
            let engine = &mut node.engines[next.engine];
            engine.free = now + gap;
            engine.gaps += gap;
            node.fetch_send_wqe(kind, next.inline_bytes, now);
        }
        match emission {
            Emission::Packet { mut packet, dma_bytes, completes_when_sent } => {
                if work.side == Side::Responder {
                    packet.becn = std::mem::take(&mut slot.becn_due);
                }
                let bytes = packet.bytes(hop.links.framing(next.port));
                self.note_injected(hop.links, hca, next.flow(work), bytes, now);
                let completes = completes_when_sent.then_some((work.qp, epoch));
                let staged = self.ports[next.port as usize].staged(next.lane);
                staged.held += 1;
                staged.held_bytes += bytes;
                self.stage(hop, hca, work, next, (packet, dma_bytes, completes), now);
                self.arm_timer(hop.timeline, work.qp, now);
            }
            Emission::Settled => self.retire(hop.timeline, work.qp, now),
        }
        if let Some(qp_error) = qp_error {
            self.on_qp_error(hop.timeline, work.qp, qp_error, now);
        }
    }

    /// Requests a packet's payload from the bus. The packet is ready for the link after arrival and
    /// processing.
    fn stage(&mut self, hop: &mut Hop<'_>, hca: u32, work: Work, next: &Next, staged: (Box<Packet>, u32, Option<(u32, u32)>), now: SimTime) {
        let (packet, dma_bytes, completes) = staged;
        let node = &mut self.nodes[hca as usize];
        let (shared, memory) = (&mut self.buses[node.shared_bus as usize], &mut self.memories[node.place.0]);
        let purpose = if work.side == Side::Responder { ReadPurpose::Response } else { ReadPurpose::Request };
        let read = if dma_bytes > 0 { node.bus.read(shared, memory, now, dma_bytes, purpose) } else { now };
        let at = read + node.part.transmit_processing;
        let mut transit = transit(hop.links, packet, next.port, next.lane);
        transit.staged = true;
        transit.completes = completes.map(Box::new);
        self.ready_at(hop, work, transit, at);
    }

    /// Hands a packet to the link at `at`, but not before its side's earlier packets.
    pub(crate) fn ready_at(&mut self, hop: &mut Hop<'_>, work: Work, transit: Transit, at: SimTime) {
        let Some(slot) = self.qps[work.qp as usize].as_deref_mut() else { return };
        let last = &mut slot.ready_last[work.side as usize];
        *last = at.max(*last);
        let (at, node) = (*last, slot.qp.hca.0);
        let id = transit.port;
        if self.has_plan(id) {
            self.end_plan_now(hop, id);
        }
        let is_down = hop.faults.will_be_down(id, at);
        let is_for_others = !hop.subnet.lids(id).contains(transit.dlid);
        let leaves = is_for_others && !is_down && hop.links.can_send(id, transit.lane);
        if is_down && is_for_others {
            hop.links.count_discards(id, 1);
        }
        // A multicast packet also goes to the members on this HCA.
        let stays = if leaves { transit.dlid.is_multicast().then(|| transit.copy()) } else { None };
        let packet = hop.links.add(transit);
        let turns_round = if leaves { stays.map(|copy| hop.links.add(copy)) } else { Some(packet) };
        if let Some(packet) = turns_round {
            hop.timeline.push(at, node, Event::PacketReady { packet });
        }
        if leaves {
            hop.send(packet, at);
        }
    }

    pub(crate) fn on_reply_ready(&mut self, hop: &mut Hop<'_>, qp: u32, memory: &mut dyn HostMemory, now: SimTime) {
        self.wake(hop, qp, Side::Responder, memory, now);
    }

    /// Frees a departed packet's place in the staging buffer, and wakes the work that waits for it.
    pub(super) fn release_place(
        &mut self,
        hop: &mut Hop<'_>,
        port: u32,
        (lane, bytes): (VirtualLane, u32),
        memory: &mut dyn HostMemory,
        now: SimTime,
    ) {
        let at = &mut self.ports[port as usize];
        let hca = at.hca;
        let staged = at.staged(lane);
        staged.held -= 1;
        staged.held_bytes -= bytes;
        // Woken work may have nothing left to send; then the next work gets the place.
        while self.ports[port as usize].staged(lane).has_place(&self.nodes[hca as usize].part) {
            let Some(work) = self.ports[port as usize].staged(lane).parked.pop_front() else { break };
            self.nodes[hca as usize].ready.push_back(work);
            self.pump(hop, hca, memory, now);
        }
    }
}

/// Wraps a packet that is to leave by a port.
pub(super) fn transit(links: &Links, packet: Box<Packet>, port: u32, lane: VirtualLane) -> Transit {
    let bytes = packet.bytes(links.framing(port));
    Transit::new(packet, bytes, port, lane)
}
