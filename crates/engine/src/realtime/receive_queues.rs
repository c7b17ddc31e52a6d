//! Receive queues from which peers take requests themselves, in wall pace (`softband_shm_transport::queues`):
//! their takeover by the engine, and their return.
//!
//! A program that carries out a message takes the receive request from the shared queue. If the
//! engine has to handle a message or an error of the queue pair, it takes over the whole queue.
//! When it has no such work left, it gives the queue back. For queues of several queue pairs see
//! `crate::realtime::shared_receive_queues`.

use crate::process::image::Mapped;
use crate::process::processes::Processes;
use crate::realtime::direct::named_peer;
use crate::realtime::room::DataPlane;
use rustix::fd::AsFd;
use softband_ipc::post::{PostRecord, PostSge, kind};
use softband_model::verbs::api::{QpSnapshot, ReceiveRequest, ScatterGatherEntry, SendRequest};
use softband_shm_transport::queue_memory::{QueueMemory, count_of};
use softband_shm_transport::queues::{ReceiveQueueHeader, mode, receive_queue_bytes};
use softband_sim::SimTime;
use softband_types::{HcaId, QpState, QpType, Qpn, SrqHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Fewest entries between the next entry to fill and the next entry to take, even in a full queue.
/// Processors exchange whole cache lines.
pub(crate) const ENTRIES_BETWEEN: u32 = 8;

/// Most times that the engine abandons a queue to stalled senders. Each time costs memory.
/// Afterwards the engine keeps the queue.
const LEFT_MAX: u32 = 8;

/// Location and size of a receive queue.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveQueue {
    pub(crate) process: usize,
    pub(crate) offset: u64,
    pub(crate) entries: u32,
    pub(crate) sges: u32,
    /// Time in its header. The engine keeps a copy, because the owner could change the header.
    pub(crate) since: SimTime,
    /// Set if several threads may take from it, one at a time.
    pub(crate) by_many: bool,
    /// Number of times that the engine abandoned its place to a stalled sender.
    pub(crate) left: u32,
}

/// Owner of the requests in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueName {
    Own(HcaId, Qpn),
    Shared(SrqHandle),
}

/// All receive queues, and the senders whose work the engine has.
#[derive(Default)]
pub(crate) struct ReceiveQueues {
    pub(super) all: BTreeMap<QueueName, ReceiveQueue>,
    /// Number of requests that the engine got from each sender.
    given: BTreeMap<(HcaId, Qpn), u32>,
    pub(super) busy: BTreeSet<(HcaId, Qpn)>,
    pub(super) shared: crate::realtime::shared_receive_queues::SharedQueues,
}

impl ReceiveQueues {
    pub(crate) fn get(&self, hca: HcaId, qpn: Qpn) -> Option<ReceiveQueue> {
        self.all.get(&QueueName::Own(hca, qpn)).copied()
    }

    /// Maps a queue, if it exists.
    pub(super) fn open(&self, processes: &Processes, name: QueueName) -> Option<Open> {
        let queue = *self.all.get(&name)?;
        let file = processes[queue.process].shared().memory_file()?;
        let mapped = Mapped::new(file.as_fd(), queue.offset, receive_queue_bytes(queue.entries, queue.sges))?;
        Some(Open { mapped, queue })
    }

    /// Forgets a sender, because the engine has none of its work left.
    fn forget_sender(&mut self, sender: (HcaId, Qpn)) {
        self.busy.remove(&sender);
        self.shared.forget_aims(sender);
    }
}

/// A queue while the engine maps it.
pub(crate) struct Open {
    mapped: Mapped,
    pub(super) queue: ReceiveQueue,
}

impl Open {
    pub(crate) fn memory(&self) -> QueueMemory {
        // SAFETY: the mapping has the size of this queue, and `Open` outlives the result, which no
        // caller keeps. Entries are a power of two.
        unsafe { QueueMemory::new(self.mapped.base(), self.queue.entries, self.queue.sges) }
    }

    pub(crate) fn header(&self) -> &ReceiveQueueHeader {
        // SAFETY: the mapping begins with the header, which consists of atomics.
        unsafe { &*self.mapped.base().cast::<ReceiveQueueHeader>() }
    }

    /// Returns the number of requests in the queue.
    pub(crate) fn count(&self) -> u32 {
        let (produced, consumed) = self.memory().counters();
        count_of(produced, consumed, self.queue.entries)
    }
}

/// Returns a request as it lies in a queue.
pub(crate) fn in_queue(request: &ReceiveRequest) -> (u64, impl ExactSizeIterator<Item = PostSge>) {
    let entry = |entry: &ScatterGatherEntry| PostSge { address: entry.address, len_bytes: entry.len_bytes, lkey: entry.lkey.0 };
    (request.wr_id, request.entries.iter().map(entry))
}

impl DataPlane<'_> {
    /// Creates the shared queue of a new queue pair, if its type and its CQ allow this.
    pub(crate) fn make_receive_queue(&mut self, process: usize, hca: HcaId, qp: &QpSnapshot) {
        let caps = qp.init.capabilities;
        let by_many = qp.init.qp_type == QpType::Ud;
        let receives = (by_many || matches!(qp.init.qp_type, QpType::Rc | QpType::Uc)) && qp.init.srq.is_none() && caps.max_recv_wr > 0;
        let delivers = self.cqs.get(qp.init.recv_cq.0).is_some_and(|cq| cq.takes_remote_cqes());
        if !self.scheduler.is_wall() || !receives || !delivers {
            return;
        }
        let (entries, sges) = ((caps.max_recv_wr + ENTRIES_BETWEEN).next_power_of_two(), caps.max_recv_sge);
        let Some(offset) = self.processes[process].shared_mut().allocate_queue(receive_queue_bytes(entries, sges)) else { return };
        self.realtime
            .receive_queues
            .all
            .insert(QueueName::Own(hca, qp.qpn), ReceiveQueue { process, offset, entries, sges, since: SimTime::ZERO, by_many, left: 0 });
        self.restart_receive_queue(hca, qp.qpn);
    }

    /// Drops the queue of a destroyed queue pair.
    pub(crate) fn drop_receive_queue(&mut self, hca: HcaId, qpn: Qpn) {
        self.realtime.receive_queues.given.remove(&(hca, qpn));
        self.realtime.receive_queues.forget_sender((hca, qpn));
        self.realtime.receive_queues.shared.remove_user((hca, qpn));
        self.realtime.receive_queues.shared.forget_queue(QueueName::Own(hca, qpn));
        if let Some(queue) = self.realtime.receive_queues.all.remove(&QueueName::Own(hca, qpn)) {
            self.free_queue(&queue, queue.entries);
        }
    }

    /// Frees the place of a queue, unless a process on which the engine gave up may still write
    /// there.
    pub(crate) fn free_queue(&mut self, queue: &ReceiveQueue, entries: u32) {
        if !self.processes.living().any(|process| process.is_attached() && process.is_held_up()) {
            self.processes[queue.process].shared_mut().free_queue(queue.offset, receive_queue_bytes(entries, queue.sges));
        }
    }

    pub(super) fn open_queue(&self, name: QueueName) -> Option<Open> {
        self.realtime.receive_queues.open(self.processes, name)
    }

    /// Empties the queue of a new or reset queue pair. Only later completions belong to the queue
    /// pair.
    pub(crate) fn restart_receive_queue(&mut self, hca: HcaId, qpn: Qpn) {
        self.realtime.receive_queues.given.remove(&(hca, qpn));
        self.realtime.direct.set_done(hca, qpn, 0);
        self.leave_to_the_held_up(hca, qpn);
        self.note_since(hca, qpn, self.scheduler.now());
        let Some(open) = self.open_queue(QueueName::Own(hca, qpn)) else { return };
        let header = open.header();
        header.since_ps.store(self.scheduler.now().as_picos(), Ordering::SeqCst);
        header.produced.0.store(header.consumed.0.load(Ordering::SeqCst), Ordering::SeqCst);
        header.begin_epoch(self.realtime.direct.next_epoch());
        self.realtime.receive_queues.shared.forget_queue(QueueName::Own(hca, qpn));
    }

    /// Moves the queue to another place if its sender is stalled in a transfer on which the engine
    /// gave up. When that sender continues, it takes a request by a counter that nobody else may
    /// then use. The engine never uses the former place again.
    fn leave_to_the_held_up(&mut self, hca: HcaId, qpn: Qpn) {
        let Some(queue) = self.realtime.receive_queues.get(hca, qpn).filter(|queue| !queue.by_many) else { return };
        let sender = self.realtime.direct.fitted_sender_of((hca, qpn)).and_then(|(hca, qpn)| self.world.find_qp(hca, qpn));
        if !sender.is_some_and(|(owner, _)| self.processes[owner.0 as usize].is_held_up()) {
            return;
        }
        if let Some(left) = self.open_queue(QueueName::Own(hca, qpn)) {
            left.header().set_mode(mode::MOVING); // a thread that finds this mode reads the new place from the table
        }
        let bytes = receive_queue_bytes(queue.entries, queue.sges);
        let place = if queue.left < LEFT_MAX { self.processes[queue.process].shared_mut().allocate_queue(bytes) } else { None };
        match place {
            Some(offset) => self.realtime.receive_queues.all.insert(QueueName::Own(hca, qpn), ReceiveQueue { offset, left: queue.left + 1, ..queue }),
            None => self.realtime.receive_queues.all.remove(&QueueName::Own(hca, qpn)), // all requests then go through the engine
        };
        if let Some(open) = self.open_queue(QueueName::Own(hca, qpn)) {
            open.header().set_mode(mode::MOVING); // until the queue holds its requests
        }
        self.publish_queue_pair(hca, qpn);
    }

    fn note_since(&mut self, hca: HcaId, qpn: Qpn, since: SimTime) {
        if let Some(queue) = self.realtime.receive_queues.all.get_mut(&QueueName::Own(hca, qpn)) {
            queue.since = since;
        }
    }

    /// Waits for threads that still use a queue after its takeover. Completions of peers precede
    /// later completions of the engine.
    pub(crate) fn come_after_peers(&mut self, open: &Open) {
        self.await_quiescence();
        self.scheduler.set_wall_clock(self.world.now());
        self.scheduler.advance_to(SimTime::from_picos(open.queue.since.as_picos() + 1));
    }

    /// Takes over the requests of a shared queue. From now on the engine receives for this queue
    /// pair.
    pub(crate) fn take_over_receive_queue(&mut self, hca: HcaId, qpn: Qpn) {
        let Some(open) = self.open_queue(QueueName::Own(hca, qpn)) else { return };
        if open.queue.by_many {
            return self.take_over_queue_of_many(QueueName::Own(hca, qpn));
        }
        if !open.memory().take_over() {
            return;
        }
        self.come_after_peers(&open);
        let owner = self.processes[open.queue.process].number();
        // This time is not later than that of requests that follow by the ring. Otherwise those
        // would come first.
        let at = self.world.now();
        for (wr_id, list) in open.memory().drain() {
            let record = PostRecord { kind: kind::RECEIVE, hca: hca.0, object: qpn.0, wr_id, ..bytemuck::Zeroable::zeroed() };
            self.world.post_receive(at, owner, hca, qpn, crate::protocol::convert::receive_request(&record, &list));
        }
    }

    /// Notes work that a queue pair gave to the engine, and takes over the receive queues of its
    /// receivers.
    pub(crate) fn note_given(&mut self, hca: HcaId, qp: &QpSnapshot, send: Option<&SendRequest>, takes_receive: bool) {
        if !self.scheduler.is_wall() {
            return;
        }
        let sender = (hca, qp.qpn);
        let given = self.realtime.receive_queues.given.entry(sender).or_default();
        *given = given.wrapping_add(1);
        self.realtime.receive_queues.busy.insert(sender);
        let receivers = match send.and_then(|send| send.datagram.as_ref()) {
            Some(to) => self.world.datagram_receivers(to, (hca, qp)),
            None => named_peer(self.world, hca, qp).filter(|_| takes_receive).into_iter().collect(),
        };
        for (hca, qpn) in receivers {
            let receiver = self.world.find_qp(hca, qpn).map(|(_, receiver)| receiver.init);
            let named = |xrcd| self.world.queue_of_domain(xrcd, send?.xrc_srq?).map(|(srq, _)| srq);
            let shared = receiver.and_then(|receiver| receiver.srq.or_else(|| receiver.xrcd.and_then(named)));
            let name = shared.map_or(QueueName::Own(hca, qpn), QueueName::Shared);
            if self.realtime.receive_queues.all.get(&name).is_some_and(|queue| queue.by_many) {
                self.aim_at_queue_of_many(sender, name);
            } else {
                self.take_over_receive_queue(hca, qpn);
            }
        }
    }

    /// Returns whether the engine has finished all work that it got from a sender of this process.
    pub(crate) fn has_done_all_of(&self, process: usize, (hca, qpn): (HcaId, Qpn)) -> bool {
        let nothing_held = !self.processes[process].holds_sends() && !self.processes[process].shared().has_posts();
        nothing_held && self.world.has_sent_all(hca, qpn)
    }

    /// Returns the queue pairs that gave work to the engine.
    pub(crate) fn busy_senders(&self) -> Vec<(HcaId, Qpn)> {
        self.realtime.receive_queues.busy.iter().copied().collect()
    }

    /// Checks a queue pair that gave work to the engine. Returns its peer, if any, once the engine
    /// has done all work. Returns `None` while the engine has work left.
    pub(crate) fn finish_work_of(&mut self, (hca, qpn): (HcaId, Qpn)) -> Option<Option<(HcaId, Qpn)>> {
        let Some((owner, qp)) = self.world.find_qp(hca, qpn) else {
            self.realtime.receive_queues.forget_sender((hca, qpn));
            return None;
        };
        if !self.has_done_all_of(owner.0 as usize, (hca, qpn)) {
            return None;
        }
        // The states of both sides show errors before posters see that all requests are done.
        self.publish_queue_pair(hca, qpn);
        if let Some((peer_hca, peer_qpn)) = named_peer(self.world, hca, &qp) {
            self.publish_queue_pair(peer_hca, peer_qpn);
        }
        Some(named_peer(self.world, hca, &qp).filter(|_| qp.state == QpState::Rts))
    }

    /// Lets a queue pair without work at the engine go on by itself.
    pub(crate) fn release_sender(&mut self, (hca, qpn): (HcaId, Qpn)) {
        if self.awaits_queue_of_many((hca, qpn)) {
            return; // the sender would only give the engine more work
        }
        self.realtime.receive_queues.forget_sender((hca, qpn));
        let given = self.realtime.receive_queues.given.get(&(hca, qpn)).copied().unwrap_or(0);
        self.realtime.direct.set_done(hca, qpn, given);
    }

    /// Begins to give a queue back to the programs. Returns `None` if the programs have it or can
    /// not get it. Else the caller carries out all posts so far and runs the World, before it calls
    /// [`DataPlane::end_return`]. Earlier posts of the owner come first, and posts of others come
    /// before the World continues.
    pub(crate) fn begin_return(&mut self, (hca, qpn): (HcaId, Qpn)) -> Option<Open> {
        let open = self.open_queue(QueueName::Own(hca, qpn))?;
        let receives = self.world.find_qp(hca, qpn).is_some_and(|(_, qp)| matches!(qp.state, QpState::Rtr | QpState::Rts));
        if !receives || !self.processes[open.queue.process].is_attached() || open.header().mode() != mode::ENGINE {
            return None;
        }
        open.memory().begin_return();
        self.await_quiescence();
        Some(open)
    }

    /// Gives the queue back to the programs. Returns false if this is not possible now.
    pub(crate) fn end_return(&mut self, (hca, qpn): (HcaId, Qpn), open: &Open) -> bool {
        // The ring may have contained a send to this queue pair.
        let requests = if open.memory().is_returning() { self.world.take_receives(hca, qpn) } else { None };
        let Some(requests) = requests else {
            open.memory().keep();
            return false;
        };
        self.leave_to_the_held_up(hca, qpn);
        self.fill_receive_queue(hca, qpn, requests);
        true
    }

    /// Fills a queue with these requests and gives it back to the programs.
    fn fill_receive_queue(&mut self, hca: HcaId, qpn: Qpn, requests: Vec<ReceiveRequest>) {
        let Some(open) = self.open_queue(QueueName::Own(hca, qpn)) else { return self.world.put_receives(hca, qpn, requests) };
        // Completions of the engine precede those of peers, although the World may be ahead of
        // their clock.
        let since = SimTime::from_picos(self.scheduler.now().max(self.world.now()).as_picos() + 1).max(open.queue.since);
        self.note_since(hca, qpn, since);
        open.memory().give_back(0, requests.iter().map(in_queue), since.as_picos(), 0, self.realtime.direct.next_epoch());
    }
}
