//! Deadlock: packets that wait for each other's credits or pauses in a cycle. The wait of each
//! output port reveals it, and the lifetime limits break it up.

use super::{Hop, Links};
use crate::event::Event;
use crate::notice::Notice;
use crate::numbering::Owner;
use softband_model::management::shortest_cycles;
use softband_model::switch::LifetimeCode;
use softband_sim::{SimDuration, SimTime};
use softband_types::VirtualLane;
use std::collections::{BTreeMap, BTreeSet};

/// Time without credits after which a port checks for deadlock. It is far longer than any queue
/// takes to move, and far shorter than any timer. Only the time of detection depends on it.
const CHECK_AFTER: SimDuration = SimDuration::from_micros(1_000);

/// A lane of a switch's output port whose next packet lacks credits.
#[derive(Clone, Debug)]
pub struct Starved {
    port: u32,
    lane: VirtualLane,
    /// Input port that its packets go to, on the same lane.
    next_input: u32,
    /// The lane is stuck while stuck packets hold more blocks of the next input than this.
    stuck_above: u32,
    /// Blocks that its packets hold, by input port and lane of its own switch.
    holds: BTreeMap<(u32, u8), u32>,
}

impl Starved {
    /// Returns the sort key: port and lane.
    pub fn place(&self) -> (u32, u8) {
        (self.port, self.lane.0)
    }
}

impl Hop<'_> {
    /// Schedules a check of a port whose packets lack credits, for the next limit or the next
    /// deadlock check. `stuck` lists the lanes with a known deadlock.
    pub(super) fn watch_queue(&mut self, id: u32, stuck: &[(u32, u8)], now: SimTime) {
        let port = &self.links.ports[id as usize];
        let due = port.arbiter.starved_lanes().filter_map(|(lane, since)| {
            // Fruitless checks become rarer: each doubles the wait.
            let check = since + CHECK_AFTER.max((now - since) * 2);
            let check = Some(check).filter(|_| !stuck.contains(&(id, lane.0)));
            check.into_iter().chain(self.links.expiry_of_head(id, lane, since)).min()
        });
        let Some(at) = due.min() else { return };
        let port = &mut self.links.ports[id as usize];
        port.watched = true;
        self.timeline.push(at.max(now), port.node, Event::QueueWatch { port: id });
    }

    /// Schedules the end of packets that already wait at ports with new limits. Nothing else looks
    /// at the lanes of a known deadlock.
    pub(crate) fn watch_new_limits(&mut self, now: SimTime) {
        for id in std::mem::take(&mut self.links.new_limits) {
            let port = &self.links.ports[id as usize];
            let ends = port.arbiter.starved_lanes().filter_map(|(lane, since)| self.links.expiry_of_head(id, lane, since));
            if let Some(at) = ends.min() {
                self.timeline.push(at.max(now), port.node, Event::QueueWatch { port: id });
            }
        }
    }

    pub(crate) fn on_queue_watch(&mut self, id: u32, now: SimTime) {
        self.links.ports[id as usize].watched = false;
        self.links.ports[id as usize].take_ready(now);
        let starved: Vec<_> = self.links.ports[id as usize].arbiter.starved_lanes().collect();
        let is_long = starved.iter().any(|(_, since)| now - *since >= CHECK_AFTER);
        let mut discarded = false;
        for (lane, mut since) in starved {
            while self.links.expiry_of_head(id, lane, since).is_some_and(|expires| expires <= now) {
                self.discard_head(id, lane, since, now);
                (discarded, since) = (true, now);
            }
        }
        if discarded {
            self.transmit(id, now);
        }
        if is_long {
            self.links.deadlock_checks.push(id);
        } else {
            self.watch_again(id, &[], now);
        }
    }

    fn watch_again(&mut self, id: u32, stuck: &[(u32, u8)], now: SimTime) {
        if self.links.ports[id as usize].arbiter.is_starved() && !self.links.ports[id as usize].watched {
            self.watch_queue(id, stuck, now);
        }
    }

    /// Checks the starved lanes of all partitions, in the order of their ports, at the end of a
    /// window.
    pub(crate) fn check_deadlock(&mut self, starved: Vec<Starved>) {
        let now = self.timeline.heard_until();
        let stuck = self.find_deadlock(starved, now);
        for port in std::mem::take(&mut self.links.deadlock_checks) {
            self.watch_again(port, &stuck, now);
        }
    }

    /// Discards the packet that has been the head of a lane since `since`, for a limit.
    fn discard_head(&mut self, id: u32, lane: VirtualLane, since: SimTime, now: SimTime) {
        let [at_head, in_switch] = self.links.limits_of_head(id, lane, since);
        let port = &mut self.links.ports[id as usize];
        let Some(head) = port.arbiter.discard_head(lane) else { return };
        port.tally.xmit_discards += 1;
        let unforwarded = self.links.unforwarded.entry(id).or_default();
        if at_head.is_some_and(|at_head| in_switch.is_none_or(|in_switch| at_head <= in_switch)) {
            unforwarded.outlived_at_head += 1;
        } else {
            unforwarded.outlived += 1;
        }
        let transit = self.links.packets.take(head.packet);
        if self.links.last_copy_leaves(transit.copies) {
            self.free_buffer(transit.port, transit.lane, transit.blocks, now, now);
        }
    }

    /// Reports new cycles, and returns all lanes that will never move by themselves.
    fn find_deadlock(&mut self, starved: Vec<Starved>, now: SimTime) -> Vec<(u32, u8)> {
        let stuck = stuck_among(starved);
        let waits_for = |waiting: &Starved| {
            let input = (waiting.next_input, waiting.lane.0);
            (0..stuck.len() as u32).filter(|other| stuck[*other as usize].holds.contains_key(&input)).collect()
        };
        let graph: Vec<Vec<u32>> = stuck.iter().map(waits_for).collect();
        for cycle in shortest_cycles(&graph) {
            let lanes: Vec<&Starved> = cycle.iter().map(|index| &stuck[*index as usize]).collect();
            let told: Vec<(u32, u8)> = lanes.iter().map(|waiting| (waiting.port, waiting.lane.0)).collect();
            if self.links.deadlocks_told.contains(&told) {
                continue;
            }
            let waits: Vec<String> = lanes.iter().map(|waiting| self.links.wait_in_words(waiting)).collect();
            let is_broken_up = lanes.iter().any(|waiting| self.links.gives_up(waiting.port));
            let node = self.links.ports[lanes[0].port as usize].node;
            self.links.deadlocks_told.push(told);
            if self.timeline.has_node(node) {
                self.timeline.report(now, node, Notice::Deadlock { waits: waits.join(", "), is_broken_up });
            }
        }
        stuck.iter().map(|waiting| (waiting.port, waiting.lane.0)).collect()
    }
}

impl Links {
    /// Checks whether a port of this partition has waited so long that the lanes of all partitions
    /// need a check.
    pub(crate) fn wants_deadlock_check(&self) -> bool {
        !self.deadlock_checks.is_empty()
    }

    /// Returns the expiry of a lane's head packet, starved since `since`: by HOQLife, or by its
    /// time in the switch.
    fn expiry_of_head(&self, id: u32, lane: VirtualLane, since: SimTime) -> Option<SimTime> {
        self.limits_of_head(id, lane, since).into_iter().flatten().min()
    }

    /// Returns the ends of the head's time: at the head of its queue, and in the switch.
    fn limits_of_head(&self, id: u32, lane: VirtualLane, since: SimTime) -> [Option<SimTime>; 2] {
        let port = &self.ports[id as usize];
        let Some(head) = port.arbiter.head(lane) else { return [None; 2] };
        let entered = self.packets.get(head.packet).head;
        let at_head = port.head_lifetime.limit().map(|limit| since + limit);
        let in_switch = self.packet_lifetime_at(id).limit().map(|limit| entered + limit);
        [at_head, in_switch]
    }

    /// Returns the limit for the stay of packets in the node of a port.
    fn packet_lifetime_at(&self, id: u32) -> LifetimeCode {
        let port = &self.ports[id as usize];
        match port.owner {
            Owner::Switch { switch, .. } if port.flow_control.has_packet_lifetime() => self.switches[switch as usize].packet_lifetime,
            _ => LifetimeCode::INFINITE,
        }
    }

    /// Checks whether a port discards packets that wait too long.
    fn gives_up(&self, id: u32) -> bool {
        let port = &self.ports[id as usize];
        self.packet_lifetime_at(id).limit().is_some() || port.head_lifetime.limit().is_some()
    }

    fn wait_in_words(&self, waiting: &Starved) -> String {
        let (port, next) = (self.name_of_port(waiting.port), self.name_of_port(waiting.next_input));
        self.ports[waiting.port as usize].flow_control.wait_in_words(&port, &next, waiting.lane)
    }

    /// Returns every lane between two switches whose next packet lacks credits.
    pub(crate) fn starved_lanes(&self) -> Vec<Starved> {
        let mut lanes = Vec::new();
        // Copies of one packet share the buffer by which they came in.
        let mut counted = BTreeSet::new();
        for (id, port) in self.ports.iter().enumerate() {
            let Some(cabling) = port.cabling.filter(|cabling| self.is_switch_port(cabling.peer) && self.is_switch_port(id as u32)) else { continue };
            for (lane, _) in port.arbiter.starved_lanes() {
                let Some(head) = port.arbiter.head(lane) else { continue };
                let mut holds: BTreeMap<(u32, u8), u32> = BTreeMap::new();
                let soon = port.tx_pending.iter().filter(|ready| ready.lane == lane).map(|ready| ready.packet);
                for packet in port.arbiter.queued(lane).map(|waiting| waiting.packet).chain(soon) {
                    let transit = self.packets.get(packet);
                    let is_first = transit.copies.is_none_or(|copies| counted.insert(copies));
                    *holds.entry((transit.port, transit.lane.0)).or_default() += if is_first { u32::from(transit.blocks) } else { 0 };
                }
                let resumes_at = || self.ports[cabling.peer as usize].resumes_at();
                let stuck_above = port.flow_control.stuck_above(head.blocks, resumes_at).0;
                lanes.push(Starved { port: id as u32, lane, next_input: cabling.peer, stuck_above, holds });
            }
        }
        lanes
    }
}

/// Returns the lanes that will never get credits, because packets that wait for these lanes hold
/// the buffers.
///
/// All other buffers may become free, and so may credits in flight.
fn stuck_among(mut stuck: Vec<Starved>) -> Vec<Starved> {
    loop {
        let mut held: BTreeMap<(u32, u8), u32> = BTreeMap::new();
        for (input, blocks) in stuck.iter().flat_map(|waiting| &waiting.holds) {
            *held.entry(*input).or_default() += blocks;
        }
        let before = stuck.len();
        stuck.retain(|waiting| {
            let held = held.get(&(waiting.next_input, waiting.lane.0)).copied().unwrap_or(0);
            held > waiting.stuck_above
        });
        if stuck.len() == before {
            return stuck;
        }
    }
}
