//! Messages, RDMA writes, reads and atomics at wall pace: the posting thread moves the data itself
//! if nothing can fail.
//!
//! The engine handles all unusual cases: a key that does not fit, a peer that is not ready, memory
//! not mapped here for an atomic. Only the engine knows their consequences. Work of one queue pair
//! stays in order. This code executes work only after the engine has completed all its work of the
//! queue pair. Completions keep the order of their creation.

mod atomic;
mod counting;
mod datagram;
mod global_route;
mod groups;
mod receive;
mod send;
mod waiting;
mod xrc;

pub(crate) use global_route::route_of;
pub(crate) use receive::OwnQueue;

use crate::cq::CqInner;
use crate::post::Data;
use crate::qp::QpInner;
use crate::spin_lock::SpinLock;
use softband_abi::verbs::*;
use softband_client::direct::ReceiveQueue;
use softband_client::direct::RemoteCqeRing;
use softband_client::direct::{TablesGuard, guard_tables};
use softband_client::now_ps;
use softband_ipc::post::{MULTICAST_LIDS, PostRecord, kind, opcode, send_flags, split_path};
use softband_ipc::ring::{Cqe, flags};
use softband_shm_transport::connection::Connection;
use softband_shm_transport::fallback::{self, FallbackReason};
use softband_shm_transport::memory_spans::{MemorySpan, MemorySpans, copy_one, read, write};
use softband_shm_transport::mkey_cache::CachedMkey;
use softband_shm_transport::tables::{PEER_BEHIND_FAULTS, QpEntry};
use std::sync::atomic::{AtomicBool, Ordering};

/// Result of an attempt to do without the engine.
pub(crate) type Direct<T> = Result<T, FallbackReason>;

/// Counts a request that goes to the engine.
#[cold]
pub(crate) fn count_fallback(reason: FallbackReason) {
    fallback::count(&softband_client::header().fallbacks, reason);
}

/// State of a queue pair for direct work.
pub(crate) struct DirectState {
    pub(crate) receives: OwnQueue,
    /// Held while a send request takes its place and executes, which keeps requests in order.
    pub(crate) sending: SpinLock<Sending>,
    /// Operations that the poster may execute itself, one bit each.
    operations: u32,
    /// The peer, which was in RTR, knows that the connection is established.
    established: AtomicBool,
}

/// Destinations of a queue pair, as far as known.
#[derive(Default)]
pub(crate) struct Sending {
    connection: Option<Connection>,
    /// The peer's queues, after the first message.
    queues: Option<PeerQueues>,
    mkeys: MkeyCache,
    receivers: datagram::Receivers,
    groups: groups::Groups,
    xrc: xrc::Queues,
    /// Counters of messages to the peer.
    lane: counting::Lane,
}

/// Translations of the last used local memory and of the peer's.
#[derive(Default)]
pub(crate) struct MkeyCache {
    local: CachedMkey,
    remote: CachedMkey,
}

/// The queues of the peer, mapped here.
pub(crate) struct PeerQueues {
    receives: ReceiveQueue,
    remote_cqe_ring: RemoteCqeRing,
}

impl PeerQueues {
    /// Maps the receive queue of `source` and the ring of remote CQEs of `keeper`.
    fn of(source: &QpEntry, keeper: &QpEntry) -> Option<Self> {
        Some(Self { receives: ReceiveQueue::of(source)?, remote_cqe_ring: RemoteCqeRing::of(keeper)? })
    }

    fn are_of(&self, source: &QpEntry, keeper: &QpEntry) -> bool {
        self.receives.is_of(source) && self.remote_cqe_ring.is_of(keeper)
    }
}

impl Sending {
    /// Returns the connection, the peer's queues and the key cache. Fails if no connection allows
    /// direct use.
    #[inline(always)]
    fn connect(&mut self, guard: &TablesGuard, (qp, index): (&QpInner, u32)) -> Direct<(&Connection, &mut Option<PeerQueues>, &mut MkeyCache)> {
        if !self.connection.as_ref().is_some_and(|connection| connection.is_valid(guard)) {
            self.connect_anew(guard, qp, index)?;
        }
        let connection = self.connection.as_ref().ok_or(FallbackReason::PeerNotConnected)?;
        Ok((connection, &mut self.queues, &mut self.mkeys))
    }

    #[cold]
    fn connect_anew(&mut self, guard: &TablesGuard, qp: &QpInner, index: u32) -> Direct<()> {
        let state = |entry: &QpEntry| entry.state.load(Ordering::SeqCst);
        let is_usable = |to: &Connection| state(to.own) == IBV_QPS_RTS && is_receiving(state(to.peer));
        let named = self.xrc.present();
        if named.is_none() && qp.qp_type == IBV_QPT_XRC_SEND {
            return Err(FallbackReason::UnknownDestination);
        }
        self.connection = None;
        let found = Connection::of(guard, (index, qp.qpn), named).ok_or_else(|| reason_without_peer(guard, (index, qp.qpn)))?;
        if !is_usable(&found) {
            return Err(FallbackReason::PeerNotReady);
        }
        let connection = self.connection.insert(found);
        if self.queues.as_ref().is_some_and(|queues| !queues.are_of(connection.source, connection.keeper)) {
            self.queues = None;
        }
        Ok(())
    }
}

/// Returns the reason why a queue pair has no connection.
fn reason_without_peer(guard: &TablesGuard, (index, qpn): (u32, u32)) -> FallbackReason {
    match guard.queue_pair(index, qpn) {
        None => FallbackReason::NotPublished,
        Some(own) if own.peer.load(Ordering::Acquire) == PEER_BEHIND_FAULTS => FallbackReason::FaultPlan,
        Some(_) => FallbackReason::PeerNotConnected,
    }
}

impl DirectState {
    pub(crate) fn new(entry: u32, qpn: u32, operations: u32) -> Self {
        Self { receives: OwnQueue::new(entry, qpn), sending: SpinLock::default(), operations, established: AtomicBool::new(false) }
    }

    pub(crate) fn reset(&self, sending: &mut Sending) {
        self.established.store(false, Ordering::Release);
        *sending = Sending::default();
    }
}

/// Returns the operations that the poster of this queue pair type may execute itself, one bit each.
pub(crate) fn operations(qp_type: u32, has_atomic_write: bool) -> u32 {
    let bit = |opcode: u32| 1 << opcode;
    let sends = bit(opcode::SEND) | bit(opcode::SEND_WITH_IMM);
    let writes = bit(opcode::RDMA_WRITE) | bit(opcode::RDMA_WRITE_WITH_IMM);
    let answered = bit(opcode::RDMA_READ) | bit(opcode::ATOMIC_CMP_AND_SWP) | bit(opcode::ATOMIC_FETCH_AND_ADD);
    match qp_type {
        IBV_QPT_RC | IBV_QPT_XRC_SEND => sends | writes | answered | if has_atomic_write { bit(opcode::ATOMIC_WRITE) } else { 0 },
        IBV_QPT_UC => sends | writes,
        IBV_QPT_UD => sends,
        _ => 0,
    }
}

/// Executes a send request, or returns the reason why the engine must. The request already has its
/// place in the send queue.
pub(crate) fn carry_out(qp: &QpInner, (sending, mut guard): (&mut Sending, Option<TablesGuard>), record: &PostRecord, data: &Data<'_>) -> Direct<()> {
    if qp.direct.operations & 1 << (record.opcode % u32::BITS) == 0 {
        return Err(FallbackReason::UnsupportedOperation);
    }
    let index = qp.direct_entry.checked_sub(1).ok_or(FallbackReason::NotPublished)?;
    let cq = qp.send_cq.get().ok_or(FallbackReason::NotPublished)?;
    if !qp.send.is_settled() {
        guard = None; // other threads may have to continue during the wait
        let is_nowhere = qp.qp_type == IBV_QPT_UD && split_path(record.path).0 == 0;
        if is_nowhere {
            return Err(FallbackReason::UnknownDestination);
        }
        await_engine(qp, index)?;
    }
    if qp.qp_type == IBV_QPT_XRC_SEND {
        guard = None;
        if !sending.turn_to(qp, record.xrc_srq) {
            return Err(FallbackReason::UnknownDestination);
        }
    }
    let at = (qp, index);
    let len_bytes = match record.opcode {
        opcode::RDMA_READ | opcode::RDMA_WRITE => move_all(at, (sending, guard), record, data),
        opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE => atomic::change(at, (sending, guard), record, data),
        _ if qp.qp_type == IBV_QPT_UD => {
            drop(guard); // this may call the engine
            deliver_datagram(at, sending, record, data)
        }
        _ => send::deliver(at, (sending, guard), record, data),
    }?;
    if qp.qp_type != IBV_QPT_UD {
        sending.count_message(qp, record.opcode, len_bytes);
    }
    let count = qp.send.note_carried_out();
    let signalled = qp.signals_all || record.flags & send_flags::SIGNALED != 0;
    if signalled && !cq.push_own(completion(qp, cq, record, len_bytes, count)) {
        // The completion is lost, and the CQ enters the error state.
        notify(kind::CQ_OVERRUN, qp.hca, cq.handle);
    } else if signalled && cq.raises_event() {
        notify(kind::NOTIFY_OWN, qp.hca, cq.handle);
    }
    tell_of_connection(qp, index);
    Ok(())
}

/// Sends a datagram to a queue pair or a group.
#[inline(never)]
fn deliver_datagram(at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>) -> Direct<u64> {
    match split_path(record.path).0 {
        0 => Err(FallbackReason::UnknownDestination), // the engine decides its fate
        1..MULTICAST_LIDS => datagram::deliver(at, &mut sending.receivers, (None, true), record, data),
        _ => groups::deliver(at, (&mut sending.receivers, &mut sending.groups), record, data),
    }
}

fn is_reliable(qp: &QpInner) -> bool {
    matches!(qp.qp_type, IBV_QPT_RC | IBV_QPT_XRC_SEND)
}

/// Notifies the engine of work that only the engine can do. Callers hold no guard, because this may
/// take a moment.
#[cold]
pub(crate) fn notify(kind: u32, hca: u32, object: u32) {
    let _ = softband_client::post::post(PostRecord { kind, hca, object, ..bytemuck::Zeroable::zeroed() }, &[], &[]);
}

/// Notifies the engine about the receiver of a message, which the record names.
#[cold]
fn tell(kind: u32, record: &PostRecord) {
    let _ = softband_client::post::post(PostRecord { kind, ..*record }, &[], &[]);
}

/// Checks that the engine has finished all work of the queue pair, so the poster overtakes none.
/// Waits a moment for a direct connection: a stream of requests would otherwise never find it
/// finished.
#[cold]
fn await_engine(qp: &QpInner, index: u32) -> Direct<()> {
    let mut wait = waiting::Wait::begin();
    loop {
        let guard = guard_tables().ok_or(FallbackReason::NotPublished)?;
        let own = guard.queue_pair(index, qp.qpn).ok_or(FallbackReason::NotPublished)?;
        if qp.send.is_done(own.done.load(Ordering::Acquire)) {
            return Ok(());
        }
        if qp.qp_type != IBV_QPT_UD && guard.peer(own).is_none() {
            return Err(reason_without_peer(&guard, (index, qp.qpn)));
        }
        drop(guard);
        if !waiting::PATIENCE.waits_for_engine(&wait) {
            return Err(FallbackReason::EngineHasWork);
        }
        wait.give_way();
    }
}

/// Notifies the peer's program of the first message, if the peer is only in RTR.
fn tell_of_connection(qp: &QpInner, index: u32) {
    if qp.direct.established.load(Ordering::Acquire) || qp.direct.established.swap(true, Ordering::AcqRel) {
        return;
    }
    let is_ready_to_receive = guard_tables().is_some_and(|guard| {
        let peer = guard.queue_pair(index, qp.qpn).and_then(|own| guard.peer(own));
        peer.is_some_and(|peer| peer.state.load(Ordering::Acquire) == IBV_QPS_RTR)
    });
    if is_ready_to_receive {
        notify(kind::ESTABLISHED, qp.hca, qp.qpn);
    }
}

/// Moves all data of an RDMA write or read. Returns their length in bytes.
#[inline(never)]
fn move_all(at: (&QpInner, u32), (sending, guard): (&mut Sending, Option<TablesGuard>), record: &PostRecord, data: &Data<'_>) -> Direct<u64> {
    let guard = guard.or_else(guard_tables).ok_or(FallbackReason::NotPublished)?;
    match move_one(&guard, at, sending, record, data) {
        Some(len_bytes) => Ok(len_bytes),
        None => move_pieces(guard, at, sending, record, data),
    }
}

/// Moves a request with one local and one remote span, the common case. Returns `None` for others.
#[inline(always)]
fn move_one(guard: &TablesGuard, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>) -> Option<u64> {
    let (connection, _, mkeys) = sending.connect(guard, at).ok()?;
    let is_read = record.opcode == opcode::RDMA_READ;
    let local = only_span(guard, &mut mkeys.local, connection.own, data, is_read)?;
    let remote = named_span(guard, &mut mkeys.remote, connection, record, local.len_bytes).ok()?;
    let (from, to) = if is_read { (&remote, &local) } else { (&local, &remote) };
    (local.len_bytes <= PIECE_BYTES && copy_one(from, to)).then_some(local.len_bytes)
}

#[inline(never)]
fn move_pieces(guard: TablesGuard, at: (&QpInner, u32), sending: &mut Sending, record: &PostRecord, data: &Data<'_>) -> Direct<u64> {
    let (mut guard, mut moved) = (Some(guard), 0);
    loop {
        // Each piece looks its spans up anew, so withdrawn memory is not accessed. The engine
        // executes a request that stops here from its start, or fails it.
        let present = guard.take().or_else(guard_tables).ok_or(FallbackReason::NotPublished)?;
        let (piece, len_bytes) = move_piece(&present, at, sending, record, data, moved)?;
        moved += piece;
        if moved >= len_bytes {
            return Ok(len_bytes);
        }
    }
}

fn is_receiving(state: u32) -> bool {
    [IBV_QPS_RTR, IBV_QPS_RTS].contains(&state)
}

/// Most bytes moved at once. The engine waits for current transfers before it withdraws an entry.
const PIECE_BYTES: u64 = 2 << 20;

/// Moves a piece of a request from byte `from` on. Returns the lengths of the piece and of the
/// request, in bytes. Fails in unusual cases.
fn move_piece(
    guard: &TablesGuard,
    at: (&QpInner, u32),
    sending: &mut Sending,
    record: &PostRecord,
    data: &Data<'_>,
    from: u64,
) -> Direct<(u64, u64)> {
    let (connection, _, mkeys) = sending.connect(guard, at)?;
    let is_read = record.opcode == opcode::RDMA_READ;
    let mut local = MemorySpans::default();
    local_spans(guard, &mut mkeys.local, connection.own, data, is_read, &mut local)?;
    let len_bytes = local.len_bytes();
    if len_bytes > i32::MAX as u64 {
        return Err(FallbackReason::TooLong);
    }
    let remote = named_span(guard, &mut mkeys.remote, connection, record, len_bytes)?;
    let pid = connection.keeper.pid.load(Ordering::Relaxed);
    let len = (len_bytes - from).min(PIECE_BYTES);
    if len < len_bytes {
        local = local.part(from, len);
    }
    let remote = MemorySpans::from(remote.part(from, len));
    let moved = if is_read { read(pid, &local, &remote) } else { write(pid, &local, &remote) };
    moved.then_some((len, len_bytes)).ok_or(FallbackReason::CopyFailed)
}

/// Returns the peer's memory that a request names. Checks nothing for zero bytes (IBTA 9.4.3).
/// Fails if access is denied.
#[inline(always)]
fn named_span(guard: &TablesGuard, last: &mut CachedMkey, to: &Connection, record: &PostRecord, len_bytes: u64) -> Direct<MemorySpan> {
    let is_read = record.opcode == opcode::RDMA_READ;
    let right = if is_read { IBV_ACCESS_REMOTE_READ } else { IBV_ACCESS_REMOTE_WRITE };
    let is_refused = is_read && to.own.max_reads.load(Ordering::Relaxed) == 0;
    if is_refused || to.peer.access.load(Ordering::Relaxed) & right == 0 {
        return Err(FallbackReason::AccessRefused);
    }
    match len_bytes {
        0 => Ok(MemorySpan::EMPTY),
        _ => guard.translate(last, to.keeper, record.rkey, (record.remote_address, len_bytes), right).ok_or(FallbackReason::KeyRefused),
    }
}

/// Returns the data of a request in this process, if they are one span (the common case) and access
/// is allowed.
#[inline(always)]
fn only_span(guard: &TablesGuard, last: &mut CachedMkey, own: &QpEntry, data: &Data<'_>, is_written: bool) -> Option<MemorySpan> {
    match *data {
        Data::Registered([entry]) => {
            let right = if is_written { IBV_ACCESS_LOCAL_WRITE } else { 0 };
            guard.translate(last, own, entry.lkey, (entry.addr, u64::from(entry.length)), right)
        }
        Data::Here([entry]) => Some(span_here(entry.addr, u64::from(entry.length))),
        Data::Copied(bytes) => Some(span_here(bytes.as_ptr() as u64, bytes.len() as u64)),
        _ => None,
    }
}

/// Adds the spans of a request's data in this process. Fails if access is denied.
#[inline(always)]
fn local_spans(guard: &TablesGuard, last: &mut CachedMkey, own: &QpEntry, data: &Data<'_>, is_written: bool, found: &mut MemorySpans) -> Direct<()> {
    let mut add = |span| found.push(span).ok_or(FallbackReason::TooManySpans);
    match *data {
        Data::Copied(bytes) => add(span_here(bytes.as_ptr() as u64, bytes.len() as u64)),
        Data::Here(list) => list.iter().try_for_each(|entry| add(span_here(entry.addr, u64::from(entry.length)))),
        Data::Registered(list) => {
            let right = if is_written { IBV_ACCESS_LOCAL_WRITE } else { 0 };
            let mut translate = |entry: &ibv_sge| guard.translate(last, own, entry.lkey, (entry.addr, u64::from(entry.length)), right);
            list.iter().try_for_each(|entry| add(translate(entry).ok_or(FallbackReason::KeyRefused)?))
        }
    }
}

/// Returns a span of this process's memory, registered or not.
fn span_here(address: u64, len_bytes: u64) -> MemorySpan {
    MemorySpan { address, len_bytes, here: address as *mut u8 }
}

fn completion(qp: &QpInner, cq: &CqInner, record: &PostRecord, len_bytes: u64, count: u32) -> Cqe {
    // This time distinguishes completions before and after a reset.
    let since_ps = qp.reset_at_ps.load(Ordering::Relaxed);
    Cqe {
        wr_id: record.wr_id,
        time_ps: if cq.has_stamps { now_ps().max(since_ps) } else { since_ps },
        status: IBV_WC_SUCCESS,
        opcode: match record.opcode {
            opcode::RDMA_READ => IBV_WC_RDMA_READ,
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
            opcode::ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
            opcode::ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
            opcode::ATOMIC_WRITE => IBV_WC_ATOMIC_WRITE,
            _ => IBV_WC_SEND,
        },
        byte_len: len_bytes as u32,
        qpn: qp.qpn,
        flags: flags::CARRIED_OUT_BY_PROGRAM,
        send_retired: count,
        ..bytemuck::Zeroable::zeroed()
    }
}
