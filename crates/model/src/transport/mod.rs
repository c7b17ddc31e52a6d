//! Transports: requester and responder of a queue pair, apart from each other and by operation.
//!
//! They take packets in and give packets out, by value. The fabric decides when a packet leaves or
//! a byte reaches memory.

mod dma_write;
mod hardware_counters;
mod injection;
mod queue_pair;
mod requester;
mod responder;
mod timers;

pub use dma_write::{DmaWrite, DmaWriteEnd, Placement};
pub use hardware_counters::{HardwareCounters, Remark};
pub use injection::{CctEntry, Flow, InjectionSettings, Throttle, congestion_notification};
pub use queue_pair::{Environment, QueuePair, Side};
pub use requester::{Emission, Middles, Pending, Repeats, Requester, Retired};
pub use responder::{Outcome, QpError, Responder, Response, response_packet};
pub use timers::{AckTimer, local_ack_timeout, rnr_wait};

use crate::parts::MessageGaps;
use softband_sim::SimDuration;

/// Kind of a message for the send engine. Each kind has its gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Send.
    Send,
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// Atomic operation.
    Atomic,
    /// Unreliable datagram.
    Datagram,
}

impl MessageKind {
    /// Returns the least time from a message of this kind to the next message of the same
    /// processing engine.
    pub const fn gap(self, gaps: &MessageGaps) -> SimDuration {
        match self {
            Self::Send => gaps.send,
            Self::Write => gaps.write,
            Self::Read => gaps.read,
            Self::Atomic => gaps.atomic,
            Self::Datagram => gaps.datagram,
        }
    }
}
