//! Moving data in the posting thread: looking at the engine's tables, and the system calls.

use crate::session::header;
use crate::shared_memory;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use softband_ipc::layout::MOVERS;
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
    shared_memory::forget_peers();
    TABLES.store(std::ptr::null_mut(), Ordering::Release);
}

/// A stretch of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub address: u64,
    pub len_bytes: u64,
    /// Where it is mapped in this process; null where it is not.
    pub here: *mut u8,
}

impl Stretch {
    pub const EMPTY: Self = Self { address: 0, len_bytes: 0, here: std::ptr::null_mut() };

    /// `len_bytes` of it from byte `from` on.
    pub fn part(&self, from: u64, len_bytes: u64) -> Self {
        let here = if self.here.is_null() { self.here } else { self.here.wrapping_add(from as usize) };
        Self { address: self.address + from, len_bytes, here }
    }
}

/// The right to look at the tables: what is valid stays so while this lives. Locks of queues are taken before, not while looking.
pub struct Looking {
    tables: &'static Tables,
    /// Odd while this lives.
    slot: &'static AtomicU64,
}

/// Begins to move data.
#[inline]
pub fn look() -> Option<Looking> {
    // SAFETY: set once, by `map`; the mapping is never undone, and the tables consist of atomics.
    let tables = unsafe { TABLES.load(Ordering::Acquire).as_ref() }?;
    let slot = take_slot();
    if tables.withdrawn.load(Ordering::Relaxed) != SWEPT.load(Ordering::Relaxed) {
        sweep(tables, slot);
    }
    Some(Looking { tables, slot })
}

/// A slot that no other thread has, now odd.
#[inline]
fn take_slot() -> &'static AtomicU64 {
    // Threads have stacks of their own, so each mostly finds its former slot free.
    let here = 0u8;
    let first = (&raw const here) as usize >> 16;
    let first = first.wrapping_add(first >> 6);
    let slot = &header().movers[first % MOVERS].0;
    if try_slot(slot) { slot } else { take_another_slot(first) }
}

#[inline]
fn try_slot(slot: &AtomicU64) -> bool {
    let seen = slot.load(Ordering::Relaxed);
    // Sequentially consistent: the engine first takes an entry away and then looks at this.
    seen.is_multiple_of(2) && slot.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

#[cold]
fn take_another_slot(first: usize) -> &'static AtomicU64 {
    loop {
        let mut slots = (0..MOVERS).map(|place| &header().movers[first.wrapping_add(place) % MOVERS].0);
        if let Some(slot) = slots.find(|slot| try_slot(slot)) {
            return slot;
        }
        std::thread::yield_now();
    }
}

/// Gives back what was mapped of regions that are gone: decided first, done when nobody in this process can be reaching them any more.
/// What goes meanwhile is the next sweep's.
#[cold]
fn sweep(tables: &'static Tables, own: &AtomicU64) {
    if SWEEPING.swap(true, Ordering::AcqRel) {
        return;
    }
    SWEPT.store(tables.withdrawn.load(Ordering::Acquire), Ordering::Relaxed);
    let is_valid = |key, serial| region_of(tables, key).is_some_and(|region| region.serial.load(Ordering::Relaxed) == serial);
    let (gone, former) = (shared_memory::gone(is_valid), shared_memory::take_former());
    if !gone.is_empty() || !former.is_empty() {
        let deadline = Instant::now() + GRACE;
        if header().movers.iter().all(|slot| std::ptr::eq(&raw const slot.0, own) || has_ended(&slot.0, deadline)) {
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

impl Drop for Looking {
    #[inline]
    fn drop(&mut self) {
        // Nobody else changes it while it is odd.
        self.slot.store(self.slot.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

#[inline]
fn region_of(tables: &'static Tables, key: u32) -> Option<&'static KeyEntry> {
    let entry = &tables.keys[key_index(key)?];
    (key != 0 && entry.key.load(Ordering::SeqCst) == key).then_some(entry)
}

impl Looking {
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

    /// Where `len_bytes` at `iova` of a region are, if queue pair `by` may reach them with these rights.
    #[inline(always)]
    pub fn reach(&self, by: &QpEntry, key: u32, iova: u64, len_bytes: u64, rights: u32) -> Option<Stretch> {
        let region = region_of(self.tables, key)?;
        let same = |a: &AtomicU32, b: &AtomicU32| a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed);
        if !same(&region.hca, &by.hca) || !same(&region.pd, &by.pd) || !same(&region.pid, &by.pid) {
            return None;
        }
        let offset = iova.checked_sub(region.iova.load(Ordering::Relaxed))?;
        let fits = offset.checked_add(len_bytes)? <= region.len_bytes.load(Ordering::Relaxed);
        let allowed = region.access.load(Ordering::Relaxed) & rights == rights;
        if !fits || !allowed {
            return None;
        }
        let address = region.address.load(Ordering::Relaxed) + offset;
        Some(Stretch { address, len_bytes, here: shared_memory::alias(region, key, address).unwrap_or(std::ptr::null_mut()) })
    }
}

/// Copies from this process's `local` to `remote` of process `pid`; false unless all of it went.
#[inline(always)]
pub fn write(pid: u32, local: &[Stretch], remote: &[Stretch]) -> bool {
    if !are_here(local, remote) {
        return transfer(libc::SYS_process_vm_writev, pid, local, remote);
    }
    each_part(local, remote, |local, remote, len| {
        // SAFETY: both are mapped for as long as the caller looks, and are at least this long.
        unsafe { copy_upwards(local, remote, len) }
    });
    true
}

/// The other way round.
#[inline]
pub fn read(pid: u32, local: &[Stretch], remote: &[Stretch]) -> bool {
    if !are_here(local, remote) {
        return transfer(libc::SYS_process_vm_readv, pid, local, remote);
    }
    each_part(local, remote, |local, remote, len| {
        // SAFETY: as above.
        unsafe { copy_upwards(remote, local, len) }
    });
    true
}

#[inline]
fn are_here(local: &[Stretch], remote: &[Stretch]) -> bool {
    local.iter().chain(remote).all(|stretch| stretch.len_bytes == 0 || !stretch.here.is_null())
}

/// Pairs what is on one side with what is on the other, for as long as both have something.
#[inline(always)]
fn each_part(local: &[Stretch], remote: &[Stretch], copy: impl Fn(*mut u8, *mut u8, usize)) {
    if let ([from], [to]) = (local, remote) {
        return copy(from.here, to.here, from.len_bytes.min(to.len_bytes) as usize); // as most are
    }
    let mut others = remote.iter();
    let mut other = Stretch::EMPTY;
    for stretch in local {
        let mut stretch = *stretch;
        while stretch.len_bytes > 0 {
            if other.len_bytes == 0 {
                let Some(next) = others.next() else { return };
                other = *next;
                continue;
            }
            let len = stretch.len_bytes.min(other.len_bytes);
            copy(stretch.here, other.here, len as usize);
            stretch = stretch.part(len, stretch.len_bytes - len);
            other = other.part(len, other.len_bytes - len);
        }
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

/// Bytes at the end that are written one word after another.
const LAST_BYTES: usize = 64;

/// Copies bytes so that the last ones are seen last: programs look at the last byte to know that a message is there.
///
/// # Safety
/// Both are valid for `len` bytes. Others may read and write them at the same time.
#[inline]
unsafe fn copy_upwards(from: *const u8, to: *mut u8, len: usize) {
    let bulk = len.saturating_sub(LAST_BYTES);
    // SAFETY: the caller's promise.
    unsafe {
        if bulk > 0 {
            std::ptr::copy_nonoverlapping(from, to, bulk);
            // Large copies may go past the cache, where only this keeps them in order.
            std::arch::x86_64::_mm_sfence();
        }
        let (from, to, len) = (from.add(bulk), to.add(bulk), len - bulk);
        let words = len / 8;
        for word in 0..words {
            to.cast::<Unaligned>().add(word).write_volatile(from.cast::<Unaligned>().add(word).read_volatile());
        }
        for byte in words * 8..len {
            to.add(byte).write_volatile(from.add(byte).read_volatile());
        }
    }
}

/// Eight bytes anywhere.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(#[allow(dead_code)] u64);

const STRETCHES_MAX: usize = 64;

fn transfer(call: libc::c_long, pid: u32, local: &[Stretch], remote: &[Stretch]) -> bool {
    let bytes = local.iter().map(|stretch| stretch.len_bytes).sum::<u64>();
    if bytes == 0 {
        return true;
    }
    if local.len().max(remote.len()) > STRETCHES_MAX {
        return false;
    }
    let vector = |stretch: &Stretch| libc::iovec { iov_base: stretch.address as *mut libc::c_void, iov_len: stretch.len_bytes as usize };
    let mut here = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; STRETCHES_MAX];
    let mut there = here;
    for (to, from) in here.iter_mut().zip(local).chain(there.iter_mut().zip(remote)) {
        *to = vector(from);
    }
    // SAFETY: the kernel checks both sides' addresses; which of them may be named was checked against the tables.
    let moved = unsafe { libc::syscall(call, pid as libc::pid_t, here.as_ptr(), local.len(), there.as_ptr(), remote.len(), 0usize) };
    moved >= 0 && moved as u64 == bytes
}
