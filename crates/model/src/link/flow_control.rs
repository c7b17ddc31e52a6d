//! Flow control, which keeps a sender from overrunning the next buffer. Two variants answer the
//! questions of a sending port.

use super::{CreditLedger, PauseLedger};
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};

/// Flow control of one link direction, as its sender keeps it. The variant's tag stands next to its
/// contents.
#[repr(C)]
pub enum FlowControl {
    /// InfiniBand: the receiver announces the room that it has.
    Credits(CreditLedger),
    /// Ethernet: the receiver announces when to stop and when to go on.
    Pause(Box<PauseLedger>),
}

impl FlowControl {
    /// Checks whether a packet of `blocks` may start on a lane.
    #[inline]
    pub fn permits(&self, lane: VirtualLane, blocks: CreditBlocks) -> bool {
        match self {
            Self::Credits(ledger) => ledger.permits(lane, blocks),
            Self::Pause(ledger) => ledger.permits(lane),
        }
    }

    /// Notes that a packet of `blocks` starts on a lane.
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

    /// Checks whether the sender must collect returned credits before one of these lanes, by bit,
    /// sends anything.
    #[inline]
    pub fn is_low(&self, lanes: u16) -> bool {
        matches!(self, Self::Credits(ledger) if ledger.is_low(lanes))
    }
}
