//! Departures from an HCA: packets that join a train, and those that do not.

use super::form::Formation;
use super::{Launch, Path, Source, Sums};
use crate::event::Event;
use crate::link::port::NOTES_PACKETS;
use crate::link::{Hop, Links, Transit};
use crate::numbering::Owner;
use crate::pdes::timeline::Source as EventSource;
use softband_sim::SimTime;
use softband_types::Psn;
use std::collections::VecDeque;

/// Of so many packets that a port sends, the first shows whether they have one receiver.
const SAMPLE_EVERY: u64 = 8;
/// Samples of one receiver in a row before a port's packets are noted.
const SAMPLES_LEAST: u32 = 3;
/// Noted packets before the first attempt to form a train, between attempts, and in all.
const NOTED_FIRST: u32 = 12;
const NOTED_MORE: u32 = 8;
const NOTED_MOST: u32 = 36;
/// Attempts on a way that is not quiet that end the notes of a port.
const FAILURES_MOST: u32 = 2;
/// Packets to other receivers that end the notes of a port.
const STRANGERS_MOST: u32 = 4;
/// Samples without notes after failed attempts: four times as many each time.
pub(super) const PATIENCE_LEAST: u32 = 16;
const PATIENCE_MOST: u32 = 1_024;
/// A train that carried fewer packets was not worth its formation.
const CARRIED_LEAST: u64 = 64;

impl Hop<'_> {
    /// Checks whether a packet that leaves an HCA's port needs [`Self::ride`].
    #[inline(always)]
    pub(in crate::link) fn may_ride(&self, id: u32) -> bool {
        let port = &self.links.ports[id as usize];
        let trains = &self.links.trains;
        let is_hca = matches!(port.owner, Owner::Hca { .. });
        is_hca && (port.in_train & NOTES_PACKETS != 0 || port.sent.packets.is_multiple_of(SAMPLE_EVERY) || trains.is_eager) && trains.is_on()
    }

    /// Takes a packet that leaves an HCA's port at `now` into the port's train. Returns `false` if
    /// the packet goes on as a plain packet.
    #[inline(never)]
    pub(in crate::link) fn ride(&mut self, id: u32, packet: u32, now: SimTime) -> bool {
        let Links { trains, packets, ports, .. } = &mut *self.links;
        if trains.sources.len() <= id as usize {
            trains.sources.resize_with(id as usize + 1, Source::new);
        }
        let (source, transit) = (&mut trains.sources[id as usize], packets.get(packet));
        let follows = transit.dlid == source.dlid && transit.lane == source.lane && transit.service_level == source.level;
        if ports[id as usize].in_train & NOTES_PACKETS == 0 {
            if source.sample(transit, follows, trains.is_eager) {
                ports[id as usize].in_train |= NOTES_PACKETS;
            }
            return false;
        }
        if !follows {
            self.note_stranger(id, packet, now);
            return false;
        }
        let launch = Launch {
            at: now,
            time: transit.tail - transit.head,
            packet,
            psn: Psn::new(0),
            bytes: transit.bytes,
            blocks: u32::from(transit.blocks),
            has_payload: transit.payload_bytes > 0,
            is_silent: false,
            carried: false,
            returned: None,
            sums: source.sums,
        };
        let payload_bytes = transit.payload_bytes;
        source.note(launch, now);
        let is_attempt_due = source.is_attempt_due() || trains.is_eager;
        if source.path.is_none() && !(is_attempt_due && self.attempt(id, now)) {
            return false;
        }
        if self.links.trains.sources[id as usize].may_join(payload_bytes, now) {
            self.join(id, packet);
            return true;
        }
        self.dissolve(id, now);
        false
    }

    /// Notes a packet to another receiver. It goes on as a plain packet, in the gaps of a train.
    #[inline(never)]
    fn note_stranger(&mut self, id: u32, packet: u32, now: SimTime) {
        let transit = self.links.packets.get(packet);
        let (blocks, target, is_multicast) = (transit.blocks, self.subnet.port_with_lid(transit.dlid), transit.dlid.is_multicast());
        let source = &mut self.links.trains.sources[id as usize];
        if let Some(path) = &mut source.path {
            path.lost += u32::from(blocks);
            // Packets to others that go the same way need the train's credits. A packet to the same
            // HCA on another lane could arrive at the same instant as one of the train.
            if is_multicast || target == Some(path.target) || !source.has_room(now) {
                self.dissolve(id, now);
            }
            return;
        }
        source.strangers += 1;
        if source.strangers > STRANGERS_MOST {
            self.stop_notes(id);
        }
    }

    /// Tries to form a train. Ends the notes if that seems vain.
    #[inline(never)]
    fn attempt(&mut self, id: u32, now: SimTime) -> bool {
        let formed = self.form(id, now);
        let source = &mut self.links.trains.sources[id as usize];
        source.failures = if formed == Formation::Refused { source.failures + 1 } else { 0 };
        if formed != Formation::Done && (source.failures >= FAILURES_MOST || source.noted >= NOTED_MOST) {
            self.stop_notes(id);
        }
        formed == Formation::Done
    }

    /// Ends the notes of a port for a while.
    pub(super) fn stop_notes(&mut self, id: u32) {
        self.links.trains.sources[id as usize].rest();
        self.links.ports[id as usize].in_train &= !NOTES_PACKETS;
    }

    /// Takes the packet that was noted last into the train, and schedules its arrival.
    #[inline]
    fn join(&mut self, id: u32, packet: u32) {
        let source = &mut self.links.trains.sources[id as usize];
        let (Some(path), Some(launch)) = (&source.path, source.launches.back_mut()) else { return };
        launch.carried = true;
        self.links.trains.passages += path.hops.len() as u64;
        let transit = self.links.packets.get_mut(packet);
        transit.head = launch.at + path.to_target;
        transit.tail = transit.head + launch.time;
        transit.port = path.target;
        transit.lane = path.hops.last().map_or(transit.lane, |hop| hop.lane_out);
        let peer = &self.links.ports[path.target as usize];
        let (at, place) = (launch.arrives(path.to_target), (peer.owner.index(), EventSource::Packets));
        self.timeline.push_arrival(at, peer.node, place, Event::TrainArrival { source: id, train: path.number });
    }
}

impl Source {
    /// Notes a packet, and forgets those that leave no trace at `now`.
    fn note(&mut self, launch: Launch, now: SimTime) {
        self.noted = self.noted.saturating_add(1);
        self.push(launch);
        self.forget(now);
    }

    /// Notes a packet.
    #[inline]
    pub(super) fn push(&mut self, launch: Launch) {
        self.alike = if self.launches.back().is_some_and(|last| last.blocks == launch.blocks) { self.alike.saturating_add(1) } else { 1 };
        self.sums.packets += 1;
        self.sums.bytes += u64::from(launch.bytes);
        self.sums.blocks += u64::from(launch.blocks);
        self.launches.push_back(Launch { sums: self.sums, ..launch });
    }

    /// Forgets packets that leave no trace at `now`.
    pub(super) fn forget(&mut self, now: SimTime) {
        let Some(path) = &self.path else {
            while self.launches.len() > NOTED_MOST as usize {
                self.launches.pop_front();
            }
            return;
        };
        while let Some(first) = self.launches.front()
            && first.sums.packets < path.next_arrival
            && first.at + path.window < now
            && first.returned.is_some_and(|returned| returned < now)
        {
            self.launches.pop_front();
        }
    }

    /// Takes a sample of a port's packets. Returns whether all packets need notes from now on.
    fn sample(&mut self, transit: &Transit, follows: bool, is_eager: bool) -> bool {
        if !follows {
            (self.dlid, self.lane, self.level, self.samples) = (transit.dlid, transit.lane, transit.service_level, 0);
        }
        self.samples += 1;
        if !is_eager && (self.pause > 0 || self.samples < SAMPLES_LEAST) {
            self.pause = self.pause.saturating_sub(1);
            return false;
        }
        (self.noted, self.strangers, self.failures) = (0, 0, 0);
        self.launches.clear();
        true
    }

    fn is_attempt_due(&self) -> bool {
        self.noted >= NOTED_FIRST && (self.noted - NOTED_FIRST).is_multiple_of(NOTED_MORE)
    }

    /// Pauses the notes, longer each time.
    fn rest(&mut self) {
        (self.samples, self.pause) = (0, self.patience);
        self.patience = (self.patience * 4).min(PATIENCE_MOST);
        self.launches.clear();
    }

    /// Goes on with notes after the end of a train that carried packets from number `formed` on.
    /// Returns `false` if it was not worth it.
    pub(super) fn goes_on(&mut self, formed: u64) -> bool {
        if self.sums.packets < formed + CARRIED_LEAST {
            return false;
        }
        (self.noted, self.strangers, self.patience) = (0, 0, PATIENCE_LEAST);
        true
    }

    /// Checks whether a packet of this size that leaves now fits all links of the train's way.
    #[inline]
    fn may_join(&mut self, payload_bytes: u16, now: SimTime) -> bool {
        self.path.as_ref().is_some_and(|path| payload_bytes <= path.mtu_bytes) && self.has_room(now)
    }

    /// Checks whether all links will have credits for the packets so far. The last packet leaves at
    /// `now`.
    #[inline]
    fn has_room(&mut self, now: SimTime) -> bool {
        self.has_room_between(now) && self.has_room_at_last(now)
    }

    /// As [`Self::has_room`], for links between switches.
    #[inline]
    pub(super) fn has_room_between(&mut self, now: SimTime) -> bool {
        let Some((room, stay)) = self.path.as_ref().map(|path| path.between) else { return false };
        self.needed(0, room).is_none_or(|launch| launch.at + stay <= now)
    }

    /// Returns the last packet that must have left a buffer of `room` blocks before all packets after it
    /// fit, if it is still noted. `gate` is that of the path.
    #[inline]
    pub(super) fn needed(&mut self, gate: usize, room: u32) -> Option<&Launch> {
        let path = self.path.as_deref_mut()?;
        let room = room.saturating_sub(path.lost);
        let packets = room / self.launches.back()?.blocks.max(1);
        let index = if self.alike > packets {
            self.launches.len().checked_sub(packets as usize + 1)
        } else {
            last_before(&self.launches, self.sums, &mut path.gates[gate], room)
        };
        self.launches.get(index?)
    }

    /// As [`Self::has_room`], for the last link.
    #[inline]
    fn has_room_at_last(&mut self, now: SimTime) -> bool {
        let Some(Path { last, to_last, to_target, returned, .. }) = self.path.as_deref() else { return false };
        let (last, leaves, to_target, returned) = (*last, now + *to_last, *to_target, *returned);
        let Some(needed) = self.needed(1, last.0) else { return true };
        match needed.returned {
            Some(returned) => returned <= leaves,
            // The receiving HCA tells when the packet arrives, and that is soon enough.
            None => needed.arrives(to_target) < leaves && returned <= leaves,
        }
    }
}

/// Moves `gate` to the last packet that must have left a buffer of `room` blocks before all packets
/// after it fit. Returns its index, if it is still noted.
#[inline]
fn last_before(launches: &VecDeque<Launch>, sums: Sums, gate: &mut u64, room: u32) -> Option<usize> {
    let first = launches.front()?.sums.packets;
    let mut next = (*gate + 1).max(first) - first;
    while let Some(launch) = launches.get(next as usize)
        && sums.blocks - launch.sums.blocks + u64::from(launch.blocks) > u64::from(room)
    {
        *gate = first + next;
        next += 1;
    }
    gate.checked_sub(first).map(|index| index as usize)
}
