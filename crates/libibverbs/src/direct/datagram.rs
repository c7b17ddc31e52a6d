//! Datagrams. The sending thread finds the receiving queue pair and does the work of the fabric and
//! of the receiver's HCA.
//!
//! The engine handles datagrams that would be lost or fail. For groups, see [`super::groups`].

use super::counting::Lane;
use super::global_route::{GRH_BYTES, header};
use super::send::{places_of_request, remote_cqe};
use super::waiting::{Outcome, PATIENCE, Step};
use super::{Direct, MkeyCache, PeerQueues, is_receiving, local_spans, span_here, tell};
use crate::post::Data;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::call;
use softband_client::direct::{TablesGuard, guard_tables};
use softband_ipc::calls::{DatagramWay, op};
use softband_ipc::post::{HAS_ROUTE, ON_ETHERNET, PostRecord, kind, send_flags, split_path};
use softband_ipc::ring::flags;
use softband_shm_transport::fallback::FallbackReason;
use softband_shm_transport::memory_spans::{MemorySpans, write};
use softband_shm_transport::queues::Parties;
use softband_shm_transport::tables::{QpEntry, shared_queue_of};
use softband_shm_transport::traffic::Way;
use softband_types::Gid;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most known receivers. The library forgets all of them above this number.
const RECEIVERS_MAX: usize = 4096;
/// Most datagrams between two requests to the engine for a receiver that was not found.
const DATAGRAMS_BETWEEN_MAX: u32 = 1 << 12;
/// Bit of a Q_Key that stands for the queue pair's own Q_Key (IBTA 10.2.5).
const OWN_KEY: u32 = 1 << 31;
/// Bit of a P_Key that marks full members.
const FULL_MEMBER: u32 = 1 << 15;

/// Receivers of a queue pair's datagrams, by LID and number.
#[derive(Default)]
pub(crate) struct Receivers(BTreeMap<(u16, u32), Receiver>);

struct Receiver {
    /// Its entry in the table of queue pairs plus one; 0 if unknown.
    entry: u32,
    queues: Option<PeerQueues>,
    mkeys: MkeyCache,
    /// Way of the sender's packets, and their counters.
    way: Way,
    lane: Lane,
    /// Datagrams until the next request to the engine, and below, the last such interval.
    until_asked: u32,
    between: u32,
    /// The receiver was only in RTR. Below: its program was notified of a message, which happens
    /// once.
    is_new: bool,
    is_established: bool,
    /// At the last check, it had no receive request.
    has_no_request: bool,
    /// The last datagram waited in vain for a receive request. Until one is found, further
    /// datagrams are lost without waiting.
    is_starved: bool,
}

/// Sends a datagram. Returns its length in bytes, or the reason why the engine must handle it.
/// `groups` is the version of all groups if the receiver is a group member. Without `may_wait`, the datagram
/// is lost at once if no receive request is present.
pub(super) fn deliver(
    at: (&QpInner, u32),
    receivers: &mut Receivers,
    (groups, may_wait): (Option<u32>, bool),
    record: &PostRecord,
    data: &Data<'_>,
) -> Direct<u64> {
    let to = (split_path(record.path).0, record.remote_qpn);
    let receiver = receivers.find(at.0, to).ok_or(FallbackReason::UnknownDestination)?;
    receiver.has_no_request = false;
    receiver.is_starved |= !may_wait;
    let mut attempt = |is_waiting| {
        let guard = guard_tables().ok_or(FallbackReason::NotPublished)?;
        let is_member = groups.is_none_or(|version| guard.groups_version() == version);
        if !is_member {
            return Err(FallbackReason::Interrupted);
        }
        step(&guard, at, to, receiver, record, data, is_waiting)
    };
    let done = attempt(false).and_then(|first| PATIENCE.try_again(first, attempt));
    receiver.is_starved = receiver.has_no_request;
    let Step { outcome, bytes } = done?;
    // A datagram to a group counts once, for all members.
    if groups.is_none() {
        receiver.lane.count_datagram((at.0, receiver.way), record, bytes);
    }
    if receiver.has_no_request {
        receiver.lane.count_loss((at.0, receiver.way), record);
    }
    if std::mem::take(&mut receiver.is_new) && !std::mem::replace(&mut receiver.is_established, true) {
        tell(kind::ESTABLISHED, record);
    }
    if outcome == Outcome::DoneWithEvent {
        tell(kind::NOTIFY_PEER, record);
    }
    Ok(bytes)
}

/// Checks whether the receiver accepts a datagram, and accepts it from this thread.
pub(super) fn is_within_reach((qp, index): (&QpInner, u32), receivers: &mut Receivers, record: &PostRecord) -> bool {
    let to = (split_path(record.path).0, record.remote_qpn);
    let Some(receiver) = receivers.find(qp, to) else { return false };
    let Some(guard) = guard_tables() else { return false };
    let own = guard.queue_pair(index, qp.qpn);
    let found = receiver.entry.checked_sub(1).and_then(|entry| guard.datagram_receiver(entry, to.0, to.1));
    let (Some(own), Some(to)) = (own, found) else { return false };
    accepts(to, own, record) && receiver.queues_of(&guard, to).is_some_and(|queues| queues.receives.mode().is_shared() == Some(true))
}

impl Receivers {
    fn find(&mut self, qp: &QpInner, to: (u16, u32)) -> Option<&mut Receiver> {
        if self.0.len() > RECEIVERS_MAX {
            self.0.clear();
        }
        let unknown = || Receiver {
            entry: 0,
            queues: None,
            mkeys: MkeyCache::default(),
            way: Way(0),
            lane: Lane::default(),
            until_asked: 0,
            between: 1,
            is_new: false,
            is_established: false,
            has_no_request: false,
            is_starved: false,
        };
        let receiver = self.0.entry(to).or_insert_with(unknown);
        if receiver.entry == 0 {
            receiver.ask(qp, to)?;
        }
        Some(receiver)
    }
}

impl Receiver {
    /// Returns the queues of the queue pair with this entry.
    fn queues_of(&mut self, guard: &TablesGuard, to: &'static QpEntry) -> Option<&PeerQueues> {
        let source = guard.receives_of(to)?;
        if !self.queues.as_ref().is_some_and(|queues| queues.are_of(source, to)) {
            self.queues = Some(PeerQueues::of(source, to)?);
        }
        self.queues.as_ref()
    }

    /// Asks the engine for the receiver's entry; only now and then, if it has none.
    #[cold]
    fn ask(&mut self, qp: &QpInner, (lid, qpn): (u16, u32)) -> Option<()> {
        if self.until_asked > 0 {
            self.until_asked -= 1;
            return None;
        }
        let way = DatagramWay { hca: qp.hca, from: qp.qpn, lid: u32::from(lid), qpn };
        let found = call::<op::FindDatagramReceiver>(&way).ok()?;
        self.entry = found.handle;
        self.between = if found.handle == 0 { (self.between * 2).min(DATAGRAMS_BETWEEN_MAX) } else { 1 };
        self.until_asked = self.between;
        (self.entry != 0).then_some(())
    }
}

/// Tries once to send a datagram. Fails in unusual cases, which the engine handles.
fn step(
    guard: &TablesGuard,
    (qp, index): (&QpInner, u32),
    (lid, qpn): (u16, u32),
    receiver: &mut Receiver,
    record: &PostRecord,
    data: &Data<'_>,
    is_waiting: bool,
) -> Direct<Step> {
    let own = guard.queue_pair(index, qp.qpn).ok_or(FallbackReason::NotPublished)?;
    if own.state.load(Ordering::Acquire) != IBV_QPS_RTS {
        return Err(FallbackReason::PeerNotReady);
    }
    let found = receiver.entry.checked_sub(1).and_then(|entry| guard.datagram_receiver(entry, lid, qpn));
    let Some(to) = found else {
        (receiver.entry, receiver.queues) = (0, None); // the receiver may now have another entry
        return Err(FallbackReason::UnknownDestination);
    };
    let version = to.version.load(Ordering::SeqCst);
    receiver.way = Way(own.way.load(Ordering::Relaxed));
    if !accepts(to, own, record) {
        let is_off = own.lid.load(Ordering::Relaxed) == 0;
        return Err(if is_off { FallbackReason::FaultPlan } else { FallbackReason::ReceiverRefuses });
    }
    let source = guard.receives_of(to).ok_or(FallbackReason::QueueNotMapped)?;
    receiver.queues_of(guard, to).ok_or(FallbackReason::QueueNotMapped)?;
    let PeerQueues { receives, remote_cqe_ring } = receiver.queues.as_ref().ok_or(FallbackReason::QueueNotMapped)?;
    let mode = receives.mode();
    match mode.is_shared() {
        None => return Ok(Step::MOVING),
        Some(false) => return Err(FallbackReason::QueueTakenOver),
        Some(true) => {}
    }
    let route; // must outlive the copy
    let mut local = MemorySpans::default();
    if record.path & HAS_ROUTE != 0 {
        route = header(own.port_guid.load(Ordering::Relaxed), record, data);
        local.push(span_here(route.as_ptr() as u64, GRH_BYTES)).ok_or(FallbackReason::TooManySpans)?;
    }
    let free = GRH_BYTES - local.len_bytes(); // unused bytes before the data
    local_spans(guard, &mut receiver.mkeys.local, own, data, false, &mut local)?;
    let len_bytes = free + local.len_bytes() - GRH_BYTES;
    if len_bytes > u64::from(own.mtu_bytes.load(Ordering::Relaxed)) {
        return Err(FallbackReason::TooLong);
    }
    let Some(lock) = receives.try_lock_consumer(is_waiting) else { return Ok(Step::BUSY) };
    let front = receives.front(mode);
    receiver.has_no_request = front.is_none();
    let Some(request) = front else {
        // The datagram is lost (IBTA 9.8.3.2). The engine has handled the first loss.
        return Ok(if receiver.is_starved { Step::done(len_bytes, false) } else { Step::EMPTY });
    };
    let wr_id = request.wr_id;
    let mut remote = MemorySpans::default();
    places_of_request(guard, (source, &mut receiver.mkeys.remote), request, (free, local.len_bytes()), &mut remote)
        .ok_or(FallbackReason::ReceiveTooShort)?;
    if !lock.is_valid() {
        return Ok(Step::LATER);
    }
    if local.len_bytes() > 0 && !write(to.pid.load(Ordering::Relaxed), &local, &remote) {
        return Err(FallbackReason::CopyFailed);
    }
    let mut remote_cqe = remote_cqe((to, parties((own, to, source), record)), record, wr_id, GRH_BYTES + len_bytes, receives.since_ps());
    remote_cqe.flags |= if free == 0 { flags::GRH } else { 0 };
    let room = remote_cqe_ring.reserve(false).ok_or(FallbackReason::RingFull)?;
    room.write(remote_cqe);
    // Check again: this thread may have stopped for so long that the engine continued without it.
    if to.version.load(Ordering::SeqCst) != version || !lock.is_valid() || !lock.take_front() {
        return Err(FallbackReason::Interrupted);
    }
    room.publish(); // at once: a process that ends in between takes the request with it
    receiver.is_new |= to.state.load(Ordering::Acquire) == IBV_QPS_RTR;
    Ok(Step::done(len_bytes, remote_cqe_ring.raises_event(record.flags & send_flags::SOLICITED != 0) | lock.reaches_limit()))
}

/// Checks whether the receiver accepts a datagram of this sender: states, ports, partitions and
/// keys (IBTA 9.6.1).
fn accepts(to: &QpEntry, own: &QpEntry, record: &PostRecord) -> bool {
    let of = |field: &AtomicU32| field.load(Ordering::Relaxed);
    let key = if record.remote_qkey & OWN_KEY != 0 { of(&own.qkey) } else { record.remote_qkey };
    let (own_partition, partition) = (of(&own.pkey), of(&to.pkey));
    let is_of_partition = (own_partition ^ partition) & !FULL_MEMBER == 0 && (own_partition | partition) & FULL_MEMBER != 0;
    is_receiving(of(&to.state)) && of(&own.lid) != 0 && key == of(&to.qkey) && is_of_partition
}

/// Returns the completion's data about both sides. `source` owns the receive request.
fn parties((own, to, source): (&QpEntry, &QpEntry, &QpEntry), record: &PostRecord) -> Parties {
    let of = |field: &AtomicU32| field.load(Ordering::Relaxed);
    let states_packet_type = record.path & ON_ETHERNET != 0 && to.service_level.load(Ordering::Relaxed) != 0;
    Parties {
        qpn: of(&to.qpn),
        source_qpn: of(&own.qpn),
        srq: shared_queue_of(of(&source.qpn)).unwrap_or(0),
        source_lid: if record.path & ON_ETHERNET != 0 { 0 } else { of(&own.lid) as u16 },
        pkey_index: to.pkey_index.load(Ordering::Relaxed),
        service_level: if states_packet_type { Gid(record.route().dgid).datagram_type() } else { split_path(record.path).1 },
        path_bits: 0,
        reserved: 0,
    }
}
