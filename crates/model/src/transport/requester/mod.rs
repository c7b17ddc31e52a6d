//! The requester: from work queue to request packets, from responses to completions.
//!
//! The first `settled` WQEs of the queue need nothing more from the peer. `cursor` is the WQE whose
//! packet goes next. A WQE leaves the queue when it is the oldest and has its outcome, so
//! completions are in order.

mod acknowledge;
mod audit;
mod response;
mod transmit;

pub use transmit::{Emission, Middles, Pending};

use super::MessageKind;
use super::hardware_counters::Remark;
use super::timers::AckTimer;
use crate::verbs::api::{PayloadSlice, QpSnapshot, SendOperation, SendRequest};
use softband_sim::{SimDuration, SimTime};
use softband_types::{Psn, QpType, WcOpcode, WcStatus};
use std::collections::VecDeque;

/// Send queue, and the state of its requests.
#[derive(Default)]
pub struct Requester {
    queue: VecDeque<SendWqe>,
    settled: usize,
    cursor: usize,
    cursor_packet: u32,
    /// PSN of the next new message.
    next_psn: Psn,
    /// Oldest PSN that the peer has not acknowledged.
    unacked_psn: Psn,
    /// One past the last PSN that was sent.
    sent_psn: Psn,
    /// Reads and atomics requested and not completed.
    reads_outstanding: u32,
    /// Send requests retired, in all (wraps).
    retired: u32,
    retries_left: u8,
    rnr_retries_left: u8,
    waits_for_receiver: bool,
    /// Whether a lost response is requested again. Late responses to the old request tell nothing
    /// new.
    recovering: bool,
    /// Whether a WQE has failed; nothing more is sent.
    halted: bool,
    /// A request has completed with an error. Later ones are flushed.
    has_failed: bool,
    deadline: Option<SimTime>,
    ack_timer: AckTimer,
    /// Longest wait for an acknowledgement. It overrides a longer timeout of the queue pair.
    ack_wait_max: Option<SimDuration>,
    /// Counts of repeats, once there is something to count.
    repeats: Option<Box<Repeats>>,
    /// Event of the last input for the counters of the port.
    remark: Option<Remark>,
}

struct SendWqe {
    request: SendRequest,
    len_bytes: u32,
    /// PSNs that the WQE takes: request packets, or response packets of a read.
    packets: u32,
    first_psn: Psn,
    started: bool,
    /// Whether the request of a read or atomic is out.
    requested: bool,
    /// Response packets of a read so far.
    received: u32,
    outcome: Option<WcStatus>,
    chunk: Option<Chunk>,
}

/// Part of a message's payload that was read from memory.
struct Chunk {
    /// Place in the message, in bytes.
    base: u32,
    payload: PayloadSlice,
}

/// Counts of a requester's repeats, and its waits before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Times that the requester went back to an earlier packet: after a NAK, a missing response or
    /// a timeout.
    pub retransmissions: u64,
    /// Times that no response came within the local ACK timeout.
    pub timeouts: u64,
    /// Time of all waits that ended in a timeout.
    pub timeout_waits: SimDuration,
    /// Times that the peer had no receive request (RNR NAK).
    pub rnr_naks: u64,
    /// Time of all waits that RNR NAKs asked for.
    pub rnr_waits: SimDuration,
}

/// Send request that has left the queue.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    /// Number that the program gave the request.
    pub wr_id: u64,
    /// Success or error.
    pub status: WcStatus,
    /// Operation of the request.
    pub opcode: WcOpcode,
    /// Length of the data in bytes.
    pub byte_len: u32,
    /// Whether the request gives a completion.
    pub signaled: bool,
    /// Send requests retired up to and including this request. The count wraps round.
    pub count: u32,
}

impl SendWqe {
    fn new(request: SendRequest) -> Self {
        Self { request, len_bytes: 0, packets: 0, first_psn: Psn::new(0), started: false, requested: false, received: 0, outcome: None, chunk: None }
    }

    fn last_psn(&self) -> Psn {
        self.first_psn.plus(self.packets - 1)
    }

    fn expects_response(&self) -> bool {
        use SendOperation::{AtomicWrite, CompareSwap, FetchAdd, RdmaRead};
        matches!(self.request.operation, RdmaRead { .. } | CompareSwap { .. } | FetchAdd { .. } | AtomicWrite { .. })
    }

    /// Checks for an atomic write: the peer returns only that it is done.
    fn is_atomic_write(&self) -> bool {
        matches!(self.request.operation, SendOperation::AtomicWrite { .. })
    }

    fn is_read(&self) -> bool {
        matches!(self.request.operation, SendOperation::RdmaRead { .. })
    }

    /// Checks for work within the HCA, which sends nothing.
    fn is_local(&self) -> bool {
        matches!(self.request.operation, SendOperation::BindWindow(_) | SendOperation::LocalInvalidate { .. })
    }

    fn kind(&self, qp_type: QpType) -> MessageKind {
        match self.request.operation {
            SendOperation::Send { .. } if qp_type == QpType::Ud => MessageKind::Datagram,
            // Local work takes a place in the send engine like any WQE.
            SendOperation::Send { .. } | SendOperation::SendAndInvalidate { .. } => MessageKind::Send,
            SendOperation::BindWindow(_) | SendOperation::LocalInvalidate { .. } => MessageKind::Send,
            SendOperation::RdmaWrite { .. } => MessageKind::Write,
            SendOperation::RdmaRead { .. } => MessageKind::Read,
            SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. } | SendOperation::AtomicWrite { .. } => MessageKind::Atomic,
        }
    }

    fn opcode(&self) -> WcOpcode {
        match self.request.operation {
            SendOperation::Send { .. } | SendOperation::SendAndInvalidate { .. } => WcOpcode::Send,
            SendOperation::BindWindow(_) => WcOpcode::BindWindow,
            SendOperation::LocalInvalidate { .. } => WcOpcode::LocalInvalidate,
            SendOperation::RdmaWrite { .. } => WcOpcode::RdmaWrite,
            SendOperation::RdmaRead { .. } => WcOpcode::RdmaRead,
            SendOperation::CompareSwap { .. } => WcOpcode::CompareSwap,
            SendOperation::FetchAdd { .. } => WcOpcode::FetchAdd,
            SendOperation::AtomicWrite { .. } => WcOpcode::AtomicWrite,
        }
    }
}

impl Requester {
    /// Sets the PSN of the first message.
    pub(crate) fn begin_at(&mut self, psn: Psn) {
        self.next_psn = psn;
        self.unacked_psn = psn;
        self.sent_psn = psn;
    }

    pub(crate) fn next_psn(&self) -> Psn {
        self.next_psn
    }

    pub(crate) fn renew_retries(&mut self, a: &QpSnapshot) {
        self.retries_left = a.retry_count;
        self.rnr_retries_left = a.rnr_retry;
    }

    /// Puts a request at the end of the send queue. The caller limits their number.
    pub fn post(&mut self, request: SendRequest) {
        if self.queue.capacity() == 0 {
            // With a million queue pairs, most of them send one message.
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(SendWqe::new(request));
    }

    /// Returns the number of requests that are not retired.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Checks whether every posted request has been sent at least once. The HCA has stopped looking
    /// at the queue then.
    pub fn is_idle(&self) -> bool {
        self.cursor >= self.queue.len()
    }

    /// Checks whether the next packet continues its message, and nothing keeps it back except,
    /// perhaps, unacknowledged packets.
    pub fn is_mid_message(&self) -> bool {
        self.cursor_packet > 0 && !self.waits_for_receiver && !self.halted && self.queue.get(self.cursor).is_some_and(|wqe| wqe.outcome.is_none())
    }

    /// Checks whether the requester waits because the receiver had no receive request.
    pub fn waits_for_receiver(&self) -> bool {
        self.waits_for_receiver
    }

    /// Checks whether all work that was begun is done (IBTA 10.3.1.5).
    pub fn is_drained(&self) -> bool {
        self.queue.front().is_none_or(|wqe| !wqe.started)
    }

    /// Returns the time when the awaited acknowledgement is overdue.
    pub fn deadline(&self) -> Option<SimTime> {
        self.deadline
    }

    /// Takes out the oldest request, if it has its outcome.
    pub fn retire(&mut self, a: &QpSnapshot) -> Option<Retired> {
        let status = self.queue.front()?.outcome?;
        Some(self.take_front(a, status))
    }

    /// Takes out the oldest request in any state: the queue pair is in error. Local work that is
    /// done is flushed as well, because no request succeeds behind one that failed. Only the first
    /// failure keeps its status.
    pub fn flush(&mut self, a: &QpSnapshot) -> Option<Retired> {
        let outcome = self.queue.front()?.outcome.filter(|status| *status != WcStatus::Success && !self.has_failed);
        self.deadline = None;
        Some(self.take_front(a, outcome.unwrap_or(WcStatus::FlushError)))
    }

    /// Resumes work after the errors of an unreliable queue pair were flushed.
    pub fn resume(&mut self) {
        self.halted = false;
        self.has_failed = false;
    }

    fn take_front(&mut self, a: &QpSnapshot, status: WcStatus) -> Retired {
        let wqe = self.queue.pop_front().expect("the caller looked at it");
        self.retired = self.retired.wrapping_add(1);
        self.has_failed |= status != WcStatus::Success;
        self.settled = self.settled.saturating_sub(1);
        if self.cursor == 0 {
            self.cursor_packet = 0;
        }
        self.cursor = self.cursor.saturating_sub(1);
        if wqe.requested {
            self.reads_outstanding -= 1;
        }
        // An error gives a completion in any case (IBTA 10.7.3.1).
        let signaled = wqe.request.signaled || a.init.signal_all || status != WcStatus::Success;
        Retired { wr_id: wqe.request.wr_id, status, opcode: wqe.opcode(), byte_len: wqe.len_bytes, signaled, count: self.retired }
    }

    /// Settles local work if all requests before it are settled.
    fn pass_local(&mut self) {
        while self.settled < self.cursor && self.queue.get(self.settled).is_some_and(|wqe| wqe.is_local() && wqe.outcome.is_some()) {
            self.settled += 1;
        }
    }

    /// Skips local work that is done already, when requests before it are sent again.
    fn skip_local(&mut self) {
        while self.queue.get(self.cursor).is_some_and(|wqe| wqe.is_local() && wqe.outcome == Some(WcStatus::Success)) {
            self.cursor += 1;
            self.cursor_packet = 0;
        }
    }

    /// Fails the oldest request that is not settled. It completes when those before it have.
    fn fail(&mut self, status: WcStatus) {
        if let Some(wqe) = self.queue.get_mut(self.settled) {
            wqe.outcome = Some(status);
        }
        self.halted = true;
        self.deadline = None;
    }

    /// Returns a requester for the same queue pair after a reset.
    pub(crate) fn renewed(&self) -> Self {
        Self { ack_timer: self.ack_timer, ack_wait_max: self.ack_wait_max, repeats: self.repeats.clone(), ..Self::default() }
    }

    /// Returns the repeats since the queue pair was made, or `None` if there were none.
    pub fn repeats(&self) -> Option<Repeats> {
        self.repeats.as_deref().copied()
    }

    /// Takes the event of the last response or deadline for the counters of the port.
    pub fn take_remark(&mut self) -> Option<Remark> {
        self.remark.take()
    }

    /// Sets the HCA's timer for acknowledgements and the longest wait. If nothing is lost on the
    /// way, only a peer that is gone is silent.
    pub fn time_acknowledgements(&mut self, timer: AckTimer, at_most: Option<SimDuration>) {
        self.ack_timer = timer;
        self.ack_wait_max = at_most;
    }

    fn ack_timeout(&self, a: &QpSnapshot) -> Option<SimDuration> {
        let wait = self.ack_timer.wait(a.local_ack_timeout)?;
        Some(self.ack_wait_max.map_or(wait, |at_most| wait.min(at_most)))
    }

    fn restart_timer(&mut self, a: &QpSnapshot, now: SimTime) {
        let waits = self.sent_psn != self.unacked_psn;
        let timeout = self.ack_timeout(a).filter(|_| waits && !self.halted);
        self.deadline = timeout.map(|timeout| now.saturating_add(timeout));
    }
}
