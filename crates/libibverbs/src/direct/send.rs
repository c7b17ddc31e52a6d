//! Messages that take a receive request: the sending thread takes it out of the peer's queue, moves the data, and puts the completion
//! into the ring of the peer's completion queue.

use super::waiting::Step;
use super::{PeerQueues, SGES_MAX, Sending, Stretches, local_stretches, notify};
use crate::post::Data;
use crate::qp::QpInner;
use arrayvec::ArrayVec;
use softband_abi::verbs::*;
use softband_client::connection::Connection;
use softband_client::direct::{Looking, look, write};
use softband_ipc::post::{PostRecord, PostSge, kind, opcode, send_flags};
use softband_ipc::queues::Delivery;
use softband_ipc::ring::flags;
use softband_ipc::tables::{QpEntry, shared_queue_of};
use std::sync::atomic::{AtomicU32, Ordering};

/// Longer messages are the engine's: it waits for transfers under way before it lets anything go.
const BYTES_MAX: u64 = 64 << 20;

/// Carries a message out; how many bytes it had. `None`: it is the engine's.
pub(super) fn deliver(at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: Data<'_>) -> Option<u64> {
    let mut patience = sending.patience;
    let done = patience.try_on(|is_waiting| step(&look()?, at, sending, record, data, is_waiting));
    sending.patience = patience;
    let (bytes, raises_event) = done?;
    if raises_event {
        notify(kind::NOTIFY_PEER, at.0.hca, at.0.qpn);
    }
    Some(bytes)
}

/// `None` when something is not as it should be: the engine knows what follows from it.
fn step(looking: &Looking, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: Data<'_>, is_waiting: bool) -> Option<Step> {
    let connection = sending.connect(looking, at)?;
    let Connection { own, peer, source, .. } = connection;
    let PeerQueues { receives, deliveries } = match &mut sending.queues {
        Some(queues) => queues,
        unknown => unknown.insert(PeerQueues::of(source, peer)?),
    };
    let mode = receives.mode();
    match receives.is_shared() {
        None => return Some(Step::Later),
        Some(false) => return None,
        Some(true) => {}
    }
    let turn = match connection.is_shared().then(|| receives.take_turn(is_waiting)) {
        Some(None) => return Some(Step::Busy),
        turn => turn.flatten(),
    };
    let mut request = ArrayVec::<PostSge, SGES_MAX>::new();
    let Some(wr_id) = receives.front(&mut request) else {
        let may_wait = at.0.qp_type == IBV_QPT_RC && own.rnr_retry.load(Ordering::Relaxed) != 0;
        return may_wait.then_some(Step::Later);
    };
    if turn.as_ref().is_some_and(|turn| !turn.is_valid()) {
        return Some(Step::Later);
    }
    let mut local = Stretches::new();
    local_stretches(looking, own, data, false, &mut local)?;
    let len_bytes = local.iter().map(|stretch| stretch.len_bytes).sum::<u64>();
    if len_bytes > BYTES_MAX {
        return None;
    }
    let mut remote = Stretches::new();
    if record.opcode == opcode::RDMA_WRITE_WITH_IMM {
        named_place(looking, peer, record, len_bytes, &mut remote)?;
    } else {
        places_of_request(looking, source, &request, (0, len_bytes), &mut remote)?;
    }
    if len_bytes > 0 && !write(peer.pid.load(Ordering::Relaxed), &local, &remote) {
        return None;
    }
    let delivery = delivery(peer, source, record, wr_id, len_bytes, receives.since_ps());
    // Again: this thread may have been stopped for so long that the engine went on without it.
    let is_still_so = || receives.mode() == mode && connection.is_valid(looking);
    let take = || match &turn {
        _ if !is_still_so() => false,
        None => {
            receives.take_front();
            true
        }
        Some(turn) => turn.take_front(),
    };
    if deliveries.put(delivery, take) {
        return Some(Step::Done { bytes: len_bytes, raises_event: deliveries.raises_event(record.flags & send_flags::SOLICITED != 0) });
    }
    (!is_still_so()).then_some(Step::Later)
}

/// Where an RDMA write goes.
fn named_place(looking: &Looking, peer: &QpEntry, record: &PostRecord, len_bytes: u64, found: &mut Stretches) -> Option<()> {
    if peer.access.load(Ordering::Relaxed) & IBV_ACCESS_REMOTE_WRITE == 0 {
        return None;
    }
    if len_bytes > 0 {
        found.push(looking.reach(peer, record.rkey, record.remote_address, len_bytes, IBV_ACCESS_REMOTE_WRITE)?);
    }
    Some(())
}

/// Where a message goes that is as long as this, behind so many bytes that are left free; `None` when it is too long for the request, or
/// may not be written there.
#[inline(always)]
pub(super) fn places_of_request(
    looking: &Looking,
    of: &QpEntry,
    request: &[PostSge],
    (mut free, len_bytes): (u64, u64),
    found: &mut Stretches,
) -> Option<()> {
    let mut left = len_bytes;
    for entry in request {
        if left == 0 {
            break;
        }
        // The whole entry must be the receiver's to write, although less of it may be used.
        let whole = u64::from(entry.len_bytes);
        let begin = free.min(whole);
        let len = (whole - begin).min(left);
        found.push(looking.reach(of, entry.lkey, entry.address, whole, IBV_ACCESS_LOCAL_WRITE)?.part(begin, len));
        free -= begin;
        left -= len;
    }
    (left == 0).then_some(())
}

/// What completes for `peer`, with a request of `source`.
#[inline]
fn delivery(peer: &QpEntry, source: &QpEntry, record: &PostRecord, wr_id: u64, len_bytes: u64, since_ps: u64) -> Delivery {
    let has_immediate = record.opcode != opcode::SEND;
    let is_write = record.opcode == opcode::RDMA_WRITE_WITH_IMM;
    let srq = shared_queue_of(source.qpn.load(Ordering::Relaxed)).unwrap_or(0);
    Delivery {
        wr_id,
        // A shared queue goes on when one of its queue pairs begins anew.
        since_ps: if srq == 0 { since_ps } else { since_ps.max(peer.since_ps.load(Ordering::Relaxed)) },
        stamp_ps: 0,
        byte_len: len_bytes as u32,
        immediate: if has_immediate { record.immediate } else { 0 },
        qpn: peer.qpn.load(Ordering::Relaxed),
        source_qpn: peer.dest_qpn.load(Ordering::Relaxed),
        flags: flags::RECEIVE | if has_immediate { flags::WITH_IMMEDIATE } else { 0 },
        opcode: (if is_write { IBV_WC_RECV_RDMA_WITH_IMM } else { IBV_WC_RECV }) as u8,
        service_level: peer.service_level.load(Ordering::Relaxed) as u8,
        pkey_index: peer.pkey_index.load(Ordering::Relaxed) as u16,
        source_lid: 0,
        path_bits: 0,
        reserved: 0,
        srq,
        sequence: AtomicU32::new(0),
    }
}
