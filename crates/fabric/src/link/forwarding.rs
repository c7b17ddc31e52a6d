//! Packets onto links, through switches, and credits back.

use super::capture::Leg;
use super::enforcement::refuses;
use super::parcel::{Content, FlowControlMessage};
use super::port::Onward;
use super::tx_pending::Ready;
use super::{Hop, Links, Transit};
use crate::event::Event;
use crate::numbering::Owner;
use crate::pdes::timeline::Source;
use softband_model::link::Sending;
use softband_model::switch::ready_at;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, Lid, VirtualLane};

impl Hop<'_> {
    /// Hands an HCA's packet to its port, to leave at `at` or later.
    #[inline]
    pub(crate) fn send(&mut self, packet: u32, at: SimTime) {
        let transit = self.links.packets.get(packet);
        let (port, ready) = (transit.port, Ready { at, packet, input: 0, lane: transit.lane, blocks: transit.blocks });
        self.await_ready(port, ready);
    }

    /// Starts a packet on a port's link, with the effects at this port and at the other end of the
    /// cable.
    #[inline(always)]
    pub(super) fn start(&mut self, id: u32, packet: u32, lane: VirtualLane, now: SimTime) {
        let port = &mut self.links.ports[id as usize];
        let transit = self.links.packets.get_mut(packet);
        let (input, input_lane, blocks, copies) = (transit.port, transit.lane, transit.blocks, transit.copies.take());
        let from_input = input != id;
        let time = if from_input { SimDuration::from_picos(u64::from(transit.time_out)) } else { port.serialisation(transit.bytes) };
        transit.port = port.far_end;
        transit.lane = lane;
        transit.head = now + port.cable_delay;
        transit.tail = transit.head + time;
        if let Some(departing) = transit.take_departing(lane) {
            port.departing = Some(departing);
            port.departs = true;
        }
        port.count_sent(transit.bytes, transit.dlid);
        port.returns.settle(now, port.sending);
        port.sending = Sending { from: now, until: now + time };
        let (through, far_end) = (port.onward.through, port.far_end);
        if let Some(at) = port.next_tx() {
            self.schedule_tx(id, at);
        }
        if from_input && (copies.is_none() || self.links.last_copy_leaves(copies)) {
            // The last bit enters the crossbar one forwarding delay before it leaves the output.
            // The switch then holds the buffer for its hold time.
            let entered = now + SimDuration::from_picos(time.as_picos().saturating_sub(through.as_picos()));
            self.leave_input((input, input_lane), blocks, entered, now);
        }
        if !self.timeline.has_node(self.links.ports[far_end as usize].node) {
            let transit = self.links.packets.take(packet);
            self.links.send_parcel(far_end, Content::Packet { by: id, transit }, self.timeline);
        } else if self.links.capture.is_some() {
            self.cross_captured(packet, id, if from_input { Leg::Later } else { Leg::First });
        } else if from_input || !self.may_ride(id) || !self.ride(id, packet, now) {
            self.cross(packet, id);
        }
    }

    /// Sends a packet over the cable of a port.
    #[inline]
    pub(super) fn cross(&mut self, packet: u32, by: u32) {
        if self.faults.has_plan() && self.is_lost_on_cable(packet, by) {
            return;
        }
        self.reach_far_end(packet, by);
    }

    /// Schedules the arrival of a packet that a port has sent.
    #[inline]
    pub(super) fn reach_far_end(&mut self, packet: u32, by: u32) {
        let port = &self.links.ports[by as usize];
        if !port.framing.may_drop_on_arrival() {
            return self.schedule_arrival(packet, by);
        }
        let peer = &self.links.ports[port.far_end as usize];
        let head = self.links.packets.get(packet).head;
        self.timeline.push_arrival(head, peer.node, (peer.owner.index(), Source::Frames), Event::FrameArrival { packet });
    }

    #[inline(always)]
    fn leave_input(&mut self, (input, lane): (u32, VirtualLane), blocks: u16, entered: SimTime, now: SimTime) {
        let Owner::Switch { switch, .. } = self.links.ports[input as usize].owner else { unreachable!("inputs are a switch's") };
        let hold = self.links.switches[switch as usize].buffer_hold;
        self.free_buffer(input, lane, blocks, entered + hold, now);
    }

    /// Schedules the next event of a packet that has left by a port: its arrival at an HCA, or its
    /// departure from a switch.
    #[inline]
    pub(super) fn schedule_arrival(&mut self, packet: u32, by: u32) {
        let port = &self.links.ports[by as usize];
        let (input, kind) = (port.far_end, port.onward.kind);
        let peer = &self.links.ports[input as usize];
        let transit = self.links.packets.get_mut(packet);
        let Owner::Switch { switch, index } = peer.owner else {
            // A packet with payload is handled at its first bit, because the DMA write may follow
            // the bytes.
            let at = if transit.payload_bytes > 0 { transit.head } else { transit.tail };
            return self.timeline.push_arrival(at, peer.node, (peer.owner.index(), Source::Packets), Event::HcaArrival { packet });
        };
        let time_in = transit.tail - transit.head;
        if transit.dlid.is_multicast() {
            return self.fork_at_switch(packet, switch, index, time_in);
        }
        let node = &self.links.switches[switch as usize];
        let route = node.switch.route(transit.dlid).filter(|output| *output != usize::from(index));
        let output = route.map_or(input, |output| node.first_port + output as u32);
        let port = &self.links.ports[output as usize];
        let onward = &port.onward;
        let is_foreign = !self.links.enforcing.is_empty() && refuses(&self.links.enforcing, input, output, transit.packet.pkey);
        if output == input || onward.kind == Onward::NO_LINK || transit.payload_bytes > onward.mtu_bytes || is_foreign {
            return self.timeline.push_arrival(transit.tail, peer.node, (index, Source::Packets), Event::SwitchDiscard { packet });
        }
        // Links of the same kind take the same time.
        let time_out = if onward.kind == kind { time_in } else { port.serialisation(transit.bytes) };
        transit.time_out = time_out.as_picos() as u32;
        let at = ready_at(transit.head, onward.through, time_in, time_out);
        if self.faults.will_be_down(output, at) {
            return self.discard_for_down(packet, output);
        }
        let lane = self.subnet.lane((switch, index, port.owner.index()), transit.service_level, onward.vls);
        let ready = Ready { at, packet, input: index, lane, blocks: transit.blocks };
        let (bytes, dlid) = (transit.bytes, transit.dlid);
        self.links.count_received(input, bytes, dlid);
        self.await_ready(output, ready);
    }

    pub(crate) fn on_switch_discard(&mut self, id: u32, now: SimTime) {
        let transit = self.take_discarded(id, now);
        // A switch has no table entry for its own LID.
        if transit.dlid != Lid::NONE && transit.dlid == self.lid_of_switch(transit.port) {
            self.receive_general(transit.port, &transit.packet, now);
        } else {
            self.count_unforwarded(transit.port, &transit.packet, now);
        }
        self.links.packet_pool.take_back(transit.packet);
    }

    /// Takes a packet that a switch discards, and frees its buffer.
    pub(super) fn take_discarded(&mut self, id: u32, now: SimTime) -> Transit {
        let transit = self.links.packets.take(id);
        self.links.count_received(transit.port, transit.bytes, transit.dlid);
        self.free_buffer(transit.port, transit.lane, transit.blocks, now, now);
        transit
    }

    /// Returns the LID of the switch that owns a port.
    fn lid_of_switch(&self, port: u32) -> Lid {
        let port = &self.links.ports[port as usize];
        let first = match port.owner {
            Owner::Switch { switch, .. } => self.links.switches[switch as usize].first_port,
            Owner::Hca { .. } => return Lid::NONE,
        };
        self.subnet.lid(first)
    }

    /// Frees a receive buffer's blocks at `at`. The flow-control packet follows after the port's
    /// own delay.
    #[inline]
    pub(crate) fn free_buffer(&mut self, id: u32, lane: VirtualLane, blocks: u16, at: SimTime, now: SimTime) {
        let port = &self.links.ports[id as usize];
        let at = at + port.credit_return;
        if port.tells_sender {
            return self.timeline.push(at, port.node, Event::BufferFree { port: id, lane: lane.0, blocks });
        }
        self.give_back(id, (lane, CreditBlocks(u32::from(blocks))), at, now);
    }

    /// Returns credits from a port at `at`, or behind the packet then on its link. The sender reads
    /// them on demand.
    #[inline]
    fn give_back(&mut self, id: u32, credits: (VirtualLane, CreditBlocks), at: SimTime, now: SimTime) {
        self.refresh(id, now);
        let port = &mut self.links.ports[id as usize];
        let is_first = port.returns.free(at, credits, now.checked_sub(port.cable_delay), port.sending);
        if is_first && port.sender_waits {
            let (sender, arrival) = (port.far_end, port.sending.leave(at) + port.cable_delay);
            self.schedule_tx(sender, arrival);
        }
    }

    /// Returns credits or a frame's buffer by an event: on Ethernet, or for a sender in another
    /// partition.
    pub(crate) fn on_buffer_free(&mut self, id: u32, lane: VirtualLane, blocks: u16, now: SimTime) {
        let port = &self.links.ports[id as usize];
        let blocks = CreditBlocks(u32::from(blocks));
        if port.framing.may_drop_on_arrival() {
            return self.free_frame(id, lane, blocks, now);
        }
        let (to, arrival) = (port.far_end, port.sending.leave(now) + port.cable_delay);
        let content = Content::FlowControl { to, arrival, message: FlowControlMessage::Credits { lane, blocks } };
        self.links.send_parcel(to, content, self.timeline);
    }

    /// Delivers a receiver's flow-control message to a port.
    pub(super) fn tell_sender(&mut self, to: u32, arrival: SimTime, message: FlowControlMessage) {
        let sender = &mut self.links.ports[to as usize];
        if !self.timeline.has_node(sender.node) {
            return self.links.send_parcel(to, Content::FlowControl { to, arrival, message }, self.timeline);
        }
        match message {
            FlowControlMessage::Credits { lane, blocks } => {
                let left = arrival.checked_sub(sender.cable_delay).expect("it has come by its cable");
                let (receiver, now) = (sender.far_end, self.timeline.now());
                self.give_back(receiver, (lane, blocks), left, now);
            }
            FlowControlMessage::Pause { lane, pauses } => {
                sender.flow_control.schedule_pause(arrival, lane, pauses);
                // For earlier ledger entries a transmission is already scheduled, or will be once
                // the link is free.
                if sender.is_stalled() {
                    self.schedule_tx(to, arrival);
                }
            }
        }
    }

    /// Handles a packet that has arrived at an HCA's port. Returns the packet, unless a fault cut
    /// it off. Its buffer stays taken until [`Self::free_buffer`].
    #[inline]
    pub(crate) fn arrive(&mut self, id: u32, now: SimTime) -> Option<Transit> {
        let transit = self.links.packets.take(id);
        if self.faults.has_plan() && self.is_cut_off(&transit) {
            self.free_buffer(transit.port, transit.lane, transit.blocks, transit.tail, now);
            return None;
        }
        self.links.count_received(transit.port, transit.bytes, transit.dlid);
        Some(transit)
    }
}

impl Links {
    /// Counts an arrived frame. Only ports that may drop frames need this count.
    #[inline]
    pub(super) fn count_received(&mut self, port: u32, bytes: u32, dlid: Lid) {
        let port = &mut self.ports[port as usize];
        if port.framing.may_drop_on_arrival()
            && let Some(ethernet) = &mut port.ethernet
        {
            ethernet.received.count(bytes, dlid);
        }
    }
}
