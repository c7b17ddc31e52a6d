//! Messages that need a receive request. The sending thread takes the request from the peer's queue
//! and moves the data. Then it adds the completion to the ring of the peer's CQ.

use super::waiting::{Outcome, PATIENCE, Step};
use super::{Direct, MkeyCache, PeerQueues, Sending, is_reliable, local_spans, named_span, only_span, tell};
use crate::post::Data;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::direct::{Front, ReceiveQueue, RqConsumerLock};
use softband_client::direct::{TablesGuard, guard_tables};
use softband_ipc::post::{PostRecord, PostSge, kind, opcode, send_flags};
use softband_ipc::ring::flags;
use softband_shm_transport::connection::Connection;
use softband_shm_transport::fallback::FallbackReason;
use softband_shm_transport::memory_spans::{MemorySpans, copy_one, write};
use softband_shm_transport::mkey_cache::CachedMkey;
use softband_shm_transport::queues::{Parties, RemoteCqe};
use softband_shm_transport::receive_queue::Mode;
use softband_shm_transport::tables::QpEntry;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest message, in bytes. The engine handles longer ones, because it waits for current
/// transfers before it withdraws an entry.
const BYTES_MAX: u64 = 64 << 20;

/// Sends a message. Returns its length in bytes, or the reason why the engine must handle it.
#[inline(always)]
pub(super) fn deliver(
    at: (&QpInner, u32),
    (sending, guard): (&mut Sending, Option<TablesGuard>),
    record: &PostRecord,
    data: &Data<'_>,
) -> Direct<u64> {
    let guard = match guard {
        Some(guard) => guard,
        None => guard_tables().ok_or(FallbackReason::NotPublished)?,
    };
    let mut last = step(guard, at, sending, record, data, false)?;
    if !last.is_done() {
        last = try_again(last, at, sending, record, data)?;
    }
    if last.outcome == Outcome::DoneWithEvent {
        tell(kind::NOTIFY_PEER, record);
    }
    Ok(last.bytes)
}

#[cold]
fn try_again(last: Step, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>) -> Direct<Step> {
    PATIENCE.try_again(last, |is_waiting| step(guard_tables().ok_or(FallbackReason::NotPublished)?, at, sending, record, data, is_waiting))
}

/// Tries once to send a message. Fails in unusual cases, which the engine handles.
#[inline(always)]
fn step(guard: TablesGuard, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>, is_waiting: bool) -> Direct<Step> {
    let guard = &guard;
    let (connection, queues, mkeys) = sending.connect(guard, at)?;
    let queues = match queues {
        Some(queues) => queues,
        unknown => unknown.insert(PeerQueues::of(connection.source, connection.keeper).ok_or(FallbackReason::QueueNotMapped)?),
    };
    queues.remote_cqe_ring.will_put();
    let mode = queues.receives.mode();
    match mode.is_shared() {
        None => return Ok(Step::MOVING),
        Some(false) => return Err(FallbackReason::QueueTakenOver),
        Some(true) => {}
    }
    let message = Message { guard, sender: at.0, connection, queues, mode, record, data };
    if !connection.is_shared() {
        return message.deliver(mkeys, &SoleConsumer(&queues.receives));
    }
    match queues.receives.try_lock_consumer(is_waiting) {
        Some(lock) => message.deliver_locked(mkeys, &lock),
        None => Ok(Step::BUSY),
    }
}

/// Permission to take the oldest request of the peer's queue.
trait Consumer {
    /// Checks whether the data read of the request is valid. Other consumers may have taken the
    /// request meanwhile.
    fn is_valid(&self) -> bool;
    /// Removes the request. Returns false if the request was already gone.
    fn take_front(&self) -> bool;
    fn reaches_limit(&self) -> bool;
}

impl Consumer for RqConsumerLock<'_> {
    fn is_valid(&self) -> bool {
        self.is_valid()
    }

    fn take_front(&self) -> bool {
        self.take_front()
    }

    fn reaches_limit(&self) -> bool {
        self.reaches_limit()
    }
}

/// The only consumer of a queue.
struct SoleConsumer<'a>(&'a ReceiveQueue);

impl Consumer for SoleConsumer<'_> {
    #[inline(always)]
    fn is_valid(&self) -> bool {
        true
    }

    #[inline(always)]
    fn take_front(&self) -> bool {
        self.0.take_front();
        true
    }

    #[inline(always)]
    fn reaches_limit(&self) -> bool {
        false
    }
}

/// Data and path of one attempt.
struct Message<'a> {
    guard: &'a TablesGuard,
    sender: &'a QpInner,
    connection: &'a Connection,
    queues: &'a PeerQueues,
    mode: Mode,
    record: &'a PostRecord,
    data: &'a Data<'a>,
}

impl Message<'_> {
    #[inline(never)]
    fn deliver_locked(&self, mkeys: &mut MkeyCache, lock: &RqConsumerLock<'_>) -> Direct<Step> {
        self.deliver(mkeys, lock)
    }

    #[inline(always)]
    fn deliver(&self, mkeys: &mut MkeyCache, consumer: &impl Consumer) -> Direct<Step> {
        let Self { guard, connection, record, .. } = *self;
        let PeerQueues { receives, remote_cqe_ring } = self.queues;
        let Some(request) = receives.front(self.mode) else {
            let may_wait = is_reliable(self.sender) && connection.own.rnr_retry.load(Ordering::Relaxed) != 0;
            return may_wait.then_some(Step::NO_REQUEST).ok_or(FallbackReason::NoReceiveRequest);
        };
        let wr_id = request.wr_id;
        let len_bytes = match self.move_one(mkeys, &request, consumer) {
            Some(len_bytes) => len_bytes,
            None => self.move_any(mkeys, request, consumer)?,
        };
        let room = remote_cqe_ring.reserve(connection.is_sole_producer).ok_or(FallbackReason::RingFull)?;
        // Check again: this thread may have stopped for so long that the engine continued without
        // it.
        if receives.mode() != self.mode || !connection.is_still_valid(guard) {
            return Ok(Step::LATER);
        }
        room.write(remote_cqe((connection.peer, connection.parties), record, wr_id, len_bytes, receives.since_ps()));
        if !consumer.take_front() {
            return Ok(Step::LATER);
        }
        room.publish(); // at once: a process that ends in between takes the request with it
        Ok(Step::done(len_bytes, remote_cqe_ring.raises_event(record.flags & send_flags::SOLICITED != 0) | consumer.reaches_limit()))
    }

    /// Moves a message with one local and one remote span, the common case. Returns `None` for
    /// others.
    #[inline(always)]
    fn move_one(&self, mkeys: &mut MkeyCache, request: &Front<'_>, consumer: &impl Consumer) -> Option<u64> {
        let (guard, to) = (self.guard, self.connection);
        if self.record.opcode == opcode::RDMA_WRITE_WITH_IMM {
            return None;
        }
        let from = only_span(guard, &mut mkeys.local, to.own, self.data, false)?;
        let entry = request.only()?;
        let memory = (entry.address, u64::from(entry.len_bytes));
        let place = guard.translate(&mut mkeys.remote, to.source, entry.lkey, memory, IBV_ACCESS_LOCAL_WRITE)?;
        let may_move = from.len_bytes <= place.len_bytes.min(BYTES_MAX) && consumer.is_valid();
        (may_move && copy_one(&from, &place)).then_some(from.len_bytes)
    }

    /// Moves any message. Fails if the engine must handle it.
    #[inline(never)]
    fn move_any(&self, mkeys: &mut MkeyCache, request: Front<'_>, consumer: &impl Consumer) -> Direct<u64> {
        let (guard, to) = (self.guard, self.connection);
        let mut local = MemorySpans::default();
        local_spans(guard, &mut mkeys.local, to.own, self.data, false, &mut local)?;
        let len_bytes = local.len_bytes();
        if len_bytes > BYTES_MAX {
            return Err(FallbackReason::TooLong);
        }
        let mut remote = MemorySpans::default();
        if self.record.opcode == opcode::RDMA_WRITE_WITH_IMM {
            remote.push(named_span(guard, &mut mkeys.remote, to, self.record, len_bytes)?).ok_or(FallbackReason::TooManySpans)?;
        } else {
            places_of_request(guard, (to.source, &mut mkeys.remote), request, (0, len_bytes), &mut remote).ok_or(FallbackReason::ReceiveTooShort)?;
        }
        if !consumer.is_valid() {
            return Err(FallbackReason::QueueTakenOver);
        }
        let is_moved = len_bytes == 0 || write(to.keeper.pid.load(Ordering::Relaxed), &local, &remote);
        is_moved.then_some(len_bytes).ok_or(FallbackReason::CopyFailed)
    }
}

/// Finds the spans of a receive request for `len_bytes`, after `free` unused bytes. Returns `None`
/// if the message is too long or access is denied.
#[inline(always)]
pub(super) fn places_of_request(
    guard: &TablesGuard,
    (of, last): (&QpEntry, &mut CachedMkey),
    request: impl Iterator<Item = PostSge>,
    (mut free, len_bytes): (u64, u64),
    found: &mut MemorySpans,
) -> Option<()> {
    let mut left = len_bytes;
    for entry in request {
        if free == 0 && left == 0 {
            break;
        }
        // The receiver must have write access to the whole entry, even if the message uses less of
        // it.
        let whole = u64::from(entry.len_bytes);
        let begin = free.min(whole);
        let len = (whole - begin).min(left);
        let place = guard.translate(last, of, entry.lkey, (entry.address, whole), IBV_ACCESS_LOCAL_WRITE)?;
        found.push(place.part(begin, len))?;
        free -= begin;
        left -= len;
    }
    (free == 0 && left == 0).then_some(())
}

/// Returns the receiver's completion.
#[inline(always)]
pub(super) fn remote_cqe((receiver, parties): (&QpEntry, Parties), record: &PostRecord, wr_id: u64, len_bytes: u64, since_ps: u64) -> RemoteCqe {
    let has_immediate = record.opcode != opcode::SEND;
    let is_write = record.opcode == opcode::RDMA_WRITE_WITH_IMM;
    RemoteCqe {
        wr_id,
        // An SRQ continues when one of its queue pairs is reset.
        since_ps: if parties.srq == 0 { since_ps } else { since_ps.max(receiver.since_ps.load(Ordering::Relaxed)) },
        stamp_ps: 0,
        byte_len: len_bytes as u32,
        immediate: if has_immediate { record.immediate } else { 0 },
        parties,
        flags: flags::RECEIVE | if has_immediate { flags::WITH_IMMEDIATE } else { 0 },
        opcode: if is_write { IBV_WC_RECV_RDMA_WITH_IMM } else { IBV_WC_RECV },
        sequence: AtomicU32::new(0),
    }
}
