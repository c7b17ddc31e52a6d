//! Registered memory of peers, mapped here on first use from the peer's file.

use super::files::{self, with_file};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use softband_shm_transport::tables::{KEYS, KeyEntry, key_index};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Held while the mappings change, and over forks.
pub(crate) static PEERS: Mutex<()> = Mutex::new(());

/// Mapping of a region in this process. Writers hold the lock above.
/// They replace only a serial that the table no longer has.
struct Alias {
    /// Serial of the key's publication; 0 for none.
    serial: AtomicU64,
    /// Address of the page with the region's first byte; 0 if it could not be mapped.
    base: AtomicUsize,
    len: AtomicUsize,
    /// Address of that page in its own process.
    first: AtomicUsize,
}

static ALIASES: [Alias; KEYS] =
    [const { Alias { serial: AtomicU64::new(0), base: AtomicUsize::new(0), len: AtomicUsize::new(0), first: AtomicUsize::new(0) } }; KEYS];
/// Former mappings of keys that now have other regions. Threads may still be accessing them.
static FORMER: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
/// Keys with their serials.
static USED: Mutex<Vec<(u32, u64)>> = Mutex::new(Vec::new());

/// Returns the local address of byte `address` of a shared region. The caller holds a
/// [`crate::direct::TablesGuard`].
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
        return Some(()); // another thread has mapped it
    }
    // No unmapping here: another thread may be accessing the former region, which was withdrawn
    // meanwhile.
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
        // SAFETY: this is our own mapping of a withdrawn region, and each thread that was accessing
        // it has stopped.
        let _ = unsafe { munmap(base as *mut c_void, alias.len.load(Ordering::Relaxed)) };
    }
    alias.serial.store(0, Ordering::Relaxed);
}

/// Returns the mapped regions that are no longer registered, by key and serial.
pub(crate) fn gone(is_valid: impl Fn(u32, u64) -> bool) -> Vec<(u32, u64)> {
    let _one_at_a_time = super::lock(&PEERS);
    super::lock(&USED).iter().copied().filter(|(key, serial)| !is_valid(*key, *serial)).collect()
}

/// Takes the mappings of keys that now have other regions. The caller has them unmapped, or returns
/// them.
pub(crate) fn take_former() -> Vec<(usize, usize)> {
    let _one_at_a_time = super::lock(&PEERS); // held over forks
    std::mem::take(&mut *super::lock(&FORMER))
}

/// Returns former mappings that could not be unmapped yet.
pub(crate) fn put_former(mappings: Vec<(usize, usize)>) {
    let _one_at_a_time = super::lock(&PEERS);
    super::lock(&FORMER).extend(mappings);
}

/// Unmaps regions that no thread accesses any more, and former mappings.
pub(crate) fn release_all(gone: &[(u32, u64)], former: Vec<(usize, usize)>) {
    let _one_at_a_time = super::lock(&PEERS);
    release_locked(|used| gone.contains(used));
    files::forget_gone();
    for (base, len) in former {
        // SAFETY: this is our own mapping of a withdrawn region, and each thread that was accessing
        // it has stopped.
        let _ = unsafe { munmap(base as *mut c_void, len) };
    }
}

fn release_locked(goes: impl Fn(&(u32, u64)) -> bool) {
    super::lock(&USED).retain(|used| {
        let goes = goes(used);
        if goes && let Some(alias) = key_index(used.0).map(|index| &ALIASES[index]) {
            // The key may already belong to another region.
            if alias.serial.load(Ordering::Relaxed) == used.1 {
                release(alias);
            }
        }
        !goes
    });
}

/// Unmaps all regions, because a forked child shares none of its parent's mappings. The fork holds
/// the lock.
pub(crate) fn forget_all() {
    release_locked(|_| true);
    files::forget_all();
}
