//! Arrivals of light packets. Most are silent: they cause no event, and the receiving HCA takes them in
//! when it needs them.
//!
//! Silent arrivals have no consequences but those on the bus and on credits. A bound of the time in the
//! receive buffer shows in advance that no packet will lack credits. It holds as long as writes at the
//! receiver wait no longer than an allowance. Each event there checks that.

use super::Plan;
use crate::hca::{Hcas, Hop};
use crate::link::{Arrived, Light, LightPacket, Silent, Stay};
use crate::pdes::timeline::{Source, Timeline};
use softband_model::parts::ReceiveMode;
use softband_model::verbs::api::HostMemory;
use softband_sim::{Moment, SimDuration, SimTime};
use softband_types::{HcaId, QpState};

impl Hcas {
    /// Returns the longest time from the first bit of a light packet to the end of its stay in the
    /// receive buffer, if arrivals can be silent: its receiver takes such packets as fast as they come.
    /// Waits for writes of others come on top.
    pub(super) fn silence(&self, hop: &Hop<'_>, port: u32, target: u32, light: &Light) -> Option<SimDuration> {
        let [sender, receiver] = [port, target].map(|port| &self.nodes[self.ports[port as usize].hca as usize]);
        let (shared, memory) = (&self.buses[receiver.shared_bus as usize], &self.memories[receiver.place.0]);
        let (time, returns) = hop.times_of_train(port, light.bytes)?;
        let [each, last_packet, latency] = receiver.bus.write_times(shared, memory, light.len)?;
        let others = self.ports_of(self.ports[target as usize].hca).filter(|other| *other != target && hop.links.cabling(*other).is_some());
        let is_alone = others.count() == 0 && receiver.part.context_cache.is_none() && !hop.faults.has_random_losses();
        if !is_alone || each > self.spacing(port, light.len, time) {
            return None;
        }
        // Packets in the sender's staging buffer may come faster than it reads.
        let excess = SimDuration::from_picos(each.as_picos().saturating_sub(time.as_picos()));
        let by_bytes = sender.part.transmit_staging_bytes.map_or(u32::MAX, |bytes| bytes.div_ceil(light.len));
        let staged = excess * u64::from(sender.part.transmit_staging_packets.max(1).min(by_bytes));
        let write = match receiver.part.receive_mode {
            ReceiveMode::CutThrough => each.max(time + last_packet),
            ReceiveMode::StoreAndForward => time + each.max(last_packet),
        };
        Some(receiver.part.receive_processing + staged + write + latency + returns)
    }

    /// Returns the time in which a port sends a packet with payload of `len` bytes, on average at least.
    /// It takes `time` on the link.
    pub(super) fn spacing(&self, port: u32, len: u32, time: SimDuration) -> SimDuration {
        time.max(self.nodes[self.ports[port as usize].hca as usize].bus.read_time(len))
    }

    /// Checks whether an HCA's own reads make no more requests than a plan whose packets it receives.
    pub(super) fn reads_no_faster(&self, node: u32, plan: &Plan) -> bool {
        let own = self.ports_of(node).filter_map(|port| self.ports[port as usize].plan.as_ref());
        let bus = &self.nodes[node as usize].bus;
        let requests = |plan: &Plan| u64::from(bus.requests(plan.light.len));
        own.into_iter().all(|own| requests(own) * plan.spacing.as_picos() <= requests(plan) * own.spacing.as_picos())
    }

    /// Ends trains to an HCA whose silent arrivals would have consequences, as soon as the present event
    /// is over.
    pub(crate) fn watch_silence(&self, hop: &mut Hop<'_>, node: u32, now: SimTime) {
        for port in self.ports_of(node) {
            if let Some(id) = hop.planned_train_to(port)
                && let Some(plan) = &self.ports[id as usize].plan
                && plan.silent.is_some()
                && !(self.nodes[node as usize].bus.write_backlog(now) <= hop.allowance(id)
                    && self.reads_no_faster(node, plan)
                    && self.will_take(hop, id, plan))
            {
                hop.let_end(id);
            }
        }
    }

    /// Checks whether the receiver of a port's light packets accepts them, and all before them.
    pub(super) fn will_take(&self, hop: &Hop<'_>, port: u32, plan: &Plan) -> bool {
        let (Some((first, end)), light) = (plan.silent, plan.light) else { return false };
        let ahead = hop.packets_under_way(port) + plan.waiting.len() as u32;
        self.slot(light.to).is_some_and(|slot| {
            let listens = slot.qp.attributes.state == QpState::Rts || slot.qp.attributes.state == QpState::Rtr && slot.established;
            let responder = &slot.qp.responder;
            let is_in_order = responder.expected_psn().plus(ahead) == plan.next;
            listens && is_in_order && responder.will_take(&slot.qp.attributes, slot.qp.hca, &self.verbs, (first, end), light.writes)
        })
    }

    /// Receives the light packets whose silent arrival at an HCA comes before `moment`.
    pub(super) fn catch_up_at(&mut self, hop: &mut Hop<'_>, node: u32, moment: Moment) {
        for port in self.ports_of(node) {
            if let Some(id) = hop.planned_train_to(port) {
                self.catch_up(hop, id, moment);
            }
        }
    }

    /// As [`Self::catch_up_at`], for the receiver of a port's train.
    pub(super) fn catch_up(&mut self, hop: &mut Hop<'_>, id: u32, moment: Moment) {
        let mut stays = std::mem::take(&mut self.silent);
        if let Some(silent) = hop.silent_arrivals(id, moment, &mut stays) {
            self.write_silent(&silent, &mut stays);
            hop.free_silent(id, &silent, &stays);
        }
        self.silent = stays;
    }

    /// Writes the payload of silent arrivals to memory.
    fn write_silent(&mut self, silent: &Silent, stays: &mut [Stay]) {
        let Silent { light: Light { to, writes, len, .. }, psn, port } = *silent;
        let hca = self.ports[port as usize].hca;
        let Some(slot) = self.qps[to as usize].as_deref_mut() else { return };
        let count = stays.len() as u32;
        let taken = slot.qp.responder.take_many(&slot.qp.attributes, HcaId(hca), &self.verbs, (psn, len, writes), count);
        debug_assert!(taken.is_some(), "the receiver takes silent packets");
        self.delivered_bytes += u64::from(len) * u64::from(count);
        let node = &mut self.nodes[hca as usize];
        let (shared, memory) = (&mut self.buses[node.shared_bus as usize], &mut self.memories[node.place.0]);
        let mut plan = self.ports[port as usize].plan.as_deref_mut();
        for stay in stays {
            // The arrival comes before a departure at the same instant.
            if let Some(plan) = &mut plan {
                plan.ask_host(&mut node.bus, |at| at < stay.head);
            }
            let start = match node.part.receive_mode {
                ReceiveMode::CutThrough => stay.head,
                ReceiveMode::StoreAndForward => stay.tail,
            } + node.part.receive_processing;
            let tail = start.max(stay.tail + node.part.receive_processing);
            stay.freed = node.bus.write(shared, memory, stay.head, start, tail, len).max(slot.in_memory_last);
            slot.in_memory_last = stay.freed;
        }
    }

    /// Lets the requests of planned reads reach the host of an HCA that come before `moment`.
    pub(super) fn ask_host_until(&mut self, hca: u32, moment: Moment) {
        for port in self.ports_of(hca) {
            let Some(plan) = &mut self.ports[port as usize].plan else { continue };
            let node = &mut self.nodes[hca as usize];
            let place = ((port - node.first_port) as u8, Source::Due);
            plan.ask_host(&mut node.bus, |at| Timeline::moment_of(at, hca, place) < moment);
        }
    }

    /// Receives a packet of a train.
    #[inline]
    pub(crate) fn on_train_arrival(&mut self, hop: &mut Hop<'_>, train: (u32, u16), memory: &mut dyn HostMemory, now: SimTime) {
        match hop.on_train_arrival(train, now) {
            Some(Arrived::Light(packet)) => self.on_light_arrival(hop, &packet, memory, now),
            Some(Arrived::Real(packet)) => {
                if self.takes_part_in_plans(hop.timeline.node()) {
                    self.cut_before_arrival(hop, packet);
                }
                self.on_hca_arrival(hop, packet, memory, now);
            }
            None => {}
        }
    }

    /// Receives a light packet.
    fn on_light_arrival(&mut self, hop: &mut Hop<'_>, packet: &LightPacket, memory: &mut dyn HostMemory, now: SimTime) {
        let hca = self.ports[packet.port as usize].hca;
        let moment = hop.timeline.moment();
        if self.plans > 0 {
            self.ask_host_until(hca, moment);
        }
        let freed = if hop.faults.draws_loss() {
            packet.tail
        } else if let Some(freed) = self.take_light(hop.timeline, packet, now) {
            freed
        } else if let Some(transit) = hop.transit_of(packet) {
            // It has consequences.
            self.cut_at(hop, hca);
            self.receive(hop, transit, memory, now)
        } else {
            packet.tail
        };
        hop.free_buffer(packet.port, packet.lane, packet.blocks, freed, now);
        hop.note_light_freed(packet, freed, now);
    }

    /// Writes the payload of a light packet to memory, if its queue pair accepts it and nothing follows.
    /// Returns the time at which its buffer is free.
    fn take_light(&mut self, timeline: &mut Timeline, packet: &LightPacket, now: SimTime) -> Option<SimTime> {
        let Light { to, writes, len, .. } = packet.light;
        let slot = self.qps[to as usize].as_deref_mut()?;
        let hca = slot.qp.hca;
        let listens = matches!(slot.qp.attributes.state, QpState::Rtr | QpState::Rts);
        if !listens || slot.port != Some(packet.port) {
            return None;
        }
        slot.qp.responder.take_counted(&slot.qp.attributes, hca, &self.verbs, (packet.psn, len, writes))?;
        self.note_established(timeline, to, now);
        let has_context = self.use_context(hca.0, to, now);
        Some(self.write_payload(to, (len, false), (packet.head.max(has_context), packet.tail.max(has_context)), now))
    }
}
