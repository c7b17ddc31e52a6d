//! Flow control, which keeps a sender from overrunning the next buffer. Two variants answer the
//! questions of a sending port.

use super::{CreditLedger, PauseLedger, Returns, Sending};
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

    /// Returns the flow control of a sender that has credits for the blocks of its ledger.
    pub const fn credits(ledger: CreditLedger) -> Self {
        Self::Credits(ledger)
    }

    /// Returns the flow control of a sender that stops for pause frames.
    pub fn pauses() -> Self {
        Self::Pause(Box::default())
    }

    /// Collects the credits in `returns` that have left the receiver by `by`; `last` is the packet
    /// that the receiver began last.
    #[inline]
    pub fn take_back(&mut self, returns: &mut Returns, by: SimTime, last: Sending) {
        let Self::Credits(ledger) = self else { return };
        while let Some((lane, blocks)) = returns.take(by, last) {
            ledger.give_back(lane, blocks);
        }
    }

    /// Returns the credits of the sender; `None` if the receiver sends pause frames.
    #[inline]
    pub fn ledger(&self) -> Option<&CreditLedger> {
        match self {
            Self::Credits(ledger) => Some(ledger),
            Self::Pause(_) => None,
        }
    }

    /// Notes a packet of `blocks` that has gone before, and that the sender's credits do not show yet.
    #[inline]
    pub fn owe(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        if let Self::Credits(ledger) = self {
            ledger.owe(lane, blocks);
        }
    }

    /// Gives `blocks` back to a lane. Does nothing if the receiver sends pause frames.
    #[inline]
    pub fn give_back(&mut self, lane: VirtualLane, blocks: CreditBlocks) {
        if let Self::Credits(ledger) = self {
            ledger.give_back(lane, blocks);
        }
    }

    /// Notes a pause frame that takes effect at `arrival`.
    ///
    /// # Panics
    /// Panics if the receiver grants credits.
    pub fn schedule_pause(&mut self, arrival: SimTime, lane: VirtualLane, pauses: bool) {
        let Self::Pause(ledger) = self else { unreachable!("both ends of a cable have the same flow control") };
        ledger.schedule(arrival, lane, pauses);
    }

    /// Returns the time of the next known message of the receiver. `first_credits` tells the arrival
    /// of the next credits.
    #[inline]
    pub fn next_message(&self, first_credits: impl FnOnce() -> Option<SimTime>) -> Option<SimTime> {
        match self {
            Self::Credits(_) => first_credits(),
            Self::Pause(ledger) => ledger.next_change(),
        }
    }

    /// Returns the number of pause frames that have arrived by `until`.
    pub fn pauses_received(&self, until: SimTime) -> u64 {
        match self {
            Self::Credits(_) => 0,
            Self::Pause(ledger) => ledger.received(until),
        }
    }

    /// Returns the blocks of the next buffer above which a lane that waits with a packet of `head`
    /// blocks stays stuck. `resumes_at` tells the fill level below which the receiver resumes it.
    pub fn stuck_above(&self, head: CreditBlocks, resumes_at: impl FnOnce() -> CreditBlocks) -> CreditBlocks {
        match self {
            Self::Credits(ledger) => CreditBlocks(ledger.capacity().0.saturating_sub(head.0)),
            Self::Pause(_) => resumes_at(),
        }
    }

    /// Describes the wait of a port's lane for the port `next`.
    pub fn wait_in_words(&self, port: &str, next: &str, lane: VirtualLane) -> String {
        match self {
            Self::Credits(_) => format!("{port} waits for credits of {next} (VL{})", lane.0),
            Self::Pause(_) => format!("{port} is paused by {next} (priority {})", lane.0),
        }
    }

    /// Checks whether `PacketLifeTime` limits the time of waiting packets in a switch.
    pub const fn has_packet_lifetime(&self) -> bool {
        matches!(self, Self::Credits(_))
    }

    /// Checks whether the sender counts credits, so that each block of the receiver's buffer is
    /// accounted for at any time.
    pub const fn counts_credits(&self) -> bool {
        matches!(self, Self::Credits(_))
    }

    /// Returns the blocks of a lane that are neither free nor on their way back. `returned` counts
    /// the freed blocks of the receiver, `stored` the blocks in its buffer.
    pub fn blocks_missing(&self, lane: VirtualLane, returned: CreditBlocks, stored: impl FnOnce() -> CreditBlocks) -> i32 {
        match self {
            Self::Credits(ledger) => ledger.outstanding(lane) - returned.0 as i32,
            Self::Pause(_) => stored().0 as i32,
        }
    }
}
