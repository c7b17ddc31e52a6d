//! Arrivals of a train's packets at the receiving HCA.

use super::plan::Light;
use super::{LIGHT, Source};
use crate::link::port::{ENDS_TRAIN, PLANS};
use crate::link::{Hop, Links, Transit};
use crate::pdes::timeline::{Source as EventSource, Timeline};
use softband_sim::{Moment, SimTime};
use softband_types::{CreditBlocks, Psn, VirtualLane};

/// A packet of a train at the port of its receiver.
pub(crate) enum Arrived {
    Real(u32),
    Light(LightPacket),
}

/// Light packets whose arrival at the port of their receiver is silent, from a PSN on.
pub(crate) struct Silent {
    pub light: Light,
    pub psn: Psn,
    pub port: u32,
}

/// A packet in the receive buffer of an HCA: arrival times of its first and last bit, and the time at
/// which its buffer is free.
#[derive(Clone, Copy)]
pub(crate) struct Stay {
    pub head: SimTime,
    pub tail: SimTime,
    pub freed: SimTime,
}

/// A light packet at the port of its receiver.
#[derive(Clone, Copy)]
pub(crate) struct LightPacket {
    pub light: Light,
    pub psn: Psn,
    /// The port by which it arrives, and its lane there.
    pub port: u32,
    pub lane: VirtualLane,
    pub blocks: u16,
    /// Arrival times of its first and last bit.
    pub head: SimTime,
    pub tail: SimTime,
    /// The port from which its train starts.
    source: u32,
}

impl Source {
    /// Checks whether no packet will lack the credits of the last packets that have arrived.
    fn has_credits(&self, arrivals: usize) -> bool {
        let (Some(path), Some(first)) = (self.path.as_deref(), self.launches.front()) else { return true };
        let room = u64::from(path.last.0.saturating_sub(path.lost));
        let end = (path.next_arrival - first.sums.packets) as usize;
        (end - arrivals..end).all(|index| {
            let launch = &self.launches[index];
            let before = launch.sums_before();
            let needs_it = self.launches.range(index..).find(|later| later.sums.blocks - before.blocks > room);
            needs_it.is_none_or(|later| launch.returned.is_some_and(|returned| returned <= later.at + path.to_last))
        })
    }
}

impl Hop<'_> {
    /// Returns the packet of a train that arrives at `now`; `None` if the train ended meanwhile.
    pub(crate) fn on_train_arrival(&mut self, (id, train): (u32, u16), now: SimTime) -> Option<Arrived> {
        let source = self.links.trains.sources.get_mut(id as usize)?;
        let path = source.path.as_deref_mut().filter(|path| path.number == train)?;
        let first = source.launches.front()?.sums.packets;
        let launch = source.launches.get(path.next_arrival.checked_sub(first)? as usize)?;
        let is_due = launch.carried && launch.arrives(path.to_target) == now;
        if !is_due || self.links.ports[path.target as usize].node != self.timeline.node() {
            return None;
        }
        path.next_arrival += 1;
        let (packet, blocks, last) = (launch.packet, launch.blocks, path.hops.last()?);
        let (output, lane) = (last.output, last.lane_out);
        let arrived = if packet == LIGHT {
            let (light, head, blocks) = (source.template.as_ref()?.light, launch.at + path.to_target, blocks as u16);
            Arrived::Light(LightPacket { light, psn: launch.psn, port: path.target, lane, blocks, head, tail: head + launch.time, source: id })
        } else {
            Arrived::Real(packet)
        };
        self.take_room(output, lane, blocks, now);
        Some(arrived)
    }

    /// Returns the light packets of a train whose silent arrival comes before `moment`, if there are
    /// any, and fills `stays`.
    pub(crate) fn silent_arrivals(&mut self, id: u32, moment: Moment, stays: &mut Vec<Stay>) -> Option<Silent> {
        let source = self.links.trains.sources.get_mut(id as usize)?;
        let path = source.path.as_deref()?;
        let (target, to_target) = (path.target, path.to_target);
        let peer = &self.links.ports[target as usize];
        let place = (peer.owner.index(), EventSource::Packets);
        let index = path.next_arrival.checked_sub(source.launches.front()?.sums.packets)? as usize;
        let psn = source.launches.get(index)?.psn;
        stays.clear();
        for launch in source.launches.range(index..).take_while(|launch| launch.is_silent) {
            let head = launch.at + to_target;
            if Timeline::moment_of(head, peer.node, place) >= moment {
                break;
            }
            stays.push(Stay { head, tail: head + launch.time, freed: head });
        }
        let light = source.template.as_ref()?.light;
        (!stays.is_empty()).then_some(Silent { light, psn, port: target })
    }

    /// Notes silent arrivals, and when their buffers are free.
    pub(crate) fn free_silent(&mut self, id: u32, silent: &Silent, stays: &[Stay]) {
        let target = silent.port;
        self.links.trains.silent += stays.len() as u64;
        let Some((output, lane)) = self.links.trains.path(id).and_then(|path| path.hops.last()).map(|last| (last.output, last.lane_out)) else {
            return;
        };
        let plans = self.links.ports[target as usize].in_train & PLANS != 0;
        for stay in stays {
            if plans {
                self.show_departures(target, stay.head);
            }
            let Links { trains, ports, .. } = &mut *self.links;
            let source = &mut trains.sources[id as usize];
            let Some(path) = source.path.as_deref_mut() else { return };
            let Some(first) = source.launches.front().map(|first| first.sums.packets) else { return };
            let launch = &mut source.launches[(path.next_arrival - first) as usize];
            path.next_arrival += 1;
            let Ok([sender, receiver]) = ports.get_disjoint_mut([output as usize, target as usize]) else { return };
            let (blocks, back_by) = (CreditBlocks(launch.blocks), stay.head.checked_sub(sender.cable_delay));
            if sender.flow_control.is_low(1 << lane.0)
                && let Some(by) = back_by
            {
                sender.flow_control.take_back(&mut receiver.returns, by, receiver.sending);
            }
            sender.flow_control.owe(lane, blocks);
            let back_at = stay.freed + receiver.credit_return;
            receiver.returns.free(back_at, (lane, blocks), back_by, receiver.sending);
            path.returned = path.returned.max(back_at + path.last.1);
            launch.returned = Some(path.returned);
            launch.is_silent = false;
        }
        debug_assert!(self.links.trains.sources[id as usize].has_credits(stays.len()), "silent arrivals are within the allowance");
    }

    /// Returns a light packet that has arrived as a packet.
    pub(crate) fn transit_of(&mut self, arrived: &LightPacket) -> Option<Transit> {
        let LightPacket { psn, port, lane, head, tail, source, .. } = *arrived;
        let transit = self.links.transit_of_light(source, psn)?;
        Some(Transit { port, lane, head, tail, ..transit })
    }

    /// Notes when the buffer of a packet that has arrived at an HCA's port is free. Ends the train
    /// if a packet on its way would lack the credits at the last switch.
    #[inline]
    pub(crate) fn note_freed(&mut self, port: u32, packet: u32, freed: SimTime, now: SimTime) {
        if self.links.ports[port as usize].in_train & ENDS_TRAIN != 0 {
            self.note_freed_of_train(port, packet, freed, now);
        }
    }

    /// As [`Self::note_freed`], for the light packet that arrived last.
    pub(crate) fn note_light_freed(&mut self, arrived: &LightPacket, freed: SimTime, now: SimTime) {
        let source = self.links.trains.sources.get(arrived.source as usize);
        if let Some(path) = source.and_then(|source| source.path.as_deref()) {
            let number = path.next_arrival - 1;
            self.note_returned(arrived.source, number, freed + self.links.ports[arrived.port as usize].credit_return, now);
        }
    }

    fn note_freed_of_train(&mut self, port: u32, packet: u32, freed: SimTime, now: SimTime) {
        let at = &self.links.ports[port as usize];
        let (id, back_at) = (at.train_in, freed + at.credit_return);
        let Some(source) = self.links.trains.sources.get_mut(id as usize) else { return };
        let Some(path) = source.path.as_deref_mut().filter(|path| path.target == port) else { return };
        let Some(first) = source.launches.front().map(|first| first.sums.packets) else { return };
        // A packet ahead of the train arrives without the train.
        let is_it = |number: u64| {
            let launch = source.launches.get(number.checked_sub(first)? as usize)?;
            (launch.packet == packet && launch.returned.is_none()).then_some(number)
        };
        let Some(number) = is_it(path.next_arrival - 1).or_else(|| is_it(path.next_arrival)) else { return };
        path.next_arrival = number + 1;
        self.note_returned(id, number, back_at, now);
    }

    /// Notes that the flow-control packet for a packet's blocks is due at `back_at`.
    fn note_returned(&mut self, id: u32, number: u64, back_at: SimTime, now: SimTime) {
        let source = &mut self.links.trains.sources[id as usize];
        let (Some(path), Some(first)) = (source.path.as_deref_mut(), source.launches.front()) else { return };
        let index = (number - first.sums.packets) as usize;
        // A packet without payload may leave the buffer before an earlier packet.
        let returned = path.returned.max(back_at + path.last.1);
        path.returned = returned;
        source.launches[index].returned = Some(returned);
        let before = source.launches[index].sums_before();
        let room = u64::from(path.last.0.saturating_sub(path.lost));
        let needs_it = source.launches.range(index..).find(|later| later.sums.blocks - before.blocks > room);
        if needs_it.is_some_and(|later| later.carried && returned > later.at + path.to_last) {
            self.dissolve(id, now);
        }
    }
}
