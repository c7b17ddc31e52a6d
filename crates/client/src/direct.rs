//! Guarded reads of the engine's tables, before the posting thread moves data ([`crate::memory_spans`]).

use crate::epoch_slots::{self, EpochSlot};
use crate::session::header;
use crate::shared_memory;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use softband_ipc::tables::{KeyEntry, QPS, QpEntry, Tables, key_index, shared_queue_of};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static TABLES: AtomicPtr<Tables> = AtomicPtr::new(std::ptr::null_mut());
/// Value of `withdrawn` in the tables at this process's last sweep.
static SWEPT: AtomicU32 = AtomicU32::new(0);
/// Set during a sweep, which one thread at a time runs.
static SWEEPING: AtomicBool = AtomicBool::new(false);
/// Longest wait of a sweep for transfers of other threads. Only a stopped thread takes this long.
const GRACE: Duration = Duration::from_millis(100);

/// Maps the file of tables that the engine sent.
pub(crate) fn map(file: &OwnedFd) -> rustix::io::Result<()> {
    if TABLES.load(Ordering::Acquire).is_null() {
        // SAFETY: a fresh mapping, never undone, of a file that the engine made as large as this.
        let tables = unsafe { mmap(std::ptr::null_mut(), size_of::<Tables>(), ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        TABLES.store(tables.cast(), Ordering::Release);
    }
    Ok(())
}

/// Drops all state of the parent. A forked child does not share its parent's queue pairs and maps
/// the tables anew when it attaches.
pub(crate) fn forget() {
    SWEEPING.store(false, Ordering::Release);
    epoch_slots::forget();
    shared_memory::forget_peers();
    TABLES.store(std::ptr::null_mut(), Ordering::Release);
}

/// Permission to read the tables: valid entries stay valid while this lives. Take locks of queues
/// before it, not under it.
pub struct TablesGuard {
    tables: &'static Tables,
    _slot: EpochSlot,
}

/// Begins a transfer.
#[inline]
pub fn guard_tables() -> Option<TablesGuard> {
    Some(TablesGuard::new(tables()?, EpochSlot::take::<true>()))
}

/// The announcement of a guard: this thread will read the tables soon.
pub struct PendingGuard {
    tables: &'static Tables,
    slot: EpochSlot,
}

/// Begins a transfer for callers that take a lock next. The lock's locked instruction serves both.
#[inline(always)]
pub fn announce() -> Option<PendingGuard> {
    Some(PendingGuard { tables: tables()?, slot: EpochSlot::take::<false>() })
}

impl PendingGuard {
    /// Returns the guard after the caller took the lock. The lock has
    /// executed a locked instruction in this thread, unless the process is single-threaded.
    #[inline(always)]
    pub fn guard_after_lock(self) -> TablesGuard {
        TablesGuard::new(self.tables, self.slot)
    }
}

#[inline]
fn tables() -> Option<&'static Tables> {
    // SAFETY: only `map` sets it. The mapping is never undone, and the tables consist of atomics.
    unsafe { TABLES.load(Ordering::Acquire).as_ref() }
}

/// Unmaps regions that are no longer registered, after all threads of this process have stopped
/// reading them. Later withdrawals wait for the next sweep.
#[cold]
fn sweep(tables: &'static Tables, own: &EpochSlot) {
    if SWEEPING.swap(true, Ordering::AcqRel) {
        return;
    }
    SWEPT.store(tables.withdrawn.load(Ordering::Acquire), Ordering::Relaxed);
    let is_valid = |key, serial| region_of(tables, key).is_some_and(|region| region.serial.load(Ordering::Relaxed) == serial);
    let (gone, former) = (shared_memory::gone(is_valid), shared_memory::take_former());
    if !gone.is_empty() || !former.is_empty() {
        let deadline = Instant::now() + GRACE;
        if header().epoch_slots.iter().all(|slot| own.is(&slot.0) || has_ended(&slot.0, deadline)) {
            shared_memory::release_all(&gone, former);
        } else {
            // The mappings stay until regions are withdrawn again.
            shared_memory::put_former(former);
        }
    }
    SWEEPING.store(false, Ordering::Release);
}

/// Waits until the current transfer of a slot has ended. Returns false on timeout.
fn has_ended(slot: &AtomicU64, deadline: Instant) -> bool {
    let seen = slot.load(Ordering::SeqCst);
    while seen % 2 == 1 && slot.load(Ordering::SeqCst) == seen {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[inline]
fn region_of(tables: &'static Tables, key: u32) -> Option<&'static KeyEntry> {
    let entry = &tables.keys[key_index(key)?];
    (key != 0 && entry.key.load(Ordering::SeqCst) == key).then_some(entry)
}

impl TablesGuard {
    #[inline(always)]
    fn new(tables: &'static Tables, slot: EpochSlot) -> Self {
        if tables.withdrawn.load(Ordering::Relaxed) != SWEPT.load(Ordering::Relaxed) {
            sweep(tables, &slot);
        }
        Self { tables, _slot: slot }
    }

    /// Returns the queue pair at this entry, if the entry still belongs to it.
    #[inline]
    pub fn queue_pair(&self, index: u32, qpn: u32) -> Option<&'static QpEntry> {
        let entry = &self.tables.qps[(index as usize).min(QPS - 1)];
        // A child of a fork may hold its parent's queue pairs, but does not own them.
        let is_own = entry.pid.load(Ordering::Relaxed) == crate::fork::own_number();
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

/// Prefetches a cache line for a read soon, from the processor that wrote it.
#[inline]
pub(crate) fn will_read(at: *const u8) {
    // SAFETY: a prefetch is a hint and fails silently.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast()) };
}

/// Prefetches a cache line for a write soon. Locked instructions wait for all earlier writes, and
/// so for their cache lines.
#[inline]
pub(crate) fn will_write(at: *mut u8) {
    // SAFETY: a prefetch is a hint and fails silently; processors without this instruction do
    // nothing.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags)) };
}
