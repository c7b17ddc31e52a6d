//! Guarded reads of the engine's tables, before the posting thread moves data ([`crate::memory_spans`]).

use crate::epoch_slots::EpochSlot;
use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering};
use crate::tables::{KeyEntry, QPS, QpEntry, Tables, key_index, shared_queue_of};
use std::marker::PhantomData;

/// Permission to read the tables: valid entries stay valid while this lives. Take locks of queues
/// before it, not under it.
pub struct TablesGuard<P: Platform> {
    tables: &'static Tables,
    _slot: EpochSlot,
    process: PhantomData<P>,
}

/// Begins a transfer.
#[inline]
pub fn guard_tables<P: Platform>() -> Option<TablesGuard<P>> {
    Some(TablesGuard::new(P::tables()?, EpochSlot::take::<P, true>()))
}

/// The announcement of a guard: this thread will read the tables soon.
pub struct PendingGuard<P: Platform> {
    tables: &'static Tables,
    slot: EpochSlot,
    process: PhantomData<P>,
}

/// Begins a transfer for callers that take a lock next. The lock's locked instruction serves both.
#[inline(always)]
pub fn announce<P: Platform>() -> Option<PendingGuard<P>> {
    Some(PendingGuard { tables: P::tables()?, slot: EpochSlot::take::<P, false>(), process: PhantomData })
}

impl<P: Platform> PendingGuard<P> {
    /// Returns the guard after the caller took the lock. The lock has
    /// executed a locked instruction in this thread, unless the process is single-threaded.
    #[inline(always)]
    pub fn guard_after_lock(self) -> TablesGuard<P> {
        TablesGuard::new(self.tables, self.slot)
    }
}

/// Returns the entry of a key, if the key has a region.
#[inline]
pub fn region_of(tables: &'static Tables, key: u32) -> Option<&'static KeyEntry> {
    let entry = &tables.keys[key_index(key)?];
    (key != 0 && entry.key.load(Ordering::SeqCst) == key).then_some(entry)
}

impl<P: Platform> TablesGuard<P> {
    #[inline(always)]
    fn new(tables: &'static Tables, slot: EpochSlot) -> Self {
        if tables.withdrawn.load(Ordering::Relaxed) != P::swept().load(Ordering::Relaxed) {
            P::sweep(tables, &slot);
        }
        Self { tables, _slot: slot, process: PhantomData }
    }

    /// Returns the queue pair at this entry, if the entry still belongs to it.
    #[inline]
    pub fn queue_pair(&self, index: u32, qpn: u32) -> Option<&'static QpEntry> {
        let entry = &self.tables.qps[(index as usize).min(QPS - 1)];
        // A child of a fork may hold its parent's queue pairs, but does not own them.
        let is_own = entry.pid.load(Ordering::Relaxed) == P::own_number();
        (qpn != 0 && entry.qpn.load(Ordering::SeqCst) == qpn && is_own).then_some(entry)
    }

    /// Returns the peer of `of`, if the peer is connected to `of`.
    #[inline]
    pub fn peer(&self, of: &QpEntry) -> Option<&'static QpEntry> {
        let peer = of.peer.load(Ordering::Acquire).checked_sub(1)?;
        let entry = self.tables.qps.get(peer as usize)?;
        let same = |a: &AtomicU32, b: &AtomicU32| a.load(Ordering::SeqCst) == b.load(Ordering::SeqCst);
        let is_it = entry.qpn.load(Ordering::SeqCst) != 0 && same(&entry.qpn, &of.dest_qpn) && same(&entry.dest_qpn, &of.qpn);
        is_it.then_some(entry)
    }

    /// Returns a number that changes with each change of multicast membership.
    #[inline]
    pub fn groups_version(&self) -> u32 {
        self.tables.groups.load(Ordering::SeqCst)
    }

    /// Returns the queue pair that receives datagrams for this address, if this entry holds it.
    #[inline]
    pub fn datagram_receiver(&self, index: u32, lid: u16, qpn: u32) -> Option<&'static QpEntry> {
        let entry = self.tables.qps.get(index as usize)?;
        let is_it = qpn != 0 && entry.qpn.load(Ordering::SeqCst) == qpn && lid != 0 && entry.lid.load(Ordering::SeqCst) == u32::from(lid);
        is_it.then_some(entry)
    }

    /// Returns the entry whose receive queue a queue pair uses: its own, or its SRQ.
    #[inline]
    pub fn receives_of(&self, of: &'static QpEntry) -> Option<&'static QpEntry> {
        let Some(shared) = of.srq.load(Ordering::Acquire).checked_sub(1) else { return Some(of) };
        let entry = self.tables.qps.get(shared as usize)?;
        shared_queue_of(entry.qpn.load(Ordering::SeqCst)).map(|_| entry)
    }

    /// Returns the entry of the SRQ that a message for `target` names, if both have the same XRC
    /// domain.
    pub fn queue_of_domain(&self, index: u32, number: u32, target: &QpEntry) -> Option<&'static QpEntry> {
        let entry = self.tables.qps.get(index as usize)?;
        let xrcd = target.xrcd.load(Ordering::SeqCst);
        let is_it = xrcd != 0 && entry.xrcd.load(Ordering::SeqCst) == xrcd && entry.dest_qpn.load(Ordering::SeqCst) == number;
        shared_queue_of(entry.qpn.load(Ordering::SeqCst)).filter(|_| is_it).map(|_| entry)
    }

    /// Returns the entry of a key, if the key has a region.
    pub(crate) fn region(&self, key: u32) -> Option<&'static KeyEntry> {
        region_of(self.tables, key)
    }
}
