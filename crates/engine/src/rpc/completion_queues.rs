//! Completion queues: their rings in the program's memory, their new entries, and their events.

use crate::engine::{Engine, Event, Pace};
use crate::host::objects::{Object, drop_events_of};
use crate::process::image::Mapped;
use crate::realtime::notifications::Armable;
use crate::rpc::calls::Caller;
use crate::rpc::convert;
use crate::rpc::verbs::abi_lid;
use rustix::fd::AsFd;
use softband_ipc::calls::{self, Count, CreateCqReply, Handle};
use softband_ipc::ring::{Cqe, flags};
use softband_model::verbs::api::Completion;
use softband_shm_transport::queues::{RemoteCqeRingHeader, remote_cqe_ring_bytes};
use softband_sim::SimTime;
use softband_types::{CqHandle, HcaId, ProcessId, WcStatus};
use std::sync::atomic::Ordering;

/// The ring and the events of a completion queue.
pub(crate) struct CqRecord {
    pub(crate) process: usize,
    pub(crate) hca: u32,
    offset: usize,
    capacity: u32,
    channel: u32,
    cookie: u64,
    events: u64,
    /// Rings of former sizes. The program still takes the remaining entries from them.
    former: Vec<(usize, u32)>,
    /// In wall pace: offset of the ring into which peers put completions, or 0 for none, and its
    /// size.
    pub(crate) remote_cqe_ring: u64,
    pub(crate) remote_cqe_entries: u32,
    /// Arming state of a queue with such a ring and a channel.
    pub(crate) armable: Option<Armable>,
    /// Events that the program has not read yet.
    pub(crate) unread: u32,
}

impl CqRecord {
    /// Returns the offset of the ring in the shared file, in bytes.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
    /// Returns the completion channel of the queue's events, or 0.
    pub(crate) fn channel(&self) -> u32 {
        self.channel
    }
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }
}

impl Engine {
    pub(crate) fn create_cq(&mut self, caller: Caller, cq: &calls::CreateCq) -> Result<CreateCqReply, i32> {
        let Caller { process, owner, .. } = caller;
        let hca = self.own_hca(process, cq.hca)?;
        if cq.channel != 0 {
            self.held(process, cq.channel)?;
        }
        let handle = self.world.create_cq(owner, hca, cq.entries).map_err(convert::errno_of)?;
        let capacity = cq.entries.max(1);
        let Some(offset) = self.processes[process].shared.allocate_ring(capacity) else {
            let _ = self.world.destroy_cq(owner, handle);
            return Err(libc::ENOMEM);
        };
        let takes_remote_cqes = self.pace == Pace::Wall && cq.own_only == 0;
        let (remote_cqe_ring, remote_cqe_entries, armable) =
            takes_remote_cqes.then(|| self.make_remote_cqe_ring(process, capacity, cq.channel != 0)).flatten().unwrap_or((0, 0, None));
        let record = CqRecord {
            process,
            hca: cq.hca,
            offset,
            capacity,
            channel: cq.channel,
            cookie: cq.cookie,
            events: 0,
            former: Vec::new(),
            remote_cqe_ring,
            remote_cqe_entries,
            armable,
            unread: 0,
        };
        self.cqs.insert(handle.0, record);
        Ok(CreateCqReply { handle: handle.0, capacity, ring_offset: offset as u64, remote_cqe_ring })
    }

    /// Allocates the ring of remote CQEs for a queue of `capacity`. Returns its offset, its number
    /// of entries and its arming state.
    fn make_remote_cqe_ring(&mut self, process: usize, capacity: u32, has_channel: bool) -> Option<(u64, u32, Option<Armable>)> {
        let entries = capacity.next_power_of_two();
        let shared = &mut self.processes[process].shared;
        let remote_cqe_ring = shared.allocate_queue(remote_cqe_ring_bytes(entries))?;
        let armable = if has_channel { Armable::new(shared, remote_cqe_ring, entries) } else { None };
        if has_channel && armable.is_none() {
            shared.free_queue(remote_cqe_ring, remote_cqe_ring_bytes(entries));
            return None;
        }
        Some((remote_cqe_ring, entries, armable))
    }

    /// Gives the queue another ring. The engine moves no entries, because the program may be taking
    /// from the present ring at this time.
    pub(crate) fn resize_cq(&mut self, caller: Caller, resize: &calls::ResizeCq) -> Result<CreateCqReply, i32> {
        self.world.resize_cq(caller.owner, CqHandle(resize.cq), resize.entries).map_err(convert::errno_of)?;
        let record = self.cqs.get_mut(&resize.cq).ok_or(libc::EINVAL)?;
        let shared = &mut self.processes[caller.process].shared;
        let rings = record.former.iter().copied().chain([(record.offset, record.capacity)]);
        if rings.map(|(offset, capacity)| u64::from(shared.waiting(offset, capacity))).sum::<u64>() > u64::from(resize.entries) {
            return Err(libc::EINVAL); // The new size must hold the waiting completions (IBTA 11.2.6.3).
        }
        let offset = shared.allocate_ring(resize.entries).ok_or(libc::ENOMEM)?;
        record.former.push((record.offset, record.capacity));
        (record.offset, record.capacity) = (offset, resize.entries);
        Ok(CreateCqReply { handle: resize.cq, capacity: resize.entries, ring_offset: offset as u64, remote_cqe_ring: record.remote_cqe_ring })
    }

    pub(crate) fn destroy_cq(&mut self, caller: Caller, cq: &Handle) -> Result<Count, i32> {
        let (Caller { process, owner, .. }, cq) = (caller, cq.handle);
        self.world.destroy_cq(owner, CqHandle(cq)).map_err(convert::errno_of)?;
        let Some(record) = self.cqs.remove(&cq) else { return Err(libc::EINVAL) };
        for (offset, capacity) in record.former.iter().copied().chain([(record.offset, record.capacity)]) {
            self.processes[process].shared.free_ring(offset, capacity);
        }
        if record.remote_cqe_ring != 0 {
            self.processes[process].shared.free_queue(record.remote_cqe_ring, remote_cqe_ring_bytes(record.remote_cqe_entries));
        }
        if let Some(channel) = self.objects.get_mut(record.channel) {
            drop_events_of(channel, cq);
        }
        Ok(Count { count: record.events })
    }

    /// Releases the ring locks of an ended process. The entry that it had not finished is not
    /// visible yet.
    pub(crate) fn release_locks_of(&self, pid: u32) {
        for record in self.cqs.values().filter(|record| record.remote_cqe_ring != 0) {
            let Some(file) = self.processes[record.process].shared.memory_file() else { continue };
            let Some(ring) = Mapped::new(file.as_fd(), record.remote_cqe_ring, size_of::<RemoteCqeRingHeader>()) else { continue };
            // SAFETY: the mapping begins with the header, which consists of atomics.
            let header = unsafe { &*ring.base().cast::<RemoteCqeRingHeader>() };
            let _ = header.lock.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Makes the program's next poll of the empty queue fail.
    pub(crate) fn mark_overflowed(&self, cq: u32) {
        if let Some(record) = self.cqs.get(&cq) {
            self.processes[record.process].shared.mark_overflowed(record.offset);
        }
    }

    pub(crate) fn completed(&mut self, process: ProcessId, cq: CqHandle, completion: &Completion) {
        let Some(hca) = self.cqs.get(&cq.0).map(|record| record.hca) else { return };
        let mut cqe = cqe_of(completion, self.now);
        cqe.source_lid = abi_lid(self.world.link_layer(HcaId(hca)), completion.source_lid).0;
        if self.pace == Pace::Wall {
            // The program may poll at once and tell others. Its own data and its peers' data must
            // be in place by then.
            self.memory.flush_all();
            if completion.status != WcStatus::Success {
                self.publish_queue_pair(HcaId(hca), completion.qpn); // the QP is in the error state now
            }
        }
        let Some(record) = self.cqs.get(&cq.0) else { return };
        if self.processes[record.process].shared.produce(record.offset, record.capacity, cqe) {
            self.touch(process);
            self.raise_if_armed(process, cq, completion.solicited || completion.status != WcStatus::Success);
        } else {
            // The World answers with a notice of the CQ's error.
            self.world.overflow_cq(self.now, cq);
        }
    }

    pub(crate) fn cq_event(&mut self, process: ProcessId, cq: CqHandle) {
        let wakeup = self.wakeup_of(process);
        let Some(record) = self.cqs.get_mut(&cq.0) else { return };
        record.events += 1;
        record.unread = record.unread.saturating_add(1);
        let (channel, cookie) = (record.channel, record.cookie);
        let at = self.now + wakeup;
        if let Some(Object::CompletionChannel(events)) = self.objects.get_mut(channel) {
            events.push_back((at, cookie, cq.0));
            self.queue.push(at, u32::MAX, Event::ObjectChanged { object: channel });
        }
    }
}

fn cqe_of(completion: &Completion, now: SimTime) -> Cqe {
    let receive = completion.opcode as u32 >= 128;
    Cqe {
        wr_id: completion.wr_id,
        time_ps: now.as_picos(),
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        byte_len: completion.byte_len,
        immediate: completion.immediate.or(completion.invalidated.map(|rkey| rkey.0)).unwrap_or(0),
        qpn: completion.qpn.0,
        source_qpn: completion.source_qpn.0,
        flags: (u32::from(completion.has_grh) * flags::GRH)
            | (u32::from(completion.immediate.is_some()) * flags::WITH_IMMEDIATE)
            | (u32::from(completion.invalidated.is_some()) * flags::WITH_INVALIDATE)
            | (u32::from(receive) * flags::RECEIVE),
        send_retired: completion.send_retired,
        pkey_index: completion.pkey_index,
        source_lid: completion.source_lid.0,
        service_level: completion.service_level.0,
        path_bits: 0,
        reserved: [0; 2],
        vendor_error: 0,
        srq: completion.srq.map_or(0, |srq| srq.0),
    }
}
