//! Data that a connection has to send.

use crate::payload::{ByteQueue, Payload};
use softband_sim::SimTime;
use std::collections::VecDeque;

/// End of the sending direction (DisConn).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// The program sends no more, and data may wait.
    Wanted,
    Sent,
    /// The peer's HCA has the message.
    Delivered,
}

/// Data of a blocking call that goes without a copy (ZCopy).
#[derive(Debug)]
pub(super) enum Source {
    /// Parts of the call are still to come: this many bytes. At `until`, those that came go by copy.
    Gathering { queue: ByteQueue, missing: u32, until: SimTime },
    /// The whole source waits for its announcement.
    Ready { number: u32, payload: Payload },
    /// The peer knows it, and has read bytes of it. At `cancel_at`, the rest goes by copy.
    Announced { number: u32, payload: Payload, read: u32, cancel_at: Option<SimTime> },
}

/// Message in the send queue of the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    Data(u32),
    Control,
    End,
    Abort,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Bytes that no message has yet.
    pub(super) queue: ByteQueue,
    pub(super) posted: VecDeque<Posted>,
    /// Bytes of posted messages.
    pub(super) posted_bytes: u64,
    /// Size of the send buffer in bytes.
    pub(super) buffer: u32,
    /// Most data of a message in bytes, as the peer's receive buffers allow.
    pub(super) message_bytes: u32,
    /// Offset behind the last urgent byte that no message has.
    pub(super) urgent_end: Option<u64>,
    /// More data follows, so that a small message waits.
    pub(super) has_more: bool,
    /// A program may wait for room.
    pub(super) was_full: bool,
    pub(super) source: Option<Source>,
    pub(super) end: End,
    /// The connection ends by AbortConn.
    pub(super) must_abort: bool,
}

impl Sender {
    pub(super) fn new(buffer: u32) -> Self {
        Self {
            queue: ByteQueue::new(0),
            posted: VecDeque::new(),
            posted_bytes: 0,
            buffer,
            message_bytes: 0,
            urgent_end: None,
            has_more: false,
            was_full: false,
            source: None,
            end: End::Open,
            must_abort: false,
        }
    }

    /// Returns the bytes that wait or are under way.
    pub(super) fn unsent(&self) -> u64 {
        let of_source = match &self.source {
            None => 0,
            Some(Source::Gathering { queue, .. }) => queue.len(),
            Some(Source::Ready { payload, .. }) => payload.len().into(),
            Some(Source::Announced { payload, read, .. }) => payload.len().saturating_sub(*read).into(),
        };
        self.queue.len() + self.posted_bytes + of_source
    }

    /// Returns the bytes for which the send buffer has room. A source without a copy takes it all.
    pub(super) fn room(&self) -> u32 {
        if self.source.is_some() {
            return 0;
        }
        let used = self.queue.len() + self.posted_bytes;
        u64::from(self.buffer).saturating_sub(used).try_into().unwrap_or(u32::MAX)
    }

    /// Returns whether `poll` shows room.
    pub(super) fn is_writable(&self) -> bool {
        // Linux wakes a writer when a third of the buffer is free.
        self.source.is_none() && self.room() >= self.buffer / 3
    }

    /// Returns when the program or the peer has had enough time for a source.
    pub(super) fn cancel_at(&self) -> Option<SimTime> {
        match self.source {
            Some(Source::Gathering { until, .. }) => Some(until),
            Some(Source::Announced { cancel_at, .. }) => cancel_at,
            _ => None,
        }
    }

    /// Lets the rest of a source go by copy, from `read` bytes on.
    pub(super) fn copy_source(&mut self, payload: &Payload, read: u32) {
        self.queue.push(&payload.part(read, payload.len().saturating_sub(read)));
    }

    /// Notes that the program gives the missing parts of its call up.
    pub(super) fn give_up_gathering(&mut self) {
        if let Some(Source::Gathering { queue, .. }) = &self.source {
            let payload = queue.get(0, u32::MAX);
            self.source = None;
            self.copy_source(&payload, 0);
        }
    }
}
