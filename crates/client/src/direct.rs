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
/// What `withdrawn` of the tables was when this process last looked for what it need not keep.
static SWEPT: AtomicU32 = AtomicU32::new(0);
/// One thread at a time looks for that.
static SWEEPING: AtomicBool = AtomicBool::new(false);
/// How long it waits for the others to end what they are moving; none takes this long but one that was stopped.
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

/// A forked child has no part in its parent's queue pairs; it maps the tables anew when it attaches.
pub(crate) fn forget() {
    SWEEPING.store(false, Ordering::Release);
    epoch_slots::forget();
    shared_memory::forget_peers();
    TABLES.store(std::ptr::null_mut(), Ordering::Release);
}

/// The right to read the tables: valid entries stay valid while this lives. Locks of queues are taken before it, not under it.
pub struct TablesGuard {
    tables: &'static Tables,
    _slot: EpochSlot,
}

/// Begins to move data.
#[inline]
pub fn guard_tables() -> Option<TablesGuard> {
    Some(TablesGuard::new(tables()?, EpochSlot::take::<true>()))
}

/// The announcement of a guard: this thread is about to read the tables.
pub struct PendingGuard {
    tables: &'static Tables,
    slot: EpochSlot,
}

/// Begins to move data, for callers that take a lock next: its locked instruction serves both.
#[inline(always)]
pub fn announce() -> Option<PendingGuard> {
    Some(PendingGuard { tables: tables()?, slot: EpochSlot::take::<false>() })
}

impl PendingGuard {
    /// The lock is taken: a locked instruction of this thread has come since, or the process is single-threaded.
    #[inline(always)]
    pub fn guard_after_lock(self) -> TablesGuard {
        TablesGuard::new(self.tables, self.slot)
    }
}

#[inline]
fn tables() -> Option<&'static Tables> {
    // SAFETY: set once, by `map`; the mapping is never undone, and the tables consist of atomics.
    unsafe { TABLES.load(Ordering::Acquire).as_ref() }
}

/// Gives back what was mapped of regions that are gone: decided first, done when nobody in this process can be reaching them any more.
/// What goes meanwhile is the next sweep's.
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
            // They stay mapped until regions are withdrawn again.
            shared_memory::put_former(former);
        }
    }
    SWEEPING.store(false, Ordering::Release);
}

/// Waits until what is under way in a slot has ended; false when that takes too long.
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

    /// A queue pair by its entry, if that is still this queue pair's.
    #[inline]
    pub fn queue_pair(&self, index: u32, qpn: u32) -> Option<&'static QpEntry> {
        let entry = &self.tables.qps[(index as usize).min(QPS - 1)];
        // A child of a fork may hold its parent's queue pairs, but they are not its own.
        let is_own = entry.pid.load(Ordering::Relaxed) == crate::fork::own_number();
        (qpn != 0 && entry.qpn.load(Ordering::SeqCst) == qpn && is_own).then_some(entry)
    }

    /// The queue pair that `of` leads to, if that one is connected to `of`.
    #[inline]
    pub fn peer(&self, of: &QpEntry) -> Option<&'static QpEntry> {
        let peer = of.peer.load(Ordering::Acquire).checked_sub(1)?;
        let entry = self.tables.qps.get(peer as usize)?;
        let same = |a: &AtomicU32, b: &AtomicU32| a.load(Ordering::SeqCst) == b.load(Ordering::SeqCst);
        let is_it = entry.qpn.load(Ordering::SeqCst) != 0 && same(&entry.qpn, &of.dest_qpn) && same(&entry.dest_qpn, &of.qpn);
        is_it.then_some(entry)
    }

    /// Another one after each change of who is in which multicast group.
    #[inline]
    pub fn groups_version(&self) -> u32 {
        self.tables.groups.load(Ordering::SeqCst)
    }

    /// The queue pair that datagrams for this address reach, if that is the one of this entry.
    #[inline]
    pub fn datagram_receiver(&self, index: u32, lid: u16, qpn: u32) -> Option<&'static QpEntry> {
        let entry = self.tables.qps.get(index as usize)?;
        let is_it = qpn != 0 && entry.qpn.load(Ordering::SeqCst) == qpn && lid != 0 && entry.lid.load(Ordering::SeqCst) == u32::from(lid);
        is_it.then_some(entry)
    }

    /// The entry whose receive queue a queue pair takes from: its own, or that of a shared one.
    #[inline]
    pub fn receives_of(&self, of: &'static QpEntry) -> Option<&'static QpEntry> {
        let Some(shared) = of.srq.load(Ordering::Acquire).checked_sub(1) else { return Some(of) };
        let entry = self.tables.qps.get(shared as usize)?;
        shared_queue_of(entry.qpn.load(Ordering::SeqCst)).map(|_| entry)
    }

    /// The entry of the shared receive queue that a message for `target` names, if that is of the target's domain.
    pub fn queue_of_domain(&self, index: u32, number: u32, target: &QpEntry) -> Option<&'static QpEntry> {
        let entry = self.tables.qps.get(index as usize)?;
        let xrcd = target.xrcd.load(Ordering::SeqCst);
        let is_it = xrcd != 0 && entry.xrcd.load(Ordering::SeqCst) == xrcd && entry.dest_qpn.load(Ordering::SeqCst) == number;
        shared_queue_of(entry.qpn.load(Ordering::SeqCst)).filter(|_| is_it).map(|_| entry)
    }

    /// The entry of a key, if there is such a region.
    pub(crate) fn region(&self, key: u32) -> Option<&'static KeyEntry> {
        region_of(self.tables, key)
    }
}

/// Fetches the cache line of something that will be read soon, from the processor that has written it.
#[inline]
pub(crate) fn will_read(at: *const u8) {
    // SAFETY: a hint, which fails silently.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast()) };
}

/// The same for something that will be written. Locked instructions wait for all writes before them, and with them for those lines.
#[inline]
pub(crate) fn will_write(at: *mut u8) {
    // SAFETY: a hint, which fails silently; processors that do not know it do nothing.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags)) };
}
