//! Packets into an HCA: to the queue pair, over the bus, into memory.

use super::send_engine::transit;
use super::{Hcas, Hop, Work};
use crate::event::Event;
use crate::link::Transit;
use crate::notice::Notice;
use crate::pdes::timeline::Timeline;
use crate::subnet::Subnet;
use softband_model::management::agent::ViolatedKey;
use softband_model::packet::{NakCode, Packet, PacketKind};
use softband_model::parts::ReceiveMode;
use softband_model::transport::{DmaWrite, DmaWriteEnd, Outcome, QpError, Remark, Response, Side, response_packet};
use softband_model::verbs::api::{Completion, HostMemory, PayloadSlice};
use softband_sim::SimTime;
use softband_types::{Lid, Psn, QpState, SrqHandle, WcOpcode, WcStatus};

/// `IBV_EVENT_COMM_EST`: a packet came before the program moved on to RTS.
const EVENT_COMMUNICATION_ESTABLISHED: u32 = 4;
/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
const EVENT_SRQ_LIMIT_REACHED: u32 = 15;

/// Payload in flight on the bus.
pub(super) struct InFlight {
    qp: u32,
    epoch: u32,
    dma_write: DmaWrite,
    /// PSN of the packet.
    psn: Psn,
    /// Arrival time of the packet's last bit.
    tail: SimTime,
    /// Number of the DMA write in its queue pair's order. Packets of one HCA can arrive at once.
    number: u64,
}

impl InFlight {
    pub(super) fn is_of(&self, qp: u32) -> bool {
        self.qp == qp
    }

    /// Withdraws a request with its payload, because a request before it has failed. Returns its
    /// completion, if it has any.
    fn withdraw(&mut self) -> Option<Box<Completion>> {
        match &mut self.dma_write.end {
            DmaWriteEnd::Request { completion, acknowledge } => {
                self.dma_write.payload = None;
                *acknowledge = None;
                completion.take()
            }
            DmaWriteEnd::Response { .. } => None,
        }
    }
}

/// Arrival times of a packet's bits.
#[derive(Clone, Copy)]
struct Arrival {
    head: SimTime,
    tail: SimTime,
}

impl Hcas {
    pub(crate) fn on_hca_arrival(&mut self, hop: &mut Hop<'_>, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let Some(transit) = hop.arrive(id, now) else { return };
        let (port, lane, blocks) = (transit.port, transit.lane, transit.blocks);
        let freed = if hop.faults.draws_loss() { transit.tail } else { self.receive(hop, transit, memory, now) };
        hop.free_buffer(port, lane, blocks, freed, now);
        hop.note_freed(port, id, freed, now);
    }

    /// Receives a packet for a queue pair of the same port, without link or credits.
    pub(super) fn on_looped_back(&mut self, hop: &mut Hop<'_>, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let transit = hop.links.take(id);
        self.receive(hop, transit, memory, now);
    }

    /// Hands a packet to its queue pair. Returns the time at which its buffer is free.
    pub(super) fn receive(&mut self, hop: &mut Hop<'_>, transit: Transit, memory: &mut dyn HostMemory, now: SimTime) -> SimTime {
        let arrival = Arrival { head: transit.head, tail: transit.tail };
        if matches!(transit.packet.kind, PacketKind::Frame) {
            return self.receive_frame(hop, &transit, now);
        }
        if transit.dlid.is_multicast() {
            return self.receive_for_group(hop, &transit, arrival, now);
        }
        let mut packet = transit.packet;
        let freed = self.receive_by(hop, &mut packet, transit.port, arrival, memory, now).unwrap_or(arrival.tail);
        hop.links.packet_pool().take_back(packet);
        freed
    }

    /// Returns the time at which the packet's buffer is free, unless that is its last bit's
    /// arrival.
    fn receive_by(
        &mut self,
        hop: &mut Hop<'_>,
        packet: &mut Packet,
        port: u32,
        arrival: Arrival,
        memory: &mut dyn HostMemory,
        now: SimTime,
    ) -> Option<SimTime> {
        if packet.becn {
            let hca = self.ports[port as usize].hca;
            self.on_becn(hop.links, hca, packet, port, now);
        }
        if matches!(packet.kind, PacketKind::CongestionNotification) {
            return None;
        }
        let Some(qp) = self.receiver_of(hop, packet, port) else {
            if hop.subnet.lids(port).contains(packet.dlid) {
                self.note_foreign_partition(hop.timeline, packet, port, now);
                hop.receive_general(port, packet, arrival.tail.max(now));
            }
            return None;
        };
        if packet.fecn {
            self.on_fecn(hop, qp, packet, port, arrival.tail);
        }
        if let PacketKind::Datagram { qkey, .. } = packet.kind {
            if self.slot(qp).is_some_and(|slot| slot.qp.attributes.qkey != qkey) {
                self.note_violation(hop.timeline, ViolatedKey::Queue(qkey), packet, port, now);
            }
            self.put_route_before_payload(hop, packet, port);
        }
        if packet.kind.is_response() {
            self.on_response(hop, qp, packet, arrival, memory, now)
        } else {
            self.on_request(hop, qp, packet, arrival, now)
        }
    }

    /// Delivers a multicast packet to all members on this HCA, each with its own receive request.
    fn receive_for_group(&mut self, hop: &mut Hop<'_>, transit: &Transit, arrival: Arrival, now: SimTime) -> SimTime {
        let hca = self.ports[transit.port as usize].hca;
        let mut freed = arrival.tail;
        for mut packet in self.copies_for_members(hop, &transit.packet, softband_types::HcaId(hca)) {
            let Some(qp) = self.receiver_of(hop, &packet, transit.port) else { continue };
            self.put_route_before_payload(hop, &mut packet, transit.port);
            freed = freed.max(self.on_request(hop, qp, &packet, arrival, now).unwrap_or(arrival.tail));
        }
        freed
    }

    /// Delivers an HCA's multicast packet to the HCA's own members, besides the copy on the link.
    pub(super) fn on_multicast_ready(&mut self, hop: &mut Hop<'_>, id: u32, now: SimTime) {
        let transit = hop.links.in_flight(id);
        let own = Transit { packet: transit.packet.clone(), completes: None, head: now, tail: now, ..*transit };
        self.receive_for_group(hop, &own, Arrival { head: now, tail: now }, now);
    }

    /// Returns the queue pair that accepts the packet. It checks LID, QPN, port, state, P_Key and
    /// peer (IBTA 9.6).
    pub(super) fn receiver_of(&self, hop: &Hop<'_>, packet: &Packet, port: u32) -> Option<u32> {
        let hca = self.ports[port as usize].hca;
        if !hop.subnet.lids(port).contains(packet.dlid) && !packet.dlid.is_multicast() {
            return None;
        }
        let qp = self.qp_index(softband_types::HcaId(hca), packet.destination)?;
        let slot = self.slot(qp)?;
        let a = &slot.qp.attributes;
        let datagram = matches!(packet.kind, PacketKind::Datagram { .. });
        let ud = a.init.qp_type == softband_types::QpType::Ud;
        let from_peer = ud || packet.source == a.dest_qpn && is_of_port(hop.subnet, packet.slid, a.address_vector.dlid);
        let response = packet.kind.is_response();
        let has_side = match a.init.qp_type {
            softband_types::QpType::XrcSend => response,
            softband_types::QpType::XrcRecv => !response && packet.xrc_srq().is_some(),
            _ => packet.xrc_srq().is_none(),
        };
        let listens = has_side
            && match a.state {
                QpState::Rts | QpState::Sqd => true,
                QpState::Rtr | QpState::Sqe => !response,
                _ => false,
            };
        let fits = listens && slot.port == Some(port) && packet.pkey.reaches(a.pkey) && datagram == ud && from_peer;
        fits.then_some(qp)
    }

    fn on_request(&mut self, hop: &mut Hop<'_>, qp: u32, packet: &Packet, arrival: Arrival, now: SimTime) -> Option<SimTime> {
        self.note_established(hop.timeline, qp, now);
        let has_context = self.use_context(self.slot(qp)?.qp.hca.0, qp, now);
        let arrival = Arrival { head: arrival.head.max(has_context), tail: arrival.tail.max(has_context) };
        let slot = self.qps[qp as usize].as_deref_mut()?;
        let hca = slot.qp.hca;
        if let Some(bytes) = slot.qp.responder.take_middle(&slot.qp.attributes, hca, &self.verbs, packet) {
            return Some(self.write_on_bus(qp, (bytes, false), arrival, now));
        }
        let outcome = slot.qp.responder.on_request(&slot.qp.attributes, hca, &mut self.verbs, packet);
        self.count_request(qp, outcome.remark, outcome.begun);
        let Outcome { dma_write, response, reply_queued, completion, qp_error, srq_limit, .. } = outcome;
        if let Some(srq) = srq_limit {
            self.report_srq_limit(hop.timeline, srq, now);
        }
        let part = &self.nodes[hca.0 as usize].part;
        let (ack_processing, completion_write) = (part.ack_processing, part.completion_write);
        if reply_queued {
            self.schedule_reply(hop.timeline, qp, arrival);
        }
        if let Some(response) = response {
            self.respond(hop, qp, response, arrival.tail + ack_processing, qp_error.is_some());
        }
        if let Some(completion) = completion {
            self.complete_receive(hop.timeline, qp, arrival.tail + completion_write, *completion);
        }
        if let Some(qp_error) = qp_error {
            self.cut_at(hop, hca.0);
            self.on_qp_error(hop.timeline, qp, qp_error, now);
        }
        dma_write.map(|dma_write| self.start_dma_write(hop.timeline, qp, (dma_write, packet.psn), arrival, now))
    }

    /// Counts a request packet at its port: its event, or the operation that it began.
    fn count_request(&mut self, qp: u32, remark: Option<Remark>, begun: Option<WcOpcode>) {
        if remark.is_none() && begun.is_none() {
            return; // nearly all packets
        }
        let Some(counters) = self.hardware_of(qp) else { return };
        if let Some(remark) = remark {
            counters.note(remark);
        }
        if let Some(operation) = begun {
            counters.note_requests(operation, 1);
        }
    }

    /// Counts the event that the last input meant to a requester.
    pub(super) fn count_remark(&mut self, qp: u32) {
        if let Some(remark) = self.slot_mut(qp).and_then(|slot| slot.qp.requester.take_remark())
            && let Some(counters) = self.hardware_of(qp)
        {
            counters.note(remark);
        }
    }

    pub(super) fn note_established(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        if slot.qp.attributes.state == QpState::Rtr && !std::mem::replace(&mut slot.established, true) {
            self.report_qp_event(timeline, qp, EVENT_COMMUNICATION_ESTABLISHED, now);
        }
    }

    /// Reports an established connection after a peer reached a queue pair without a packet. Only a
    /// queue pair in RTR reports it.
    pub(crate) fn establish(&mut self, timeline: &mut Timeline, now: SimTime, hca: softband_types::HcaId, qpn: softband_types::Qpn) {
        if let Some(qp) = self.qp_index(hca, qpn) {
            self.note_established(timeline, qp, now);
        }
    }

    pub(super) fn report_srq_limit(&mut self, timeline: &mut Timeline, srq: SrqHandle, now: SimTime) {
        let Some(queue) = self.verbs.srqs.get(srq.0) else { return };
        let (process, hca) = (queue.owner, queue.hca);
        timeline.report(now, hca.0, Notice::SrqEvent { process, hca, srq, event: EVENT_SRQ_LIMIT_REACHED });
    }

    pub(super) fn report_qp_event(&mut self, timeline: &mut Timeline, qp: u32, event: u32, now: SimTime) {
        let Some(slot) = self.slot(qp) else { return };
        let (process, hca, qpn) = (slot.qp.owner, slot.qp.hca, slot.qp.attributes.qpn);
        timeline.report(now, hca.0, Notice::QpEvent { process, hca, qpn, event });
    }

    pub(super) fn on_qp_error(&mut self, timeline: &mut Timeline, qp: u32, qp_error: QpError, now: SimTime) {
        if let Some(event) = qp_error.event {
            self.report_qp_event(timeline, qp, event, now);
        }
        self.put_into_error(timeline, qp, now);
    }

    /// Schedules the start of a read or atomic that was just queued. It sees all earlier writes
    /// (PCI ordering).
    fn schedule_reply(&mut self, timeline: &mut Timeline, qp: u32, arrival: Arrival) {
        let Some(slot) = self.qps[qp as usize].as_deref_mut() else { return };
        let hca = slot.qp.hca.0;
        let part = &self.nodes[hca as usize].part;
        let atomic = slot.qp.responder.queued_atomic();
        let work = if atomic { part.read_response_processing + part.atomic_execution } else { part.read_response_processing };
        let at = (arrival.tail + work).max(slot.in_memory_last);
        slot.qp.responder.set_ready(at);
        timeline.push(at, hca, Event::ReplyReady { qp });
    }

    /// Sends a response at `at`. It waits behind unfinished read responses, unless it ends the
    /// connection.
    fn respond(&mut self, hop: &mut Hop<'_>, qp: u32, response: Response, at: SimTime, ends: bool) {
        let Some(slot) = self.qps[qp as usize].as_deref_mut() else { return };
        let left = if ends { Some(response) } else { slot.qp.responder.queue_behind(response) };
        let (Some(response), Some(port)) = (left, slot.port) else { return };
        let mut packet = response_packet(&slot.qp.attributes, hop.subnet.lids(port), response);
        packet.becn = std::mem::take(&mut slot.becn_due);
        let lane = self.lane_at(hop.links, port, packet.service_level);
        let packet = hop.links.packet_pool().place(packet);
        let transit = transit(hop.links, packet, port, lane);
        self.ready_at(hop, Work { qp, side: Side::Responder }, transit, at);
    }

    fn on_response(
        &mut self,
        hop: &mut Hop<'_>,
        qp: u32,
        packet: &Packet,
        arrival: Arrival,
        memory: &mut dyn HostMemory,
        now: SimTime,
    ) -> Option<SimTime> {
        let slot = self.qps[qp as usize].as_deref_mut()?;
        let (hca, epoch) = (slot.qp.hca, slot.qp.epoch);
        let (a, requester) = (&slot.qp.attributes, &mut slot.qp.requester);
        let mut dma_write = None;
        match packet.kind {
            PacketKind::Ack => requester.on_ack(a, packet.psn, now),
            PacketKind::Nak(code) => requester.on_nak(a, packet.psn, code, now),
            PacketKind::RnrNak { timer_code } => {
                if let Some(wait) = requester.on_rnr_nak(a, packet.psn, timer_code, now) {
                    let qp_ref = self.qp_refs.insert((qp, epoch));
                    hop.timeline.push(now + wait, hca.0, Event::ReceiverWaited { qp_ref });
                }
            }
            _ => dma_write = requester.on_response(a, hca, &self.verbs, packet, now),
        }
        let freed = dma_write.map(|dma_write| self.start_dma_write(hop.timeline, qp, (dma_write, packet.psn), arrival, now));
        self.count_remark(qp);
        self.after_requester(hop, qp, memory, now);
        freed
    }

    /// Starts the DMA write of an accepted packet. Returns the time at which its last byte is in
    /// memory.
    fn start_dma_write(&mut self, timeline: &mut Timeline, qp: u32, (dma_write, psn): (DmaWrite, Psn), arrival: Arrival, now: SimTime) -> SimTime {
        let done = self.write_on_bus(qp, (dma_write.bytes(), dma_write.fetches_receive_wqe), arrival, now);
        let Some(slot) = self.qps[qp as usize].as_deref_mut() else { return done };
        let hca = slot.qp.hca.0;
        let part = &self.nodes[hca as usize].part;
        if matches!(dma_write.end, DmaWriteEnd::Request { completion: Some(_), .. }) {
            // Flushes wait for this completion.
            slot.on_bus_completes = done + part.completion_write;
        }
        if dma_write.leads_to_something() {
            slot.dma_writes_started += 1;
            let in_flight = InFlight { qp, epoch: slot.qp.epoch, dma_write, psn, tail: arrival.tail, number: slot.dma_writes_started };
            let dma_write = self.dma_writes.insert(in_flight);
            timeline.push(done, hca, Event::InMemory { dma_write });
        }
        done
    }

    /// Writes the payload of a packet to memory, after a fetch of the receive WQE if it needs one.
    /// Returns the time at which its last byte is there.
    #[inline]
    pub(super) fn write_payload(&mut self, qp: u32, payload: (u32, bool), (head, tail): (SimTime, SimTime), now: SimTime) -> SimTime {
        self.write_on_bus(qp, payload, Arrival { head, tail }, now)
    }

    /// As [`Self::write_payload`].
    #[inline]
    fn write_on_bus(&mut self, qp: u32, (bytes, fetches_receive_wqe): (u32, bool), arrival: Arrival, now: SimTime) -> SimTime {
        let Some(slot) = self.qps[qp as usize].as_deref_mut() else { return arrival.tail };
        let node = &mut self.nodes[slot.qp.hca.0 as usize];
        if fetches_receive_wqe {
            node.fetch_receive_wqe(now);
        }
        let part = &node.part;
        let head = match part.receive_mode {
            ReceiveMode::CutThrough => arrival.head,
            ReceiveMode::StoreAndForward => arrival.tail,
        };
        let mut start = head + part.receive_processing;
        // While this queue pair's last message is on the bus, the HCA has already fetched the next
        // WQE.
        if fetches_receive_wqe && slot.in_memory_last <= now {
            start += part.receive_wqe_fetch;
        }
        let tail = start.max(arrival.tail + part.receive_processing);
        self.delivered_bytes += u64::from(bytes);
        let (shared, memory) = (&mut self.buses[node.shared_bus as usize], &mut self.memories[node.place.0]);
        let done = node.bus.write(shared, memory, now, start, tail, bytes).max(slot.in_memory_last);
        slot.in_memory_last = done;
        done
    }

    pub(crate) fn on_in_memory(&mut self, hop: &mut Hop<'_>, id: u32, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>, now: SimTime) {
        let InFlight { qp, epoch, dma_write, psn, tail, .. } = self.dma_writes.take(id);
        let fault = self.write_to_memory(&dma_write, memory, notices).is_err();
        let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch) else { return };
        let hca = slot.qp.hca.0 as usize;
        match dma_write.end {
            DmaWriteEnd::Response { last } => {
                slot.qp.requester.on_response_in_memory(last, fault);
                if last || fault {
                    self.after_requester(hop, qp, memory, now);
                }
            }
            DmaWriteEnd::Request { completion, acknowledge } => {
                let part = &self.nodes[hca].part;
                let (completed_at, answered_at) = (now + part.completion_write, now.max(tail + part.ack_processing));
                if fault {
                    let ends_message = dma_write.last;
                    if let Some(completion) = completion {
                        self.fail_on_bus(hop.timeline, qp, *completion, WcStatus::LocalProtectionError, completed_at);
                    }
                    self.fail_in_flight(hop.timeline, (qp, epoch), ends_message, completed_at);
                    return self.on_write_fault(hop, qp, psn, now);
                }
                if let Some(completion) = completion {
                    self.complete_receive(hop.timeline, qp, completed_at, *completion);
                }
                if let Some((psn, messages)) = acknowledge {
                    self.respond(hop, qp, Response { psn, messages, kind: PacketKind::Ack }, answered_at, false);
                }
            }
        }
    }

    /// Copies the bytes, unless the region was deregistered while they were on the bus.
    fn write_to_memory(&self, dma_write: &DmaWrite, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>) -> Result<(), ()> {
        let Some(payload) = dma_write.payload.as_ref().filter(|payload| payload.buffer.is_some()) else { return Ok(()) };
        let mut offset = payload.offset;
        for segment in dma_write.placement.iter() {
            let len = segment.len_bytes;
            self.verbs.mrs.get(segment.mr.0).filter(|mr| mr.holds(segment)).ok_or(())?;
            let part = PayloadSlice { buffer: payload.buffer.clone(), offset, len };
            memory.write(segment.process, segment.address, &part).map_err(|_| ())?;
            // If a completion follows, it informs the pollers instead.
            let by_peer = matches!(dma_write.end, DmaWriteEnd::Request { .. });
            let whole = dma_write.last && matches!(dma_write.end, DmaWriteEnd::Request { completion: None, .. } | DmaWriteEnd::Response { .. });
            let span = (segment.address, u64::from(len));
            notices.push(Notice::MemoryWritten { process: segment.process, span, last: dma_write.last, whole, by_peer });
            offset += len;
        }
        Ok(())
    }

    /// Fails the requests on the bus behind a write that lost its memory, in their order of
    /// arrival. Their receive requests come before those that no message has taken. If the write
    /// was not the last of its message, the first completion belongs to that message.
    fn fail_in_flight(&mut self, timeline: &mut Timeline, (qp, epoch): (u32, u32), mut ends_message: bool, at: SimTime) {
        let behind = self.dma_writes.iter_mut().filter(|in_flight| in_flight.qp == qp && in_flight.epoch == epoch);
        let mut behind: Vec<_> = behind.map(|in_flight| (in_flight.number, in_flight.dma_write.last, in_flight.withdraw())).collect();
        behind.sort_by_key(|(number, ..)| *number);
        for (_, last, completion) in behind {
            let status = if ends_message { WcStatus::FlushError } else { WcStatus::LocalProtectionError };
            if let Some(completion) = completion {
                self.fail_on_bus(timeline, qp, *completion, status, at);
            }
            ends_message |= last;
        }
    }

    /// Reports lost receiver memory to the sender of packet `psn`, and puts the queue pair into
    /// error. The NAK acknowledges the packets before that packet, and no later ones.
    fn on_write_fault(&mut self, hop: &mut Hop<'_>, qp: u32, psn: Psn, now: SimTime) {
        let Some(slot) = self.slot(qp) else { return };
        if slot.qp.attributes.init.qp_type.is_reliable() {
            let messages = slot.qp.responder.messages();
            self.respond(hop, qp, Response { psn, messages, kind: PacketKind::Nak(NakCode::RemoteOperationalError) }, now, true);
        }
        self.on_qp_error(hop.timeline, qp, QpError { event: None }, now);
    }

    /// Puts the global route header before a datagram's payload.
    fn put_route_before_payload(&self, hop: &Hop<'_>, packet: &mut Packet, port: u32) {
        let source = hop.subnet.source_gid(packet);
        let Some(header) = packet.route_header(hop.links.framing(port), source) else { return };
        let mut bytes = header.to_vec();
        if let Some(payload) = &packet.payload {
            bytes.extend_from_slice(payload.bytes());
        }
        packet.payload = Some(PayloadSlice { len: header.len() as u32 + packet.payload_bytes(), offset: 0, buffer: Some(bytes.into()) });
        let node = &self.nodes[self.ports[port as usize].hca as usize];
        if node.part.optional.states_packet_type {
            packet.service_level = hop.links.framing(port).level_or_type(packet);
        }
    }
}

/// Checks whether a LID belongs to the port with another LID. The path bits of both directions of a
/// connection are independent.
fn is_of_port(subnet: &Subnet, lid: Lid, of: Lid) -> bool {
    lid == of || subnet.port_with_lid(of).is_some_and(|port| subnet.lids(port).contains(lid))
}
