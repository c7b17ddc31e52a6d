//! Credits of one link direction, as its sender keeps them (IBTA 7.9).
//!
//! The sender counts the credits that it may still spend on each lane, as of its last look. The
//! specification's counters (FCTBS, FCCL, ABR) count modulo 4,096 blocks. This file keeps their
//! difference directly.

use softband_types::{CreditBlocks, VirtualLane};

const LANES: usize = 15;

/// Credits of a sender, lane by lane, as of its last look: see [`super::Returns`].
#[repr(C)]
pub struct CreditLedger {
    full: i32,
    /// Blocks of the largest packet.
    largest: i32,
    /// Credits of the first lane, which most traffic takes. Negative while a packet larger than its
    /// lane is under way.
    first: i32,
    others: Box<[i32; LANES - 1]>,
}

impl CreditLedger {
    /// Creates the credits for packets of up to `largest` blocks.
    pub fn new(per_lane: CreditBlocks, largest: CreditBlocks) -> Self {
        let [full, largest] = [per_lane, largest].map(|blocks| i32::try_from(blocks.0).expect("a buffer is smaller than 128 GiB"));
        Self { full, largest, first: full, others: Box::new([full; LANES - 1]) }
    }

    #[inline]
    fn available(&self, lane: usize) -> i32 {
        if lane == 0 { self.first } else { self.others[lane - 1] }
    }

    #[inline]
    fn available_mut(&mut self, lane: VirtualLane) -> &mut i32 {
        if lane.0 == 0 { &mut self.first } else { &mut self.others[usize::from(lane.0) - 1] }
    }

    /// Checks whether the known credits of any lane in `lanes` (by bit) may be too few for a
    /// packet.
    #[inline]
    pub fn is_low(&self, lanes: u16) -> bool {
        if lanes == 1 {
            return self.first < self.largest;
        }
        let mut left = lanes;
        while left != 0 {
            if self.available(left.trailing_zeros() as usize) < self.largest {
                return true;
            }
            left &= left - 1;
        }
        false
    }

    /// Checks whether a packet of `blocks` may start: all its blocks are credited, or its lane is
    /// empty.
    ///
    /// The second case serves a packet larger than the lane's whole buffer (a 2 KiB datagram with a
    /// GRH on a lane of 33 blocks). The packet waits for an empty lane instead of forever.
    pub fn permits(&self, lane: VirtualLane, blocks: CreditBlocks) -> bool {
        let available = self.available(usize::from(lane.0));
        available >= blocks.0 as i32 || available == self.full
    }

    /// Takes the credits of a packet that starts. [`CreditLedger::permits`] must permit it.
    pub fn consume(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        debug_assert!(self.permits(lane, blocks));
        *self.available_mut(lane) -= blocks.0 as i32;
    }

    /// Takes the credits of a packet that has gone before, and that the ledger does not show yet.
    pub fn owe(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        *self.available_mut(lane) -= blocks.0 as i32;
    }

    /// Gives `blocks` back to the lane.
    pub fn give_back(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        let full = self.full;
        let available = self.available_mut(lane);
        *available += blocks.0 as i32;
        assert!(*available <= full, "lane {} got back more credits than it gave", lane.0);
    }

    /// Returns the blocks that a lane of the receiver's buffer holds.
    pub fn capacity(&self) -> CreditBlocks {
        CreditBlocks(self.full as u32)
    }

    /// Returns the blocks of a lane that are not known to be back.
    pub fn outstanding(&self, lane: VirtualLane) -> i32 {
        self.full - self.available(usize::from(lane.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: VirtualLane = VirtualLane(0);

    #[test]
    fn a_packet_needs_all_its_blocks() {
        let mut ledger = CreditLedger::new(CreditBlocks(66), CreditBlocks(33));
        ledger.consume(LANE, CreditBlocks(33));
        assert!(!ledger.is_low(0b11));
        ledger.consume(LANE, CreditBlocks(32));
        assert!(ledger.permits(LANE, CreditBlocks(1)));
        assert!(!ledger.permits(LANE, CreditBlocks(2)));
        assert!(ledger.permits(VirtualLane(1), CreditBlocks(66)));
        assert!(ledger.is_low(0b11) && !ledger.is_low(0b10));
    }

    #[test]
    fn a_packet_larger_than_its_lane_waits_for_an_empty_one() {
        let mut ledger = CreditLedger::new(CreditBlocks(33), CreditBlocks(34));
        assert!(ledger.permits(LANE, CreditBlocks(34)) && ledger.is_low(1));
        ledger.consume(LANE, CreditBlocks(34));
        assert!(!ledger.permits(LANE, CreditBlocks(1)));
        assert_eq!(ledger.outstanding(LANE), 34);
        ledger.give_back(LANE, CreditBlocks(34));
        assert!(ledger.permits(LANE, CreditBlocks(34)));
        assert_eq!(ledger.outstanding(LANE), 0);
    }

    #[test]
    #[should_panic(expected = "more credits than it gave")]
    fn credits_out_of_nothing_are_a_bug() {
        CreditLedger::new(CreditBlocks(33), CreditBlocks(33)).give_back(LANE, CreditBlocks(1));
    }
}
