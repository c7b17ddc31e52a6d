//! Data that a connection has received, and the source that its peer announced.

use crate::payload::{ByteQueue, Payload};
use std::collections::VecDeque;

/// Source of the peer (SrcAvail), behind all data in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) address: u64,
    pub(super) rkey: u32,
    /// Bytes that no read has asked for.
    pub(super) left: u32,
    /// Bytes that arrived, and that the peer does not know of.
    pub(super) read: u32,
    /// Bytes of the read under way.
    pub(super) reading: u32,
    /// The peer wants to send the rest by copy. A read under way comes first.
    pub(super) is_cancelled: bool,
}

/// Urgent byte of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Urgent {
    pub(super) offset: u64,
    pub(super) byte: u8,
    pub(super) is_read: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) queue: ByteQueue,
    /// Stream offsets behind the data of occupied receive buffers.
    buffers: VecDeque<u64>,
    /// Spans of the queue that RDMA reads put in place, for which no copy is due.
    in_place: VecDeque<(u64, u64)>,
    pub(super) offer: Option<Offer>,
    pub(super) urgent: Option<Urgent>,
    pub(super) has_end: bool,
    pub(super) is_shut: bool,
}

impl Receiver {
    pub(super) fn new() -> Self {
        let (queue, buffers, in_place) = (ByteQueue::new(0), VecDeque::new(), VecDeque::new());
        Self { queue, buffers, in_place, offer: None, urgent: None, has_end: false, is_shut: false }
    }

    /// Takes the data of a receive buffer.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.queue.push(&Payload::from(data));
        self.buffers.push_back(self.queue.end());
    }

    /// Takes data that a read put in place.
    pub(super) fn push_in_place(&mut self, data: &Payload) {
        let start = self.queue.end();
        self.queue.push(data);
        self.in_place.push_back((start, self.queue.end()));
    }

    /// Returns how many of `len` bytes from the start of the queue a call has to copy.
    pub(super) fn copied(&self, start: u64, len: u32) -> u32 {
        let end = start + u64::from(len);
        let overlap = |(from, to): &(u64, u64)| end.min(*to).saturating_sub(start.max(*from));
        let in_place: u64 = self.in_place.iter().map(overlap).sum();
        len - in_place.min(u64::from(len)) as u32
    }

    /// Forgets the bytes before an offset. Returns the number of receive buffers that are free now.
    pub(super) fn discard_to(&mut self, to: u64) -> u32 {
        self.queue.discard_to(to);
        while self.in_place.front().is_some_and(|(_, end)| *end <= to) {
            self.in_place.pop_front();
        }
        let mut freed = 0;
        while self.buffers.front().is_some_and(|end| *end <= to) {
            self.buffers.pop_front();
            freed += 1;
        }
        freed
    }

    /// Returns whether the program would lose data by closing now.
    pub(super) fn has_unread(&self) -> bool {
        !self.queue.is_empty() || self.offer.is_some()
    }

    /// Returns the offsets between which a read finds data. It stops at the urgent byte, so that the
    /// program can notice it, and skips one out of band.
    pub(super) fn span(&self, is_inline: bool) -> (u64, u64) {
        let (start, end) = (self.queue.start(), self.queue.end());
        match self.urgent {
            Some(urgent) if urgent.offset == start && end > start && !is_inline => (start + 1, end),
            Some(urgent) if (start + 1..end).contains(&urgent.offset) => (start, urgent.offset),
            _ => (start, end),
        }
    }

    /// Returns whether a read finds data, or can begin to fetch it.
    pub(super) fn is_readable(&self, is_inline: bool) -> bool {
        let (start, end) = self.span(is_inline);
        end > start || self.offer.is_some_and(|offer| offer.reading == 0)
    }
}
