//! DMA writes: payload on its way from the wire into memory.

use crate::verbs::Segment;
use crate::verbs::api::{Completion, PayloadSlice};
use softband_types::Psn;

/// Where payload goes: usually one span of memory, and then nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    first: Option<Segment>,
    rest: Vec<Segment>,
}

impl Placement {
    pub fn push(&mut self, segment: Segment) {
        if self.first.is_none() {
            self.first = Some(segment);
        } else {
            self.rest.push(segment);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.first.iter().chain(&self.rest)
    }
}

/// What happens when the last byte is in memory.
#[derive(Clone, Debug)]
pub enum DmaWriteEnd {
    /// A request: the message's completion and the packet's acknowledgement, where they are due.
    Request { completion: Option<Box<Completion>>, acknowledge: Option<Psn> },
    /// A response to a read or atomic, and whether it is that one's last.
    Response { last: bool },
}

/// An accepted packet on its way into memory.
#[derive(Clone, Debug)]
pub struct DmaWrite {
    pub placement: Placement,
    pub payload: Option<PayloadSlice>,
    /// The first packet of a message that takes a receive WQE.
    pub fetches_receive_wqe: bool,
    /// The last packet of its message.
    pub last: bool,
    pub end: DmaWriteEnd,
}

impl DmaWrite {
    /// Whether anything happens when it is in memory. Not where it is one of many packets whose payload is only counted.
    pub fn leads_to_something(&self) -> bool {
        let is_moved = self.payload.as_ref().is_some_and(|payload| payload.buffer.is_some());
        is_moved || !matches!(self.end, DmaWriteEnd::Request { completion: None, acknowledge: None })
    }

    pub fn bytes(&self) -> u32 {
        self.payload.as_ref().map_or(0, |payload| payload.len)
    }
}
