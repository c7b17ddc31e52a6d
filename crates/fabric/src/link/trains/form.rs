//! The formation of a train, where packets of one HCA follow one another through quiet ports.

use super::{Launch, NO_TRAIN, Path, Source, Sums, Waypoint, beyond};
use crate::link::port::{ENDS_TRAIN, IN_TRAIN, Onward};
use crate::link::{Hop, Links};
use crate::numbering::Owner;
use softband_model::link::{Returning, serialisation};
use softband_sim::{SimDuration, SimTime};
use softband_spec::largest_packet;
use softband_types::{CreditBlocks, VirtualLane};

/// Switches on the longest way.
const HOPS_MOST: usize = 16;

/// Result of an attempt to form a train.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Formation {
    Done,
    /// The packets that are noted do not go back far enough.
    TooEarly,
    /// The way does not allow a train, or is not quiet.
    Refused,
}

impl Hop<'_> {
    /// Forms a train from an HCA's port, whose noted packets are on a quiet way. The last of them,
    /// which leaves at `now`, will be the first of the train.
    pub(super) fn form(&mut self, id: u32, now: SimTime) -> Formation {
        let Some(mut path) = self.way(id) else { return Formation::Refused };
        let source = &self.links.trains.sources[id as usize];
        if source.launches.front().is_none_or(|first| first.at + path.window > now) {
            return Formation::TooEarly;
        }
        if !self.is_clear(id, &mut path, now) {
            return Formation::Refused;
        }
        let Links { trains, ports, .. } = &mut *self.links;
        let source = &mut trains.sources[id as usize];
        let Some(first) = source.launches.back() else { return Formation::TooEarly };
        let before = first.sums_before();
        path.formed = before.packets;
        source.trains = source.trains.wrapping_add(1);
        path.number = source.trains;
        for hop in &mut path.hops {
            (hop.passed, hop.noted) = (before, before);
            let index = ports[hop.input as usize].owner.index();
            let output = &mut ports[hop.output as usize];
            (output.train_out, output.train_input) = (id, index);
            output.in_train |= IN_TRAIN;
            let input = &mut ports[hop.input as usize];
            input.train_in = id;
            input.in_train |= IN_TRAIN;
        }
        let target = &mut ports[path.target as usize];
        target.train_in = id;
        target.in_train |= ENDS_TRAIN;
        source.path = Some(Box::new(path));
        trains.active.insert(id);
        Formation::Done
    }

    /// Follows the forwarding tables from an HCA's port to that of its receiver. Returns `None` if no
    /// train can go there.
    fn way(&self, id: u32) -> Option<Path> {
        let links = &*self.links;
        let source = &links.trains.sources[id as usize];
        if links.marking.is_some() || !links.enforcing.is_empty() || source.dlid.is_multicast() {
            return None;
        }
        let kind = links.ports[id as usize].kind_of_link;
        let (mut at, mut lane, mut offset, mut hops) = (id, source.lane, SimDuration::ZERO, Vec::new());
        let mut mtu_bytes = u16::MAX;
        loop {
            let port = &links.ports[at as usize];
            if port.framing.may_drop_on_arrival() || port.cable_delay == SimDuration::ZERO || port.kind_of_link != kind {
                return None;
            }
            let input = port.far_end;
            let peer = links.ports.get(input as usize)?;
            let Owner::Switch { switch, index } = peer.owner else {
                let is_own = self.subnet.lids(input).contains(source.dlid) && self.timeline.has_node(peer.node);
                let to_target = offset + port.cable_delay;
                return (is_own && !hops.is_empty()).then(|| links.path(hops, (input, to_target), mtu_bytes, source));
            };
            let node = &links.switches[switch as usize];
            let output = node.first_port + node.switch.route(source.dlid)? as u32;
            let next = &links.ports[output as usize];
            let Onward { through, kind: onward, mtu_bytes: mtu, vls } = next.onward;
            let is_instant = through == SimDuration::ZERO;
            if output == input || is_instant || onward != kind || hops.len() == HOPS_MOST || !self.timeline.has_node(next.node) {
                return None;
            }
            offset += port.cable_delay + through;
            let lane_out = self.subnet.lane((switch, index, next.owner.index()), source.level, vls);
            hops.push(Waypoint {
                input,
                output,
                offset,
                through,
                lane_in: lane,
                lane_out,
                hold: node.buffer_hold + peer.credit_return,
                back: (links.largest(input)?, port.cable_delay),
                passed: Sums::default(),
                noted: Sums::default(),
            });
            (at, lane, mtu_bytes) = (output, lane_out, mtu_bytes.min(mtu));
        }
    }

    /// Checks that the noted packets, and no others, are on the way and in its buffers, and that each
    /// is where a train would have it.
    fn is_clear(&mut self, id: u32, path: &mut Path, now: SimTime) -> bool {
        for index in 0..path.hops.len() {
            if !self.is_hop_clear(id, path, index, now) {
                return false;
            }
        }
        self.is_last_link_clear(id, path, now)
    }

    fn is_hop_clear(&mut self, id: u32, path: &Path, index: usize, now: SimTime) -> bool {
        let hop = &path.hops[index];
        let before = index.checked_sub(1).map(|before| &path.hops[before]);
        let upstream = before.map_or(id, |before| before.output);
        let (input, output) = (&self.links.ports[hop.input as usize], &self.links.ports[hop.output as usize]);
        if input.train_in != NO_TRAIN || output.train_out != NO_TRAIN || !output.is_quiet() {
            return false;
        }
        self.take_credits(upstream, now);
        let source = &self.links.trains.sources[id as usize];
        let (input, output) = (&self.links.ports[hop.input as usize], &self.links.ports[hop.output as usize]);
        let count = source.launches.len() - 1;
        let earlier = || source.launches.iter().take(count);
        if earlier().any(|launch| hop.departs(launch) == now) {
            return false;
        }
        let is_here = |launch: &&Launch| hop.departs(launch) > now && before.is_none_or(|before| before.departs(launch) <= now);
        let mut here = earlier().filter(is_here);
        let mut pending = 0;
        for ready in output.tx_pending.iter() {
            let fits = |launch: &Launch| launch.packet == ready.packet && hop.departs(launch) == ready.at && ready.input == input.owner.index();
            let Some(launch) = here.next().filter(|launch| fits(launch)) else { return false };
            pending += launch.blocks;
        }
        let next = source.launches.iter().find(|launch| hop.departs(launch) > now);
        if here.next().is_some() || next.is_none_or(|next| output.sending.until > hop.departs(next)) {
            return false;
        }
        // The freed blocks are those of the packets that passed last.
        let entries: Vec<_> = input.returns.entries().collect();
        let passed: Vec<&Launch> = earlier().filter(|launch| hop.departs(launch) <= now).collect();
        let fits = |(entry, launch): (&Returning, &&Launch)| {
            // A packet that left late frees its blocks late, and they may still wait.
            let freed = hop.frees(launch);
            let is_in_time = if entry.is_settled { freed <= entry.at && entry.at <= freed + hop.back.0 } else { entry.at == freed };
            entry.lane == hop.lane_in && entry.blocks.0 == launch.blocks && is_in_time
        };
        if entries.len() > passed.len() || !entries.iter().rev().zip(passed.iter().rev()).all(fits) {
            return false;
        }
        let returning: u32 = entries.iter().map(|entry| entry.blocks.0).sum();
        // The HCA has taken the credits of the packet that leaves now.
        let leaving = if before.is_none() { source.launches.back().map_or(0, |launch| launch.blocks) } else { 0 };
        self.links.outstanding(upstream, hop.lane_in) == Some(returning + pending + leaving)
    }

    fn is_last_link_clear(&mut self, id: u32, path: &mut Path, now: SimTime) -> bool {
        let Some(last) = path.hops.last() else { return false };
        self.take_credits(last.output, now);
        let (to_target, target) = (path.to_target, &self.links.ports[path.target as usize]);
        let entries: Vec<_> = target.returns.entries().collect();
        let has_train = target.train_in != NO_TRAIN;
        let outstanding = self.links.outstanding(last.output, last.lane_out);
        let source = &mut self.links.trains.sources[id as usize];
        let count = source.launches.len() - 1;
        // A packet without payload arrives with its last bit, and the next with its first.
        let first = source.launches.back().map_or(now, |first| first.arrives(to_target));
        let is_tied = |launch: &Launch| launch.arrives(to_target) == now || launch.arrives(to_target) >= first;
        if has_train || source.launches.iter().take(count).any(is_tied) {
            return false;
        }
        let on_cable = |launch: &&Launch| last.departs(launch) <= now && launch.arrives(to_target) > now;
        let blocks: u32 = source.launches.iter().take(count).filter(on_cable).map(|launch| launch.blocks).sum();
        let returning: u32 = entries.iter().map(|entry| entry.blocks.0).sum();
        if outstanding != Some(blocks + returning) {
            return false;
        }
        let mut entries = entries.iter().rev();
        path.next_arrival = source.sums.packets;
        for launch in source.launches.iter_mut().take(count).rev() {
            if launch.arrives(to_target) > now {
                launch.returned = None;
                path.next_arrival = launch.sums.packets;
                continue;
            }
            launch.returned = Some(match entries.next() {
                Some(entry) if entry.lane == last.lane_out && entry.blocks.0 == launch.blocks => entry.at + path.last.1,
                Some(_) => return false,
                None => SimTime::ZERO,
            });
        }
        for launch in source.launches.iter_mut().take(count) {
            if let Some(returned) = &mut launch.returned {
                path.returned = path.returned.max(*returned);
                *returned = path.returned;
            }
        }
        entries.next().is_none()
    }
}

impl Links {
    /// Completes a way with the rooms and times that its packets need.
    fn path(&self, hops: Vec<Waypoint>, (target, to_target): (u32, SimDuration), mtu_bytes: u16, source: &Source) -> Path {
        let longest = source.launches.iter().map(|launch| launch.time).max().unwrap_or_default();
        let longest = hops.iter().map(|hop| hop.back.0).max().unwrap_or_default().max(longest);
        let stay = |pair: &[Waypoint]| {
            let [here, next] = pair else { return SimDuration::ZERO };
            let way = SimDuration::from_picos(next.offset.as_picos() - here.offset.as_picos());
            way + beyond(longest, next.through) + next.hold + next.back.0 + next.back.1
        };
        let stays = hops.windows(2).map(stay).max().unwrap_or_default();
        let room = |port: u32| self.ports[port as usize].flow_control.ledger().map_or(0, |ledger| ledger.capacity().0);
        let between = hops.split_last().map_or(u32::MAX, |(_, others)| others.iter().map(|hop| room(hop.output)).min().unwrap_or(u32::MAX));
        let (last, to_last) = hops.last().map_or((target, SimDuration::ZERO), |hop| (hop.output, hop.offset));
        let delay = self.ports[last as usize].cable_delay;
        let first_stay = hops.first().map_or(SimDuration::ZERO, |hop| hop.hold + hop.back.0 + hop.back.1);
        let first_way = hops.first().map_or(SimDuration::ZERO, |hop| hop.offset + beyond(longest, hop.through));
        let start = hops.first().map_or(target, |hop| self.ports[hop.input as usize].far_end);
        Path {
            target,
            to_target,
            to_last,
            mtu_bytes,
            first: (room(start), first_way + first_stay),
            between: (between, stays),
            last: (room(last), self.largest(target).unwrap_or_default() + delay),
            returned: SimTime::ZERO,
            lost: 0,
            window: to_target + stays + first_stay + longest * 3,
            next_arrival: 0,
            allowance: SimDuration::from_picos(u64::MAX),
            gates: [0; 3],
            number: 0,
            formed: 0,
            hops,
        }
    }

    /// Returns the time of the largest packet on a port's link.
    fn largest(&self, port: u32) -> Option<SimDuration> {
        let cabling = self.ports[port as usize].cabling?;
        Some(serialisation(cabling.rate, cabling.framing, largest_packet(cabling.mtu).0 * CreditBlocks::BLOCK_BYTES))
    }

    /// Returns the blocks of a lane whose credits a port lacks; `None` without credits.
    fn outstanding(&self, port: u32, lane: VirtualLane) -> Option<u32> {
        let ledger = self.ports[port as usize].flow_control.ledger()?;
        u32::try_from(ledger.outstanding(lane)).ok()
    }
}
