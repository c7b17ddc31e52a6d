//! Faults in a World: links that go down and come up, and the fate of their packets.

use super::{FaultCounters, Faults, Loss};
use crate::construct::port_of;
use crate::event::Event;
use crate::link::port::{Cabling, Owner, Port, Traffic};
use crate::link::tx_pending::Ready;
use crate::notice::Notice;
use crate::pdes::timeline::Source;
use crate::world::{Transit, World};
use softband_model::link::{Framing, Sending};
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::{HcaId, Lid, PortNumber, VirtualLane};

/// `IBV_EVENT_PORT_ACTIVE`.
const EVENT_PORT_ACTIVE: u32 = 9;
/// `IBV_EVENT_PORT_ERR`.
const EVENT_PORT_ERROR: u32 = 10;

impl World {
    /// Adds faults. All of them must lie in the future.
    ///
    /// # Panics
    /// Panics if a fault names an object that does not exist.
    pub fn add_faults(&mut self, faults: &[FaultSpec]) {
        if faults.is_empty() {
            return;
        }
        let mut all = self.faults.take().unwrap_or_else(|| {
            let ends = self.spec.cables.iter().map(|cable| cable.ends.map(|end| port_of(self, end))).collect();
            Box::new(Faults::new(self.seed, ends, self.ports.len()))
        });
        let first = faults.iter().map(|fault| fault.at).min().unwrap_or_default();
        all.add(&self.spec, faults, |fault| match fault.kind {
            FaultKind::Drop { port, .. } => Some(port_of(self, port)),
            _ => None,
        });
        self.faults = Some(all);
        self.schedule_turns(first, faults);
    }

    /// Schedules an event for each link change from `first` on, at the ends in this partition, and
    /// for each host's death.
    pub(crate) fn schedule_turns(&mut self, first: SimTime, faults: &[FaultSpec]) {
        let Some(all) = &self.faults else { return };
        for (at, ends) in all.turns(first) {
            for port in ends {
                let node = self.ports[port as usize].node;
                if self.partition.has(node) {
                    self.queue.push(at, node, Event::LinkTurns { port });
                }
            }
        }
        for fault in faults {
            if let FaultKind::HostDies { host } = fault.kind
                && let Some(node) = self.hcas.iter().position(|hca| hca.place.0 == host)
                && self.partition.has(node as u32)
            {
                self.queue.push(fault.at, node as u32, Event::HostDies { host: host as u32 });
            }
        }
    }

    /// Schedules all faults again after the partition of this World changed.
    pub(crate) fn schedule_all_turns(&mut self) {
        let plan = self.faults.as_ref().map_or_else(Vec::new, |faults| faults.plan().to_vec());
        self.schedule_turns(SimTime::ZERO, &plan);
    }

    /// Checks whether a port's link is down, according to past events.
    pub(crate) fn is_link_down(&self, port: u32) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.ports[port as usize].is_down)
    }

    /// Checks whether the plan has a port's link down at `at`.
    #[inline]
    pub(crate) fn will_be_down(&self, port: u32, at: SimTime) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.is_down(port, at))
    }

    pub(crate) fn on_link_turns(&mut self, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let Some(faults) = &mut self.faults else { return };
        let recovers_until = faults.recovers_until(id, now);
        let is_down = faults.is_down(id, now);
        let state = &mut faults.ports[id as usize];
        let was_down = std::mem::replace(&mut state.is_down, is_down);
        match (was_down, is_down) {
            (false, true) => {
                state.counters.link_downed += 1;
                self.report_port_event(id, EVENT_PORT_ERROR, now);
                self.discard_all(id, memory, now);
            }
            (true, false) => self.report_port_event(id, EVENT_PORT_ACTIVE, now),
            _ => {}
        }
        if let Some(until) = recovers_until {
            self.pause_for_recovery(id, until, now);
        }
    }

    fn report_port_event(&mut self, id: u32, event: u32, now: SimTime) {
        let Port { owner, number, node, .. } = self.ports[id as usize];
        if let Owner::Hca { hca, .. } = owner {
            self.report(now, node, Notice::PortEvent { hca: HcaId(hca), port: number, event });
        }
    }

    pub(crate) fn on_host_dies(&mut self, host: u32, notices: &mut Vec<Notice>) {
        notices.push(Notice::HostDied { host: host as usize });
    }

    /// Blocks a port until its link has retrained.
    fn pause_for_recovery(&mut self, id: u32, until: SimTime, now: SimTime) {
        let port = &mut self.ports[id as usize];
        port.returns.settle(now, port.sending);
        port.sending = Sending { from: now, until: port.sending.until.max(until) };
        if let Some(at) = port.next_tx() {
            self.schedule_tx(id, at);
        }
        if let Some(faults) = &mut self.faults {
            faults.ports[id as usize].counters.link_error_recovery += 1;
        }
    }

    /// Discards all packets that wait at a port with a down link (IBTA 7.2.2). It keeps packets
    /// that become ready after the link is up again.
    fn discard_all(&mut self, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let mut gone = Vec::new();
        let lanes = self.ports[id as usize].cabling.map_or(0, |cabling| cabling.vls.data_lanes());
        for lane in (0..lanes).map(VirtualLane) {
            gone.extend(std::iter::from_fn(|| self.ports[id as usize].arbiter.discard_head(lane)).map(|waiting| waiting.packet));
        }
        let waiting: Vec<Ready> = std::iter::from_fn(|| self.ports[id as usize].tx_pending.pop_first()).collect();
        for ready in waiting {
            if self.will_be_down(id, ready.at.max(now)) {
                gone.push(ready.packet);
            } else {
                self.ports[id as usize].tx_pending.insert(ready);
            }
        }
        self.set_stalled(id, 0, now);
        for packet in gone {
            self.discard(id, packet, memory, now);
        }
        if let Some(at) = self.ports[id as usize].next_tx() {
            self.schedule_tx(id, at.max(now));
        }
    }

    /// Discards a packet that was to leave by a port, and frees its resources.
    fn discard(&mut self, id: u32, packet: u32, memory: &mut dyn HostMemory, now: SimTime) {
        self.ports[id as usize].tally.xmit_discards += 1;
        let transit = self.packets.take(packet);
        let owner = self.ports[id as usize].owner;
        match owner {
            Owner::Hca { .. } => {
                let completes = transit.completes.as_deref().copied();
                self.on_departed(id, (transit.lane, transit.bytes), transit.staged.then_some(completes), memory, now);
            }
            Owner::Switch { .. } if self.last_copy_leaves(transit.copies) => {
                self.free_buffer(transit.port, transit.lane, transit.blocks, transit.tail.max(now), now);
            }
            Owner::Switch { .. } => {}
        }
        self.packet_pool.take_back(transit.packet);
    }

    /// Checks whether a packet that has begun to leave by a port is lost on the cable. The other
    /// end then receives only the loss event.
    #[cold]
    pub(crate) fn is_lost_on_cable(&mut self, packet: u32, by: u32) -> bool {
        let port = &self.ports[by as usize];
        let (number, delay, far_end) = (port.sent.packets, port.cable_delay, port.far_end);
        let transit = self.packets.get_mut(packet);
        let sent = transit.head.checked_sub(delay).unwrap_or_default();
        let Some(faults) = &mut self.faults else { return false };
        let Some((loss, errors)) = faults.loss(by, (sent, transit.tail), (&transit.packet.kind, number, transit.bytes)) else { return false };
        transit.time_out = errors; // it leaves by no other port, so the field is free
        let peer = &self.ports[far_end as usize];
        let event = match loss {
            Loss::LinkDown => Event::LostOnCable { packet },
            Loss::Corrupted => Event::Corrupted { packet },
        };
        self.queue.push_arrival(transit.tail, peer.node, (peer.owner.index(), Source::Packets), event);
        true
    }

    /// Handles a packet that was lost on the cable: counts a corrupted packet, and frees its share
    /// of the buffer.
    pub(crate) fn on_lost(&mut self, id: u32, loss: Loss, now: SimTime) {
        let transit = self.packets.take(id);
        self.count_loss(&transit, loss);
        // On Ethernet no buffer held it.
        if self.ports[transit.port as usize].framing == Framing::Infiniband {
            self.free_buffer(transit.port, transit.lane, transit.blocks, transit.tail, now);
        }
        self.packet_pool.take_back(transit.packet);
    }

    fn count_loss(&mut self, transit: &Transit, loss: Loss) {
        let Some(faults) = &mut self.faults else { return };
        let state = &mut faults.ports[transit.port as usize];
        match loss {
            Loss::LinkDown => state.lost.count(transit.bytes),
            Loss::Corrupted => {
                state.counters.port_rcv_errors += 1;
                state.counters.symbol_error += u64::from(transit.time_out);
                self.count_received(transit.port, transit.bytes);
            }
        }
    }

    /// Checks whether a command took the link down while an arriving packet was on it.
    #[cold]
    pub(crate) fn is_cut_off(&mut self, transit: &Transit) -> bool {
        let sent = transit.head.checked_sub(self.ports[transit.port as usize].cable_delay).unwrap_or_default();
        let is_cut = self.faults.as_ref().is_some_and(|faults| faults.is_cut(transit.port, sent, transit.tail));
        if is_cut {
            self.count_loss(transit, Loss::LinkDown);
        }
        is_cut
    }

    /// Returns a port's fault counters; `None` in a fabric without faults.
    pub(crate) fn fault_counters(&self, port: u32) -> Option<FaultCounters> {
        self.faults.as_ref().map(|faults| faults.ports[port as usize].counters)
    }

    /// Returns the traffic that a port's peer sent, minus the losses on the cable.
    pub(crate) fn what_has_come(&self, port: u32, peer: u32) -> Traffic {
        let sent = self.ports[peer as usize].sent;
        let lost = self.faults.as_ref().map_or(Traffic::default(), |faults| faults.ports[port as usize].lost);
        Traffic { bytes: sent.bytes - lost.bytes, packets: sent.packets - lost.packets }
    }

    /// Discards a packet whose output link will be down.
    pub(crate) fn discard_for_down(&mut self, packet: u32, output: u32) {
        let transit = self.packets.get_mut(packet);
        let (input, tail) = (&self.ports[transit.port as usize], transit.tail);
        let event = Event::DiscardedByPort { packet, output: self.ports[output as usize].owner.index() };
        self.queue.push_arrival(tail, input.node, (input.owner.index(), Source::Packets), event);
    }

    pub(crate) fn on_discarded_by_port(&mut self, packet: u32, output: u8, now: SimTime) {
        let input = self.packets.get_mut(packet).port;
        if let Owner::Switch { switch, .. } = self.ports[input as usize].owner {
            let output = self.switches[switch as usize].first_port + u32::from(output);
            self.ports[output as usize].tally.xmit_discards += 1;
        }
        self.on_switch_discard(packet, now);
    }

    /// Keeps the branches of a multicast packet whose links will be up when it arrives.
    pub(crate) fn open_branches(&mut self, branches: Vec<(u32, Cabling)>, at: SimTime) -> Vec<(u32, Cabling)> {
        let (down, open): (Vec<_>, Vec<_>) = branches.into_iter().partition(|(output, _)| self.will_be_down(*output, at));
        down.iter().for_each(|(output, _)| self.ports[*output as usize].tally.xmit_discards += 1);
        open
    }

    /// Checks for a planned or active fault on the route from a port to `dlid`, now or later. False
    /// without a route.
    pub fn is_way_affected(&self, from: (HcaId, PortNumber), dlid: Lid, now: SimTime) -> bool {
        let Some(faults) = &self.faults else { return false };
        let mut at = self.port_index(from.0, from.1);
        // No route passes a switch twice.
        for _ in 0..=self.switches.len() {
            let Some(port) = at.filter(|port| self.ports[*port as usize].cabling.is_some()) else { return false };
            if faults.is_affected_from(port, now) {
                return true;
            }
            let Owner::Switch { switch, .. } = self.ports[self.ports[port as usize].far_end as usize].owner else { return false };
            let node = &self.switches[switch as usize];
            at = node.switch.route(dlid).map(|output| node.first_port + output as u32);
        }
        false
    }

    /// Checks for a fault, now or later, on any route that a port's packets may take.
    pub fn is_any_way_affected(&self, hca: HcaId, number: PortNumber, now: SimTime) -> bool {
        let (Some(faults), Some(own)) = (&self.faults, self.port_index(hca, number)) else { return false };
        let is_between_switches = |port: u32| {
            let far_end = self.ports[port as usize].far_end;
            let is_switch = |id: u32| self.ports.get(id as usize).is_some_and(|port| matches!(port.owner, Owner::Switch { .. }));
            is_switch(port) && is_switch(far_end)
        };
        let mut ports = (0..self.ports.len() as u32).filter(|port| *port == own || is_between_switches(*port));
        ports.any(|port| faults.is_affected_from(port, now))
    }

    /// Checks whether a host or switch at an end of a cable has died. Its link then never comes up
    /// again.
    pub fn has_dead_end(&self, cable: usize) -> bool {
        let now = self.queue.now();
        let is_death = |fault: &FaultSpec| fault.at <= now && self.spec.cables_of(&fault.kind).contains(&cable);
        self.faults.as_ref().is_some_and(|faults| faults.plan().iter().any(is_death))
    }

    /// Checks whether a host has died.
    pub fn is_host_dead(&self, host: usize) -> bool {
        let now = self.queue.now();
        let is_death = |fault: &FaultSpec| fault.kind == FaultKind::HostDies { host } && fault.at <= now;
        self.faults.as_ref().is_some_and(|faults| faults.plan().iter().any(is_death))
    }
}
