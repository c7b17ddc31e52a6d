//! Receive queues from which many peers take requests themselves, in wall pace: shared receive
//! queues, and queues of UD queue pairs. The engine takes them over and gives them back as in
//! `crate::realtime::receive_queues`. The engine keeps a queue as long as it has a message for it from any
//! sender.

use crate::completion::record::CqRecord;
use crate::process::image::Mapped;
use crate::realtime::receive_queues::{ENTRIES_BETWEEN, Open, QueueName, ReceiveQueue, in_queue};
use crate::realtime::room::DataPlane;
use rustix::fd::AsFd;
use softband_ipc::post::{PostRecord, kind};
use softband_model::verbs::SharedReceiveQueue;
use softband_model::verbs::api::{QpSnapshot, ReceiveRequest, SrqInit};
use softband_shm_transport::queues::{ReceiveQueueHeader, mode, receive_queue_bytes, split_consumer};
use softband_shm_transport::quiescence::Transfers;
use softband_shm_transport::tables::of_shared_queue;
use softband_sim::SimTime;
use softband_types::{HcaId, QpState, Qpn, SrqHandle};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of a queue pair.
type Name = (HcaId, Qpn);

/// Users, senders and states of the shared queues.
#[derive(Default)]
pub(crate) struct SharedQueues {
    /// Queue pairs that take from each queue.
    users: BTreeMap<SrqHandle, BTreeSet<Name>>,
    /// Number of entries for which the file has room. The queue may grow up to this number.
    rooms: BTreeMap<SrqHandle, u32>,
    /// Queues that the engine has.
    held: BTreeSet<QueueName>,
    /// Queues for which the engine has messages, by sender.
    aims: BTreeMap<Name, BTreeSet<QueueName>>,
    aside: Vec<Aside>,
}

/// A request that a thread was taking during a takeover, and for which the engine waited in vain.
/// The request's memory may change until the thread continues, finds the queue taken over, and
/// gives up. Nobody else gets the request before that.
struct Aside {
    name: QueueName,
    request: ReceiveRequest,
    process: usize,
    /// Transfers of that process at the takeover.
    transfers: Transfers,
}

impl SharedQueues {
    pub(crate) fn add_user(&mut self, srq: SrqHandle, user: Name) {
        self.users.entry(srq).or_default().insert(user);
    }

    pub(crate) fn remove_user(&mut self, user: Name) {
        for users in self.users.values_mut() {
            users.remove(&user);
        }
    }

    /// Forgets a queue, because the engine no longer handles it.
    pub(crate) fn forget_queue(&mut self, name: QueueName) {
        self.held.remove(&name);
        self.aside.retain(|aside| aside.name != name);
    }

    pub(crate) fn forget_aims(&mut self, sender: Name) {
        self.aims.remove(&sender);
    }
}

impl DataPlane<'_> {
    /// Creates the queue that peers reach for a new shared receive queue, which may grow to `most`
    /// requests.
    pub(crate) fn make_shared_queue(&mut self, process: usize, hca: HcaId, srq: SrqHandle, init: &SrqInit, most: u32) {
        let delivers = init.xrc.is_none_or(|xrc| self.cqs.get(xrc.cq.0).is_some_and(|cq| cq.takes_remote_cqes()));
        if !self.scheduler.is_wall() || !delivers {
            return;
        }
        let (entries, room, sges) = (entries_for(init.max_wr), entries_for(most.max(init.max_wr)), init.max_sge);
        let Some(offset) = self.processes[process].shared_mut().allocate_queue(receive_queue_bytes(room, sges)) else { return };
        let since = self.scheduler.now();
        let queue = ReceiveQueue { process, offset, entries, sges, since, by_many: true, left: 0 };
        self.realtime.receive_queues.all.insert(QueueName::Shared(srq), queue);
        self.realtime.receive_queues.shared.rooms.insert(srq, room);
        match self.open_queue(QueueName::Shared(srq)) {
            Some(open) => {
                open.header().since_ps.store(since.as_picos(), Ordering::SeqCst);
                open.header().begin_epoch(self.realtime.direct.next_epoch());
                self.publish_shared_queue(srq, hca, init, &queue);
            }
            None => self.drop_shared_queue(srq),
        }
    }

    /// Publishes the location of a shared receive queue in the table.
    pub(crate) fn publish_shared_queue(&mut self, srq: SrqHandle, hca: HcaId, init: &SrqInit, queue: &ReceiveQueue) {
        let Some(index) = self.realtime.direct.take_index() else { return };
        if let Some(xrc) = init.xrc {
            self.note_cq_producer(index, xrc.cq, false);
        }
        let owner = &self.processes[queue.process];
        self.realtime.direct.shared.insert(srq, (index, owner.number()));
        let entry = self.realtime.direct.qp(index);
        let set = |field: &AtomicU32, value: u32| field.store(value, Ordering::SeqCst);
        for unused in [&entry.access, &entry.state, &entry.peer, &entry.srq, &entry.is_sole_producer] {
            set(unused, 0);
        }
        set(&entry.hca, hca.0);
        set(&entry.pd, init.pd.0);
        // If messages name the queue (XRC), it has its own CQ, which gets their completions.
        let remote_cqe_ring = init.xrc.and_then(|xrc| self.cqs.get(xrc.cq.0));
        set(&entry.xrcd, init.xrc.map_or(0, |xrc| xrc.xrcd.0));
        set(&entry.dest_qpn, SharedReceiveQueue::number_of(srq));
        set(&entry.remote_cqe_entries, remote_cqe_ring.map_or(0, CqRecord::remote_cqe_entries));
        set(&entry.pid, owner.pid() as u32);
        set(&entry.file, owner.shared().memory_file_number());
        set(&entry.receive_entries, queue.entries);
        set(&entry.receive_sges, queue.sges);
        entry.receive_queue.store(queue.offset, Ordering::SeqCst);
        entry.remote_cqe_ring.store(remote_cqe_ring.map_or(0, CqRecord::remote_cqe_ring), Ordering::SeqCst);
        set(&entry.qpn, of_shared_queue(srq.0));
        self.realtime.direct.note_changed(index);
    }

    /// Removes a shared receive queue from the table. When this returns, nobody takes from the
    /// queue.
    pub(crate) fn withdraw_shared_queue(&mut self, srq: SrqHandle) {
        if let Some((index, _)) = self.realtime.direct.shared.remove(&srq) {
            self.realtime.direct.qp(index).qpn.store(0, Ordering::SeqCst);
            self.realtime.direct.note_changed(index);
            self.realtime.direct.cq_producers.remove(index);
            self.await_users_of_removed_entries();
            self.realtime.direct.free.push(index);
        }
    }

    /// Notes a new queue pair that may take from a shared queue.
    pub(crate) fn note_user_of_shared_queue(&mut self, hca: HcaId, qp: &QpSnapshot) {
        let Some(srq) = qp.init.srq.filter(|srq| self.realtime.direct.shared_entry_of(*srq) != 0) else { return };
        self.realtime.receive_queues.shared.add_user(srq, (hca, qp.qpn));
    }

    /// Drops a destroyed shared receive queue. When this returns, nobody takes from the queue.
    pub(crate) fn drop_shared_queue(&mut self, srq: SrqHandle) {
        self.withdraw_shared_queue(srq);
        let shared = &mut self.realtime.receive_queues.shared;
        shared.users.remove(&srq);
        shared.forget_queue(QueueName::Shared(srq));
        let room = shared.rooms.remove(&srq).unwrap_or(0);
        if let Some(queue) = self.realtime.receive_queues.all.remove(&QueueName::Shared(srq)) {
            self.free_queue(&queue, room);
        }
    }

    /// Takes over the requests of a queue. From now on the engine receives for all its users.
    pub(crate) fn take_over_queue_of_many(&mut self, name: QueueName) {
        let Some(open) = self.open_queue(name) else { return };
        self.realtime.receive_queues.shared.held.insert(name);
        if !open.memory().take_over() {
            return;
        }
        self.come_after_peers(&open);
        let header = open.header();
        let count = open.count();
        if let QueueName::Shared(srq) = name
            && (header.limit.swap(0, Ordering::SeqCst) == 0 || count < self.world.srq_limit(srq))
        {
            self.world.reach_srq_limit(srq); // the thread that reached the limit may not have reported it yet
        }
        let mut requests: VecDeque<_> = open.memory().drain().into_iter().map(request_of).collect();
        if let Some((process, transfers)) = self.consumer_of(name, header)
            && let Some(request) = requests.pop_front()
        {
            self.realtime.receive_queues.shared.aside.push(Aside { name, request, process, transfers });
        }
        match name {
            QueueName::Own(hca, qpn) => self.world.put_receives(hca, qpn, requests),
            QueueName::Shared(srq) => self.world.put_shared_receives(srq, requests),
        }
    }

    /// Returns the process that is still taking a request, with its transfers. A lying process
    /// holds back one request, once.
    fn consumer_of(&self, name: QueueName, header: &ReceiveQueueHeader) -> Option<(usize, Transfers)> {
        let (locked_in, pid) = split_consumer(header.consumer.0.load(Ordering::Acquire));
        let is_of_this_epoch = mode::epoch_of(locked_in) == mode::epoch_of(header.mode.load(Ordering::Relaxed));
        let consumer = self.processes.living().find(|process| is_of_this_epoch && process.pid() as u32 == pid)?;
        let process = consumer.index();
        let is_known = self.realtime.receive_queues.shared.aside.iter().any(|aside| aside.name == name && aside.process == process);
        let transfers = consumer.transfers();
        (!is_known && !consumer.has_ended(&transfers)).then_some((process, transfers))
    }

    /// Restores the requests whose memory no stalled thread can change any more.
    fn restore_aside(&mut self) {
        let mut all = std::mem::take(&mut self.realtime.receive_queues.shared.aside);
        let has_ended = |aside: &mut Aside| {
            let process = &self.processes[aside.process];
            !process.is_attached() || process.has_ended(&aside.transfers)
        };
        let ended: Vec<_> = all.extract_if(.., has_ended).collect();
        self.realtime.receive_queues.shared.aside = all;
        for Aside { name, request, .. } in ended {
            self.take_over_queue_of_many(name);
            match name {
                QueueName::Own(hca, qpn) => self.world.put_back_receive(hca, qpn, request),
                QueueName::Shared(srq) => self.world.put_back_shared_receive(srq, request),
            }
        }
    }

    /// Notes that a sender has a message for a queue of many, and takes the queue over.
    pub(crate) fn aim_at_queue_of_many(&mut self, sender: Name, name: QueueName) {
        self.realtime.receive_queues.shared.aims.entry(sender).or_default().insert(name);
        self.take_over_queue_of_many(name);
    }

    /// Returns whether a sender without work at the engine must wait for the return of a queue.
    pub(crate) fn awaits_queue_of_many(&self, sender: Name) -> bool {
        let shared = &self.realtime.receive_queues.shared;
        let mut aims = shared.aims.get(&sender).into_iter().flatten();
        aims.any(|name| shared.held.contains(name) && !self.is_kept(*name))
    }

    /// Returns whether the engine keeps a queue, even without messages for it.
    fn is_kept(&self, name: QueueName) -> bool {
        match name {
            QueueName::Own(hca, qpn) => !self.world.find_qp(hca, qpn).is_some_and(|(_, qp)| matches!(qp.state, QpState::Rtr | QpState::Rts)),
            QueueName::Shared(_) => false,
        }
    }

    /// Returns the queues for which the engine has no messages any more.
    pub(crate) fn queues_to_return(&mut self) -> Vec<QueueName> {
        self.restore_aside();
        self.realtime.receive_queues.shared.held.iter().copied().collect()
    }

    fn has_messages_for(&self, name: QueueName) -> bool {
        let shared = &self.realtime.receive_queues.shared;
        let mut senders = shared.aims.iter().filter(|(_, aims)| aims.contains(&name)).map(|(sender, _)| *sender);
        let is_at_work = |sender: Name| {
            let owner = self.world.find_qp(sender.0, sender.1);
            owner.is_some_and(|(owner, _)| !self.has_done_all_of(owner.0 as usize, sender))
        };
        let is_under_way = || match name {
            QueueName::Own(hca, qpn) => !self.world.is_receive_queue_at_rest(hca, qpn),
            QueueName::Shared(srq) => {
                let targets = self.world.targets_of(srq);
                !self.world.is_shared_queue_at_rest(srq, shared.users.get(&srq).into_iter().flatten().chain(&targets))
            }
        };
        senders.any(is_at_work) || is_under_way()
    }

    /// Begins to give a queue back, if the engine has no message for it. The caller then proceeds
    /// as after [`DataPlane::begin_return`].
    pub(crate) fn begin_return_of_many(&mut self, name: QueueName) -> Option<Open> {
        if self.is_kept(name) || self.has_messages_for(name) {
            return None;
        }
        let open = self.open_queue(name)?;
        if !self.processes[open.queue.process].is_attached() || open.header().mode() != mode::ENGINE {
            // The owner has ended or lies. No program must wait for it.
            self.realtime.receive_queues.shared.held.remove(&name);
            return None;
        }
        open.memory().begin_return();
        self.await_quiescence();
        Some(open)
    }

    /// Gives a queue back to the programs, unless the last posts contained a message for it.
    pub(crate) fn end_return_of_many(&mut self, name: QueueName, open: &Open) {
        if !open.memory().is_returning() || self.is_kept(name) || self.has_messages_for(name) {
            open.memory().keep();
            return;
        }
        let requests = match name {
            QueueName::Own(hca, qpn) => self.world.take_receives(hca, qpn).unwrap_or_default(),
            QueueName::Shared(srq) => self.world.take_shared_receives(srq, open.queue.entries as usize),
        };
        // Completions of the engine precede those of peers, although the World may be ahead of
        // their clock.
        let since = SimTime::from_picos(self.scheduler.now().max(self.world.now()).as_picos() + 1).max(open.queue.since);
        if let Some(queue) = self.realtime.receive_queues.all.get_mut(&name) {
            queue.since = since;
        }
        let limit = if let QueueName::Shared(srq) = name { self.world.srq_limit(srq) } else { 0 };
        let (memory, epoch) = (open.memory(), self.realtime.direct.next_epoch());
        memory.give_back(memory.next_counter(), requests.iter().map(in_queue), since.as_picos(), limit, epoch);
        self.realtime.receive_queues.shared.held.remove(&name);
    }

    /// Raises the event of a reached limit. A program reported that the limit may be reached, or
    /// ended before it could report.
    pub(crate) fn look_at_limit(&mut self, srq: SrqHandle) {
        if self.world.srq_limit(srq) == 0 {
            return;
        }
        let Some(open) = self.open_queue(QueueName::Shared(srq)) else { return };
        let is_reached = || open.header().limit.load(Ordering::SeqCst) == 0 || open.count() < self.world.srq_limit(srq);
        if open.header().mode() == mode::SHARED && is_reached() {
            open.header().limit.store(0, Ordering::SeqCst);
            self.world.reach_srq_limit(srq);
        }
    }

    pub(crate) fn look_at_limits(&mut self) {
        let all: Vec<_> = self.realtime.receive_queues.shared.rooms.keys().copied().collect();
        all.into_iter().for_each(|srq| self.look_at_limit(srq));
    }

    /// Releases the consumer locks of an ended process. Other threads take the requests that it had
    /// not finished.
    pub(crate) fn release_consumer_locks_of(&self, pid: u32) {
        for queue in self.realtime.receive_queues.all.values().filter(|queue| queue.by_many) {
            let Some(file) = self.processes[queue.process].shared().memory_file() else { continue };
            let Some(mapped) = Mapped::new(file.as_fd(), queue.offset, size_of::<ReceiveQueueHeader>()) else { continue };
            // SAFETY: the mapping begins with the header, which consists of atomics.
            let consumer = unsafe { &(*mapped.base().cast::<ReceiveQueueHeader>()).consumer.0 };
            let seen = consumer.load(Ordering::Acquire);
            if split_consumer(seen).1 == pid {
                let _ = consumer.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Resizes a shared queue to hold up to `max_wr` requests. The engine has the queue.
    pub(crate) fn resize_shared_queue(&mut self, srq: SrqHandle, max_wr: u32) {
        let room = self.realtime.receive_queues.shared.rooms.get(&srq).copied().unwrap_or(0);
        let Some(queue) = self.realtime.receive_queues.all.get_mut(&QueueName::Shared(srq)) else { return };
        // The queue never shrinks. The program may post as many requests as before until it gets
        // the new size.
        queue.entries = queue.entries.max(entries_for(max_wr)).min(room);
        self.realtime.direct.resize_shared_queue(srq, queue.entries);
    }
}

fn entries_for(max_wr: u32) -> u32 {
    (max_wr + ENTRIES_BETWEEN).next_power_of_two()
}

fn request_of((wr_id, list): (u64, Vec<softband_ipc::post::PostSge>)) -> ReceiveRequest {
    let record = PostRecord { kind: kind::SRQ_RECEIVE, wr_id, ..bytemuck::Zeroable::zeroed() };
    crate::protocol::convert::receive_request(&record, &list)
}
