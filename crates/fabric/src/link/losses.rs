//! Faults on links: waiting packets of a down link, and packets lost on a cable.

use super::tx_pending::Ready;
use super::{Cabling, Departing, Hop, Transit};
use crate::event::Event;
use crate::faults::Loss;
use crate::numbering::Owner;
use crate::pdes::timeline::Source;
use softband_model::link::Sending;
use softband_sim::SimTime;
use softband_types::VirtualLane;

impl Hop<'_> {
    /// Blocks a port until its link has retrained.
    pub(crate) fn pause_for_recovery(&mut self, id: u32, until: SimTime, now: SimTime) {
        let port = &mut self.links.ports[id as usize];
        port.returns.settle(now, port.sending);
        port.sending = Sending { from: now, until: port.sending.until.max(until) };
        if let Some(at) = port.next_tx() {
            self.schedule_tx(id, at);
        }
    }

    /// Discards all packets that wait at a port with a down link (IBTA 7.2.2). It keeps packets
    /// that become ready after the link is up again. Returns the resources that an HCA's packets
    /// free. The port sends again after [`Self::go_on`].
    pub(crate) fn discard_all(&mut self, id: u32, now: SimTime) -> Vec<Departing> {
        let mut gone = Vec::new();
        let port = &mut self.links.ports[id as usize];
        let lanes = port.cabling.map_or(0, |cabling| cabling.vls.data_lanes());
        for lane in (0..lanes).map(VirtualLane) {
            gone.extend(std::iter::from_fn(|| port.arbiter.discard_head(lane)).map(|waiting| waiting.packet));
        }
        let waiting: Vec<Ready> = std::iter::from_fn(|| port.tx_pending.pop_first()).collect();
        for ready in waiting {
            if self.faults.will_be_down(id, ready.at.max(now)) {
                gone.push(ready.packet);
            } else {
                port.tx_pending.insert(ready);
            }
        }
        self.set_stalled(id, 0, now);
        gone.into_iter().filter_map(|packet| self.discard(id, packet, now)).collect()
    }

    /// Schedules a port whose waiting packets have changed.
    pub(crate) fn go_on(&mut self, id: u32, now: SimTime) {
        if let Some(at) = self.links.ports[id as usize].next_tx() {
            self.schedule_tx(id, at.max(now));
        }
    }

    /// Discards a packet that was to leave by a port. Frees a switch's buffer, and returns the
    /// resources that an HCA's packet frees.
    fn discard(&mut self, id: u32, packet: u32, now: SimTime) -> Option<Departing> {
        self.links.count_discards(id, 1);
        let mut transit = self.links.packets.take(packet);
        let departing = match self.links.ports[id as usize].owner {
            Owner::Hca { .. } => transit.take_departing(transit.lane),
            Owner::Switch { .. } => {
                if self.links.last_copy_leaves(transit.copies) {
                    self.free_buffer(transit.port, transit.lane, transit.blocks, transit.tail.max(now), now);
                }
                None
            }
        };
        self.links.packet_pool.take_back(transit.packet);
        departing
    }

    /// Checks whether a packet that has begun to leave by a port is lost on the cable. The other
    /// end then receives only the loss event.
    #[cold]
    pub(super) fn is_lost_on_cable(&mut self, packet: u32, by: u32) -> bool {
        let port = &self.links.ports[by as usize];
        let (number, delay, far_end) = (port.sent.packets, port.cable_delay, port.far_end);
        let transit = self.links.packets.get_mut(packet);
        let sent = transit.head.checked_sub(delay).unwrap_or_default();
        let Some((loss, errors)) = self.faults.loss(by, (sent, transit.tail), (&transit.packet.kind, number, transit.bytes)) else { return false };
        transit.time_out = errors; // it leaves by no other port, so the field is free
        let peer = &self.links.ports[far_end as usize];
        let event = match loss {
            Loss::LinkDown => Event::LostOnCable { packet },
            Loss::Corrupted => Event::Corrupted { packet },
        };
        self.timeline.push_arrival(transit.tail, peer.node, (peer.owner.index(), Source::Packets), event);
        true
    }

    /// Handles a packet that was lost on the cable: counts a corrupted packet, and frees its share
    /// of the buffer.
    pub(crate) fn on_lost(&mut self, id: u32, loss: Loss, now: SimTime) {
        let transit = self.links.packets.take(id);
        self.count_loss(&transit, loss);
        // A buffer that decides on arrival never held it.
        if !self.links.ports[transit.port as usize].framing.may_drop_on_arrival() {
            self.free_buffer(transit.port, transit.lane, transit.blocks, transit.tail, now);
        }
        self.links.packet_pool.take_back(transit.packet);
    }

    fn count_loss(&mut self, transit: &Transit, loss: Loss) {
        match loss {
            Loss::LinkDown => self.faults.count_lost(transit.port, transit.bytes, transit.dlid),
            Loss::Corrupted => {
                self.faults.count_corrupted(transit.port, transit.time_out);
                self.links.count_received(transit.port, transit.bytes, transit.dlid);
            }
        }
    }

    /// Checks whether a command took the link down while an arriving packet was on it.
    #[cold]
    pub(super) fn is_cut_off(&mut self, transit: &Transit) -> bool {
        let sent = transit.head.checked_sub(self.links.ports[transit.port as usize].cable_delay).unwrap_or_default();
        let is_cut = self.faults.is_cut(transit.port, sent, transit.tail);
        if is_cut {
            self.count_loss(transit, Loss::LinkDown);
        }
        is_cut
    }

    /// Discards a packet whose output link will be down.
    pub(super) fn discard_for_down(&mut self, packet: u32, output: u32) {
        let transit = self.links.packets.get_mut(packet);
        let (input, tail) = (&self.links.ports[transit.port as usize], transit.tail);
        let event = Event::DiscardedByPort { packet, output: self.links.ports[output as usize].owner.index() };
        self.timeline.push_arrival(tail, input.node, (input.owner.index(), Source::Packets), event);
    }

    pub(crate) fn on_discarded_by_port(&mut self, packet: u32, output: u8, now: SimTime) {
        let input = self.links.packets.get_mut(packet).port;
        if let Owner::Switch { switch, .. } = self.links.ports[input as usize].owner {
            let output = self.links.switches[switch as usize].first_port + u32::from(output);
            self.links.ports[output as usize].tally.xmit_discards += 1;
        }
        let transit = self.take_discarded(packet, now);
        self.links.packet_pool.take_back(transit.packet);
    }

    /// Keeps the branches of a multicast packet whose links will be up when it arrives.
    pub(super) fn open_branches(&mut self, branches: Vec<(u32, Cabling)>, at: SimTime) -> Vec<(u32, Cabling)> {
        let (down, open): (Vec<_>, Vec<_>) = branches.into_iter().partition(|(output, _)| self.faults.will_be_down(*output, at));
        down.iter().for_each(|(output, _)| self.links.ports[*output as usize].tally.xmit_discards += 1);
        open
    }
}
