//! Lanes by weight: the arbiter of a port that has arbitration tables.

use super::{Arbiter, Choice};
use crate::link::FlowControl;
use crate::link::weights::{ArbitrationTables, Turns};
use softband_sim::SimTime;
use softband_types::{CreditBlocks, OperationalVls, VirtualLane};

impl Arbiter {
    /// Makes lanes send by the tables' weights. A link with one data lane needs none (IBTA 7.6.9).
    pub fn weigh(&mut self, tables: &ArbitrationTables, vls: OperationalVls) {
        if self.lanes > 1 {
            self.turns = Some(Box::new(Turns::new(tables, vls)));
            self.counts_packets = true;
        }
    }

    /// Checks whether a lane ever sends.
    pub fn sends_on(&self, lane: VirtualLane) -> bool {
        !self.counts_packets || self.turns.as_ref().is_none_or(|turns| turns.lanes() & 1 << lane.0 != 0)
    }

    /// Takes out the next packet by weight.
    ///
    /// A packet on a lane that no table lists waits like a packet without credits: forever, or
    /// until its lifetime ends.
    pub(super) fn choose_by_weight(&mut self, flow_control: &mut FlowControl, now: SimTime) -> Choice {
        let Some(mut turns) = self.turns.take() else { unreachable!("what is weighted has its turns") };
        let mut ready = 0;
        let mut left = self.waiting;
        while left != 0 {
            let number = left.trailing_zeros() as u8;
            left &= left - 1;
            if turns.lanes() & 1 << number != 0 && self.has_credits(number, flow_control) {
                ready |= 1 << number;
            } else {
                self.starve(number, now);
            }
        }
        let chosen = turns.choose(ready, |lane| self.head(lane).map_or(CreditBlocks(0), |first| first.blocks));
        self.turns = Some(turns);
        let sent = chosen.and_then(|lane| self.choose_of(lane.0, flow_control, now));
        sent.unwrap_or(Choice::Stalled { lanes: self.waiting })
    }

    /// Checks whether the packet that has the turn on a lane may go. If not, it keeps the turn.
    fn has_credits(&mut self, number: u8, flow_control: &FlowControl) -> bool {
        let lane = self.lane_mut(number);
        let Some((turn, first)) = lane.turn().and_then(|turn| Some((turn, lane.inputs.front(turn)?))) else { return false };
        let permits = flow_control.permits(VirtualLane(number), first.blocks);
        if !permits {
            lane.input_next = turn as u8;
        }
        permits
    }
}

#[cfg(test)]
mod tests;
