//! Messages that take a receive request: the sending thread takes it out of the peer's queue, moves the data, and puts the completion
//! into the ring of the peer's completion queue.

use super::waiting::{Outcome, PATIENCE, Step};
use super::{PeerQueues, Sending, is_reliable, local_stretches, stretch_here, tell};
use crate::post::Data;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::connection::Connection;
use softband_client::direct::{Looking, look};
use softband_client::receive_queue::Front;
use softband_client::stretches::{Stretches, copy_one, write};
use softband_client::takers::Taking;
use softband_ipc::post::{PostRecord, PostSge, kind, opcode, send_flags};
use softband_ipc::queues::{Delivery, Parties};
use softband_ipc::ring::flags;
use softband_ipc::tables::QpEntry;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longer messages are the engine's: it waits for transfers under way before it lets anything go.
const BYTES_MAX: u64 = 64 << 20;

/// Carries a message out; how many bytes it had. `None`: it is the engine's.
#[inline(always)]
pub(super) fn deliver(at: (&QpInner, u32), (sending, looking): (&mut Sending, Option<Looking>), record: &PostRecord, data: &Data<'_>) -> Option<u64> {
    let looking = match looking {
        Some(looking) => looking,
        None => look()?,
    };
    let mut last = step(looking, at, sending, record, data, false)?;
    if !last.is_done() {
        last = try_again(last, at, sending, record, data)?;
    }
    if last.outcome == Outcome::DoneWithEvent {
        tell(kind::NOTIFY_PEER, record);
    }
    Some(last.bytes)
}

#[cold]
fn try_again(last: Step, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>) -> Option<Step> {
    PATIENCE.try_again(last, |is_waiting| step(look()?, at, sending, record, data, is_waiting))
}

/// `None` when something is not as it should be: the engine knows what follows from it.
#[inline(always)]
fn step(looking: Looking, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>, is_waiting: bool) -> Option<Step> {
    let looking = &looking;
    let (connection, queues) = sending.connect(looking, at)?;
    let Connection { own, peer, source, keeper, parties, .. } = connection;
    let PeerQueues { receives, deliveries } = match queues {
        Some(queues) => queues,
        unknown => unknown.insert(PeerQueues::of(source, keeper)?),
    };
    let mode = receives.mode();
    match mode.is_shared() {
        None => return Some(Step::LATER),
        Some(false) => return None,
        Some(true) => {}
    }
    let turn = match connection.is_shared().then(|| receives.take_turn(is_waiting)) {
        Some(None) => return Some(Step::BUSY),
        turn => turn.flatten(),
    };
    let Some(request) = receives.front(mode) else {
        let may_wait = is_reliable(at.0) && own.rnr_retry.load(Ordering::Relaxed) != 0;
        return may_wait.then_some(Step::LATER);
    };
    let wr_id = request.wr_id;
    let is_ours = || turn.as_ref().is_none_or(Taking::is_valid);
    let len_bytes = match move_one(looking, connection, record, data, &request, is_ours) {
        Some(len_bytes) => len_bytes,
        None => move_any(looking, connection, record, data, request, is_ours)?,
    };
    let room = deliveries.reserve()?;
    room.write(delivery((peer, *parties), record, wr_id, len_bytes, receives.since_ps()));
    // Again: this thread may have been stopped for so long that the engine went on without it.
    if receives.mode() != mode || !connection.is_still_valid(looking) || turn.as_ref().is_some_and(|turn| !turn.take_front()) {
        return Some(Step::LATER);
    }
    if turn.is_none() {
        receives.take_front();
    }
    room.publish(); // at once: who ends in between takes the request with him
    let reaches_limit = turn.as_ref().is_some_and(Taking::reaches_limit);
    Some(Step::done(len_bytes, deliveries.raises_event(record.flags & send_flags::SOLICITED != 0) | reaches_limit))
}

/// Moves a message that lies in one place and goes to one, as most do; `None` when it is another one. `is_ours`: what was read of the
/// request is true.
#[inline(always)]
fn move_one(
    looking: &Looking,
    to: &Connection,
    record: &PostRecord,
    data: &Data<'_>,
    request: &Front<'_>,
    is_ours: impl Fn() -> bool,
) -> Option<u64> {
    let (from, to) = match *data {
        Data::Registered([from]) if record.opcode != opcode::RDMA_WRITE_WITH_IMM => {
            (looking.reach(to.own, from.lkey, from.addr, u64::from(from.length), 0)?, to)
        }
        Data::Here([from]) if record.opcode != opcode::RDMA_WRITE_WITH_IMM => (stretch_here(from.addr, u64::from(from.length)), to),
        Data::Copied(bytes) if record.opcode != opcode::RDMA_WRITE_WITH_IMM => (stretch_here(bytes.as_ptr() as u64, bytes.len() as u64), to),
        _ => return None,
    };
    let entry = request.only()?;
    let place = looking.reach(to.source, entry.lkey, entry.address, u64::from(entry.len_bytes), IBV_ACCESS_LOCAL_WRITE)?;
    let may_move = from.len_bytes <= place.len_bytes.min(BYTES_MAX) && is_ours();
    (may_move && copy_one(&from, &place)).then_some(from.len_bytes)
}

/// The same of any message. `None`: it is the engine's.
#[inline(never)]
fn move_any(looking: &Looking, to: &Connection, record: &PostRecord, data: &Data<'_>, request: Front<'_>, is_ours: impl Fn() -> bool) -> Option<u64> {
    let mut local = Stretches::default();
    local_stretches(looking, to.own, data, false, &mut local)?;
    let len_bytes = local.len_bytes();
    if len_bytes > BYTES_MAX {
        return None;
    }
    let mut remote = Stretches::default();
    if record.opcode == opcode::RDMA_WRITE_WITH_IMM {
        named_place(looking, to, record, len_bytes, &mut remote)?;
    } else {
        places_of_request(looking, to.source, request, (0, len_bytes), &mut remote)?;
    }
    let is_moved = is_ours() && (len_bytes == 0 || write(to.keeper.pid.load(Ordering::Relaxed), &local, &remote));
    is_moved.then_some(len_bytes)
}

/// Where an RDMA write goes.
fn named_place(looking: &Looking, to: &Connection, record: &PostRecord, len_bytes: u64, found: &mut Stretches) -> Option<()> {
    if to.peer.access.load(Ordering::Relaxed) & IBV_ACCESS_REMOTE_WRITE == 0 {
        return None;
    }
    if len_bytes > 0 {
        found.push(looking.reach(to.keeper, record.rkey, record.remote_address, len_bytes, IBV_ACCESS_REMOTE_WRITE)?)?;
    }
    Some(())
}

/// Where a message goes that is as long as this, behind so many bytes that are left free; `None` when it is too long for the request, or
/// may not be written there.
#[inline(always)]
pub(super) fn places_of_request(
    looking: &Looking,
    of: &QpEntry,
    request: impl Iterator<Item = PostSge>,
    (mut free, len_bytes): (u64, u64),
    found: &mut Stretches,
) -> Option<()> {
    let mut left = len_bytes;
    for entry in request {
        if free == 0 && left == 0 {
            break;
        }
        // The whole entry must be the receiver's to write, although less of it may be used.
        let whole = u64::from(entry.len_bytes);
        let begin = free.min(whole);
        let len = (whole - begin).min(left);
        found.push(looking.reach(of, entry.lkey, entry.address, whole, IBV_ACCESS_LOCAL_WRITE)?.part(begin, len))?;
        free -= begin;
        left -= len;
    }
    (free == 0 && left == 0).then_some(())
}

/// What completes for a receiver.
#[inline(always)]
pub(super) fn delivery((receiver, parties): (&QpEntry, Parties), record: &PostRecord, wr_id: u64, len_bytes: u64, since_ps: u64) -> Delivery {
    let has_immediate = record.opcode != opcode::SEND;
    let is_write = record.opcode == opcode::RDMA_WRITE_WITH_IMM;
    Delivery {
        wr_id,
        // A shared queue goes on when one of its queue pairs begins anew.
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
