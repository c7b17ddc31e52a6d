//! Credits on their way back. The receiver's end of a link keeps them until the sender asks (IBTA
//! 7.9).
//!
//! Blocks of a receive buffer become free at some time. Their flow-control packet goes out then,
//! but behind a packet that is on the link. No event tells the sender. It looks when it runs short;
//! by then, everything that matters has happened here.

use softband_sim::{Keyed, SimTime, SmallQueue};
use softband_types::{CreditBlocks, VirtualLane};

/// Packet that a port began to send last.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Time when its first bit left.
    pub from: SimTime,
    /// Time when its last bit leaves.
    pub until: SimTime,
}

impl Sending {
    /// Returns the time when a flow-control packet due at `at` leaves. If it is due as the packet
    /// begins, it goes before the packet.
    pub fn leave(self, at: SimTime) -> SimTime {
        if self.from < at && at < self.until { self.until } else { at }
    }
}

/// Credits that are not back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// Time when their flow-control packet is due or, if they are settled, when it leaves.
    pub at: SimTime,
    /// Lane of the credits.
    pub lane: VirtualLane,
    /// Number of credits.
    pub blocks: CreditBlocks,
    /// Another packet has begun since, and they did not wait for it.
    pub is_settled: bool,
}

/// Blocks that become free at `at`. For settled blocks, their flow-control packet leaves at `at`.
#[derive(Clone, Copy, Debug, Default)]
struct Freed {
    at: SimTime,
    blocks: u32,
    lane: u8,
}

impl Keyed for Freed {
    type Key = SimTime;

    fn key(&self) -> SimTime {
        self.at
    }
}

/// Credits on their way back, in the order of their times.
#[derive(Default)]
pub struct Returns {
    freed: SmallQueue<Freed, 2>,
    /// Number of settled entries, which come first. Another packet has begun since, and they did
    /// not wait for it.
    settled: u32,
    /// Blocks of the first lane that are back already, before all others.
    back: u32,
}

impl Returns {
    /// Adds blocks of `lane` that become free at `at`, not before settled entries. Returns whether
    /// they are the first of all that is not back.
    ///
    /// If the queue is full, first-lane blocks that have left by `back_by` count as back. `last` is
    /// the packet begun last.
    #[inline]
    pub fn free(&mut self, at: SimTime, (lane, blocks): (VirtualLane, CreditBlocks), back_by: Option<SimTime>, last: Sending) -> bool {
        if self.freed.is_full()
            && let Some(by) = back_by
        {
            while self.freed.first().is_some_and(|first| first.lane == 0)
                && let Some((_, blocks)) = self.take_first(by, last)
            {
                self.back += blocks.0;
            }
        }
        self.freed.insert(Freed { at, blocks: blocks.0, lane: lane.0 }) == 0
    }

    /// Settles the entries due by `now`, when the port begins another packet after `last`: they do
    /// not wait for it.
    #[inline]
    pub fn settle(&mut self, now: SimTime, last: Sending) {
        while (self.settled as usize) < self.freed.len()
            && let Some(freed) = self.freed.get_mut(self.settled as usize).filter(|freed| freed.at <= now)
        {
            freed.at = last.leave(freed.at);
            self.settled += 1;
        }
    }

    /// Takes out blocks that have left by `by`; `last` is the packet begun last.
    #[inline]
    pub fn take(&mut self, by: SimTime, last: Sending) -> Option<(VirtualLane, CreditBlocks)> {
        match std::mem::take(&mut self.back) {
            0 => self.take_first(by, last),
            back => Some((VirtualLane(0), CreditBlocks(back))),
        }
    }

    #[inline]
    fn take_first(&mut self, by: SimTime, last: Sending) -> Option<(VirtualLane, CreditBlocks)> {
        if self.first_leaves(last)? > by {
            return None;
        }
        let Freed { lane, blocks, .. } = self.freed.pop_first()?;
        self.settled = self.settled.saturating_sub(1);
        Some((VirtualLane(lane), CreditBlocks(blocks)))
    }

    /// Returns the time when the first entry that is not back leaves, unless another packet begins
    /// before.
    #[inline]
    pub fn first_leaves(&self, last: Sending) -> Option<SimTime> {
        let first = self.freed.first()?;
        Some(if self.settled > 0 { first.at } else { last.leave(first.at) })
    }

    /// Returns the entries that are not back, by time.
    pub fn entries(&self) -> impl Iterator<Item = Returning> {
        let entry = |(index, freed): (usize, &Freed)| Returning {
            at: freed.at,
            lane: VirtualLane(freed.lane),
            blocks: CreditBlocks(freed.blocks),
            is_settled: index < self.settled as usize,
        };
        self.freed.iter().enumerate().map(entry)
    }

    /// Returns the blocks of a lane.
    pub fn blocks(&self, lane: VirtualLane) -> CreditBlocks {
        let back = if lane.0 == 0 { self.back } else { 0 };
        CreditBlocks(back + self.freed.iter().filter(|freed| freed.lane == lane.0).map(|freed| freed.blocks).sum::<u32>())
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
        let first = sending(10, 35);
        assert!(returns.free(at(30), (LANE, CreditBlocks(2)), None, first));
        assert!(returns.free(at(10), (LANE, CreditBlocks(1)), None, first), "it is before the other");
        assert!(!returns.free(at(40), (VirtualLane(1), CreditBlocks(3)), None, first));
        assert_eq!((returns.first_leaves(first), returns.blocks(LANE)), (Some(at(10)), CreditBlocks(3)), "what is due as it begins goes before");
        assert_eq!(taken(&mut returns, 34, first), [1]);
        returns.settle(at(40), first);
        let second = sending(40, 90);
        assert_eq!(returns.first_leaves(second), Some(at(35)));
        assert!(!returns.free(at(50), (LANE, CreditBlocks(4)), None, second));
        assert_eq!(taken(&mut returns, 60, second), [2, 3]);
        assert_eq!(taken(&mut returns, 90, second), [4]);
        assert_eq!((returns.first_leaves(second), returns.settled), (None, 0));
    }

    #[test]
    fn what_is_back_already_is_one() {
        let mut returns = Returns::default();
        let idle = sending(0, 0);
        for (time, lane) in [(10, 0), (20, 0), (30, 1), (40, 0), (50, 0)] {
            returns.free(at(time), (VirtualLane(lane), CreditBlocks(1)), Some(at(25)), idle);
        }
        assert_eq!((returns.back, returns.blocks(LANE), returns.first_leaves(idle)), (2, CreditBlocks(4), Some(at(30))));
        assert_eq!(taken(&mut returns, 5, idle), [2], "nobody asks for the past");
        assert_eq!(taken(&mut returns, 45, idle), [1, 1]);
        assert_eq!(taken(&mut returns, 50, idle), [1]);
    }
}
