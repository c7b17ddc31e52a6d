//! The responder: from request packets to memory accesses, completions and responses.

mod datagram;
mod fetch;
mod place;

use fetch::Reply;
pub use fetch::response_packet;

use super::dma_write::{DmaWrite, DmaWriteEnd};
use super::hardware_counters::Remark;
use crate::packet::{NakCode, Packet, PacketKind};
use crate::verbs::api::{Completion, QpSnapshot, ReceiveRequest};
use crate::verbs::{Reach, Verbs};
use fetch::AtomicResult;
use place::Message;
use softband_types::{Access, HcaId, Lid, Mtu, PdHandle, Psn, QpType, SrqHandle, WcOpcode, WcStatus};
use std::collections::VecDeque;

/// Asynchronous events of a queue pair, with the numbers that verbs uses.
const EVENT_REQUEST_ERROR: u32 = 2;
const EVENT_ACCESS_ERROR: u32 = 3;

/// Receive queue, and the message that is being received.
#[derive(Default)]
pub struct Responder {
    expected_psn: Psn,
    receive_queue: VecDeque<ReceiveRequest>,
    /// Receive request that messages find when the queue is empty, if the queue counts as never
    /// empty.
    standing: Option<Box<ReceiveRequest>>,
    message: Option<Message>,
    /// Whether the responder asked for the expected packet again. Until it comes, nothing else is
    /// answered (IBTA 9.7.5.1.2).
    refused: bool,
    /// Whether it did so for a gap in the PSNs.
    has_gap: bool,
    /// Completed messages, for the headers of responses. Only the low 24 bits travel.
    messages: u32,
    replies: VecDeque<Reply>,
    replays: VecDeque<AtomicResult>,
}

/// Answer without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// PSN of the answer.
    pub psn: Psn,
    /// Number of messages that the responder has completed (MSN, IBTA 9.7.7.1).
    pub messages: u32,
    /// Operation code: an acknowledgement, or a negative acknowledgement.
    pub kind: PacketKind,
}

/// Error that moves the QP to the error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpError {
    /// Asynchronous event, with the number of `ibv_event_type`: 2 (request error) or 3 (access
    /// error). `None`: a completion reports the error.
    pub event: Option<u32>,
}

/// Result of a request packet. The default is a packet without effect.
#[derive(Default)]
pub struct Outcome {
    /// Payload to write to memory.
    pub dma_write: Option<DmaWrite>,
    /// Answer to send at once.
    pub response: Option<Response>,
    /// Whether a read or atomic was queued at the end of the replies.
    pub reply_queued: bool,
    /// Completion of a receive request that ended in an error.
    pub completion: Option<Box<Completion>>,
    /// Error that moves the QP to the error state.
    pub qp_error: Option<QpError>,
    /// Shared receive queue that has come below its limit.
    pub srq_limit: Option<SrqHandle>,
    /// Operation on this side's memory that the packet began: the responder accepted it.
    pub begun: Option<WcOpcode>,
    /// Event for the counters of the port.
    pub remark: Option<Remark>,
}

impl Outcome {
    fn respond(psn: Psn, kind: PacketKind) -> Self {
        Self { response: Some(Response { psn, messages: 0, kind }), ..Self::default() }
    }

    fn with(self, remark: Remark) -> Self {
        Self { remark: Some(remark), ..self }
    }

    /// Refuses a request that this side cannot get over.
    fn refuse(a: &QpSnapshot, psn: Psn, code: NakCode) -> Self {
        let event = match code {
            NakCode::RemoteAccessError => Some(EVENT_ACCESS_ERROR),
            NakCode::InvalidRequest => Some(EVENT_REQUEST_ERROR),
            _ => None,
        };
        if a.init.qp_type.is_reliable() {
            let remark = (code == NakCode::RemoteAccessError).then_some(Remark::AccessRefused);
            Self { qp_error: Some(QpError { event }), remark, ..Self::respond(psn, PacketKind::Nak(code)) }
        } else {
            Self::default() // Unreliable services drop what they cannot accept (IBTA 9.8.3, 9.9.3).
        }
    }
}

/// Surroundings of a responder for one packet.
pub(super) struct Receiving<'a> {
    pub a: &'a QpSnapshot,
    pub hca: HcaId,
    pub verbs: &'a mut Verbs,
    /// HCA, protection domain and queue pair against which the peer's keys are checked.
    pub by: Reach,
    /// Protection domain against which the keys of receive buffers are checked.
    pub receive_pd: PdHandle,
    pub srq: Option<SrqHandle>,
    pub srq_limit: Option<SrqHandle>,
}

/// Checks whether a queue pair with these rights takes requests of this kind. The memory of a
/// request does not matter here.
fn takes(access: &Access, kind: &PacketKind) -> bool {
    match kind {
        PacketKind::Write { .. } | PacketKind::AtomicWrite { .. } => access.remote_write,
        PacketKind::ReadRequest { .. } => access.remote_read,
        PacketKind::CompareSwap { .. } | PacketKind::FetchAdd { .. } => access.remote_atomic,
        _ => true,
    }
}

impl Responder {
    /// Sets the PSN of the first packet expected.
    pub(crate) fn begin_at(&mut self, psn: Psn) {
        self.expected_psn = psn;
    }

    /// Returns the PSN of the next packet expected.
    pub fn expected_psn(&self) -> Psn {
        self.expected_psn
    }

    /// Puts a request at the end of the receive queue. The caller limits their number.
    pub fn post(&mut self, request: ReceiveRequest) {
        self.receive_queue.push_back(request);
    }

    /// Gives every message a receive request like this one from now on.
    pub fn stand_ready(&mut self, request: ReceiveRequest) {
        self.standing = Some(Box::new(request));
    }

    /// Puts a request back that was taken out, before all others.
    pub fn put_back(&mut self, request: ReceiveRequest) {
        self.receive_queue.push_front(request);
    }

    /// Returns the number of receive requests that are not completed.
    pub fn queue_len(&self) -> usize {
        self.receive_queue.len() + usize::from(matches!(self.message, Some(Message::Receive { .. })))
    }

    /// Takes out all receive requests. Returns `None` in the middle of a message.
    pub fn take_all(&mut self) -> Option<Vec<ReceiveRequest>> {
        if self.message.is_some() { None } else { Some(self.receive_queue.drain(..).collect()) }
    }

    /// Takes out the oldest receive request: the queue pair is in error.
    pub fn flush(&mut self) -> Option<ReceiveRequest> {
        self.replies.clear();
        if let Some(Message::Receive { request, .. }) = self.message.take() {
            return Some(request);
        }
        self.receive_queue.pop_front()
    }

    /// Takes out the receive request that a message was using when the queue pair went away: it was
    /// never completed.
    pub fn take_unfinished(&mut self) -> Option<ReceiveRequest> {
        match self.message.take() {
            Some(Message::Receive { request, .. }) => Some(request),
            _ => None,
        }
    }

    /// Handles a request packet that has arrived for the QP with attributes `a`. Returns its
    /// effects; payload reaches memory only when the caller writes it.
    pub fn on_request(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &mut Verbs, packet: &Packet) -> Outcome {
        let Some((pd, receive_pd, srq)) = domains(a, verbs, packet) else {
            let outcome = self.no_such_queue(a, packet);
            return self.behind_replies(self.counted(outcome));
        };
        let by = Reach { hca, pd, qpn: a.qpn };
        let mut receiving = Receiving { a, hca, verbs, by, receive_pd, srq, srq_limit: None };
        let outcome = match a.init.qp_type {
            // The end of the connection waits for the answers before it. The responder takes
            // nothing in any more.
            QpType::Rc | QpType::XrcRecv if self.is_ending() => Outcome::default(),
            QpType::Rc | QpType::XrcRecv => {
                let outcome = self.on_reliable(&mut receiving, packet);
                self.behind_replies(self.counted(outcome))
            }
            QpType::XrcSend => Outcome::default(),
            QpType::Uc => self.on_unreliable(&mut receiving, packet),
            QpType::Ud => self.on_datagram(&mut receiving, packet),
        };
        Outcome { srq_limit: receiving.srq_limit, ..outcome }
    }

    /// Gives an answer the number of completed messages.
    fn counted(&self, mut outcome: Outcome) -> Outcome {
        if let Some(response) = &mut outcome.response {
            response.messages = self.messages;
        }
        outcome
    }

    /// Returns the number of completed messages.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Refuses a message for a queue that its domain does not have (IBTA A14: an invalid request,
    /// unless it came before).
    fn no_such_queue(&mut self, a: &QpSnapshot, packet: &Packet) -> Outcome {
        if packet.psn == self.expected_psn { Outcome::refuse(a, packet.psn, NakCode::InvalidRequest) } else { Outcome::default() }
    }

    /// Takes the next receive request, from the shared queue if there is one.
    fn take_receive(&mut self, r: &mut Receiving) -> Option<ReceiveRequest> {
        let Some(srq) = r.srq else { return self.receive_queue.pop_front().or_else(|| self.standing.as_deref().cloned()) };
        let (request, reached) = r.verbs.srqs.get_mut(srq.0)?.take()?;
        r.srq_limit = reached.then_some(srq).or(r.srq_limit);
        Some(request)
    }

    fn on_reliable(&mut self, receiving: &mut Receiving, packet: &Packet) -> Outcome {
        if packet.psn == self.expected_psn {
            return self.execute(receiving, packet);
        }
        if packet.psn.is_before(self.expected_psn) {
            return self.on_duplicate(receiving, packet).with(Remark::Duplicate);
        }
        if self.refused {
            return if self.has_gap { Outcome::default().with(Remark::OutOfSequence) } else { Outcome::default() };
        }
        (self.refused, self.has_gap) = (true, true);
        Outcome::respond(self.expected_psn, PacketKind::Nak(NakCode::PsnSequenceError)).with(Remark::OutOfSequence)
    }

    /// Handles a repeated packet (IBTA 9.7.5.1.2). Writes are acknowledged again, reads and atomics
    /// answered again. Nothing is executed twice.
    fn on_duplicate(&mut self, receiving: &mut Receiving, packet: &Packet) -> Outcome {
        match packet.kind {
            PacketKind::ReadRequest { .. } => self.repeat_read(receiving, packet),
            PacketKind::CompareSwap { .. } | PacketKind::FetchAdd { .. } | PacketKind::AtomicWrite { .. } => self.repeat_atomic(packet.psn),
            _ if packet.ack_request => Outcome::respond(self.expected_psn.previous(), PacketKind::Ack),
            _ => Outcome::default(),
        }
    }

    fn execute(&mut self, receiving: &mut Receiving, packet: &Packet) -> Outcome {
        let mid_message = self.message.is_some();
        let starts = match packet.kind {
            PacketKind::Send { position, .. } | PacketKind::Write { position, .. } => position.first,
            _ => true,
        };
        // A message ends before the next begins (IBTA 9.7.4.1.2). The rights of the queue pair come
        // before keys and bounds.
        if starts == mid_message || !takes(&receiving.a.access, &packet.kind) {
            return self.refuse(receiving, packet.psn, NakCode::InvalidRequest);
        }
        match packet.kind {
            PacketKind::Send { position, .. } => self.place_send(receiving, packet, position),
            PacketKind::Write { position, range, immediate } => self.place_write(receiving, packet, position, range, immediate),
            PacketKind::ReadRequest { range } => self.queue_read(receiving, packet, range),
            PacketKind::CompareSwap { address, rkey, .. }
            | PacketKind::FetchAdd { address, rkey, .. }
            | PacketKind::AtomicWrite { address, rkey, .. } => self.queue_atomic(receiving, packet, address, rkey),
            _ => Outcome::default(),
        }
    }

    /// Handles a UC packet. A gap in the PSNs ends the message that it falls into; the next first
    /// packet starts afresh (IBTA 9.8.2).
    fn on_unreliable(&mut self, receiving: &mut Receiving, packet: &Packet) -> Outcome {
        let position = match packet.kind {
            PacketKind::Send { position, .. } | PacketKind::Write { position, .. } => position,
            _ => return Outcome::default(),
        };
        if position.first {
            self.abandon_message(receiving.verbs);
        } else if packet.psn != self.expected_psn || self.message.is_none() {
            self.abandon_message(receiving.verbs);
            return Outcome::default();
        }
        self.expected_psn = packet.psn;
        self.execute(receiving, packet)
    }

    /// Reuses the receive request of a message that will not be completed for the next message.
    fn abandon_message(&mut self, verbs: &mut Verbs) {
        match self.take_unfinished() {
            Some(request) if request.srq.is_some() => verbs.put_back(request),
            Some(request) => self.receive_queue.push_front(request),
            None => {}
        }
    }

    fn refuse(&mut self, r: &mut Receiving, psn: Psn, code: NakCode) -> Outcome {
        if !r.a.init.qp_type.is_reliable() {
            self.abandon_message(r.verbs);
        }
        Outcome::refuse(r.a, psn, code)
    }

    /// Fails a receive request. A reliable requester gets a NAK with `code`.
    fn fail_receive(&mut self, a: &QpSnapshot, packet: &Packet, request: &ReceiveRequest, status: WcStatus, code: NakCode) -> Outcome {
        self.message = None;
        let completion = Some(Box::new(Completion { status, ..completion(a, request, WcOpcode::Receive) }));
        let response = a.init.qp_type.is_reliable().then_some(Response { psn: packet.psn, messages: 0, kind: PacketKind::Nak(code) });
        Outcome { completion, response, qp_error: Some(QpError { event: None }), ..Outcome::default() }
    }

    /// Handles a message without a receive request. A reliable requester has to wait; an unreliable
    /// requester loses the message.
    fn not_ready(&mut self, r: &mut Receiving, psn: Psn) -> Outcome {
        if r.a.init.qp_type.is_reliable() {
            self.refused = true;
            return Outcome::respond(psn, PacketKind::RnrNak { timer_code: r.a.min_rnr_timer }).with(Remark::OutOfBuffer);
        }
        self.abandon_message(r.verbs);
        Outcome::default().with(Remark::OutOfBuffer)
    }

    /// Accepts the expected packet, which takes `packets` PSNs.
    fn step_over(&mut self, packets: u32) {
        self.expected_psn = self.expected_psn.plus(packets);
        (self.refused, self.has_gap) = (false, false);
    }
}

/// Returns the domains for keys of peers and of receive buffers, and the source of receive
/// requests. Returns `None` if the message names a queue that does not exist.
fn domains(a: &QpSnapshot, verbs: &Verbs, packet: &Packet) -> Option<(PdHandle, PdHandle, Option<SrqHandle>)> {
    if a.init.qp_type == QpType::XrcRecv {
        // Everything is checked against the queue's domain: the queue pair has none (IBTA A14).
        let (srq, queue) = verbs.xrc_srq(a.init.xrcd?, packet.xrc_srq()?.get())?;
        return Some((queue.init.pd, queue.init.pd, Some(srq)));
    }
    let pd = a.init.pd;
    let receive_pd = a.init.srq.and_then(|srq| verbs.srqs.get(srq.0)).map_or(pd, |srq| srq.init.pd);
    Some((pd, receive_pd, a.init.srq))
}

/// Checks the length of a packet. All packets of a message but the last are full (IBTA 9.7.4.1.6).
fn length_fits(mtu: Mtu, last: bool, len: u32) -> bool {
    if last { len <= mtu.bytes() } else { len == mtu.bytes() }
}

fn completion(a: &QpSnapshot, request: &ReceiveRequest, opcode: WcOpcode) -> Completion {
    Completion {
        wr_id: request.wr_id,
        status: WcStatus::Success,
        opcode,
        byte_len: 0,
        immediate: None,
        invalidated: None,
        qpn: a.qpn,
        source_qpn: a.dest_qpn,
        source_lid: Lid::NONE,
        destination_lid: Lid::NONE,
        service_level: a.address_vector.service_level,
        pkey_index: a.pkey_index,
        has_grh: false,
        solicited: false,
        srq: request.srq,
        send_retired: 0,
    }
}

fn request_end(completion: Option<Completion>, packet: &Packet, messages: u32) -> DmaWriteEnd {
    DmaWriteEnd::Request { completion: completion.map(Box::new), acknowledge: packet.ack_request.then_some((packet.psn, messages)) }
}
