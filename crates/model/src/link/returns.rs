//! Credits on their way back, as the receiver's end of a link keeps them until the sender wants to know (IBTA 7.9).
//!
//! A receive buffer's blocks are free at some time; their flow-control packet goes out then, but behind a packet that is on the link. Nobody
//! has to be told of it: the sender looks when it runs short, and by then all that matters has happened here.

use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};
use std::collections::VecDeque;

/// The packet that a port began to send last: when, and when its last bit leaves.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub from: SimTime,
    pub until: SimTime,
}

impl Sending {
    /// When a flow-control packet leaves that is due at `at`: one that is due as the packet begins goes before it.
    pub fn leave(self, at: SimTime) -> SimTime {
        if self.from < at && at < self.until { self.until } else { at }
    }
}

/// Blocks that are free at some time, or, of those that are settled, whose flow-control packet leaves then.
#[derive(Clone, Copy, Debug)]
struct Freed {
    at: SimTime,
    blocks: u32,
    lane: u8,
}

/// In the order of their times.
#[derive(Default)]
pub struct Returns {
    freed: VecDeque<Freed>,
    /// So many, the first ones, are settled: another packet has begun since, which they did not wait for.
    settled: u32,
}

impl Returns {
    /// Blocks of `lane` will be free at `at`, not before what was settled; whether they are the first of all.
    #[inline]
    pub fn free(&mut self, at: SimTime, lane: VirtualLane, blocks: CreditBlocks) -> bool {
        let freed = Freed { at, blocks: blocks.0, lane: lane.0 };
        if self.freed.back().is_none_or(|last| last.at <= at) {
            self.freed.push_back(freed);
            return self.freed.len() == 1;
        }
        let place = self.freed.partition_point(|other| other.at <= at).max(self.settled as usize);
        self.freed.insert(place, freed);
        place == 0
    }

    /// The port is to begin another packet at `now`, after `last`: what is due by then does not wait for it.
    #[inline]
    pub fn settle(&mut self, now: SimTime, last: Sending) {
        while let Some(freed) = self.freed.get_mut(self.settled as usize).filter(|freed| freed.at <= now) {
            freed.at = last.leave(freed.at);
            self.settled += 1;
        }
    }

    /// Takes out what has left by `by`, `last` being the packet begun last.
    #[inline]
    pub fn take(&mut self, by: SimTime, last: Sending) -> Option<(VirtualLane, CreditBlocks)> {
        if self.first_leaves(last)? > by {
            return None;
        }
        let Freed { lane, blocks, .. } = self.freed.pop_front()?;
        self.settled = self.settled.saturating_sub(1);
        Some((VirtualLane(lane), CreditBlocks(blocks)))
    }

    /// When the first of them leaves, unless another packet begins before.
    pub fn first_leaves(&self, last: Sending) -> Option<SimTime> {
        let first = self.freed.front()?;
        Some(if self.settled > 0 { first.at } else { last.leave(first.at) })
    }

    /// Blocks of a lane.
    pub fn blocks(&self, lane: VirtualLane) -> CreditBlocks {
        CreditBlocks(self.freed.iter().filter(|freed| freed.lane == lane.0).map(|freed| freed.blocks).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: VirtualLane = VirtualLane(0);

    fn at(picos: u64) -> SimTime {
        SimTime::from_picos(picos)
    }

    fn sending(from: u64, until: u64) -> Sending {
        Sending { from: at(from), until: at(until) }
    }

    fn taken(returns: &mut Returns, by: u64, last: Sending) -> Vec<u32> {
        std::iter::from_fn(|| returns.take(at(by), last).map(|(_, blocks)| blocks.0)).collect()
    }

    #[test]
    fn blocks_come_back_behind_the_packet_on_the_link_and_before_the_next_one() {
        let mut returns = Returns::default();
        assert!(returns.free(at(30), LANE, CreditBlocks(2)));
        assert!(returns.free(at(10), LANE, CreditBlocks(1)), "it is before the other");
        assert!(!returns.free(at(40), VirtualLane(1), CreditBlocks(3)));
        let first = sending(10, 35);
        assert_eq!((returns.first_leaves(first), returns.blocks(LANE)), (Some(at(10)), CreditBlocks(3)), "what is due as it begins goes before");
        assert_eq!(taken(&mut returns, 34, first), [1]);
        returns.settle(at(40), first);
        let second = sending(40, 90);
        assert_eq!(returns.first_leaves(second), Some(at(35)));
        assert!(!returns.free(at(50), LANE, CreditBlocks(4)));
        assert_eq!(taken(&mut returns, 60, second), [2, 3]);
        assert_eq!(taken(&mut returns, 90, second), [4]);
        assert_eq!((returns.first_leaves(second), returns.settled), (None, 0));
    }
}
