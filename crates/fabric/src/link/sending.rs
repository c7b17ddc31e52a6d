//! Scheduled transmission: a port tries to send when its link is free, a packet is ready, or
//! missing credits arrive.
//!
//! The attributes make the compiler emit the per-hop path in one piece.

use super::port::{IN_TRAIN, NOTES_PACKETS};
use super::tx_pending::{Ready, take_ready};
use super::{Departing, Hop};
use crate::event::Event;
use crate::pdes::timeline::Source;
use softband_model::link::Choice;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};

impl Hop<'_> {
    /// Schedules a port for the time when a packet is ready, unless it must wait behind packets
    /// that lack credits.
    #[inline(always)]
    pub(super) fn await_ready(&mut self, id: u32, ready: Ready) {
        if self.links.ports[id as usize].in_train & IN_TRAIN != 0 {
            self.meet_train(id, ready.input);
        }
        let port = &mut self.links.ports[id as usize];
        port.tx_pending.insert(ready);
        let at = ready.at.max(port.sending.until);
        if at < port.due && !port.arbiter.is_lane_starved(ready.lane) {
            self.schedule_tx(id, at);
        }
    }

    #[inline]
    pub(super) fn schedule_tx(&mut self, id: u32, at: SimTime) {
        let port = &mut self.links.ports[id as usize];
        if at < port.due {
            port.due = at;
            self.timeline.push_arrival(at, port.node, (port.owner.index(), Source::Due), Event::PortDue { port: id });
        }
    }

    /// Lets a port send. Returns the resources that the last packet of an HCA's port frees.
    #[inline(always)]
    pub(crate) fn on_port_due(&mut self, id: u32, now: SimTime) -> Option<Departing> {
        let port = &mut self.links.ports[id as usize];
        if port.due != now {
            return None;
        }
        port.due = SimTime::MAX;
        let departed = if port.departs && port.sending.until <= now { port.take_departing() } else { None };
        self.transmit(id, now);
        departed
    }

    /// Starts the next packet if the link is free and flow control permits. Otherwise it schedules
    /// the port for the next chance.
    #[inline(never)]
    pub(super) fn transmit(&mut self, id: u32, now: SimTime) {
        self.refresh(id, now);
        let port = &self.links.ports[id as usize];
        if now < port.free_at() {
            if let Some(at) = port.next_tx() {
                self.schedule_tx(id, at);
            }
        } else if let Some((packet, lane)) = self.next_packet(id, now) {
            self.start(id, packet, lane, now);
        }
    }

    /// Returns the packet to send now, if any.
    #[inline(always)]
    fn next_packet(&mut self, id: u32, now: SimTime) -> Option<(u32, VirtualLane)> {
        let port = &mut self.links.ports[id as usize];
        port.flow_control.collect(now);
        if port.arbiter.is_empty()
            && let Some(ready) = take_ready(&mut port.tx_pending, now)
        {
            // A packet goes at once if it just became ready, or if no other packet is ready.
            let is_first = ready.at == now || port.tx_pending.first().is_none_or(|next| next.at > now);
            if is_first && !port.is_stalled() && self.passes(id, ready, now) {
                return Some((ready.packet, ready.lane));
            }
            self.links.ports[id as usize].enqueue(ready);
        }
        self.links.ports[id as usize].take_ready(now);
        self.choose(id, now)
    }

    /// Checks whether flow control lets a packet pass, and takes the credits.
    #[inline(always)]
    fn passes(&mut self, id: u32, ready: Ready, now: SimTime) -> bool {
        if self.links.ports[id as usize].flow_control.is_low(1 << ready.lane.0) {
            self.take_credits(id, now);
        }
        let port = &mut self.links.ports[id as usize];
        port.arbiter.passes(ready.lane, usize::from(ready.input), CreditBlocks(u32::from(ready.blocks)), &mut port.flow_control)
    }

    /// Chooses the next packet among all that wait.
    fn choose(&mut self, id: u32, now: SimTime) -> Option<(u32, VirtualLane)> {
        let port = &self.links.ports[id as usize];
        let starved_before = port.arbiter.starved();
        let is_low = port.flow_control.is_low(port.arbiter.waiting());
        if is_low {
            self.take_credits(id, now);
        }
        let port = &mut self.links.ports[id as usize];
        let mut choice = port.arbiter.choose(&mut port.flow_control, now);
        if !is_low && matches!(choice, Choice::Stalled { .. }) {
            // The packet is larger than this link's packets should be, so `is_low` missed it.
            self.take_credits(id, now);
            let port = &mut self.links.ports[id as usize];
            choice = port.arbiter.choose(&mut port.flow_control, now);
        }
        let port = &self.links.ports[id as usize];
        // Only newly starved lanes count: an attempt that sends nothing must have no effect.
        let wants_watch = port.arbiter.starved() & !starved_before != 0 && !port.watched;
        let chosen = match choice {
            Choice::Idle => {
                self.set_stalled(id, 0, now);
                if let Some(at) = self.links.ports[id as usize].next_tx() {
                    self.schedule_tx(id, at);
                }
                None
            }
            Choice::Stalled { lanes } => {
                self.set_stalled(id, lanes, now);
                self.await_message(id);
                None
            }
            Choice::Send { packet, lane, congested } => {
                self.set_stalled(id, 0, now);
                if congested {
                    self.links.mark(id, packet);
                }
                Some((packet, lane))
            }
        };
        if wants_watch {
            self.watch_queue(id, &[], now);
        }
        chosen
    }

    /// Records the lanes that lack credits while the link idles, at this port and at its receiver.
    #[inline(always)]
    pub(super) fn set_stalled(&mut self, id: u32, lanes: u16, now: SimTime) {
        let port = &mut self.links.ports[id as usize];
        let was_stalled = port.is_stalled();
        if was_stalled || lanes != 0 {
            port.set_stalled(lanes, now);
            let receiver = port.far_end;
            self.links.ports[receiver as usize].sender_waits = lanes != 0;
            if lanes != 0 && self.links.ports[id as usize].in_train & (IN_TRAIN | NOTES_PACKETS) != 0 {
                self.stall_train(id, now);
            }
        }
    }

    /// Schedules the port for the next message of the receiver, or for a ready packet on a lane
    /// that is not starved.
    fn await_message(&mut self, id: u32) {
        let port = &self.links.ports[id as usize];
        let others = port.tx_pending.iter().find(|ready| !port.arbiter.is_lane_starved(ready.lane)).map(|ready| ready.at);
        let heard = self.next_word(id);
        if let Some(at) = others.into_iter().chain(heard).min() {
            self.schedule_tx(id, at);
        }
    }

    /// Collects the credits that a port's receiver has returned by now.
    #[inline]
    pub(super) fn take_credits(&mut self, id: u32, now: SimTime) {
        let receiver = self.links.ports[id as usize].far_end as usize;
        self.refresh(receiver as u32, now);
        let Ok([sender, receiver]) = self.links.ports.get_disjoint_mut([id as usize, receiver]) else { return };
        let Some(left_by) = now.checked_sub(sender.cable_delay) else { return };
        sender.flow_control.take_back(&mut receiver.returns, left_by, receiver.sending);
    }

    /// Returns the time of the next known message from a port's receiver: credits, which may wait
    /// for a packet, or a pause frame.
    fn next_word(&self, id: u32) -> Option<SimTime> {
        let port = &self.links.ports[id as usize];
        port.flow_control.next_message(|| {
            let receiver = &self.links.ports[port.far_end as usize];
            receiver.returns.first_leaves(receiver.sending).map(|leaves| leaves + port.cable_delay)
        })
    }
}
