//! Credits of one link direction, as its sender keeps them (IBTA 7.9).
//!
//! The sender's account: what it may still send on each lane, and what is on its way back. The specification's counters
//! (FCTBS, FCCL, ABR) say the same modulo 4,096 blocks; here the difference is kept directly.

use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};
use std::collections::VecDeque;

const LANES: usize = 15;

/// A flow-control packet on the cable.
#[derive(Clone, Copy, Debug)]
struct Returning {
    arrival: SimTime,
    lane: u8,
    blocks: i32,
}

const NONE: Returning = Returning { arrival: SimTime::MAX, lane: 0, blocks: 0 };

/// Credits of a sender, lane by lane. In the order in which a packet that passes needs them.
#[repr(C)]
pub struct CreditLedger {
    /// On their way back, in the order of their arrival: the first (at no time when there is none), and, as there seldom are, others.
    first: Returning,
    others: VecDeque<Returning>,
    full: i32,
    /// Negative while the one packet that is larger than its lane is under way.
    available: [i32; LANES],
}

impl CreditLedger {
    pub fn new(per_lane: CreditBlocks) -> Self {
        let full = i32::try_from(per_lane.0).expect("a buffer is smaller than 128 GiB");
        Self { first: NONE, full, available: [full; LANES], others: VecDeque::new() }
    }

    /// Whether a packet of `blocks` may start: all its blocks are credited, or its lane is empty.
    ///
    /// The second case lets a packet pass that is larger than the lane's whole buffer (a 2 KiB datagram with a GRH on a lane of
    /// 33 blocks): it waits for an empty lane instead of for ever.
    pub fn permits(&self, lane: VirtualLane, blocks: CreditBlocks) -> bool {
        let available = self.available[usize::from(lane.0)];
        available >= blocks.0 as i32 || available == self.full
    }

    pub fn consume(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        debug_assert!(self.permits(lane, blocks));
        self.available[usize::from(lane.0)] -= blocks.0 as i32;
    }

    /// Notes that `blocks` of `lane` will be back at `arrival`.
    pub fn schedule_return(&mut self, arrival: SimTime, lane: VirtualLane, blocks: CreditBlocks) {
        let returning = Returning { arrival, lane: lane.0, blocks: blocks.0 as i32 };
        if self.first.arrival == SimTime::MAX {
            self.first = returning;
            return;
        }
        debug_assert!(self.others.back().unwrap_or(&self.first).arrival <= arrival, "flow control does not overtake itself");
        self.others.push_back(returning);
    }

    /// Takes in what has arrived by `now`.
    pub fn collect(&mut self, now: SimTime) {
        while self.first.arrival <= now {
            let Returning { lane, blocks, .. } = std::mem::replace(&mut self.first, self.others.pop_front().unwrap_or(NONE));
            let available = &mut self.available[usize::from(lane)];
            *available += blocks;
            assert!(*available <= self.full, "lane {lane} got back more credits than it gave");
        }
    }

    /// What a lane of the receiver's buffer holds.
    pub fn capacity(&self) -> CreditBlocks {
        CreditBlocks(self.full as u32)
    }

    /// When the next flow-control packet arrives.
    pub fn next_return(&self) -> Option<SimTime> {
        Some(self.first.arrival).filter(|arrival| *arrival < SimTime::MAX)
    }

    /// Blocks that are neither here nor on their way back: taken at the receiver or on the cable.
    pub fn outstanding(&self, lane: VirtualLane) -> i32 {
        let returning: i32 = std::iter::once(&self.first).chain(&self.others).filter(|of| of.lane == lane.0).map(|of| of.blocks).sum();
        self.full - self.available[usize::from(lane.0)] - returning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: VirtualLane = VirtualLane(0);

    #[test]
    fn a_packet_needs_all_its_blocks() {
        let mut ledger = CreditLedger::new(CreditBlocks(66));
        ledger.consume(LANE, CreditBlocks(33));
        ledger.consume(LANE, CreditBlocks(32));
        assert!(ledger.permits(LANE, CreditBlocks(1)));
        assert!(!ledger.permits(LANE, CreditBlocks(2)));
        assert!(ledger.permits(VirtualLane(1), CreditBlocks(66)));
    }

    #[test]
    fn a_packet_larger_than_its_lane_waits_for_an_empty_one() {
        let mut ledger = CreditLedger::new(CreditBlocks(33));
        assert!(ledger.permits(LANE, CreditBlocks(34)));
        ledger.consume(LANE, CreditBlocks(34));
        assert!(!ledger.permits(LANE, CreditBlocks(1)));
        ledger.schedule_return(SimTime::from_picos(9), LANE, CreditBlocks(34));
        ledger.collect(SimTime::from_picos(8));
        assert!(!ledger.permits(LANE, CreditBlocks(1)));
        ledger.collect(SimTime::from_picos(9));
        assert!(ledger.permits(LANE, CreditBlocks(34)));
        assert_eq!(ledger.outstanding(LANE), 0);
    }

    #[test]
    #[should_panic(expected = "more credits than it gave")]
    fn credits_out_of_nothing_are_a_bug() {
        let mut ledger = CreditLedger::new(CreditBlocks(33));
        ledger.schedule_return(SimTime::ZERO, LANE, CreditBlocks(1));
        ledger.collect(SimTime::ZERO);
    }
}
