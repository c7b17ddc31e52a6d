//! The tables by which programs move data themselves, in wall pace (`softband_shm_transport::tables`).

use crate::completion::record::CqRecord;
use crate::realtime::room::DataPlane;
use crate::realtime::traffic::way_of;
use rustix::fd::OwnedFd;
use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags};
use softband_fabric::World;
use softband_ipc::layout::QUEUES_OFFSET;
use softband_model::verbs::api::QpSnapshot;
use softband_shm_transport::cq_producers::CqProducers;
use softband_shm_transport::fallback::FallbackCounts;
use softband_shm_transport::tables::{KEYS, KeyEntry, PEER_BEHIND_FAULTS, QPS, QpEntry, Tables, key_index};
use softband_types::{CqHandle, HcaId, MrHandle, ProcessId, QpState, QpType, Qpn, SrqHandle};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The HCA and the number of a queue pair.
type Name = (HcaId, Qpn);

/// The file of tables, and the entry of each queue pair.
pub(crate) struct DirectTables {
    tables: *mut Tables,
    file: OwnedFd,
    entries: BTreeMap<(HcaId, Qpn), (u32, ProcessId)>,
    /// The entries of shared receive queues, in the same table.
    pub(super) shared: BTreeMap<SrqHandle, (u32, ProcessId)>,
    /// Links between queue pairs, by entry: to, from.
    links: BTreeMap<u32, u32>,
    /// The receiver of each sender whose attributes all fitted at connection, and the reverse map.
    /// Later traffic keeps the fit until one side is reset.
    fitted: BTreeMap<Name, Name>,
    fitted_by_receiver: BTreeMap<Name, Name>,
    pub(super) free: Vec<u32>,
    next: u32,
    serial: AtomicU64,
    pub(super) cq_producers: CqProducers,
    /// Fall-backs of processes that have ended.
    pub(super) fallbacks_of_ended: FallbackCounts,
}

impl DirectTables {
    pub(crate) fn new() -> std::io::Result<Self> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("softband-tables", flags)?;
        rustix::fs::ftruncate(&file, size_of::<Tables>() as u64)?;
        // SAFETY: a fresh mapping of a file that is as large as the mapping.
        let tables =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<Tables>(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
        // From now on nobody else can write: programs trust the content.
        rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self {
            tables: tables.cast(),
            file,
            entries: BTreeMap::new(),
            shared: BTreeMap::new(),
            links: BTreeMap::new(),
            fitted: BTreeMap::new(),
            fitted_by_receiver: BTreeMap::new(),
            free: Vec::new(),
            next: 0,
            serial: AtomicU64::new(0),
            cq_producers: CqProducers::default(),
            fallbacks_of_ended: FallbackCounts::default(),
        })
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn key(&self, key: u32) -> Option<&KeyEntry> {
        // SAFETY: the mapping lasts as long as this; the index is below the array's length; the
        // entries consist of atomics.
        key_index(key).map(|index| unsafe { &(*self.tables).keys[index] })
    }

    /// Returns a number for the next epoch of a receive queue.
    pub(crate) fn next_epoch(&self) -> u32 {
        self.next_serial() as u32
    }

    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes programs look for regions that they need not keep any more.
    fn note_withdrawn(&self) {
        // SAFETY: the mapping lasts as long as this, and the counter is an atomic.
        unsafe { &(*self.tables).withdrawn }.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes programs ask again for the members of multicast groups.
    pub(crate) fn note_groups_changed(&self) {
        // SAFETY: the mapping lasts as long as this, and the version is an atomic.
        unsafe { &(*self.tables).groups }.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn groups_version(&self) -> u32 {
        // SAFETY: the mapping lasts as long as this, and the version is an atomic.
        unsafe { &(*self.tables).groups }.load(Ordering::SeqCst)
    }

    pub(crate) fn qp(&self, index: u32) -> &QpEntry {
        assert!((index as usize) < QPS);
        // SAFETY: the mapping lasts as long as this; the index is below the array's length; the
        // entries consist of atomics.
        unsafe { &(*self.tables).qps[index as usize] }
    }

    /// Notes that an entry has changed. The caller first writes the change, then calls this, and
    /// waits for transfers last. A program that uses its copy of the old entry has begun its
    /// transfer before, or it sees the new version.
    pub(crate) fn note_changed(&self, index: u32) {
        self.qp(index).version.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the entry of a queue pair plus one, or 0 for none.
    pub(crate) fn entry_of(&self, hca: HcaId, qpn: Qpn) -> u32 {
        self.entries.get(&(hca, qpn)).map_or(0, |(index, _)| index + 1)
    }

    /// Sets the number of finished requests among those of a queue pair that went to the engine.
    pub(crate) fn set_done(&self, hca: HcaId, qpn: Qpn, done: u32) {
        if let Some((index, _)) = self.entries.get(&(hca, qpn)) {
            self.qp(*index).done.store(done, Ordering::SeqCst);
        }
    }

    /// Links an entry to another entry (plus one) or to none (0 or [`PEER_BEHIND_FAULTS`]). Returns
    /// whether that broke a former link.
    fn link(&mut self, from: u32, to: u32) -> bool {
        // The program of the other entry has done nothing, so that entry still has its link.
        let leads = |peer: u32| ![0, PEER_BEHIND_FAULTS].contains(&peer);
        let displaces = leads(to) && self.links.insert(to - 1, from).is_some_and(|other| other != from && self.unlink(other, to));
        let former = self.qp(from).peer.swap(to, Ordering::SeqCst);
        self.note_changed(from);
        displaces || leads(former) && former != to
    }

    /// Removes the link of an entry if it leads to `to`. Returns whether it did.
    fn unlink(&self, from: u32, to: u32) -> bool {
        let led_there = self.qp(from).peer.compare_exchange(to, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if led_there {
            self.note_changed(from);
        }
        led_there
    }

    /// Removes the link that leads to an entry.
    fn unlink_from_all(&mut self, index: u32) {
        if let Some(from) = self.links.remove(&index) {
            self.unlink(from, index + 1);
        }
    }

    /// Marks the entries that became single producers when others were removed. They take no lock
    /// from now on. The removed entries must have no transfers in flight.
    fn note_lone_senders(&mut self) {
        for index in self.cq_producers.take_lone() {
            self.qp(index).is_sole_producer.store(1, Ordering::SeqCst);
            self.note_changed(index);
        }
    }

    /// Clears an entry and the link that leads to it. The caller waits for transfers in flight.
    fn clear(&mut self, name: Name, index: u32) {
        self.qp(index).qpn.store(0, Ordering::SeqCst);
        self.qp(index).peer.store(0, Ordering::SeqCst);
        self.note_changed(index);
        self.unlink_from_all(index);
        self.cq_producers.remove(index);
        self.forget_fitted(name);
    }

    fn forget_fitted(&mut self, name: Name) {
        if let Some(to) = self.fitted.remove(&name) {
            self.fitted_by_receiver.remove(&to);
        }
        if let Some(from) = self.fitted_by_receiver.remove(&name) {
            self.fitted.remove(&from);
        }
    }

    /// Returns the queue pair that sends to `receiver`.
    pub(crate) fn fitted_sender_of(&self, receiver: Name) -> Option<Name> {
        self.fitted_by_receiver.get(&receiver).copied()
    }

    fn note_fitted(&mut self, from: Name, to: Name) {
        self.fitted.insert(from, to);
        self.fitted_by_receiver.insert(to, from);
    }

    fn take_entry(&mut self, hca: HcaId, qpn: Qpn, process: ProcessId) -> Option<u32> {
        if let Some((index, owner)) = self.entries.get_mut(&(hca, qpn)) {
            *owner = process; // its first process may have left it to another one
            return Some(*index);
        }
        let index = self.take_index()?;
        self.entries.insert((hca, qpn), (index, process));
        Some(index)
    }

    pub(crate) fn take_index(&mut self) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.next as usize) < QPS => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        // A former queue pair may have left these values.
        self.qp(index).done.store(0, Ordering::SeqCst);
        self.qp(index).since_ps.store(0, Ordering::SeqCst);
        Some(index)
    }

    /// Returns the entry of a shared receive queue plus one, or 0 for none.
    pub(crate) fn shared_entry_of(&self, srq: SrqHandle) -> u32 {
        self.shared.get(&srq).map_or(0, |(index, _)| index + 1)
    }

    /// Sets the number of requests that a shared receive queue has room for.
    pub(crate) fn resize_shared_queue(&self, srq: SrqHandle, entries: u32) {
        if let Some((index, _)) = self.shared.get(&srq) {
            self.qp(*index).receive_entries.store(entries, Ordering::SeqCst);
            self.note_changed(*index);
        }
    }

    /// Sets the moment in picoseconds from which completions belong to the queue pair as it is now.
    pub(crate) fn set_since(&self, hca: HcaId, qpn: Qpn, since_ps: u64) {
        if let Some((index, _)) = self.entries.get(&(hca, qpn)) {
            self.qp(*index).since_ps.store(since_ps, Ordering::SeqCst);
        }
    }
}

impl Drop for DirectTables {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it remains.
        let _ = unsafe { rustix::mm::munmap(self.tables.cast(), size_of::<Tables>()) };
    }
}

const _: () = assert!(KEYS.is_power_of_two());

/// Returns whether peers may reach a queue pair in this state.
fn is_receiving(state: u32) -> bool {
    state == QpState::Rtr as u32 || state == QpState::Rts as u32
}

/// Returns whether only one queue pair sends to this one. Datagrams come from many senders. So do
/// messages for a shared receive queue.
fn has_one_sender(qp: &QpSnapshot) -> bool {
    matches!(qp.init.qp_type, QpType::Rc | QpType::Uc) && qp.init.srq.is_none()
}

/// Returns the type of the queue pair that receives from a sender of this type.
fn receiving_type(sender: QpType) -> Option<QpType> {
    match sender {
        QpType::XrcSend => Some(QpType::XrcRecv),
        QpType::XrcRecv => None,
        other => Some(other),
    }
}

/// Returns the peer that a connected queue pair names.
pub(crate) fn named_peer(world: &World, hca: HcaId, qp: &QpSnapshot) -> Option<Name> {
    if qp.init.qp_type == QpType::Ud {
        return None;
    }
    world.hca_reached((hca, qp.port), qp.address_vector.dlid).map(|peer| (peer, qp.dest_qpn))
}

impl DataPlane<'_> {
    /// Publishes a region for direct access. Peers map it if `is_shared`.
    pub(crate) fn publish_region(&mut self, mr: MrHandle, is_shared: bool) {
        if !self.scheduler.is_wall() {
            return;
        }
        let key = mr.0;
        let (Some(entry), Some((hca, init))) = (self.realtime.direct.key(key), self.world.region(mr)) else { return };
        let owner = &self.processes[init.owner.0 as usize];
        // The file has no room for higher addresses. Peers would fault there, even if the program
        // asks for it.
        let is_shared = is_shared && init.address.checked_add(init.len_bytes).is_some_and(|end| end <= QUEUES_OFFSET);
        let file = if is_shared { owner.shared().memory_file_number() } else { 0 };
        if let Some(file) = owner.shared().memory_file().filter(|_| is_shared) {
            self.memory.note_shared(init.owner, key, (init.address, init.len_bytes), file.clone());
        }
        entry.file.store(file, Ordering::Relaxed);
        entry.serial.store(self.realtime.direct.next_serial(), Ordering::Relaxed);
        let pid = owner.pid() as u32;
        entry.hca.store(hca.0, Ordering::Relaxed);
        entry.pd.store(init.pd.0, Ordering::Relaxed);
        entry.pid.store(pid, Ordering::Relaxed);
        entry.access.store(crate::protocol::convert::access_bits(init.access), Ordering::Relaxed);
        entry.iova.store(init.iova, Ordering::Relaxed);
        entry.address.store(init.address, Ordering::Relaxed);
        entry.len_bytes.store(init.len_bytes, Ordering::Relaxed);
        entry.key.store(key, Ordering::SeqCst);
    }

    /// Withdraws a region from direct access. When this returns, nobody reaches it.
    pub(crate) fn withdraw_region(&mut self, MrHandle(key): MrHandle) {
        if !self.scheduler.is_wall() {
            return;
        }
        if let Some((_, init)) = self.world.region(MrHandle(key)) {
            self.memory.forget_shared(init.owner, key);
        }
        if let Some(entry) = self.realtime.direct.key(key).filter(|entry| entry.key.load(Ordering::Relaxed) == key) {
            entry.key.store(0, Ordering::SeqCst);
            self.realtime.direct.note_withdrawn();
            self.await_quiescence();
        }
    }

    /// Writes the present state of a queue pair into the table.
    pub(crate) fn publish_queue_pair(&mut self, hca: HcaId, qpn: Qpn) {
        if !self.scheduler.is_wall() {
            return;
        }
        let Some((owner, qp)) = self.world.find_qp(hca, qpn) else {
            return self.withdraw_queue_pair(hca, qpn);
        };
        let Some(index) = self.realtime.direct.take_entry(hca, qpn, owner) else { return };
        if qp.state == QpState::Reset {
            self.realtime.direct.forget_fitted((hca, qpn));
        }
        if qp.state == QpState::Error {
            self.take_over_receive_queue(hca, qpn); // its requests come back flushed
        }
        let peer = self.peer_entry((hca, qpn), &qp);
        let worse = self.realtime.direct.qp(index).access.load(Ordering::Relaxed) & !crate::protocol::convert::access_bits(qp.access) != 0;
        let received = is_receiving(self.realtime.direct.qp(index).state.load(Ordering::Relaxed));
        if self.ring_of(hca, &qp).is_some() {
            self.note_cq_producer(index, qp.init.recv_cq, has_one_sender(&qp));
        }
        self.write_entry(index, owner, hca, &qp);
        let ends = received && !is_receiving(qp.state as u32);
        if ends {
            self.realtime.direct.unlink_from_all(index); // another queue pair may be its peer when it receives again
        }
        let has_other_keys = self.write_datagram_part(self.realtime.direct.qp(index), hca, &qp);
        if self.realtime.direct.link(index, peer) || worse || ends || received && has_other_keys {
            self.await_quiescence();
        }
        // The other side may have been waiting for this queue pair.
        if let Some((peer_hca, peer_qpn)) = named_peer(self.world, hca, &qp)
            && let Some((_, peer_qp)) = self.world.find_qp(peer_hca, peer_qpn)
        {
            let own = self.peer_entry((peer_hca, peer_qpn), &peer_qp);
            let entry = self.realtime.direct.entry_of(peer_hca, peer_qpn);
            if [index + 1, PEER_BEHIND_FAULTS].contains(&own) && entry != 0 && self.realtime.direct.link(entry - 1, own) {
                self.await_quiescence();
            }
        }
    }

    /// Adds an entry as a producer of a queue's ring. When this returns, a former single producer
    /// uses the lock.
    pub(crate) fn note_cq_producer(&mut self, index: u32, cq: CqHandle, has_one_sender: bool) {
        let only = self.realtime.direct.cq_producers.add(cq, index, has_one_sender);
        if let Some(only) = only.filter(|only| self.realtime.direct.qp(*only).is_sole_producer.swap(0, Ordering::SeqCst) != 0) {
            self.realtime.direct.note_changed(only);
            self.await_quiescence();
        }
    }

    /// Waits until nobody uses the removed entries. Then marks the single producers that remain.
    pub(crate) fn await_users_of_removed_entries(&mut self) {
        self.await_quiescence();
        self.realtime.direct.note_lone_senders();
    }

    /// Returns the completion queue whose ring takes the completions of messages to a queue pair.
    fn ring_of(&self, hca: HcaId, qp: &QpSnapshot) -> Option<&CqRecord> {
        let receives =
            self.realtime.receive_queues.get(hca, qp.qpn).is_some() || qp.init.srq.is_some_and(|srq| self.realtime.direct.shared_entry_of(srq) != 0);
        self.cqs.get(qp.init.recv_cq.0).filter(|cq| receives && cq.takes_remote_cqes())
    }

    fn write_entry(&self, index: u32, owner: ProcessId, hca: HcaId, qp: &QpSnapshot) {
        let owner = &self.processes[owner.0 as usize];
        let entry = self.realtime.direct.qp(index);
        let set = |field: &AtomicU32, value: u32| field.store(value, Ordering::SeqCst);
        set(&entry.state, qp.state as u32);
        set(&entry.hca, hca.0);
        set(&entry.pd, qp.init.pd.0);
        set(&entry.pid, owner.pid() as u32);
        set(&entry.access, crate::protocol::convert::access_bits(qp.access));
        set(&entry.dest_qpn, qp.dest_qpn.0);
        entry.pkey_index.store(qp.pkey_index, Ordering::SeqCst);
        entry.service_level.store(self.level_of_receives(hca, qp), Ordering::SeqCst);
        entry.rnr_retry.store(u16::from(qp.rnr_retry), Ordering::SeqCst);
        entry.max_reads.store(u16::from(qp.max_rd_atomic), Ordering::SeqCst);
        set(&entry.way, way_of(self.world, hca, qp).0);
        set(&entry.file, owner.shared().memory_file_number());
        let queue = self.realtime.receive_queues.get(hca, qp.qpn);
        let shared = qp.init.srq.map_or(0, |srq| self.realtime.direct.shared_entry_of(srq));
        let remote_cqe_ring = self.ring_of(hca, qp);
        set(&entry.srq, shared);
        set(&entry.xrcd, qp.init.xrcd.map_or(0, |xrcd| xrcd.0));
        set(&entry.receive_entries, queue.map_or(0, |queue| queue.entries));
        set(&entry.receive_sges, queue.map_or(0, |queue| queue.sges));
        set(&entry.remote_cqe_entries, remote_cqe_ring.map_or(0, CqRecord::remote_cqe_entries));
        set(&entry.is_sole_producer, u32::from(remote_cqe_ring.is_some() && self.realtime.direct.cq_producers.has_lone_sender(index)));
        entry.receive_queue.store(queue.map_or(0, |queue| queue.offset), Ordering::SeqCst);
        entry.remote_cqe_ring.store(remote_cqe_ring.map_or(0, CqRecord::remote_cqe_ring), Ordering::SeqCst);
        set(&entry.qpn, qp.qpn.0);
        self.realtime.direct.note_changed(index);
    }

    /// Returns the entry (plus one) of the peer of `qp`. Returns 0 unless the peer is ready to
    /// receive and `qp` to send, and [`PEER_BEHIND_FAULTS`] if faults forbid the link. All facts that
    /// packets are checked for must fit: connection, partitions, packet sizes, sequence numbers.
    fn peer_entry(&mut self, name: Name, qp: &QpSnapshot) -> u32 {
        let Some(to) = named_peer(self.world, name.0, qp).filter(|_| qp.state == QpState::Rts) else { return 0 };
        let Some((_, peer)) = self.world.find_qp(to.0, to.1) else { return 0 };
        let connected = matches!(peer.state, QpState::Rtr | QpState::Rts)
            && peer.dest_qpn == qp.qpn
            && Some(peer.init.qp_type) == receiving_type(qp.init.qp_type)
            && named_peer(self.world, to.0, &peer).is_some_and(|(back, _)| back == name.0);
        let fits = qp.pkey.reaches(peer.pkey) && qp.path_mtu == peer.path_mtu && qp.max_rd_atomic <= peer.max_dest_rd_atomic;
        if !connected || !fits {
            return 0;
        }
        if self.may_meet_faults(name.0, qp) || self.may_meet_faults(to.0, &peer) {
            return PEER_BEHIND_FAULTS;
        }
        // While packets are in flight, the numbers of both sides differ. Equal numbers at the start
        // suffice.
        let in_step = self.realtime.direct.fitted.get(&name) == Some(&to) || qp.send_psn == peer.receive_psn;
        if !in_step {
            return 0;
        }
        self.realtime.direct.note_fitted(name, to);
        self.realtime.direct.entry_of(to.0, to.1)
    }

    /// Removes a queue pair from the table. When this returns, nobody moves data by it.
    pub(crate) fn withdraw_queue_pair(&mut self, hca: HcaId, qpn: Qpn) {
        if let Some((index, _)) = self.realtime.direct.entries.remove(&(hca, qpn)) {
            self.realtime.direct.clear((hca, qpn), index);
            self.await_users_of_removed_entries();
            self.realtime.direct.free.push(index);
        }
    }

    /// Removes the queue pairs and regions of an ended process.
    pub(crate) fn withdraw_process(&mut self, process: ProcessId) {
        if !self.scheduler.is_wall() {
            return;
        }
        let own: Vec<(HcaId, Qpn)> = self.realtime.direct.entries.iter().filter(|(_, (_, owner))| *owner == process).map(|(name, _)| *name).collect();
        self.realtime.note_fallbacks_of_ended(self.processes, process);
        self.end_direct_traffic_of(process);
        let mut around: Vec<_> = own.iter().flat_map(|(hca, qpn)| self.queues_around(*hca, *qpn)).collect();
        let sends_datagrams = |(hca, qpn): &Name| self.world.find_qp(*hca, *qpn).is_some_and(|(_, qp)| qp.init.qp_type == QpType::Ud);
        if own.iter().any(sends_datagrams) {
            around.extend(self.queues_of_datagrams());
        }
        for name in own {
            if let Some((index, _)) = self.realtime.direct.entries.remove(&name) {
                self.realtime.direct.clear(name, index);
                self.realtime.direct.free.push(index);
                self.drop_receive_queue(name.0, name.1);
            }
        }
        self.memory.forget_shared_of(process);
        let shared: Vec<_> = self.realtime.direct.shared.iter().filter(|(_, (_, owner))| *owner == process).map(|(srq, _)| *srq).collect();
        for srq in shared {
            self.drop_shared_queue(srq);
        }
        let pid = self.processes[process.0 as usize].pid() as u32;
        for index in 0..KEYS as u32 {
            if let Some(entry) = self.realtime.direct.key(index << 8)
                && entry.pid.load(Ordering::Relaxed) == pid
            {
                entry.key.store(0, Ordering::SeqCst);
            }
        }
        self.realtime.direct.note_withdrawn();
        self.realtime.direct.note_groups_changed();
        self.await_users_of_removed_entries();
        self.cqs.release_locks_of(self.processes, pid);
        self.release_consumer_locks_of(pid);
        self.look_at_limits();
        self.raise_events_of_ended_producers(&around);
    }
}
