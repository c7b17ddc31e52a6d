//! Packets onto links, through switches, and credits back.

use crate::event::Event;
use crate::parts::{Content, Word};
use crate::port::{Cabling, Departing, Owner};
use crate::timeline::Source;
use crate::world::{Transit, World};
use softband_model::link::{Choice, FlowControl, Framing};
use softband_model::switch::ready_at;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, VirtualLane};

impl World {
    /// A packet of an HCA joins the queue of its port, or turns round inside the HCA when it is for the same port.
    pub(crate) fn on_packet_ready(&mut self, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let transit = self.packets.get_mut(id);
        let (port, lane, blocks, bytes) = (transit.port, transit.lane, transit.blocks, transit.bytes);
        if transit.dlid.is_multicast() {
            self.on_multicast_ready(id, memory, now);
        }
        let transit = self.packets.get_mut(id);
        let at = &mut self.ports[port as usize];
        if transit.dlid == at.lid {
            transit.head = now;
            transit.tail = now;
            let (staged, completes) = (transit.staged, transit.completes.as_deref().copied());
            self.on_looped_back(id, memory, now);
            self.on_departed(port, (lane, bytes), staged.then_some(completes), memory, now);
        } else if at.cabling.is_some() {
            at.arbiter.enqueue(lane, 0, id, CreditBlocks(u32::from(blocks)));
            self.transmit(port, now);
        } else {
            let transit = self.packets.take(id);
            self.on_departed(port, (lane, bytes), transit.staged.then_some(transit.completes.as_deref().copied()), memory, now);
        }
    }

    /// Starts the next packet, if the link is free and flow control lets one go.
    pub(crate) fn transmit(&mut self, id: u32, now: SimTime) {
        let port = &mut self.ports[id as usize];
        let Some(cabling) = port.cabling else { return };
        if port.free_due || port.ethernet.as_ref().is_some_and(|ethernet| now < ethernet.pauses_until) {
            return;
        }
        if now < port.busy_until {
            // Something waits now: it is told when the link is free.
            port.free_due = true;
            return self.queue.push(port.busy_until, port.node, Event::LinkFree { port: id });
        }
        port.flow_control.collect(now);
        let choice = port.arbiter.choose(&mut port.flow_control, now);
        let wants_watch = port.arbiter.is_starved() && !port.watched;
        match choice {
            Choice::Idle => port.set_stalled(0, now),
            Choice::Stalled { lanes } => {
                port.set_stalled(lanes, now);
                self.await_credits(id);
            }
            Choice::Send { packet, lane, congested } => {
                port.set_stalled(0, now);
                if congested {
                    self.mark(id, packet, cabling);
                }
                self.start(id, cabling, packet, lane, now);
            }
        }
        if wants_watch {
            self.watch_queue(id, &[], now);
        }
    }

    /// Looks again when the next credits come, or the next pause frame. Without any on their way, their departure will see to it.
    pub(crate) fn await_credits(&mut self, id: u32) {
        let port = &mut self.ports[id as usize];
        if let Some(at) = port.flow_control.next_arrival().filter(|_| !port.kicked) {
            port.kicked = true;
            self.queue.push_arrival(at, port.node, (port.owner.index(), Source::Credits), Event::CreditsBack { port: id });
        }
    }

    fn start(&mut self, id: u32, cabling: Cabling, packet: u32, lane: VirtualLane, now: SimTime) {
        let transit = self.packets.get_mut(packet);
        let from_input = transit.port != id;
        let time = if from_input { SimDuration::from_picos(u64::from(transit.time_out)) } else { cabling.serialisation(transit.bytes) };
        let leaves =
            |transit: &mut Transit| Departing { lane, bytes: transit.bytes, completes: transit.completes.take().map(|completes| *completes) };
        let departing = std::mem::take(&mut transit.staged).then(|| leaves(transit));
        let input = from_input.then_some((transit.port, transit.lane, transit.blocks));
        let copies = transit.copies.take();
        transit.port = cabling.peer;
        transit.lane = lane;
        transit.head = now + cabling.delay;
        transit.tail = transit.head + time;
        let port = &mut self.ports[id as usize];
        port.sent.count(transit.bytes);
        port.busy_until = now + time;
        let busy_until = port.busy_until;
        // Without anything that waits for it, nobody has to be told that the link is free.
        port.free_due = departing.is_some() || !port.arbiter.is_empty();
        port.departing = departing;
        if port.free_due {
            self.queue.push(busy_until, port.node, Event::LinkFree { port: id });
        }
        if let Some((port, lane, blocks)) = input
            && self.last_copy_leaves(copies)
        {
            self.leave_input(port, lane, blocks, self.ports[id as usize].through, busy_until, now);
        }
        if self.has_node(self.ports[cabling.peer as usize].node) {
            self.cross(packet, cabling);
        } else {
            let transit = self.packets.take(packet);
            self.hand_over(cabling.peer, Content::Packet { by: id, transit });
        }
    }

    /// A packet is on its way over a cable.
    pub(crate) fn cross(&mut self, packet: u32, cabling: Cabling) {
        let transit = self.packets.get(packet);
        let (head, time) = (transit.head, transit.tail - transit.head);
        match cabling.framing {
            Framing::Infiniband => self.schedule_arrival(packet, cabling, time),
            Framing::Ethernet { .. } => {
                let peer = &self.ports[cabling.peer as usize];
                self.queue.push_arrival(head, peer.node, (peer.owner.index(), Source::Frames), Event::FrameArrival { packet });
            }
        }
    }

    /// A switch's input buffer is free when the packet's last bit has entered the crossbar, which is the forwarding time before it
    /// leaves the output, and the switch has held it for its time.
    fn leave_input(&mut self, input: u32, lane: VirtualLane, blocks: u16, through: SimDuration, tail_out: SimTime, now: SimTime) {
        let Owner::Switch { switch, .. } = self.ports[input as usize].owner else { unreachable!("inputs are a switch's") };
        let passage = tail_out.saturating_since(now);
        let entered = now + SimDuration::from_picos(passage.as_picos().saturating_sub(through.as_picos()));
        let hold = self.switches[switch as usize].buffer_hold;
        self.free_buffer(input, lane, blocks, entered + hold);
    }

    /// The packet's next event is at the far end of the cable.
    pub(crate) fn schedule_arrival(&mut self, packet: u32, cabling: Cabling, time_in: SimDuration) {
        let peer = &self.ports[cabling.peer as usize];
        let transit = self.packets.get_mut(packet);
        let Owner::Switch { switch, index } = peer.owner else {
            // What carries payload is looked at with its first bit, since the DMA write may follow the bytes.
            let at = if transit.payload_bytes > 0 { transit.head } else { transit.tail };
            return self.queue.push_arrival(at, peer.node, (peer.owner.index(), Source::Packets), Event::HcaArrival { packet });
        };
        if transit.dlid.is_multicast() {
            return self.fork_at_switch(packet, switch, index, time_in);
        }
        let node = &self.switches[switch as usize];
        let route = node.switch.route(transit.dlid).filter(|output| *output != usize::from(index));
        let output = route.map(|output| node.first_port + output as u32);
        let onward = output.and_then(|output| self.ports[output as usize].cabling);
        let fits = |onward: &Cabling| u32::from(transit.payload_bytes) <= onward.mtu.bytes();
        let (Some(output), Some(onward)) = (output, onward.filter(fits)) else {
            return self.queue.push_arrival(transit.tail, peer.node, (index, Source::Packets), Event::SwitchDiscard { packet });
        };
        // Alike links take alike times.
        let is_alike = onward.rate == cabling.rate && onward.framing == cabling.framing;
        let time_out = if is_alike { time_in } else { onward.serialisation(transit.bytes) };
        transit.time_out = time_out.as_picos() as u32;
        let at = ready_at(transit.head, self.ports[output as usize].through, time_in, time_out);
        transit.output = output;
        self.queue.push_arrival(at, peer.node, (index, Source::Packets), Event::SwitchArrival { packet });
    }

    pub(crate) fn on_switch_arrival(&mut self, id: u32, now: SimTime) {
        let transit = self.packets.get_mut(id);
        let (input, output, bytes, blocks) = (transit.port, transit.output, transit.bytes, transit.blocks);
        if !std::mem::replace(&mut transit.counted, false) {
            self.count_received(input, bytes);
        }
        let Owner::Switch { index, .. } = self.ports[input as usize].owner else { unreachable!("this is a switch's port") };
        let vls = self.ports[output as usize].cabling.expect("routes lead to cabled ports").vls;
        let lane = self.lane_through(id, index, output, vls);
        let port = &mut self.ports[output as usize];
        let (input, blocks) = (usize::from(index), CreditBlocks(u32::from(blocks)));
        if now >= port.busy_until && !port.free_due && port.ethernet.is_none() {
            port.flow_control.collect(now);
            if port.arbiter.passes(lane, input, blocks, &mut port.flow_control) {
                let cabling = port.cabling.expect("routes lead to cabled ports");
                return self.start(output, cabling, id, lane, now);
            }
        }
        port.arbiter.enqueue(lane, input, id, blocks);
        self.transmit(output, now);
    }

    pub(crate) fn on_switch_discard(&mut self, id: u32, now: SimTime) {
        let transit = self.packets.take(id);
        self.count_received(transit.port, transit.bytes);
        self.free_buffer(transit.port, transit.lane, transit.blocks, now);
    }

    pub(crate) fn count_received(&mut self, port: u32, bytes: u32) {
        self.ports[port as usize].received.count(bytes);
    }

    pub(crate) fn on_link_free(&mut self, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let port = &mut self.ports[id as usize];
        port.free_due = false;
        let departed = port.departing.take();
        self.transmit(id, now);
        if let Some(Departing { lane, bytes, completes }) = departed {
            self.on_departed(id, (lane, bytes), Some(completes), memory, now);
        }
    }

    /// A packet has left the HCA: `staged` tells that it held a place, and whose message is complete with it.
    fn on_departed(&mut self, port: u32, held: (VirtualLane, u32), staged: Option<Option<(u32, u32)>>, memory: &mut dyn HostMemory, now: SimTime) {
        let Some(completes) = staged else { return };
        if let Some((qp, epoch)) = completes
            && let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch)
        {
            slot.qp.requester.on_sent();
            self.retire(qp, now);
        }
        self.release_place(port, held, memory, now);
    }

    /// A receive buffer's blocks are free at `at`; the flow-control packet follows after the port's own delay.
    pub(crate) fn free_buffer(&mut self, id: u32, lane: VirtualLane, blocks: u16, at: SimTime) {
        let port = &self.ports[id as usize];
        self.queue.push(at + port.credit_return, port.node, Event::BufferFree { port: id, lane: lane.0, blocks });
    }

    /// A flow-control packet goes out: after the packet on the link, but before those that wait (IBTA 7.9.4).
    pub(crate) fn on_buffer_free(&mut self, id: u32, lane: VirtualLane, blocks: u16, now: SimTime) {
        let port = &self.ports[id as usize];
        let (peer, arrival) = (port.far_end, port.busy_until.max(now) + port.cable_delay);
        let blocks = CreditBlocks(u32::from(blocks));
        match port.framing {
            Framing::Ethernet { .. } => self.free_frame(id, lane, blocks, now),
            Framing::Infiniband => self.tell_sender(peer, arrival, Word::Credits { lane, blocks }),
        }
    }

    /// A receiver's word on what a port may send is on its way.
    pub(crate) fn tell_sender(&mut self, to: u32, arrival: SimTime, word: Word) {
        let sender = &mut self.ports[to as usize];
        if !self.parts.has(sender.node) {
            return self.hand_over(to, Content::Word { to, arrival, word });
        }
        match (word, &mut sender.flow_control) {
            (Word::Credits { lane, blocks }, FlowControl::Credits(ledger)) => ledger.schedule_return(arrival, lane, blocks),
            (Word::Pause { lane, pauses }, FlowControl::Pause(ledger)) => ledger.schedule(arrival, lane, pauses),
            _ => unreachable!("both ends of a cable have the same flow control"),
        }
        if sender.is_stalled() {
            self.await_credits(to);
        }
    }
}
