//! Queue pairs as programs handle them: creation, modification, posting, destruction.

use super::contexts::Context;
use super::{Hcas, Hop};
use crate::event::Event;
use crate::link::Links;
use crate::pdes::timeline::Timeline;
use crate::subnet::Subnet;
use softband_model::transport::{QueuePair, Side, Throttle};
use softband_model::verbs::api::{
    AddressVector, HostMemory, QpCapabilities, QpInit, QpModification, QpSnapshot, ReceiveRequest, SendRequest, VerbsError,
};
use softband_model::verbs::{check_modification, of_this_side};
use softband_sim::SimTime;
use softband_types::{CqHandle, HcaId, Lid, Mtu, PdHandle, PortNumber, ProcessId, QpState, QpType, Qpn, SrqHandle, XrcdHandle};

/// First QPN of an HCA; lower numbers belong to management (IBTA 3.5.3).
pub const QPN_FIRST: u32 = 0x404;
const QPNS_MAX: usize = (1 << 24) - QPN_FIRST as usize;

/// A queue pair with the fabric's state for it.
pub(super) struct QpSlot {
    pub qp: QueuePair,
    /// Index of its port, once assigned.
    pub port: Option<u32>,
    /// The send queue was idle, and the HCA fetches its first WQE.
    pub fetching: bool,
    /// Whether a side is in one of the engine's queues.
    pub queued: [bool; 2],
    /// Time at which a side's last packet is ready for the link. It keeps the packets of a side in
    /// order.
    pub ready_last: [SimTime; 2],
    /// Times at which the last send and receive completions enter their completion queues.
    pub completed_last: [SimTime; 2],
    /// Times of the last unsuccessful completions, by queue.
    pub failed_last: [SimTime; 2],
    /// Time at which the last receive whose payload is on the bus completes.
    pub on_bus_completes: SimTime,
    /// DMA writes of received payload so far.
    pub dma_writes_started: u64,
    pub context: Context,
    /// Time at which the last inline data reaches the HCA. Later requests come behind it.
    pub inline_until: SimTime,
    /// Time at which the last received byte is in memory.
    pub in_memory_last: SimTime,
    pub timer_at: Option<SimTime>,
    pub established: bool,
    /// Its injection throttle, if flows are queue pairs.
    pub throttle: Throttle,
    /// The next acknowledgement carries a BECN.
    pub becn_due: bool,
    /// The program awaits an event when the send queue is drained.
    pub tells_drained: bool,
    /// Processes besides the owner that opened it. Only the receiving side of an extended reliable
    /// connection can be shared.
    pub sharers: Vec<ProcessId>,
}

/// A work request between a program and its queue.
pub(super) enum Post {
    Send { qp: u32, epoch: u32, request: SendRequest },
    Receive { qp: u32, epoch: u32, request: ReceiveRequest },
    SharedReceive { srq: SrqHandle, request: ReceiveRequest },
}

impl QpSlot {
    fn new(qp: QueuePair) -> Self {
        Self {
            qp,
            port: None,
            fetching: false,
            queued: [false; 2],
            ready_last: [SimTime::ZERO; 2],
            completed_last: [SimTime::ZERO; 2],
            failed_last: [SimTime::ZERO; 2],
            on_bus_completes: SimTime::ZERO,
            dma_writes_started: 0,
            context: Context::default(),
            inline_until: SimTime::ZERO,
            in_memory_last: SimTime::ZERO,
            timer_at: None,
            established: false,
            throttle: Throttle::default(),
            becn_due: false,
            tells_drained: false,
            sharers: Vec::new(),
        }
    }
}

impl Hcas {
    pub(crate) fn create_qp(&mut self, owner: ProcessId, hca: HcaId, init: QpInit) -> Result<QpSnapshot, VerbsError> {
        let node = self.nodes.get(hca.0 as usize).ok_or(VerbsError::Invalid)?;
        let init = parts_of_type(init);
        let of_hca = self.parts_of_qp_are_of(owner, hca, &init)?;
        let QpCapabilities { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_bytes } = init.capabilities;
        let part = &node.part;
        let fits = max_send_wr.max(max_recv_wr) <= part.max_qp_wr
            && max_send_sge.max(max_recv_sge) <= part.max_sge
            && max_inline_bytes <= part.max_inline_bytes;
        if !of_hca || !fits {
            return Err(VerbsError::Invalid);
        }
        if node.qp_count >= part.max_qp || node.qp_of_qpn.len() >= QPNS_MAX {
            return Err(VerbsError::NoMemory);
        }
        let index = self.qps.len() as u32;
        let node = &mut self.nodes[hca.0 as usize];
        let qpn = Qpn(QPN_FIRST + node.qp_of_qpn.len() as u32);
        node.qp_of_qpn.push(Some(index));
        node.qp_count += 1;
        let mut qp = QueuePair::new(owner, hca, qpn, init);
        qp.requester.time_acknowledgements(node.part.ack_timer, self.ack_wait_max);
        let snapshot = qp.snapshot();
        self.qps.push(Some(Box::new(QpSlot::new(qp))));
        self.verbs.use_pd(init.pd, 1);
        self.verbs.use_srq(init.srq, 1);
        self.verbs.use_xrcd(init.xrcd, 1);
        self.verbs.use_cq(init.send_cq, 1);
        self.verbs.use_cq(init.recv_cq, 1);
        Ok(snapshot)
    }

    /// Checks that a queue pair's objects belong to `owner` and `hca` and fit its type.
    fn parts_of_qp_are_of(&self, owner: ProcessId, hca: HcaId, init: &QpInit) -> Result<bool, VerbsError> {
        let verbs = &self.verbs;
        if init.qp_type == QpType::XrcRecv {
            let xrcd = init.xrcd.ok_or(VerbsError::Invalid)?;
            return Ok(verbs.xrcd(owner, xrcd)?.hca == hca && init.srq.is_none());
        }
        let sends_only = init.qp_type == QpType::XrcSend;
        let receives = sends_only || verbs.cq(owner, init.recv_cq)?.hca == hca;
        let shared = init.srq.map_or(Ok(true), |srq| verbs.srq(owner, srq).map(|srq| !sends_only && srq.hca == hca && srq.init.xrc.is_none()))?;
        Ok(verbs.pd(owner, init.pd)?.hca == hca && verbs.cq(owner, init.send_cq)?.hca == hca && receives && shared && init.xrcd.is_none())
    }

    /// Returns all queue pairs in order of creation.
    pub(crate) fn queue_pairs(&self) -> impl Iterator<Item = (ProcessId, HcaId, QpSnapshot)> {
        self.qps.iter().flatten().map(|slot| (slot.qp.owner, slot.qp.hca, slot.qp.snapshot()))
    }

    /// Returns the index of the queue pair with this number.
    pub(super) fn qp_index(&self, hca: HcaId, qpn: Qpn) -> Option<u32> {
        let offset = qpn.0.checked_sub(QPN_FIRST)? as usize;
        *self.nodes.get(hca.0 as usize)?.qp_of_qpn.get(offset)?
    }

    pub(super) fn slot(&self, index: u32) -> Option<&QpSlot> {
        self.qps[index as usize].as_deref()
    }

    pub(super) fn slot_mut(&mut self, index: u32) -> Option<&mut QpSlot> {
        self.qps[index as usize].as_deref_mut()
    }

    fn owned_qp(&self, owner: ProcessId, hca: HcaId, qpn: Qpn) -> Result<(u32, &QpSlot), VerbsError> {
        let index = self.qp_index(hca, qpn).ok_or(VerbsError::Invalid)?;
        let slot = self.slot(index).ok_or(VerbsError::Invalid)?;
        if slot.qp.owner == owner || slot.sharers.contains(&owner) { Ok((index, slot)) } else { Err(VerbsError::Forbidden) }
    }

    pub(crate) fn modify_qp(
        &mut self,
        hop: &mut Hop<'_>,
        now: SimTime,
        owner: ProcessId,
        hca: HcaId,
        qpn: Qpn,
        modification: &QpModification,
    ) -> Result<QpSnapshot, VerbsError> {
        let (index, slot) = self.owned_qp(owner, hca, qpn)?;
        let attributes = slot.qp.attributes;
        let mut m = of_this_side(modification, attributes.init.qp_type);
        let next = check_modification(attributes.state, attributes.init.qp_type, &m)?;
        self.check_ranges(hop.links, hca, &attributes, &m)?;
        m.address_vector = m.address_vector.map(|vector| self.resolve(hop.subnet, hca, &vector)).transpose()?;
        if attributes.init.qp_type == QpType::Ud && next == QpState::Rtr {
            // The port's MTU limits a datagram (IBTA 9.8.3.1).
            let number = m.port.unwrap_or(attributes.port);
            m.path_mtu = self.mtu_active(hop.links, hca, number);
        }
        let port = m.port.and_then(|number| self.port_index(hca, number));
        let pkey = m.pkey_index.map(|index| self.pkeys(hca)[usize::from(index)]);
        let slot = self.slot_mut(index).expect("just found");
        slot.port = port.or(slot.port);
        match next {
            QpState::Error => self.put_into_error(hop.timeline, index, now),
            _ => {
                let epoch = slot.qp.epoch;
                let unfinished = if next == QpState::Reset { slot.qp.responder.take_unfinished() } else { None };
                let forgotten = if next == QpState::Reset { slot.qp.requester.queue_len() } else { 0 };
                slot.qp.modify(next, &m);
                if let Some(pkey) = pkey.filter(|_| next != QpState::Reset) {
                    slot.qp.attributes.pkey = pkey;
                }
                if slot.qp.epoch != epoch {
                    slot.fetching = false;
                    slot.established = false;
                    (slot.throttle, slot.becn_due) = (Throttle::default(), false);
                    slot.tells_drained = false;
                    let cqs = [attributes.init.send_cq, attributes.init.recv_cq];
                    self.forget_completions(cqs, qpn);
                    self.transfers.end(forgotten, now);
                }
                let slot = self.slot_mut(index).expect("just found");
                if next == QpState::Rts {
                    slot.qp.requester.resume();
                    // Resumes the drained queue. This needs an event, because sending needs the
                    // programs' memory.
                    let epoch = slot.qp.epoch;
                    let qp_ref = self.qp_refs.insert((index, epoch));
                    hop.timeline.push(now, hca.0, Event::QueueResumed { qp_ref });
                }
                if let Some(request) = unfinished {
                    self.verbs.put_back(request);
                }
                if let Some(slot) = self.slot_mut(index).filter(|_| next == QpState::Sqd) {
                    slot.tells_drained |= m.drained_event == Some(true);
                    self.note_drained(hop.timeline, index, now);
                }
            }
        }
        Ok(self.slot(index).expect("just found").qp.snapshot())
    }

    /// Drops the completions of a queue pair that its reset makes obsolete.
    fn forget_completions(&mut self, cqs: [CqHandle; 2], qpn: Qpn) {
        for (_, cq, completion) in self.completions.iter_mut() {
            if completion.qpn == qpn && cqs.contains(cq) {
                *cq = CqHandle(u32::MAX); // no CQ has this number, so the later look-up drops the completion
            }
        }
    }

    /// Returns an address vector of an HCA with the destination's LID filled in.
    pub(crate) fn resolve(&self, subnet: &Subnet, hca: HcaId, vector: &AddressVector) -> Result<AddressVector, VerbsError> {
        let port = self.port_index(hca, vector.port).ok_or(VerbsError::Invalid)?;
        subnet.resolve(port, vector)
    }

    /// Returns the MTU of a port: that of its link, or without a cable the HCA's maximum. `None` if
    /// the HCA has no such port.
    pub(crate) fn mtu_active(&self, links: &Links, hca: HcaId, number: PortNumber) -> Option<Mtu> {
        let port = self.port_index(hca, number)?;
        Some(links.cabling(port).map_or(self.part(hca).mtu_max, |cabling| cabling.mtu))
    }

    fn check_ranges(&self, links: &Links, hca: HcaId, attributes: &QpSnapshot, m: &QpModification) -> Result<(), VerbsError> {
        let at_most = |value: Option<u8>, limit: u32| value.is_none_or(|value| u32::from(value) <= limit);
        let part = self.part(hca);
        let fits = at_most(m.local_ack_timeout, 31)
            && at_most(m.retry_count, 7)
            && at_most(m.rnr_retry, 7)
            && at_most(m.min_rnr_timer, 31)
            && at_most(m.max_rd_atomic, part.max_rd_atomic)
            && at_most(m.max_dest_rd_atomic, part.max_rd_atomic)
            && m.pkey_index.is_none_or(|index| usize::from(index) < self.pkeys(hca).len())
            && m.dest_qpn.is_none_or(|qpn| qpn.0 < 1 << 24);
        let number = m.port.unwrap_or(attributes.port);
        let mtu_active = self.mtu_active(links, hca, number);
        let port_fits = m.port.is_none() || mtu_active.is_some();
        // In SQD the port may change, but the path MTU stays.
        let kept = (m.port.is_some() && attributes.state == QpState::Sqd).then_some(attributes.path_mtu);
        let mtu_fits = m.path_mtu.or(kept).is_none_or(|mtu| mtu_active.is_some_and(|active| mtu <= active));
        let path_fits = m.address_vector.is_none_or(|vector| vector.port == number && vector.service_level.0 <= 15);
        if fits && port_fits && mtu_fits && path_fits { Ok(()) } else { Err(VerbsError::Invalid) }
    }

    /// Returns a queue pair and its owner without an ownership check.
    pub(crate) fn find_qp(&self, hca: HcaId, qpn: Qpn) -> Option<(ProcessId, QpSnapshot)> {
        let slot = self.slot(self.qp_index(hca, qpn)?)?;
        Some((slot.qp.owner, slot.qp.snapshot()))
    }

    pub(crate) fn query_qp(&self, owner: ProcessId, hca: HcaId, qpn: Qpn) -> Result<QpSnapshot, VerbsError> {
        Ok(self.owned_qp(owner, hca, qpn)?.1.qp.snapshot())
    }

    /// Destroys a queue pair, or detaches `owner` from it. Returns the groups that it leaves.
    pub(crate) fn destroy_qp(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, now: SimTime) -> Result<Vec<Lid>, VerbsError> {
        let (index, _) = self.owned_qp(owner, hca, qpn)?;
        if self.is_in_group(hca, qpn) {
            return Err(VerbsError::Busy);
        }
        Ok(self.leave_qp(index, owner, now))
    }

    /// Opens the receiving side of an extended reliable connection that another process of the
    /// domain created.
    pub(crate) fn open_qp(&mut self, owner: ProcessId, xrcd: XrcdHandle, qpn: Qpn) -> Result<QpSnapshot, VerbsError> {
        let hca = self.verbs.xrcd(owner, xrcd)?.hca;
        let index = self.qp_index(hca, qpn).ok_or(VerbsError::Invalid)?;
        let slot = self.slot_mut(index).filter(|slot| slot.qp.attributes.init.xrcd == Some(xrcd)).ok_or(VerbsError::Invalid)?;
        slot.sharers.push(owner);
        Ok(slot.qp.snapshot())
    }

    /// Detaches a process from a queue pair. The last process removes the queue pair. Returns the
    /// groups that the queue pair leaves.
    fn leave_qp(&mut self, index: u32, owner: ProcessId, now: SimTime) -> Vec<Lid> {
        let Some(slot) = self.slot_mut(index) else { return Vec::new() };
        if let Some(at) = slot.sharers.iter().position(|sharer| *sharer == owner) {
            slot.sharers.remove(at);
        } else if slot.sharers.is_empty() {
            return self.remove_qp(index, now);
        } else {
            slot.qp.owner = slot.sharers.remove(0);
        }
        Vec::new()
    }

    /// Removes all objects of a dead program. Returns the groups that its queue pairs leave.
    pub(crate) fn remove_process(&mut self, owner: ProcessId, now: SimTime) -> Vec<Lid> {
        let mut left = Vec::new();
        for index in 0..self.qps.len() as u32 {
            while self.slot(index).is_some_and(|slot| slot.qp.owner == owner || slot.sharers.contains(&owner)) {
                left.extend(self.leave_qp(index, owner, now));
            }
        }
        self.verbs.remove_owner(owner);
        left
    }

    /// Removes the queue pair at once; later packets for it are dropped. Returns the groups that it
    /// leaves.
    fn remove_qp(&mut self, index: u32, now: SimTime) -> Vec<Lid> {
        self.close_transfers(index, now);
        let Some(mut slot) = self.qps[index as usize].take() else { return Vec::new() };
        if let Some(request) = slot.qp.responder.take_unfinished() {
            self.verbs.put_back(request);
        }
        let QpSnapshot { init, qpn, .. } = slot.qp.attributes;
        let node = &mut self.nodes[slot.qp.hca.0 as usize];
        node.qp_of_qpn[(qpn.0 - QPN_FIRST) as usize] = None;
        Self::forget_context(&mut node.contexts, &slot);
        node.qp_count -= 1;
        self.verbs.use_pd(init.pd, -1);
        self.verbs.use_srq(init.srq, -1);
        self.verbs.use_xrcd(init.xrcd, -1);
        self.verbs.use_cq(init.send_cq, -1);
        self.verbs.use_cq(init.recv_cq, -1);
        self.verbs.multicast.detach_all(slot.qp.hca, qpn).into_iter().collect()
    }

    /// Posts a send request. Errors in the request become completions.
    pub(crate) fn post_send(&mut self, timeline: &mut Timeline, now: SimTime, owner: ProcessId, hca: HcaId, qpn: Qpn, request: SendRequest) {
        let Ok((qp, slot)) = self.owned_qp(owner, hca, qpn) else { return };
        let (epoch, inline_until) = (slot.qp.epoch, slot.inline_until);
        let inline_bytes = request.inline.as_ref().map_or(0, |inline| inline.len);
        let node = &self.nodes[hca.0 as usize];
        let written = now.max(inline_until) + node.inline_time(inline_bytes);
        let at = written + node.part.doorbell;
        if inline_bytes > 0
            && let Some(slot) = self.slot_mut(qp)
        {
            slot.inline_until = written;
        }
        let post = self.posts.insert(Post::Send { qp, epoch, request });
        timeline.push(at, hca.0, Event::Doorbell { post });
    }

    /// Gives a queue pair a permanent receive request: each message uses a copy of `request`. Does
    /// nothing if no queue pair has this number.
    pub(crate) fn receive_always(&mut self, hca: HcaId, qpn: Qpn, request: ReceiveRequest) {
        if let Some(slot) = self.qp_index(hca, qpn).and_then(|index| self.slot_mut(index)) {
            slot.qp.responder.stand_ready(request);
        }
    }

    /// Posts a receive request. Packets that arrive at `now` or later can use it.
    pub(crate) fn post_receive(&mut self, timeline: &mut Timeline, now: SimTime, owner: ProcessId, hca: HcaId, qpn: Qpn, request: ReceiveRequest) {
        let Ok((qp, slot)) = self.owned_qp(owner, hca, qpn) else { return };
        let post = self.posts.insert(Post::Receive { qp, epoch: slot.qp.epoch, request });
        timeline.push(now, hca.0, Event::ReceivePosted { post });
    }

    /// Posts a receive request to a shared queue.
    pub(crate) fn post_srq_receive(&mut self, timeline: &mut Timeline, now: SimTime, owner: ProcessId, srq: SrqHandle, request: ReceiveRequest) {
        let Ok(queue) = self.verbs.srq(owner, srq) else { return };
        let node = queue.hca.0;
        let post = self.posts.insert(Post::SharedReceive { srq, request });
        timeline.push(now, node, Event::ReceivePosted { post });
    }

    /// Checks that a send queue has no outstanding work.
    pub(crate) fn has_sent_all(&self, links: &Links, hca: HcaId, qpn: Qpn) -> bool {
        let Some(index) = self.qp_index(hca, qpn) else { return true };
        let on_its_way = |post: &Post| matches!(post, Post::Send { qp, .. } if *qp == index);
        self.slot(index).is_none_or(|slot| slot.qp.requester.queue_len() == 0)
            && !self.posts.iter().any(on_its_way)
            && !self.is_something_under_way(links, index, qpn)
    }

    /// Checks for packets, payload or completions in flight that may belong to a queue pair.
    /// Packets match by QPN alone.
    pub(super) fn is_something_under_way(&self, links: &Links, index: u32, qpn: Qpn) -> bool {
        links.packets().any(|packet| packet.source == qpn || packet.destination == qpn)
            || self.dma_writes.iter().any(|in_flight| in_flight.is_of(index))
            || self.completions.iter().any(|(_, _, completion)| completion.qpn == qpn)
    }

    /// Removes and returns the receive requests of a queue pair, so that another component can
    /// receive with them. `None` in the middle of a message.
    pub(crate) fn take_receives(&mut self, links: &Links, hca: HcaId, qpn: Qpn) -> Option<Vec<ReceiveRequest>> {
        let index = self.qp_index(hca, qpn)?;
        let on_its_way = |post: &Post| matches!(post, Post::Receive { qp, .. } if *qp == index);
        if self.posts.iter().any(on_its_way) || self.is_something_under_way(links, index, qpn) {
            return None;
        }
        self.slot_mut(index)?.qp.responder.take_all()
    }

    pub(crate) fn on_doorbell(&mut self, hop: &mut Hop<'_>, post: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let Post::Send { qp, epoch, request } = self.posts.take(post) else { unreachable!("doorbells are for sends") };
        let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch) else { return };
        let attributes = slot.qp.attributes;
        let full = slot.qp.requester.queue_len() >= attributes.init.capabilities.max_send_wr as usize;
        let hca = slot.qp.hca;
        let inline_bytes = request.inline.as_ref().map_or(0, |inline| inline.len);
        self.nodes[hca.0 as usize].ring(request.datagram.is_some(), inline_bytes, now);
        let Some(slot) = self.slot_mut(qp) else { return };
        match attributes.state {
            QpState::Error | QpState::Sqe => {
                slot.qp.requester.post(request);
                self.transfers.begin(now);
                self.flush_sends(hop.timeline, qp, now);
            }
            QpState::Rts | QpState::Sqd if !full => {
                let idle = slot.qp.requester.is_idle();
                slot.qp.requester.post(request);
                let is_fetching = slot.fetching;
                slot.fetching |= idle;
                self.transfers.begin(now);
                if is_fetching {
                    return;
                }
                if idle {
                    let at = now + self.nodes[hca.0 as usize].part.send_wqe_fetch;
                    let qp_ref = self.qp_refs.insert((qp, epoch));
                    hop.timeline.push(at, hca.0, Event::WqeFetched { qp_ref });
                } else {
                    self.wake(hop, qp, Side::Requester, memory, now);
                }
            }
            // No program that follows the verbs posts in these states.
            _ => self.fail_fatally(hop.timeline, qp, now),
        }
    }

    pub(crate) fn on_wqe_fetched(&mut self, hop: &mut Hop<'_>, qp_ref: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let (qp, epoch) = self.qp_refs.take(qp_ref);
        if let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch) {
            slot.fetching = false;
            self.wake(hop, qp, Side::Requester, memory, now);
        }
    }

    pub(crate) fn on_queue_resumed(&mut self, hop: &mut Hop<'_>, qp_ref: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let (qp, epoch) = self.qp_refs.take(qp_ref);
        if self.slot(qp).is_some_and(|slot| slot.qp.epoch == epoch) {
            self.wake(hop, qp, Side::Requester, memory, now);
        }
    }

    pub(crate) fn on_receive_posted(&mut self, timeline: &mut Timeline, post: u32, now: SimTime) {
        let (qp, epoch, request) = match self.posts.take(post) {
            Post::Receive { qp, epoch, request } => (qp, epoch, request),
            Post::SharedReceive { srq, request } => return self.verbs.post_srq_receive(srq, request),
            Post::Send { .. } => unreachable!("receives have their own event"),
        };
        let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch) else { return };
        let attributes = slot.qp.attributes;
        let full = slot.qp.responder.queue_len() >= attributes.init.capabilities.max_recv_wr as usize;
        match attributes.state {
            QpState::Error => {
                slot.qp.responder.post(request);
                self.flush_receives(timeline, qp, now);
            }
            QpState::Reset => self.fail_fatally(timeline, qp, now),
            _ if full => self.fail_fatally(timeline, qp, now),
            _ => slot.qp.responder.post(request),
        }
    }
}

/// Replaces the fields that a side of an extended reliable connection does not use with defaults.
fn parts_of_type(init: QpInit) -> QpInit {
    let (pd, cq) = (PdHandle::default(), CqHandle::default());
    match init.qp_type {
        QpType::XrcSend => QpInit { recv_cq: cq, ..init },
        QpType::XrcRecv => QpInit { pd, send_cq: cq, recv_cq: cq, ..init },
        QpType::Rc | QpType::Uc | QpType::Ud => init,
    }
}
