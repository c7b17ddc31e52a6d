//! Messages of a library with a protocol of its own: eager ones in pieces, and rendezvous.

use super::Runner;
use crate::connections::BASE;
use crate::protocol::{
    ANNOUNCEMENT_BYTES, COMPLETION_INTERVAL, END_BYTES, FIRST_HEADER_BYTES, HEADER_BYTES, MIDDLE_HEADER_BYTES, PIECE_BYTES, reads,
};
use crate::schedule::Action;
use softband_model::verbs::api::{PayloadSlice, ScatterGatherEntry, SendOperation, SendRequest};

/// Bytes of a header that travel as immediate data.
const IMMEDIATE_BYTES: u32 = 4;
const KIND_SHIFT: u32 = 30;

/// Kind of a message between libraries. The immediate data states it, with the number of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A whole message, or its last piece.
    Message = 0,
    /// A piece that others follow.
    Piece = 1,
    /// The announcement of a message, which the receiver reads.
    Announcement = 2,
    /// The end of an announced message.
    End = 3,
}

impl Kind {
    const fn of(immediate: u32) -> Self {
        match immediate >> KIND_SHIFT {
            0 => Self::Message,
            1 => Self::Piece,
            2 => Self::Announcement,
            _ => Self::End,
        }
    }
}

/// A message that came before its receive began.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    Whole,
    /// Announced by this send.
    Announced(u32),
}

/// Meaning of a request's completion for its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// None. Only each so many requests have a completion.
    None = 0,
    /// A piece of the message is sent.
    Piece = 1,
    /// The message is sent.
    Sent = 2,
    /// Data of an announced message has arrived.
    Read = 3,
}

const END_BITS: u32 = 2;
const RAIL_BITS: u32 = 1;

/// A request of a library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Step of the message's send.
    step: u32,
    /// `None` is an RDMA read.
    kind: Option<Kind>,
    rail: u32,
    bytes: u32,
    is_inline: bool,
    end: End,
    /// Whether the send ends at the post, because the library has copied the data.
    ends_at_post: bool,
}

impl Runner {
    /// Sends a message.
    pub(super) fn send(&mut self, rank: u32, to: u32, step: u32, bytes: u32) {
        let Some(limits) = self.library.as_ref().map(|library| library.limits(rank)) else { return };
        let flow = self.flow_of_step[step as usize];
        let now = self.threads[rank as usize].clock;
        self.flows[flow as usize].tally.posted(now);
        debug_assert_eq!(self.flows[flow as usize].to, to);
        let message = |kind, bytes| Work { step, kind: Some(kind), rail: 0, bytes, is_inline: false, end: End::None, ends_at_post: false };
        if bytes >= limits.rendezvous {
            let is_inline = limits.sends_inline(ANNOUNCEMENT_BYTES);
            return self.give(flow, Work { is_inline, ..message(Kind::Announcement, ANNOUNCEMENT_BYTES) });
        }
        let is_copied = bytes < limits.direct;
        if bytes <= PIECE_BYTES - HEADER_BYTES {
            let whole = message(Kind::Message, bytes + HEADER_BYTES);
            let end = if is_copied { End::None } else { End::Sent };
            let is_inline = limits.inline.is_some_and(|inline| bytes <= inline);
            return self.give(flow, Work { is_inline, end, ends_at_post: is_copied, ..whole });
        }
        let mut left = bytes;
        let mut header = FIRST_HEADER_BYTES;
        while left > 0 {
            let part = left.min(PIECE_BYTES - header);
            left -= part;
            let kind = if left == 0 { Kind::Message } else { Kind::Piece };
            let end = match left {
                _ if is_copied => End::None,
                0 => End::Sent,
                _ => End::Piece,
            };
            self.give(flow, Work { end, ends_at_post: left == 0 && is_copied, ..message(kind, part + header) });
            header = MIDDLE_HEADER_BYTES;
        }
    }

    /// Begins a receive, of a message that has come or will come.
    pub(super) fn begin_receive(&mut self, key: (u32, u32, u32), step: u32) {
        let Some(library) = &mut self.library else { return };
        match library.early.get_mut(&key).and_then(std::collections::VecDeque::pop_front) {
            None => self.matches.entry(key).or_default().await_message(step),
            Some(Arrival::Whole) => self.finish(step, self.threads[key.1 as usize].clock),
            Some(Arrival::Announced(send)) => self.read(key.1, send, step),
        }
    }

    /// Processes a message of another library.
    pub(super) fn on_arrival(&mut self, rank: u32, immediate: u32) {
        let number = immediate & ((1 << KIND_SHIFT) - 1);
        let Some(sender) = self.schedule.steps.get(number as usize).copied() else { return };
        let Action::Send { tag, .. } = sender.action else { return };
        let key = (sender.rank, rank, tag);
        let arrival = match Kind::of(immediate) {
            Kind::Piece => return,
            Kind::End => return self.end_send(number),
            Kind::Message => Arrival::Whole,
            Kind::Announcement => Arrival::Announced(number),
        };
        match (self.matches.entry(key).or_default().take_receive(), arrival) {
            (Some(receive), Arrival::Whole) => self.finish(receive, self.threads[rank as usize].clock),
            (Some(receive), Arrival::Announced(send)) => self.read(rank, send, receive),
            (None, arrival) => {
                if let Some(library) = &mut self.library {
                    library.early.entry(key).or_default().push_back(arrival);
                }
            }
        }
    }

    /// Reads the data of an announced message.
    fn read(&mut self, rank: u32, send: u32, receive: u32) {
        let sender = self.schedule.steps[send as usize];
        let Action::Send { bytes, .. } = sender.action else { return };
        let Some(library) = &mut self.library else { return };
        let limits = library.limits(rank);
        let parts = reads(bytes, limits.rails, limits.mtu_bytes);
        library.reads.entry(send).or_default().push_back((receive, parts.len() as u32));
        for (rail, bytes) in parts {
            if let Some(flow) = self.library.as_ref().and_then(|library| library.flow(rank, sender.rank, rail)) {
                self.give(flow, Work { step: send, kind: None, rail, bytes, is_inline: false, end: End::Read, ends_at_post: false });
            }
        }
    }

    /// Posts a request, or keeps it until the send queue has room.
    fn give(&mut self, flow: u32, work: Work) {
        let Some(library) = &mut self.library else { return };
        let of_flow = &self.flows[flow as usize];
        if of_flow.outstanding == of_flow.depth {
            library.sending[flow as usize].waiting.push_back(work);
            return;
        }
        self.post_work(flow, work);
        if work.ends_at_post {
            self.end_send(work.step);
        }
    }

    fn post_work(&mut self, number: u32, work: Work) {
        let Some(library) = &mut self.library else { return };
        let flow = &mut self.flows[number as usize];
        let (own, peer) = (self.endpoints[flow.from as usize], self.endpoints[flow.to as usize]);
        flow.outstanding += 1;
        let sending = &mut library.sending[number as usize];
        sending.unsignaled += 1;
        let signaled = work.end != End::None || sending.unsignaled >= COMPLETION_INTERVAL;
        let covered = if signaled { std::mem::take(&mut sending.unsignaled) } else { 0 };
        let thread = &mut self.threads[flow.from as usize];
        thread.clock += thread.costs.post_send;
        let at = thread.clock;
        thread.clock += thread.costs.flush;
        let (bytes, operation) = match work.kind {
            None => (work.bytes, SendOperation::RdmaRead { remote_address: BASE, rkey: peer.rkey }),
            Some(kind) => (work.bytes - IMMEDIATE_BYTES, SendOperation::Send { immediate: Some((kind as u32) << KIND_SHIFT | work.step) }),
        };
        let request = SendRequest {
            wr_id: u64::from(work.step) << 32 | u64::from((covered << RAIL_BITS | work.rail) << END_BITS | work.end as u32),
            operation,
            signaled,
            solicited: false,
            fence: false,
            inline: work.is_inline.then_some(PayloadSlice { buffer: None, offset: 0, len: bytes }),
            entries: if work.is_inline { Vec::new() } else { vec![ScatterGatherEntry { address: BASE, len_bytes: bytes, lkey: own.lkey }] },
            datagram: None,
            xrc_srq: None,
        };
        self.world.post_send(at, own.process, own.hca, flow.qpn, request);
    }

    /// Processes the completion of a request, which covers those before it.
    pub(super) fn on_request_done(&mut self, rank: u32, step: u32, index: u32) {
        let sender = self.schedule.steps[step as usize];
        let Action::Send { to, .. } = sender.action else { return };
        let (end, rail) = (index & ((1 << END_BITS) - 1), index >> END_BITS & ((1 << RAIL_BITS) - 1));
        let peer = if sender.rank == rank { to } else { sender.rank };
        let Some(flow) = self.library.as_ref().and_then(|library| library.flow(rank, peer, rail)) else { return };
        self.flows[flow as usize].outstanding -= index >> (END_BITS + RAIL_BITS);
        if end == End::Sent as u32 {
            self.end_send(step);
        } else if end == End::Read as u32 {
            self.end_read(rank, sender.rank, step);
        }
        while self.flows[flow as usize].outstanding < self.flows[flow as usize].depth {
            let Some(work) = self.library.as_mut().and_then(|library| library.sending[flow as usize].waiting.pop_front()) else { break };
            self.give(flow, work);
        }
    }

    /// Ends a read of an announced message. After the last one, tells the sender and ends the receive.
    fn end_read(&mut self, rank: u32, sender: u32, send: u32) {
        let Some(library) = &mut self.library else { return };
        let Some(waiting) = library.reads.get_mut(&send) else { return };
        let Some((receive, left)) = waiting.front_mut() else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let receive = *receive;
        waiting.pop_front();
        let is_inline = library.limits(rank).sends_inline(END_BYTES);
        if let Some(flow) = library.flow(rank, sender, 0) {
            self.give(flow, Work { step: send, kind: Some(Kind::End), rail: 0, bytes: END_BYTES, is_inline, end: End::None, ends_at_post: false });
        }
        self.finish(receive, self.threads[rank as usize].clock);
    }

    /// Ends a message of a send, and the send with its last message.
    fn end_send(&mut self, number: u32) {
        let step = self.schedule.steps[number as usize];
        let Action::Send { bytes, messages, .. } = step.action else { return };
        let now = self.threads[step.rank as usize].clock;
        self.flows[self.flow_of_step[number as usize] as usize].tally.completed(now, 1, u64::from(bytes));
        let state = &mut self.states[number as usize];
        state.retired += 1;
        if state.retired == messages {
            self.finish(number, now);
        }
    }
}
