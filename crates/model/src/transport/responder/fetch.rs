//! RDMA reads and atomics: from memory into responses.

use super::{Outcome, QpError, Receiving, Responder, Response};
use crate::packet::{Carried, MessageCount, NakCode, Packet, PacketKind, Position, RemoteRange};
use crate::transport::queue_pair::Environment;
use crate::transport::requester::Emission;
use crate::verbs::api::{PayloadSlice, QpSnapshot};
use crate::verbs::{ChunkPool, Reach, RemoteAccess};
use softband_sim::SimTime;
use softband_types::{HcaId, PdHandle, PortLids, Psn};

/// Answer that waits for its turn. Answers leave in the order of their requests (IBTA 9.7.5.1).
pub(crate) enum Reply {
    Read {
        pd: PdHandle,
        range: RemoteRange,
        first_psn: Psn,
        packets: u32,
        messages: u32,
        repeated: bool,
        next: u32,
        ready_at: SimTime,
        chunk: Option<(u32, PayloadSlice)>,
    },
    Atomic {
        pd: PdHandle,
        psn: Psn,
        messages: u32,
        operation: PacketKind,
        ready_at: SimTime,
    },
    /// Answer without work: an acknowledgement behind a read's data, or an atomic's result once
    /// more.
    Plain(Response),
    /// Last answer: the queue pair goes to error with it.
    End(Response, QpError),
}

/// Result of an atomic, kept in case the requester asks for it again (IBTA 9.7.5.1.2).
pub(super) struct AtomicResult {
    psn: Psn,
    original: u64,
}

/// Checks whether a key opens this range. An empty range needs no key.
fn is_readable(r: &Receiving, range: RemoteRange) -> bool {
    range.len_bytes == 0 || r.verbs.check_remote(r.by, range.rkey, range.address, range.len_bytes, RemoteAccess::Read).is_some()
}

impl Responder {
    pub(super) fn queue_read(&mut self, r: &mut Receiving, packet: &Packet, range: RemoteRange) -> Outcome {
        if self.fetches_waiting() >= usize::from(r.a.max_dest_rd_atomic) {
            return self.refuse(r, packet.psn, NakCode::InvalidRequest);
        }
        if !is_readable(r, range) {
            return self.refuse(r, packet.psn, NakCode::RemoteAccessError);
        }
        let packets = range.len_bytes.div_ceil(r.a.path_mtu.bytes()).max(1);
        self.step_over(packets);
        self.messages = self.messages.wrapping_add(1);
        let outcome = self.queue_reply(self.read_reply(r.by.pd, range, packet.psn, packets, false));
        Outcome { begun: packet.kind.begun_operation(), ..outcome }
    }

    pub(super) fn queue_atomic(&mut self, r: &mut Receiving, packet: &Packet, address: u64, rkey: u32) -> Outcome {
        if !address.is_multiple_of(8) || self.fetches_waiting() >= usize::from(r.a.max_dest_rd_atomic) {
            return self.refuse(r, packet.psn, NakCode::InvalidRequest);
        }
        let writes = matches!(packet.kind, PacketKind::AtomicWrite { .. });
        let access = if writes { RemoteAccess::Write } else { RemoteAccess::Atomic };
        if r.verbs.check_remote(r.by, rkey, address, 8, access).is_none() {
            return self.refuse(r, packet.psn, NakCode::RemoteAccessError);
        }
        self.step_over(1);
        self.messages = self.messages.wrapping_add(1);
        let (pd, messages) = (r.by.pd, self.messages);
        let outcome = self.queue_reply(Reply::Atomic { pd, psn: packet.psn, messages, operation: packet.kind, ready_at: SimTime::MAX });
        Outcome { begun: packet.kind.begun_operation(), ..outcome }
    }

    /// Answers a read again from `packet.psn` on. Drops waiting reads from there on: the requester
    /// asks for them again as well.
    pub(super) fn repeat_read(&mut self, r: &mut Receiving, packet: &Packet) -> Outcome {
        let PacketKind::ReadRequest { range } = packet.kind else { return Outcome::default() };
        self.replies.retain(|reply| match reply {
            Reply::Read { first_psn, .. } => first_psn.is_before(packet.psn),
            _ => true,
        });
        if !super::takes(&r.a.access, &packet.kind) {
            return self.refuse(r, packet.psn, NakCode::InvalidRequest);
        }
        if !is_readable(r, range) {
            return self.refuse(r, packet.psn, NakCode::RemoteAccessError);
        }
        let packets = range.len_bytes.div_ceil(r.a.path_mtu.bytes()).max(1);
        self.queue_reply(self.read_reply(r.by.pd, range, packet.psn, packets, true))
    }

    pub(super) fn repeat_atomic(&mut self, psn: Psn) -> Outcome {
        match self.replays.iter().find(|result| result.psn == psn) {
            Some(result) => Outcome::respond(psn, PacketKind::AtomicAck { original: result.original }),
            None => Outcome::default(),
        }
    }

    fn read_reply(&self, pd: PdHandle, range: RemoteRange, first_psn: Psn, packets: u32, repeated: bool) -> Reply {
        Reply::Read { pd, range, first_psn, packets, messages: self.messages, repeated, next: 0, ready_at: SimTime::MAX, chunk: None }
    }

    fn queue_reply(&mut self, reply: Reply) -> Outcome {
        self.replies.push_back(reply);
        Outcome { reply_queued: true, ..Outcome::default() }
    }

    /// Returns the number of reads and atomics that take one of the responder's places. A repeated
    /// request took its place the first time.
    fn fetches_waiting(&self) -> usize {
        let takes_place = |reply: &&Reply| matches!(reply, Reply::Read { repeated: false, .. } | Reply::Atomic { .. });
        self.replies.iter().filter(takes_place).count()
    }

    /// Sets the time when the reply queued last may start.
    pub fn set_ready(&mut self, at: SimTime) {
        if let Some(Reply::Read { ready_at, .. } | Reply::Atomic { ready_at, .. }) = self.replies.back_mut() {
            *ready_at = at;
        }
    }

    /// Checks whether the reply queued last is an atomic.
    pub fn queued_atomic(&self) -> bool {
        matches!(self.replies.back(), Some(Reply::Atomic { .. }))
    }

    /// Queues `response` behind the waiting replies. Gives it back if no reply waits.
    pub fn queue_behind(&mut self, response: Response) -> Option<Response> {
        if self.replies.is_empty() {
            return Some(response);
        }
        self.replies.push_back(Reply::Plain(response));
        None
    }

    /// Queues a NAK behind the waiting replies: earlier requests are answered first (IBTA 9.7.5.1).
    pub(super) fn behind_replies(&mut self, mut outcome: Outcome) -> Outcome {
        if self.replies.is_empty() {
            return outcome;
        }
        if let (Some(qp_error), Some(response)) = (outcome.qp_error, outcome.response) {
            self.replies.push_back(Reply::End(response, qp_error));
            (outcome.qp_error, outcome.response) = (None, None);
        }
        outcome
    }

    pub(super) fn is_ending(&self) -> bool {
        matches!(self.replies.back(), Some(Reply::End(..)))
    }

    /// Checks whether a reply may go out at `now`.
    pub fn pending(&self, now: SimTime) -> bool {
        match self.replies.front() {
            Some(Reply::Read { ready_at, .. } | Reply::Atomic { ready_at, .. }) => *ready_at <= now,
            Some(Reply::Plain(_) | Reply::End(..)) => true,
            None => false,
        }
    }

    /// Returns the next response packet. Call it when [`Self::pending`] returns `true`.
    pub fn emit(&mut self, a: &QpSnapshot, hca: HcaId, env: &mut Environment) -> (Emission, Option<QpError>) {
        match self.replies.pop_front() {
            Some(Reply::Plain(response)) => (plain(a, env, response), None),
            Some(Reply::End(response, qp_error)) => (plain(a, env, response), Some(qp_error)),
            Some(Reply::Atomic { pd, psn, messages, operation, .. }) => {
                self.emit_atomic(a, Reach { hca, pd, qpn: a.qpn }, env, (psn, messages), operation)
            }
            Some(read @ Reply::Read { .. }) => self.emit_read(a, hca, env, read),
            None => (Emission::Settled, None),
        }
    }

    fn emit_read(&mut self, a: &QpSnapshot, hca: HcaId, env: &mut Environment, mut reply: Reply) -> (Emission, Option<QpError>) {
        let Reply::Read { pd, range, first_psn, packets, messages, next, chunk, .. } = &mut reply else { unreachable!("the caller matched it") };
        let (number, psn, messages) = (*next, first_psn.plus(*next), *messages);
        let offset = number * a.path_mtu.bytes();
        let len = (range.len_bytes - offset).min(a.path_mtu.bytes());
        let Some(payload) = read_payload(Reach { hca, pd: *pd, qpn: a.qpn }, env, *range, (offset, len), chunk) else {
            let nak = Response { psn, messages: messages.wrapping_sub(1), kind: PacketKind::Nak(NakCode::RemoteAccessError) };
            return (plain(a, env, nak), Some(QpError { event: Some(super::EVENT_ACCESS_ERROR) }));
        };
        let position = Position { first: number == 0, last: number + 1 == *packets };
        *next += 1;
        if !position.last {
            self.replies.push_front(reply);
        }
        let packet = Packet { psn, carried: counted(messages), kind: PacketKind::ReadResponse { position }, payload, ..base(a, env.lids) };
        (Emission::Packet { packet: env.packets.place(packet), dma_bytes: len, completes_when_sent: false }, None)
    }

    /// Reads, changes and writes eight bytes at one instant, so that atomics of all queue pairs
    /// exclude each other.
    fn emit_atomic(
        &mut self,
        a: &QpSnapshot,
        by: Reach,
        env: &mut Environment,
        (psn, messages): (Psn, u32),
        operation: PacketKind,
    ) -> (Emission, Option<QpError>) {
        let Some(original) = execute_atomic(by, env, operation) else {
            let nak = Response { psn, messages: messages.wrapping_sub(1), kind: PacketKind::Nak(NakCode::RemoteOperationalError) };
            return (plain(a, env, nak), Some(QpError { event: None }));
        };
        self.replays.push_back(AtomicResult { psn, original });
        if self.replays.len() > usize::from(a.max_dest_rd_atomic.max(1)) {
            self.replays.pop_front();
        }
        let mut emission = plain(a, env, Response { psn, messages, kind: PacketKind::AtomicAck { original } });
        if let (Emission::Packet { dma_bytes, .. }, PacketKind::CompareSwap { .. } | PacketKind::FetchAdd { .. }) = (&mut emission, operation) {
            // The operand comes from the same place as a read's payload.
            *dma_bytes = 8;
        }
        (emission, None)
    }
}

fn counted(messages: u32) -> Carried {
    Carried::Messages(MessageCount::new(messages))
}

fn base(a: &QpSnapshot, lids: PortLids) -> Packet {
    Packet {
        slid: lids.with_path_bits(a.address_vector.source_path_bits),
        dlid: a.address_vector.dlid,
        service_level: a.address_vector.service_level,
        pkey: a.pkey,
        source: a.qpn,
        destination: a.dest_qpn,
        psn: Psn::new(0),
        ack_request: false,
        solicited: false,
        fecn: false,
        becn: false,
        grh: a.address_vector.grh,
        carried: Carried::Nothing,
        service: a.init.qp_type,
        kind: PacketKind::Ack,
        payload: None,
    }
}

/// Returns the packet of an answer without payload.
pub fn response_packet(a: &QpSnapshot, lids: PortLids, response: Response) -> Packet {
    Packet { psn: response.psn, carried: counted(response.messages), kind: response.kind, ..base(a, lids) }
}

fn plain(a: &QpSnapshot, env: &mut Environment, response: Response) -> Emission {
    let packet = response_packet(a, env.lids, response);
    Emission::Packet { packet: env.packets.place(packet), dma_bytes: 0, completes_when_sent: false }
}

/// Returns bytes of a read, from the current chunk or the next one. Returns `None` if the peer may
/// not read them (any more).
fn read_payload(
    by: Reach,
    env: &mut Environment,
    range: RemoteRange,
    (offset, len): (u32, u32),
    chunk: &mut Option<(u32, PayloadSlice)>,
) -> Option<Option<PayloadSlice>> {
    if len == 0 {
        return Some(None);
    }
    let base = offset - offset % ChunkPool::CHUNK_BYTES;
    if chunk.as_ref().is_none_or(|(of, _)| *of != base) {
        let size = (range.len_bytes - base).min(ChunkPool::CHUNK_BYTES);
        let address = range.address.checked_add(u64::from(base))?;
        let segment = env.verbs.check_remote(by, range.rkey, address, size, RemoteAccess::Read)?;
        let memory = &mut *env.memory;
        let payload = env.chunks.filled(size as usize, |into| memory.read(segment.process, segment.address, into)).ok()?;
        *chunk = Some((base, payload));
    }
    let (_, whole) = chunk.as_ref()?;
    let start = whole.offset + (offset - base);
    Some(Some(PayloadSlice { buffer: whole.buffer.clone(), offset: start, len }))
}

fn execute_atomic(by: Reach, env: &mut Environment, operation: PacketKind) -> Option<u64> {
    let (address, rkey, access) = match operation {
        PacketKind::CompareSwap { address, rkey, .. } | PacketKind::FetchAdd { address, rkey, .. } => (address, rkey, RemoteAccess::Atomic),
        PacketKind::AtomicWrite { address, rkey, .. } => (address, rkey, RemoteAccess::Write),
        _ => return None,
    };
    let segment = env.verbs.check_remote(by, rkey, address, 8, access)?;
    let change = |original: u64| match operation {
        PacketKind::CompareSwap { compare, swap, .. } if original == compare => swap,
        PacketKind::FetchAdd { add, .. } => original.wrapping_add(add),
        PacketKind::AtomicWrite { value, .. } => value,
        _ => original,
    };
    env.memory.update(segment.process, segment.address, &change).ok()
}
