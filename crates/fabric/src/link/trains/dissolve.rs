//! The end of a train: its packets become plain packets, where they are at that moment.

use super::{Launch, NO_TRAIN, Path};
use crate::event::Event;
use crate::link::Hop;
use crate::link::port::{ENDS_TRAIN, IN_TRAIN, PLANS};
use crate::link::tx_pending::Ready;
use crate::pdes::timeline::Source as EventSource;
use softband_sim::SimTime;

impl Hop<'_> {
    /// Ends the train that starts from an HCA's port, if there is one. All events before `now` have
    /// happened.
    #[cold]
    #[inline(never)]
    pub(in crate::link) fn dissolve(&mut self, id: u32, now: SimTime) {
        if self.links.trains.path(id).is_some() && self.links.ports[id as usize].in_train & PLANS != 0 {
            // Its HCA must take back what is planned. The caller's event does not depend on it.
            return self.links.trains.ending.push(id);
        }
        self.embody(id);
        let Some(path) = self.links.trains.path(id) else { return };
        let ports: Vec<(u32, u32)> = path.hops.iter().map(|hop| (hop.input, hop.output)).collect();
        for (input, output) in ports {
            self.refresh_port(input, now);
            self.refresh_port(output, now);
        }
        let source = &mut self.links.trains.sources[id as usize];
        let Some(path) = source.path.take() else { return };
        let is_under_way = |launch: &&Launch| launch.carried && launch.sums.packets >= path.next_arrival;
        let under_way: Vec<Launch> = source.launches.iter().filter(is_under_way).copied().collect();
        source.launches.iter_mut().for_each(|launch| launch.carried = false);
        let goes_on = source.goes_on(path.formed);
        self.links.trains.active.remove(&id);
        self.free_ports(&path);
        self.take_held_credits(&path, &under_way, now);
        if !goes_on {
            self.stop_notes(id);
        }
        for launch in &under_way {
            self.make_plain(&path, launch, now);
        }
    }

    /// Ends all trains. All events before `now` have happened.
    #[cold]
    pub(crate) fn dissolve_all(&mut self, now: SimTime) {
        for id in self.links.trains.active.clone() {
            self.dissolve(id, now);
        }
    }

    /// Ends the train of a port by which a packet of another input will leave.
    #[cold]
    #[inline(never)]
    pub(in crate::link) fn meet_train(&mut self, port: u32, input: u8) {
        let port = &self.links.ports[port as usize];
        if port.train_out != NO_TRAIN && input != port.train_input {
            let (id, now) = (port.train_out, self.timeline.now().max(self.links.trains.heard));
            self.dissolve(id, now);
        }
    }

    /// Ends the trains that leave by a port whose packets begin to wait for credits. An HCA needs the
    /// events that return its credits, and a plain packet ahead of a train will be late.
    #[cold]
    #[inline(never)]
    pub(in crate::link) fn stall_train(&mut self, port: u32, now: SimTime) {
        self.dissolve(port, now);
        self.dissolve(self.links.ports[port as usize].train_out, now);
    }

    /// Lets trains form from now on if nothing in the fabric forbids it, or ends all. All events
    /// before `now` have happened.
    pub(crate) fn allow_trains(&mut self, is_allowed: bool, now: SimTime) {
        let is_on = is_allowed && !self.faults.has_plan();
        self.links.trains.set_on(is_on);
        if !is_on {
            self.dissolve_all(now);
        }
    }

    fn free_ports(&mut self, path: &Path) {
        for hop in &path.hops {
            self.links.ports[hop.output as usize].train_out = NO_TRAIN;
            self.links.ports[hop.input as usize].train_in = NO_TRAIN;
        }
        self.links.ports[path.target as usize].train_in = NO_TRAIN;
        let ports = path.hops.iter().flat_map(|hop| [hop.output, hop.input]).chain([path.target]);
        for port in ports {
            let port = &mut self.links.ports[port as usize];
            if port.train_in == NO_TRAIN && port.train_out == NO_TRAIN {
                port.in_train &= !(IN_TRAIN | ENDS_TRAIN);
            }
        }
    }

    /// Takes the credits of packets that are on links or in buffers behind the first switch.
    fn take_held_credits(&mut self, path: &Path, under_way: &[Launch], now: SimTime) {
        for (index, hop) in path.hops.iter().enumerate() {
            let next = path.hops.get(index + 1);
            for launch in under_way {
                let is_held = hop.departs(launch) <= now && next.is_none_or(|next| next.departs(launch) > now);
                if is_held {
                    self.take_room(hop.output, hop.lane_out, launch.blocks, now);
                }
            }
        }
    }

    fn make_plain(&mut self, path: &Path, launch: &Launch, now: SimTime) {
        let Some(hop) = path.hops.iter().find(|hop| hop.departs(launch) > now) else {
            // It has passed all switches.
            let peer = &self.links.ports[path.target as usize];
            let place = (peer.owner.index(), EventSource::Packets);
            return self.timeline.push_arrival(launch.arrives(path.to_target), peer.node, place, Event::HcaArrival { packet: launch.packet });
        };
        let at = hop.departs(launch);
        let input = self.links.ports[hop.input as usize].owner.index();
        let transit = self.links.packets.get_mut(launch.packet);
        transit.port = hop.input;
        transit.lane = hop.lane_in;
        transit.head = SimTime::from_picos(at.as_picos() - hop.through.as_picos());
        transit.tail = transit.head + launch.time;
        transit.time_out = launch.time.as_picos() as u32;
        let ready = Ready { at, packet: launch.packet, input, lane: hop.lane_out, blocks: launch.blocks as u16 };
        self.await_ready(hop.output, ready);
    }
}
