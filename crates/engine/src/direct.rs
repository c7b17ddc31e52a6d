//! The tables by which programs move data themselves, in wall pace (`softband_ipc::tables`).

use crate::pace::{Engine, Pace};
use crate::process::ProcessState;
use rustix::fd::OwnedFd;
use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags};
use softband_ipc::tables::{KEYS, KeyEntry, QPS, QpEntry, Tables, key_index};
use softband_model::verbs::api::QpSnapshot;
use softband_types::{HcaId, Lid, MrHandle, PortNumber, ProcessId, QpState, QpType, Qpn};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a program may take for one transfer before it is not waited for any more: it may be stopped.
const GRACE: Duration = Duration::from_millis(200);

/// The file of tables, and which queue pair has which entry.
pub(crate) struct DirectTables {
    tables: *mut Tables,
    file: OwnedFd,
    entries: BTreeMap<(HcaId, Qpn), (u32, ProcessId)>,
    free: Vec<u32>,
    next: u32,
}

impl DirectTables {
    pub(crate) fn new() -> std::io::Result<Self> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("softband-tables", flags)?;
        rustix::fs::ftruncate(&file, size_of::<Tables>() as u64)?;
        // SAFETY: a fresh mapping of a file that is as large as the mapping.
        let tables =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<Tables>(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
        // From now on nobody else can write: programs trust what is in there.
        rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(Self { tables: tables.cast(), file, entries: BTreeMap::new(), free: Vec::new(), next: 0 })
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn key(&self, key: u32) -> Option<&KeyEntry> {
        // SAFETY: the mapping lasts as long as this; the index is below the array's length; the entries consist of atomics.
        key_index(key).map(|index| unsafe { &(*self.tables).keys[index] })
    }

    fn qp(&self, index: u32) -> &QpEntry {
        assert!((index as usize) < QPS);
        // SAFETY: as above.
        unsafe { &(*self.tables).qps[index as usize] }
    }

    /// The entry of a queue pair plus one; 0 when it has none.
    pub(crate) fn entry_of(&self, hca: HcaId, qpn: Qpn) -> u32 {
        self.entries.get(&(hca, qpn)).map_or(0, |(index, _)| index + 1)
    }

    fn take_entry(&mut self, hca: HcaId, qpn: Qpn, process: ProcessId) -> Option<u32> {
        if let Some((index, _)) = self.entries.get(&(hca, qpn)) {
            return Some(*index);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.next as usize) < QPS => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.entries.insert((hca, qpn), (index, process));
        Some(index)
    }
}

impl Drop for DirectTables {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no reference into it is kept.
        let _ = unsafe { rustix::mm::munmap(self.tables.cast(), size_of::<Tables>()) };
    }
}

const _: () = assert!(KEYS.is_power_of_two());

impl Engine {
    /// A region may be reached directly from now on.
    pub(crate) fn publish_region(&mut self, mr: MrHandle) {
        if self.pace != Pace::Wall {
            return;
        }
        let key = mr.0;
        let (Some(entry), Some((hca, init))) = (self.direct.key(key), self.world.region(mr)) else { return };
        let pid = self.processes[init.owner.0 as usize].pid as u32;
        entry.hca.store(hca.0, Ordering::Relaxed);
        entry.pd.store(init.pd.0, Ordering::Relaxed);
        entry.pid.store(pid, Ordering::Relaxed);
        entry.access.store(crate::convert::access_bits(init.access), Ordering::Relaxed);
        entry.iova.store(init.iova, Ordering::Relaxed);
        entry.address.store(init.address, Ordering::Relaxed);
        entry.len_bytes.store(init.len_bytes, Ordering::Relaxed);
        entry.key.store(key, Ordering::SeqCst);
    }

    /// A region may not be reached any more; when this returns, nobody does.
    pub(crate) fn withdraw_region(&mut self, MrHandle(key): MrHandle) {
        if self.pace != Pace::Wall {
            return;
        }
        if let Some(entry) = self.direct.key(key).filter(|entry| entry.key.load(Ordering::Relaxed) == key) {
            entry.key.store(0, Ordering::SeqCst);
            self.await_movers();
        }
    }

    /// Lets the table say what a queue pair is now.
    pub(crate) fn publish_queue_pair(&mut self, hca: HcaId, qpn: Qpn) {
        if self.pace != Pace::Wall {
            return;
        }
        let Some((owner, qp)) = self.world.find_qp(hca, qpn) else {
            return self.withdraw_queue_pair(hca, qpn);
        };
        if !matches!(qp.init.qp_type, QpType::Rc | QpType::Uc) {
            return;
        }
        let Some(index) = self.direct.take_entry(hca, qpn, owner) else { return };
        let (peer, peer_name) = self.peer_entry(hca, &qp);
        let pid = self.processes[owner.0 as usize].pid as u32;
        let entry = self.direct.qp(index);
        let set = |field: &AtomicU32, value: u32| field.store(value, Ordering::SeqCst);
        let access = crate::convert::access_bits(qp.access);
        let was_open = entry.peer.load(Ordering::Relaxed) != 0;
        let worse = was_open && (peer == 0 || entry.access.load(Ordering::Relaxed) & !access != 0);
        set(&entry.state, qp.state as u32);
        set(&entry.hca, hca.0);
        set(&entry.pd, qp.init.pd.0);
        set(&entry.pid, pid);
        set(&entry.access, access);
        set(&entry.dest_qpn, qp.dest_qpn.0);
        set(&entry.peer, peer);
        set(&entry.qpn, qpn.0);
        if worse {
            self.await_movers();
        }
        // The other side may have been waiting for this one.
        if let Some((peer_hca, peer_qpn)) = peer_name
            && let Some((_, peer_qp)) = self.world.find_qp(peer_hca, peer_qpn)
        {
            let own = self.peer_entry(peer_hca, &peer_qp).0;
            let entry = self.direct.entry_of(peer_hca, peer_qpn);
            if own != 0 && entry != 0 {
                self.direct.qp(entry - 1).peer.store(own, Ordering::SeqCst);
            }
        }
    }

    /// The entry of the queue pair that `qp` is connected to (plus one), and its name; 0 unless both are ready and everything fits
    /// that packets would be checked for: who is connected to whom, sequence numbers, partitions, packet sizes.
    fn peer_entry(&self, hca: HcaId, qp: &QpSnapshot) -> (u32, Option<(HcaId, Qpn)>) {
        let named = self.hca_with_lid(qp.address_vector.dlid).map(|peer| (peer, qp.dest_qpn));
        let Some((peer_hca, peer_qpn)) = named.filter(|_| qp.state == QpState::Rts) else { return (0, None) };
        let Some((_, peer)) = self.world.find_qp(peer_hca, peer_qpn) else { return (0, None) };
        let connected = peer.state == QpState::Rts
            && peer.dest_qpn == qp.qpn
            && peer.init.qp_type == qp.init.qp_type
            && self.hca_with_lid(peer.address_vector.dlid) == Some(hca);
        let fits = qp.send_psn == peer.receive_psn
            && peer.send_psn == qp.receive_psn
            && qp.pkey.reaches(peer.pkey)
            && qp.path_mtu == peer.path_mtu
            && qp.max_rd_atomic <= peer.max_dest_rd_atomic;
        (if connected && fits { self.direct.entry_of(peer_hca, peer_qpn) } else { 0 }, named)
    }

    fn hca_with_lid(&self, lid: Lid) -> Option<HcaId> {
        (0..)
            .map(HcaId)
            .map_while(|hca| self.world.port(hca, PortNumber(1)).map(|_| hca))
            .find(|hca| (1..).map_while(|port| self.world.port(*hca, PortNumber(port))).any(|port| port.active && port.lid == lid))
    }

    /// A queue pair is gone; when this returns, nobody moves data by it.
    pub(crate) fn withdraw_queue_pair(&mut self, hca: HcaId, qpn: Qpn) {
        if let Some((index, _)) = self.direct.entries.remove(&(hca, qpn)) {
            let entry = self.direct.qp(index);
            entry.qpn.store(0, Ordering::SeqCst);
            entry.peer.store(0, Ordering::SeqCst);
            self.await_movers();
            self.direct.free.push(index);
        }
    }

    /// A process has ended: its queue pairs and regions are nobody's.
    pub(crate) fn withdraw_process(&mut self, process: ProcessId) {
        if self.pace != Pace::Wall {
            return;
        }
        let own: Vec<(HcaId, Qpn)> = self.direct.entries.iter().filter(|(_, (_, owner))| *owner == process).map(|(name, _)| *name).collect();
        for name in own {
            if let Some((index, _)) = self.direct.entries.remove(&name) {
                self.direct.qp(index).qpn.store(0, Ordering::SeqCst);
                self.direct.qp(index).peer.store(0, Ordering::SeqCst);
                self.direct.free.push(index);
            }
        }
        let pid = self.processes[process.0 as usize].pid as u32;
        for index in 0..KEYS as u32 {
            if let Some(entry) = self.direct.key(index << 8)
                && entry.pid.load(Ordering::Relaxed) == pid
            {
                entry.key.store(0, Ordering::SeqCst);
            }
        }
        self.await_movers();
    }

    /// Waits until every program that was moving data when this began has finished that transfer.
    fn await_movers(&self) {
        for process in self.processes.iter().filter(|process| process.state == ProcessState::Attached) {
            let moving = &process.shared.header().direct;
            let seen = moving.load(Ordering::SeqCst);
            let started = Instant::now();
            // One transfer is short: longer ones are cut, and begin anew. Only a stopped program takes this long.
            while seen % 2 == 1 && moving.load(Ordering::SeqCst) == seen && started.elapsed() < GRACE {
                std::thread::yield_now();
            }
        }
    }
}
