//! Packets onto links, through switches, and credits back.

use crate::event::Event;
use crate::link::port::{Departing, Onward, Owner};
use crate::link::tx_pending::Ready;
use crate::pdes::partition::{Content, FlowControlMessage};
use crate::pdes::timeline::Source;
use crate::world::World;
use softband_model::link::{FlowControl, Framing, Sending};
use softband_model::switch::ready_at;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, VirtualLane};

impl World {
    /// Handles a packet that stays in its HCA: for the same port, or a multicast copy for members
    /// on this HCA. A packet without a cable, or on a lane that never sends, ends here.
    pub(crate) fn on_packet_ready(&mut self, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let transit = self.packets.get_mut(id);
        let (port, lane, bytes) = (transit.port, transit.lane, transit.bytes);
        if transit.dlid.is_multicast() {
            self.on_multicast_ready(id, memory, now);
        }
        let transit = self.packets.get_mut(id);
        let at = &self.ports[port as usize];
        if transit.dlid == at.lid {
            transit.head = now;
            transit.tail = now;
            let (staged, completes) = (transit.staged, transit.completes.as_deref().copied());
            self.on_looped_back(id, memory, now);
            self.on_departed(port, (lane, bytes), staged.then_some(completes), memory, now);
        } else {
            // The packet has no cable or a lane that never sends, or it is the local copy of a
            // packet that has left.
            let transit = self.packets.take(id);
            let at = &mut self.ports[port as usize];
            at.tally.xmit_discards += u64::from(!at.arbiter.sends_on(lane));
            self.on_departed(port, (lane, bytes), transit.staged.then_some(transit.completes.as_deref().copied()), memory, now);
        }
    }

    /// Starts a packet on a port's link, with the effects at this port and at the other end of the
    /// cable.
    #[inline(always)]
    pub(crate) fn start(&mut self, id: u32, packet: u32, lane: VirtualLane, now: SimTime) {
        let port = &mut self.ports[id as usize];
        let transit = self.packets.get_mut(packet);
        let (input, input_lane, blocks, copies) = (transit.port, transit.lane, transit.blocks, transit.copies.take());
        let from_input = input != id;
        let time = if from_input { SimDuration::from_picos(u64::from(transit.time_out)) } else { port.serialisation(transit.bytes) };
        transit.port = port.far_end;
        transit.lane = lane;
        transit.head = now + port.cable_delay;
        transit.tail = transit.head + time;
        if std::mem::take(&mut transit.staged) {
            let completes = transit.completes.take().map(|completes| *completes);
            port.departing = Some(Departing { lane, bytes: transit.bytes, completes });
            port.departs = true;
        }
        port.sent.count(transit.bytes);
        port.returns.settle(now, port.sending);
        port.sending = Sending { from: now, until: now + time };
        let (through, far_end) = (port.onward.through, port.far_end);
        if let Some(at) = port.next_tx() {
            self.schedule_tx(id, at);
        }
        if from_input && (copies.is_none() || self.last_copy_leaves(copies)) {
            // The last bit enters the crossbar one forwarding delay before it leaves the output.
            // The switch then holds the buffer for its hold time.
            let entered = now + SimDuration::from_picos(time.as_picos().saturating_sub(through.as_picos()));
            self.leave_input((input, input_lane), blocks, entered, now);
        }
        if !self.has_node(self.ports[far_end as usize].node) {
            let transit = self.packets.take(packet);
            self.send_parcel(far_end, Content::Packet { by: id, transit });
        } else {
            self.cross(packet, id);
        }
    }

    /// Sends a packet over the cable of a port.
    #[inline]
    pub(crate) fn cross(&mut self, packet: u32, by: u32) {
        if self.faults.is_some() && self.is_lost_on_cable(packet, by) {
            return;
        }
        let port = &self.ports[by as usize];
        match port.framing {
            Framing::Infiniband => self.schedule_arrival(packet, by),
            Framing::Ethernet { .. } => {
                let peer = &self.ports[port.far_end as usize];
                let head = self.packets.get(packet).head;
                self.queue.push_arrival(head, peer.node, (peer.owner.index(), Source::Frames), Event::FrameArrival { packet });
            }
        }
    }

    #[inline(always)]
    fn leave_input(&mut self, (input, lane): (u32, VirtualLane), blocks: u16, entered: SimTime, now: SimTime) {
        let Owner::Switch { switch, .. } = self.ports[input as usize].owner else { unreachable!("inputs are a switch's") };
        let hold = self.switches[switch as usize].buffer_hold;
        self.free_buffer(input, lane, blocks, entered + hold, now);
    }

    /// Schedules the next event of a packet that has left by a port: its arrival at an HCA, or its
    /// departure from a switch.
    #[inline]
    pub(crate) fn schedule_arrival(&mut self, packet: u32, by: u32) {
        let port = &self.ports[by as usize];
        let (input, kind) = (port.far_end, port.onward.kind);
        let peer = &self.ports[input as usize];
        let transit = self.packets.get_mut(packet);
        let Owner::Switch { switch, index } = peer.owner else {
            // A packet with payload is handled at its first bit, because the DMA write may follow
            // the bytes.
            let at = if transit.payload_bytes > 0 { transit.head } else { transit.tail };
            return self.queue.push_arrival(at, peer.node, (peer.owner.index(), Source::Packets), Event::HcaArrival { packet });
        };
        let time_in = transit.tail - transit.head;
        if transit.dlid.is_multicast() {
            return self.fork_at_switch(packet, switch, index, time_in);
        }
        let node = &self.switches[switch as usize];
        let route = node.switch.route(transit.dlid).filter(|output| *output != usize::from(index));
        let output = route.map_or(input, |output| node.first_port + output as u32);
        let port = &self.ports[output as usize];
        let onward = &port.onward;
        if output == input || onward.kind == Onward::NO_LINK || transit.payload_bytes > onward.mtu_bytes {
            return self.queue.push_arrival(transit.tail, peer.node, (index, Source::Packets), Event::SwitchDiscard { packet });
        }
        // Links of the same kind take the same time.
        let time_out = if onward.kind == kind { time_in } else { port.serialisation(transit.bytes) };
        transit.time_out = time_out.as_picos() as u32;
        let at = ready_at(transit.head, onward.through, time_in, time_out);
        if let Some(faults) = &self.faults
            && faults.is_down(output, at)
        {
            return self.discard_for_down(packet, output);
        }
        let lane = self.routes.lane(index, port.owner.index(), transit.service_level, onward.vls);
        let ready = Ready { at, packet, input: index, lane, blocks: transit.blocks };
        if matches!(peer.framing, Framing::Ethernet { .. }) {
            let bytes = transit.bytes;
            self.count_received(input, bytes);
        }
        self.await_ready(output, ready);
    }

    pub(crate) fn on_switch_discard(&mut self, id: u32, now: SimTime) {
        let transit = self.packets.take(id);
        self.count_received(transit.port, transit.bytes);
        self.free_buffer(transit.port, transit.lane, transit.blocks, now, now);
    }

    /// Counts an arrived frame. Only Ethernet ports need this count, because they may drop frames.
    pub(crate) fn count_received(&mut self, port: u32, bytes: u32) {
        let port = &mut self.ports[port as usize];
        if matches!(port.framing, Framing::Ethernet { .. })
            && let Some(ethernet) = &mut port.ethernet
        {
            ethernet.received.count(bytes);
        }
    }

    /// Handles a packet that has left the HCA. `staged` is `Some` if it held a place, with the
    /// message that its departure completes.
    pub(crate) fn on_departed(
        &mut self,
        port: u32,
        held: (VirtualLane, u32),
        staged: Option<Option<(u32, u32)>>,
        memory: &mut dyn HostMemory,
        now: SimTime,
    ) {
        let Some(completes) = staged else { return };
        if let Some((qp, epoch)) = completes
            && let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch)
        {
            slot.qp.requester.on_sent();
            self.retire(qp, now);
        }
        self.release_place(port, held, memory, now);
    }

    /// Frees a receive buffer's blocks at `at`. The flow-control packet follows after the port's
    /// own delay.
    #[inline]
    pub(crate) fn free_buffer(&mut self, id: u32, lane: VirtualLane, blocks: u16, at: SimTime, now: SimTime) {
        let port = &self.ports[id as usize];
        let at = at + port.credit_return;
        if port.tells_sender {
            return self.queue.push(at, port.node, Event::BufferFree { port: id, lane: lane.0, blocks });
        }
        self.give_back(id, (lane, CreditBlocks(u32::from(blocks))), at, now);
    }

    /// Returns credits from a port at `at`, or behind the packet then on its link. The sender reads
    /// them on demand.
    #[inline]
    fn give_back(&mut self, id: u32, credits: (VirtualLane, CreditBlocks), at: SimTime, now: SimTime) {
        let port = &mut self.ports[id as usize];
        let is_first = port.returns.free(at, credits, now.checked_sub(port.cable_delay), port.sending);
        if is_first && port.sender_waits {
            let (sender, arrival) = (port.far_end, port.sending.leave(at) + port.cable_delay);
            self.schedule_tx(sender, arrival);
        }
    }

    /// Returns credits or a frame's buffer by an event: on Ethernet, or for a sender in another
    /// partition.
    pub(crate) fn on_buffer_free(&mut self, id: u32, lane: VirtualLane, blocks: u16, now: SimTime) {
        let port = &self.ports[id as usize];
        let blocks = CreditBlocks(u32::from(blocks));
        match port.framing {
            Framing::Ethernet { .. } => self.free_frame(id, lane, blocks, now),
            Framing::Infiniband => {
                let arrival = port.sending.leave(now) + port.cable_delay;
                self.send_parcel(
                    port.far_end,
                    Content::FlowControl { to: port.far_end, arrival, message: FlowControlMessage::Credits { lane, blocks } },
                );
            }
        }
    }

    /// Delivers a receiver's flow-control message to a port.
    pub(crate) fn tell_sender(&mut self, to: u32, arrival: SimTime, message: FlowControlMessage) {
        let sender = &mut self.ports[to as usize];
        if !self.partition.has(sender.node) {
            return self.send_parcel(to, Content::FlowControl { to, arrival, message });
        }
        match (message, &mut sender.flow_control) {
            (FlowControlMessage::Credits { lane, blocks }, FlowControl::Credits(_)) => {
                let left = arrival.checked_sub(sender.cable_delay).expect("it has come by its cable");
                let receiver = sender.far_end;
                let now = self.queue.now();
                self.give_back(receiver, (lane, blocks), left, now);
            }
            (FlowControlMessage::Pause { lane, pauses }, FlowControl::Pause(ledger)) => {
                ledger.schedule(arrival, lane, pauses);
                // For earlier ledger entries a transmission is already scheduled, or will be once
                // the link is free.
                if sender.is_stalled() {
                    self.schedule_tx(to, arrival);
                }
            }
            _ => unreachable!("both ends of a cable have the same flow control"),
        }
    }
}
