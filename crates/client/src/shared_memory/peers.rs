//! Peers' registered memory, mapped here on first use, by the file in which it lies.

use super::files::{self, with_file};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use softband_ipc::tables::{KEYS, KeyEntry, key_index};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Held while what is mapped here changes; over forks too.
pub(crate) static PEERS: Mutex<()> = Mutex::new(());

/// Where a region is mapped here. Written under the lock above, and before by nobody who reaches the region of the former serial.
struct Alias {
    /// Which publication of a key it is of; 0 for none.
    serial: AtomicU64,
    /// Where the page that holds the region's first byte is mapped; 0 when it could not be.
    base: AtomicUsize,
    len: AtomicUsize,
    /// Address of that page in its own process.
    first: AtomicUsize,
}

static ALIASES: [Alias; KEYS] =
    [const { Alias { serial: AtomicU64::new(0), base: AtomicUsize::new(0), len: AtomicUsize::new(0), first: AtomicUsize::new(0) } }; KEYS];
/// Where regions were mapped whose keys have others behind them now: somebody may still be reaching them.
static FORMER: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
/// Keys with their serials.
static USED: Mutex<Vec<(u32, u64)>> = Mutex::new(Vec::new());

/// Where byte `address` of a shared region is mapped here, if it is shared. The caller holds a [`crate::direct::TablesGuard`].
pub(crate) fn alias(entry: &KeyEntry, key: u32, address: u64) -> Option<*mut u8> {
    let alias = &ALIASES[key_index(key)?];
    if alias.serial.load(Ordering::Acquire) != entry.serial.load(Ordering::Relaxed) {
        map(entry, alias, key)?;
    }
    let base = alias.base.load(Ordering::Relaxed);
    (base != 0).then(|| (base + (address as usize - alias.first.load(Ordering::Relaxed))) as *mut u8)
}

#[cold]
fn map(entry: &KeyEntry, alias: &Alias, key: u32) -> Option<()> {
    let _one_at_a_time = super::lock(&PEERS);
    if alias.serial.load(Ordering::Relaxed) == entry.serial.load(Ordering::Relaxed) {
        return Some(()); // another thread has done it
    }
    // Not unmapped: another thread may be reaching the former region, which was withdrawn meanwhile.
    let former = (alias.base.swap(0, Ordering::Relaxed), alias.len.load(Ordering::Relaxed));
    if former.0 != 0 {
        super::lock(&FORMER).push(former);
    }
    let number = Some(entry.file.load(Ordering::Relaxed)).filter(|number| *number != 0)?;
    let (first, end) = super::pages(entry.address.load(Ordering::Relaxed) as usize, entry.len_bytes.load(Ordering::Relaxed) as usize);
    let serial = entry.serial.load(Ordering::Relaxed);
    // SAFETY: a fresh mapping of a file that is larger than any address.
    let mapped = with_file(number, entry.pid.load(Ordering::Relaxed), |file| unsafe {
        mmap(std::ptr::null_mut(), end - first, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, first as u64).ok()
    });
    alias.base.store(mapped.map_or(0, |base| base as usize), Ordering::Relaxed);
    alias.len.store(end - first, Ordering::Relaxed);
    alias.first.store(first, Ordering::Relaxed);
    alias.serial.store(serial, Ordering::Release);
    super::lock(&USED).push((key, serial));
    Some(())
}

fn release(alias: &Alias) {
    let base = alias.base.swap(0, Ordering::Relaxed);
    if base != 0 {
        // SAFETY: our own mapping of a region that is gone: each thread that was reaching it has ended that.
        let _ = unsafe { munmap(base as *mut c_void, alias.len.load(Ordering::Relaxed)) };
    }
    alias.serial.store(0, Ordering::Relaxed);
}

/// Which of what is mapped here is of regions that are registered no more, by key and serial.
pub(crate) fn gone(is_valid: impl Fn(u32, u64) -> bool) -> Vec<(u32, u64)> {
    let _one_at_a_time = super::lock(&PEERS);
    super::lock(&USED).iter().copied().filter(|(key, serial)| !is_valid(*key, *serial)).collect()
}

/// The mappings of regions whose keys are others' now. The caller has them unmapped, or gives them back.
pub(crate) fn take_former() -> Vec<(usize, usize)> {
    let _one_at_a_time = super::lock(&PEERS); // held over forks
    std::mem::take(&mut *super::lock(&FORMER))
}

/// Not yet.
pub(crate) fn put_former(mappings: Vec<(usize, usize)>) {
    let _one_at_a_time = super::lock(&PEERS);
    super::lock(&FORMER).extend(mappings);
}

/// Unmaps regions that nobody reaches any more, and former mappings.
pub(crate) fn release_all(gone: &[(u32, u64)], former: Vec<(usize, usize)>) {
    let _one_at_a_time = super::lock(&PEERS);
    release_locked(|used| gone.contains(used));
    files::forget_gone();
    for (base, len) in former {
        // SAFETY: our own mapping of a region that is gone: each thread that was reaching it has ended that.
        let _ = unsafe { munmap(base as *mut c_void, len) };
    }
}

fn release_locked(goes: impl Fn(&(u32, u64)) -> bool) {
    super::lock(&USED).retain(|used| {
        let goes = goes(used);
        if goes && let Some(alias) = key_index(used.0).map(|index| &ALIASES[index]) {
            // Another region may have the key by now.
            if alias.serial.load(Ordering::Relaxed) == used.1 {
                release(alias);
            }
        }
        !goes
    });
}

/// A forked child has no part in what its parent reaches. The lock is the fork's.
pub(crate) fn forget_all() {
    release_locked(|_| true);
    files::forget_all();
}
