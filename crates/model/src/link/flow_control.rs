//! What keeps a sender from running over the next buffer: the questions that a sending port asks, and two ways to answer them.

use super::{CreditLedger, PauseLedger};
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};

/// Flow control of one link direction, as its sender keeps it. What it is stands where its contents begin.
#[repr(C)]
pub enum FlowControl {
    /// InfiniBand: the receiver says how much it has room for.
    Credits(CreditLedger),
    /// Ethernet: the receiver says when to stop and when to go on.
    Pause(Box<PauseLedger>),
}

impl FlowControl {
    /// Whether a packet of `blocks` may start on a lane.
    #[inline]
    pub fn permits(&self, lane: VirtualLane, blocks: CreditBlocks) -> bool {
        match self {
            Self::Credits(ledger) => ledger.permits(lane, blocks),
            Self::Pause(ledger) => ledger.permits(lane),
        }
    }

    /// It starts.
    #[inline]
    pub fn consume(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        match self {
            Self::Credits(ledger) => ledger.consume(lane, blocks),
            Self::Pause(_) => {}
        }
    }

    /// Takes in the pause frames that have arrived by `now`.
    #[inline]
    pub fn collect(&mut self, now: SimTime) {
        if let Self::Pause(ledger) = self {
            ledger.collect(now);
        }
    }

    /// Whether it has to be seen which credits are back before one of these lanes, by bit, sends anything.
    #[inline]
    pub fn is_low(&self, lanes: u16) -> bool {
        matches!(self, Self::Credits(ledger) if ledger.is_low(lanes))
    }
}
