//! The ports of a train, brought up to date where a plain packet, a sender or an observer needs them.

use super::{NO_TRAIN, Sums};
use crate::link::port::{ENDS_TRAIN, IN_TRAIN, PLANS, Port};
use crate::link::{Hop, Links};
use softband_model::link::Sending;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};

impl Hop<'_> {
    /// Brings a port up to date with its trains: its last packet, and its freed blocks.
    #[inline]
    pub(in crate::link) fn refresh(&mut self, port: u32, now: SimTime) {
        if self.links.ports[port as usize].in_train & (IN_TRAIN | PLANS) != 0 {
            self.refresh_port(port, now);
        }
    }

    #[inline(never)]
    pub(super) fn refresh_port(&mut self, port: u32, now: SimTime) {
        // Blocks that became free may wait behind the packets that this port has sent since.
        self.note_returns(port, now);
        self.replay(port, now);
        if self.links.ports[port as usize].in_train & PLANS != 0 {
            self.show_departures(port, now);
        }
    }

    /// Notes the blocks of an input that the train's packets have freed, unless their credits are
    /// back already.
    fn note_returns(&mut self, port: u32, now: SimTime) {
        let id = self.links.ports[port as usize].train_in;
        if id == NO_TRAIN {
            return;
        }
        let upstream = self.links.ports[port as usize].far_end;
        let Links { trains, ports, .. } = &mut *self.links;
        let source = &mut trains.sources[id as usize];
        let gone = source.sums_before();
        let Some(path) = source.path.as_deref_mut() else { return };
        let Some((index, hop)) = path.hops.iter_mut().enumerate().find(|(_, hop)| hop.input == port) else { return };
        let is_first = index == 0;
        if gone.packets > hop.noted.packets {
            if is_first {
                let blocks = (gone.blocks - hop.noted.blocks) as u32;
                ports[upstream as usize].flow_control.give_back(hop.lane_in, CreditBlocks(blocks));
            }
            hop.noted = gone;
        }
        for launch in source.launches.iter().skip((hop.noted.packets - gone.packets) as usize) {
            if hop.departs(launch) > now {
                break;
            }
            hop.noted = launch.sums;
            let (lane, blocks, freed) = (hop.lane_in, CreditBlocks(launch.blocks), hop.frees(launch));
            let sender = &mut ports[upstream as usize];
            // Its credits are back, even if they waited for the largest packet.
            if freed + hop.back.0 + hop.back.1 <= now {
                if is_first {
                    sender.flow_control.give_back(lane, blocks);
                }
                continue;
            }
            // The sender of the first link is the HCA, which has counted the packet.
            if !is_first {
                sender.flow_control.owe(lane, blocks);
            }
            let receiver = &mut ports[port as usize];
            receiver.returns.free(freed, (lane, blocks), None, receiver.sending);
        }
    }

    /// Lets a port have sent the train's packets that have left it.
    fn replay(&mut self, port: u32, now: SimTime) {
        let Links { trains, ports, .. } = &mut *self.links;
        let at = &mut ports[port as usize];
        let Some(source) = trains.sources.get_mut(at.train_out as usize) else { return };
        let gone = source.sums_before();
        let Some(path) = source.path.as_deref_mut() else { return };
        let Some(hop) = path.hops.iter_mut().find(|hop| hop.output == port) else { return };
        let before = hop.passed;
        if gone.packets > before.packets {
            hop.passed = gone;
        }
        for launch in source.launches.iter().skip((hop.passed.packets - gone.packets) as usize) {
            let from = hop.departs(launch);
            if from > now {
                break;
            }
            hop.passed = launch.sums;
            at.returns.settle(from, at.sending);
            at.sending = Sending { from, until: from + launch.time };
        }
        if hop.passed != before {
            at.sent.packets += hop.passed.packets - before.packets;
            at.sent.bytes += hop.passed.bytes - before.bytes;
            at.arbiter.note_passage(hop.lane_out, usize::from(at.train_input));
        }
    }

    /// Takes credits of a port that its ledger does not show yet.
    pub(super) fn take_room(&mut self, port: u32, lane: VirtualLane, blocks: u32, now: SimTime) {
        if self.links.ports[port as usize].flow_control.is_low(1 << lane.0) {
            self.take_credits(port, now);
        }
        self.links.ports[port as usize].flow_control.owe(lane, CreditBlocks(blocks));
    }
}

impl Sums {
    /// Returns the packets beyond `others`, if these are fewer.
    pub(super) fn beyond(self, others: Self) -> Self {
        if self.packets <= others.packets {
            return Self::default();
        }
        Self { packets: self.packets - others.packets, bytes: self.bytes - others.bytes, blocks: self.blocks - others.blocks }
    }
}

impl Links {
    /// Returns the packets of a train that have left a port by `until`, but that the port does not
    /// show.
    pub(in crate::link) fn passed_unseen(&self, port: u32, until: SimTime) -> Sums {
        if self.ports[port as usize].in_train & PLANS != 0 {
            return self.planned_unseen(port, until);
        }
        let Some(source) = self.trains.sources.get(self.ports[port as usize].train_out as usize) else { return Sums::default() };
        let Some(hop) = source.path.as_ref().and_then(|path| path.hops.iter().find(|hop| hop.output == port)) else { return Sums::default() };
        let last = source.launches.iter().rev().find(|launch| hop.departs(launch) <= until);
        let passed = last.map_or_else(|| source.sums_before(), |launch| launch.sums);
        passed.beyond(hop.passed)
    }

    /// Returns the blocks that a train's packets have sent by an HCA's port, but whose return its
    /// receiver does not show.
    pub(in crate::link) fn unnoted_blocks(&self, port: u32, lane: VirtualLane) -> CreditBlocks {
        let Some(source) = self.trains.sources.get(port as usize).filter(|source| source.lane == lane) else { return CreditBlocks(0) };
        let first = source.path.as_ref().and_then(|path| path.hops.first());
        CreditBlocks(first.map_or(0, |hop| (source.sums.blocks - hop.noted.blocks) as u32))
    }

    /// Checks whether a train holds credits of a port's link.
    pub(in crate::link) fn is_held_by_train(&self, port: u32) -> bool {
        let port = &self.ports[port as usize];
        let is_held = |port: &Port| port.in_train & (IN_TRAIN | ENDS_TRAIN) != 0;
        is_held(port) || self.ports.get(port.far_end as usize).is_some_and(is_held)
    }
}
