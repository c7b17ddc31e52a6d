//! DMA writes: payload on its way from the wire into memory.

use crate::verbs::Segment;
use crate::verbs::api::{Completion, PayloadSlice};
use softband_types::Psn;

/// Destination of payload: usually one span of memory, and then nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    first: Option<Segment>,
    rest: Vec<Segment>,
}

impl Placement {
    /// Adds a segment behind the others.
    pub fn push(&mut self, segment: Segment) {
        if self.first.is_none() {
            self.first = Some(segment);
        } else {
            self.rest.push(segment);
        }
    }

    /// Returns the segments in the order of the payload.
    pub fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.first.iter().chain(&self.rest)
    }
}

/// Effects when the last byte is in memory.
#[derive(Clone, Debug)]
pub enum DmaWriteEnd {
    /// The packet is a request: the message's completion and the packet's acknowledgement, if they
    /// are due.
    Request {
        /// Completion of the receive request, in the last packet of a message that takes it.
        completion: Option<Box<Completion>>,
        /// PSN of the acknowledgement that follows, and its number of completed messages.
        acknowledge: Option<(Psn, u32)>,
    },
    /// The packet is a response to a read or atomic.
    Response {
        /// Whether it is the last response of its message.
        last: bool,
    },
}

/// Accepted packet on its way into memory.
#[derive(Clone, Debug)]
pub struct DmaWrite {
    /// Destination in memory.
    pub placement: Placement,
    /// Payload, or `None` for a packet without payload.
    pub payload: Option<PayloadSlice>,
    /// Whether this is the first packet of a message that takes a receive WQE.
    pub fetches_receive_wqe: bool,
    /// Whether this is the last packet of its message.
    pub last: bool,
    /// Effects when the last byte is in memory.
    pub end: DmaWriteEnd,
}

impl DmaWrite {
    /// Checks whether anything happens when the write is in memory. Nothing does if the payload is
    /// only counted and neither a completion nor an acknowledgement is due.
    pub fn leads_to_something(&self) -> bool {
        let is_moved = self.payload.as_ref().is_some_and(|payload| payload.buffer.is_some());
        is_moved || !matches!(self.end, DmaWriteEnd::Request { completion: None, acknowledge: None })
    }

    /// Returns the bytes of payload.
    pub fn bytes(&self) -> u32 {
        self.payload.as_ref().map_or(0, |payload| payload.len)
    }
}
