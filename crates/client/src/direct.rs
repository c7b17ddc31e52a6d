//! This process as a party of the data plane ([`softband_shm_transport`]): its mappings, and the
//! types of the data plane for it.

use crate::fork::table_number;
use crate::session::{header, thread_pointer};
use crate::shared_memory;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use softband_ipc::layout::{EPOCH_SLOTS, LineOf};
use softband_shm_transport::epoch_slots::{EpochSlot, Owners};
use softband_shm_transport::platform::Platform;
use softband_shm_transport::tables::{KeyEntry, Tables};
use softband_shm_transport::{receive_queue, remote_cqe_ring, rq_consumer_lock, tables_guard};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static TABLES: AtomicPtr<Tables> = AtomicPtr::new(std::ptr::null_mut());
static OWNERS: Owners = Owners::new();
/// Value of `withdrawn` in the tables at this process's last sweep.
static SWEPT: AtomicU32 = AtomicU32::new(0);
/// Set during a sweep, which one thread at a time runs.
static SWEEPING: AtomicBool = AtomicBool::new(false);
/// Longest wait of a sweep for transfers of other threads. Only a stopped thread takes this long.
const GRACE: Duration = Duration::from_millis(100);

/// This process.
#[derive(Clone, Copy, Default)]
pub struct Here;

pub type TablesGuard = tables_guard::TablesGuard<Here>;
pub type PendingGuard = tables_guard::PendingGuard<Here>;
pub type ReceiveQueue = receive_queue::ReceiveQueue<Here>;
pub type Front<'a> = receive_queue::Front<'a, Here>;
pub type RqConsumerLock<'a> = rq_consumer_lock::RqConsumerLock<'a, Here>;
pub type RemoteCqeRing = remote_cqe_ring::RemoteCqeRing<Here>;

/// Begins a transfer ([`tables_guard::guard_tables`]).
#[inline(always)]
pub fn guard_tables() -> Option<TablesGuard> {
    tables_guard::guard_tables()
}

/// Begins a transfer for callers that take a lock next ([`tables_guard::announce`]).
#[inline(always)]
pub fn announce() -> Option<PendingGuard> {
    tables_guard::announce()
}

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
    OWNERS.forget();
    shared_memory::forget_peers();
    TABLES.store(std::ptr::null_mut(), Ordering::Release);
}

impl Platform for Here {
    #[inline(always)]
    fn own_number() -> u32 {
        table_number()
    }

    fn is_attached_process() -> bool {
        crate::fork::is_attached_process()
    }

    #[inline(always)]
    fn thread() -> u64 {
        thread_pointer() as u64
    }

    #[inline(always)]
    fn is_single_threaded() -> bool {
        crate::single_threaded::is_single_threaded()
    }

    fn note_several_threads() {
        crate::single_threaded::forget();
    }

    fn is_gone(pid: u32) -> bool {
        // No number of a shared fabric is a PID. Its engine cleans up after processes that end.
        if crate::connection::is_shared() {
            return false;
        }
        rustix::process::Pid::from_raw(pid as i32).is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }

    #[inline]
    fn now_ps() -> u64 {
        crate::now_ps()
    }

    fn yield_now() {
        std::thread::yield_now();
    }

    #[inline(always)]
    fn epoch_slots() -> &'static [LineOf<AtomicU64>; EPOCH_SLOTS] {
        &header().epoch_slots
    }

    #[inline(always)]
    fn owners() -> &'static Owners {
        &OWNERS
    }

    #[inline(always)]
    fn tables() -> Option<&'static Tables> {
        // SAFETY: only `map` sets it. The mapping is never undone, and the tables consist of atomics.
        unsafe { TABLES.load(Ordering::Acquire).as_ref() }
    }

    #[inline(always)]
    fn swept() -> &'static AtomicU32 {
        &SWEPT
    }

    #[cold]
    fn sweep(tables: &'static Tables, own: &EpochSlot) {
        sweep(tables, own);
    }

    #[inline]
    fn alias(entry: &KeyEntry, key: u32, address: u64) -> Option<*mut u8> {
        shared_memory::alias(entry, key, address)
    }

    fn map_part(file: u32, offset: u64, bytes: usize) -> Option<*mut u8> {
        shared_memory::map_part(file, offset, bytes)
    }

    unsafe fn unmap_part(base: *mut u8, bytes: usize) {
        // SAFETY: the caller unmaps a part that `map_part` mapped, and keeps no reference into it.
        unsafe { shared_memory::unmap_part(base, bytes) };
    }
}

/// Unmaps regions that are no longer registered, after all threads of this process have stopped
/// reading them. Later withdrawals wait for the next sweep.
#[cold]
fn sweep(tables: &'static Tables, own: &EpochSlot) {
    if SWEEPING.swap(true, Ordering::AcqRel) {
        return;
    }
    SWEPT.store(tables.withdrawn.load(Ordering::Acquire), Ordering::Relaxed);
    let is_valid = |key, serial| tables_guard::region_of(tables, key).is_some_and(|region| region.serial.load(Ordering::Relaxed) == serial);
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
