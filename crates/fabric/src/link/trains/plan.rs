//! Planned departures: packets of a train leave an HCA before their time comes.
//!
//! While an HCA sends the middle of a message, its next departures depend on nothing but itself. It
//! plans them, and takes back the rest of a plan when something happens there. Packets that it makes
//! meanwhile are *light*: they exist as numbers in the train.

use super::{LIGHT, Launch, Path, Source, Sums, Template};
use crate::event::Event;
use crate::link::port::{NOTES_PACKETS, PLANS};
use crate::link::tx_pending::{Ready, take_ready};
use crate::link::{Departing, Hop, Links, Transit};
use crate::pdes::timeline::Source as EventSource;
use softband_model::link::Sending;
use softband_model::packet::Packet;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, Psn, VirtualLane};
use std::collections::VecDeque;

/// A packet that is ready to leave at `at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub at: SimTime,
    pub load: Load,
}

/// A packet in flight by its number, or a light packet by its PSN.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    Real(u32),
    Light(Psn),
}

/// The common part of light packets: queue pairs at both ends, and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Light {
    pub from: u32,
    pub to: u32,
    /// They belong to an RDMA write.
    pub writes: bool,
    /// Payload in bytes.
    pub len: u32,
    pub bytes: u32,
}

/// A planned departure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub bytes: u32,
    pub until: SimTime,
}

impl Hop<'_> {
    /// Checks whether an HCA's port has a train, so that departures can be planned.
    #[inline]
    pub(crate) fn may_plan(&self, id: u32) -> bool {
        self.links.ports[id as usize].in_train & NOTES_PACKETS != 0 && self.links.trains.path(id).is_some()
    }

    /// Checks whether trains form as soon as they can, for tests.
    pub(crate) fn seeks_trains(&self) -> bool {
        self.links.trains.is_eager
    }

    /// Returns the receiving port of a train, and its lane at the HCA that sends.
    pub(crate) fn train_of(&self, id: u32) -> Option<(u32, VirtualLane)> {
        let path = self.links.trains.path(id)?;
        Some((path.target, self.links.trains.sources[id as usize].lane))
    }

    /// Makes `packet` the model of a port's light packets, unless some are under way. Returns `false` if
    /// it cannot follow the port's train, or is not like those.
    pub(crate) fn model_light(&mut self, id: u32, packet: Packet, light: Light) -> bool {
        let source = &mut self.links.trains.sources[id as usize];
        let Some(path) = source.path.as_deref() else { return false };
        let fits = packet.dlid == source.dlid && packet.service_level == source.level && light.len <= u32::from(path.mtu_bytes);
        if !fits {
            return false;
        }
        if source.launches.iter().any(|launch| launch.packet == LIGHT && launch.sums.packets >= path.next_arrival) {
            return source.template.as_ref().is_some_and(|template| template.light == light);
        }
        let time = self.links.ports[id as usize].serialisation(light.bytes);
        source.template = Some(Box::new(Template { light, time, blocks: CreditBlocks::for_packet(light.bytes), packet }));
        true
    }

    /// Takes out the packets that wait to leave by a port, if all are of its train. Departures are
    /// planned from now on.
    pub(crate) fn take_waiting(&mut self, id: u32) -> Option<VecDeque<Staged>> {
        let Links { trains, packets, ports, .. } = &mut *self.links;
        let (source, port) = (&mut trains.sources[id as usize], &mut ports[id as usize]);
        let mtu_bytes = source.path.as_deref()?.mtu_bytes;
        let (dlid, lane, level) = (source.dlid, source.lane, source.level);
        let follows = |packet: u32| {
            let transit = packets.get(packet);
            let is_of_train = transit.dlid == dlid && transit.lane == lane && transit.service_level == level;
            is_of_train && (1..=mtu_bytes).contains(&transit.payload_bytes) && transit.staged && transit.completes.is_none()
        };
        let is_departing = port.departing.is_none_or(|departing| departing.lane == lane && departing.completes.is_none());
        let waits = || port.arbiter.waiting_from(lane, 0).map(|waiting| waiting.packet).chain(port.tx_pending.iter().map(|ready| ready.packet));
        if !port.can_plan(lane) || !is_departing || !waits().all(follows) {
            return None;
        }
        let mut waiting = VecDeque::with_capacity(32);
        while let Some(first) = port.arbiter.take_from(lane, 0) {
            // It has been ready for a while. The time does not count any more.
            waiting.push_back(Staged { at: SimTime::ZERO, load: Load::Real(first.packet) });
        }
        while let Some(ready) = take_ready(&mut port.tx_pending, SimTime::MAX) {
            waiting.push_back(Staged { at: ready.at, load: Load::Real(ready.packet) });
        }
        source.shown = source.sums;
        port.in_train |= PLANS;
        Some(waiting)
    }

    /// Takes out the departure of the packet on a port's link. Returns its size and lane if there is
    /// one, and the time at which the link is free.
    pub(crate) fn take_departure(&mut self, id: u32) -> (Option<Departing>, SimTime) {
        let port = &mut self.links.ports[id as usize];
        (port.take_departing(), port.sending.until)
    }

    /// Lets a packet leave a port at `at`, which may lie in the future. Returns `None` if it would
    /// lack credits.
    ///
    /// With `silence`, arrivals of light packets are silent. It is the longest time from the first bit
    /// of a packet to the end of its stay in the receive buffer, and the time for which writes wait
    /// there now. It comes on top.
    pub(crate) fn launch_ahead(&mut self, id: u32, staged: Staged, at: SimTime, silence: Option<(SimDuration, SimDuration)>) -> Option<Departure> {
        let Links { trains, packets, ports, .. } = &mut *self.links;
        let (source, port) = (&mut trains.sources[id as usize], &mut ports[id as usize]);
        let (packet, psn, bytes, time, blocks) = match staged.load {
            Load::Real(packet) => {
                let bytes = packets.get(packet).bytes;
                (packet, Psn::new(0), bytes, port.serialisation(bytes), CreditBlocks::for_packet(bytes))
            }
            Load::Light(psn) => {
                let template = source.template.as_deref()?;
                (LIGHT, psn, template.light.bytes, template.time, template.blocks)
            }
        };
        let sums = source.sums;
        let is_silent = silence.is_some() && packet == LIGHT;
        let launch = Launch { at, time, packet, psn, bytes, blocks: blocks.0, has_payload: true, is_silent, carried: true, returned: None, sums };
        source.push(launch);
        if !source.has_room_first(at) || !source.has_room_between(at) || !source.has_room_ahead(at, silence) {
            source.unnote();
            return None;
        }
        let path = source.path.as_deref()?;
        trains.passages += path.hops.len() as u64;
        port.flow_control.owe(source.lane, blocks);
        if let Load::Real(packet) = staged.load {
            let transit = packets.get_mut(packet);
            (transit.head, transit.tail) = (at + path.to_target, at + path.to_target + time);
            (transit.port, transit.staged) = (path.target, false);
            transit.lane = path.hops.last().map_or(transit.lane, |hop| hop.lane_out);
        }
        if !is_silent {
            let (head, number) = (at + path.to_target, path.number);
            let peer = &ports[path.target as usize];
            let place = (peer.owner.index(), EventSource::Packets);
            self.timeline.push_arrival(head, peer.node, place, Event::TrainArrival { source: id, train: number });
        }
        Some(Departure { bytes, until: at + time })
    }

    /// Takes the last departure of a port back, before its time.
    pub(crate) fn take_launch_back(&mut self, id: u32, staged: Staged) {
        let Links { trains, packets, ports, .. } = &mut *self.links;
        let source = &mut trains.sources[id as usize];
        let Some(launch) = source.unnote() else { return };
        trains.passages -= source.path.as_ref().map_or(0, |path| path.hops.len() as u64);
        ports[id as usize].flow_control.give_back(source.lane, CreditBlocks(launch.blocks));
        if let Load::Real(packet) = staged.load {
            let transit = packets.get_mut(packet);
            (transit.port, transit.lane, transit.staged) = (id, source.lane, true);
            (transit.head, transit.tail) = (SimTime::ZERO, SimTime::ZERO);
        }
    }

    /// Shows planned departures before `now` at their port.
    pub(crate) fn show_departures(&mut self, id: u32, now: SimTime) {
        let Links { trains, ports, .. } = &mut *self.links;
        let (source, port) = (&mut trains.sources[id as usize], &mut ports[id as usize]);
        let before = source.shown;
        let gone = source.sums_before().packets;
        for launch in source.launches.iter().skip((before.packets - gone) as usize) {
            if launch.at >= now {
                break;
            }
            source.shown = launch.sums;
            port.returns.settle(launch.at, port.sending);
            port.sending = Sending { from: launch.at, until: launch.at + launch.time };
        }
        if source.shown != before {
            port.sent.packets += source.shown.packets - before.packets;
            port.sent.bytes += source.shown.bytes - before.bytes;
            port.arbiter.note_passage(source.lane, 0);
        }
    }

    /// Ends the plan of a port: packets that wait are real from now on, and `departing` is on the
    /// link. All planned departures have happened.
    pub(crate) fn end_plan(&mut self, id: u32, waiting: impl Iterator<Item = Staged>, departing: Option<Departing>) {
        self.show_departures(id, SimTime::MAX);
        self.announce_arrivals(id);
        for staged in waiting {
            let packet = match staged.load {
                Load::Real(packet) => packet,
                Load::Light(psn) => {
                    let Some(transit) = self.links.transit_of_light(id, psn) else { continue };
                    self.links.packets.insert(Transit { staged: true, ..transit })
                }
            };
            let transit = self.links.packets.get(packet);
            let ready = Ready { at: staged.at, packet, input: 0, lane: transit.lane, blocks: transit.blocks };
            self.links.ports[id as usize].tx_pending.insert(ready);
        }
        let port = &mut self.links.ports[id as usize];
        port.in_train &= !PLANS;
        (port.departing, port.departs) = (departing, departing.is_some());
        port.due = SimTime::MAX;
        if let Some(at) = port.next_tx() {
            self.schedule_tx(id, at.max(self.timeline.now()));
        }
    }

    /// Schedules the arrivals that were silent.
    pub(crate) fn announce_arrivals(&mut self, id: u32) {
        let source = &mut self.links.trains.sources[id as usize];
        let Some(path) = source.path.as_deref_mut() else { return };
        path.allowance = SimDuration::from_picos(u64::MAX);
        let (to_target, train, peer) = (path.to_target, path.number, &self.links.ports[path.target as usize]);
        let place = (peer.owner.index(), EventSource::Packets);
        for launch in source.launches.iter_mut().rev().take_while(|launch| launch.sums.packets >= path.next_arrival) {
            if std::mem::take(&mut launch.is_silent) {
                self.timeline.push_arrival(launch.at + to_target, peer.node, place, Event::TrainArrival { source: id, train });
            }
        }
    }

    /// Returns the port from which a train with planned departures comes to an HCA's port.
    pub(crate) fn planned_train_to(&self, port: u32) -> Option<u32> {
        let id = self.links.ports[port as usize].train_in;
        self.links.ports.get(id as usize).filter(|start| start.in_train & PLANS != 0).map(|_| id)
    }

    /// Returns the time for which writes may wait at the receiver of a train.
    pub(crate) fn allowance(&self, id: u32) -> SimDuration {
        self.links.trains.path(id).map_or(SimDuration::ZERO, |path| path.allowance)
    }

    /// Ends a train as soon as the present event is over.
    pub(crate) fn let_end(&mut self, id: u32) {
        self.links.trains.ending.push(id);
    }

    /// Returns the times of a train's link: of a packet of `bytes`, and from the end of a packet's stay
    /// at the receiver to its credits at the last switch.
    pub(crate) fn times_of_train(&self, id: u32, bytes: u32) -> Option<(SimDuration, SimDuration)> {
        let path = self.links.trains.path(id)?;
        let returns = self.links.ports[path.target as usize].credit_return + path.last.1;
        Some((self.links.ports[id as usize].serialisation(bytes), returns))
    }

    /// Forgets packets of a port's train that leave no trace at `now`.
    pub(crate) fn forget_launches(&mut self, id: u32, now: SimTime) {
        self.links.trains.sources[id as usize].forget(now);
    }

    /// Returns the number of packets that have left a port, or will leave it by plan, and that have not
    /// arrived.
    pub(crate) fn packets_under_way(&self, id: u32) -> u32 {
        let source = &self.links.trains.sources[id as usize];
        source.path.as_ref().map_or(0, |path| (source.sums.packets + 1 - path.next_arrival) as u32)
    }

    /// Checks whether a port is to try to send now.
    pub(crate) fn is_due(&self, id: u32) -> bool {
        self.links.ports[id as usize].due == self.timeline.now()
    }

    /// Schedules a port with a plan for `at`, and for no earlier time.
    pub(crate) fn wake_plan(&mut self, id: u32, at: SimTime) {
        self.links.ports[id as usize].due = SimTime::MAX;
        self.schedule_tx(id, at);
    }

    #[inline]
    pub(crate) fn has_ending(&self) -> bool {
        !self.links.trains.ending.is_empty()
    }

    /// Returns the next train with planned departures that must end.
    pub(crate) fn take_ending(&mut self) -> Option<u32> {
        self.links.trains.ending.pop()
    }

    /// Ends a train whose departures are not planned any more. All events before `now` have happened.
    pub(crate) fn end_train(&mut self, id: u32, now: SimTime) {
        self.dissolve(id, now);
    }

    /// Makes a train's light packets real that have not arrived.
    pub(super) fn embody(&mut self, id: u32) {
        let Some(source) = self.links.trains.sources.get(id as usize) else { return };
        let Some(path) = source.path.as_deref() else { return };
        let (target, to_target, lane) = (path.target, path.to_target, path.hops.last().map(|hop| hop.lane_out));
        let is_under_way = |launch: &Launch| launch.packet == LIGHT && launch.sums.packets >= path.next_arrival;
        let light: Vec<usize> = (0..source.launches.len()).filter(|index| is_under_way(&source.launches[*index])).collect();
        for index in light {
            let launch = self.links.trains.sources[id as usize].launches[index];
            let Some(mut transit) = self.links.transit_of_light(id, launch.psn) else { continue };
            transit.head = launch.at + to_target;
            transit.tail = transit.head + launch.time;
            (transit.port, transit.lane) = (target, lane.unwrap_or(transit.lane));
            self.links.trains.sources[id as usize].launches[index].packet = self.links.packets.insert(transit);
        }
    }
}

impl Links {
    /// Returns a light packet as a packet that is to leave by its port.
    pub(super) fn transit_of_light(&mut self, id: u32, psn: Psn) -> Option<Transit> {
        let source = &self.trains.sources[id as usize];
        let Template { light, packet, .. } = source.template.as_deref()?;
        let packet = self.packet_pool.place(Packet { psn, ..packet.clone() });
        Some(Transit::new(packet, light.bytes, id, source.lane))
    }

    /// Returns the planned departures of a port by `until` that it does not show.
    pub(super) fn planned_unseen(&self, id: u32, until: SimTime) -> Sums {
        let Some(source) = self.trains.sources.get(id as usize) else { return Sums::default() };
        let last = source.launches.iter().rev().find(|launch| launch.at <= until);
        last.map_or(Sums::default(), |launch| launch.sums.beyond(source.shown))
    }
}

impl Source {
    /// As [`Self::has_room`] for the last link, ahead of time. A packet whose arrival is silent must
    /// leave the receive buffer in time even if writes there wait as long as the allowance permits.
    #[inline]
    fn has_room_ahead(&mut self, now: SimTime, silence: Option<(SimDuration, SimDuration)>) -> bool {
        let Some(Path { last, to_last, to_target, returned, .. }) = self.path.as_deref() else { return false };
        let (last, leaves, to_target, returned) = (*last, now + *to_last, *to_target, *returned);
        let Some(needed) = self.needed(1, last.0) else { return true };
        if let Some(returned) = needed.returned {
            return returned <= leaves;
        }
        let arrives = needed.arrives(to_target);
        let Some((stay, backlog)) = silence.filter(|_| needed.is_silent) else { return arrives < leaves && returned <= leaves };
        let left = leaves.as_picos().checked_sub((arrives + stay).as_picos());
        let Some(allowance) = left.map(SimDuration::from_picos).filter(|left| *left >= backlog) else { return false };
        if let Some(path) = &mut self.path {
            path.allowance = path.allowance.min(allowance);
        }
        returned <= leaves
    }

    /// Forgets the packet that was noted last.
    fn unnote(&mut self) -> Option<Launch> {
        let launch = self.launches.pop_back()?;
        self.alike = self.alike.saturating_sub(1);
        self.sums = launch.sums_before();
        if let Some(path) = self.path.as_deref_mut() {
            // They may lie behind the last packet now.
            path.gates = [0; 3];
        }
        Some(launch)
    }

    /// Checks whether the first link will have credits for the packets so far. The last packet leaves
    /// at `now`.
    #[inline]
    fn has_room_first(&mut self, now: SimTime) -> bool {
        let Some((room, stay)) = self.path.as_ref().map(|path| path.first) else { return false };
        self.needed(2, room).is_none_or(|launch| launch.at + stay <= now)
    }
}
