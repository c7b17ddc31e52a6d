//! Registered memory of this process, for code inside the program that must know the memory that
//! peers may write.
//!
//! A fixed table without locks, because signal handlers read it.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const REGIONS_MAX: usize = 1024;

/// One registered range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub address: usize,
    pub len: usize,
    /// A peer (or a receive) may write it.
    pub remote_writable: bool,
    /// `IBV_ACCESS_` bits.
    pub access: u32,
}

struct Cell {
    /// Zero: free. One: being filled.
    address: AtomicUsize,
    len: AtomicUsize,
    flags: AtomicU64,
}

static TABLE: [Cell; REGIONS_MAX] =
    [const { Cell { address: AtomicUsize::new(0), len: AtomicUsize::new(0), flags: AtomicU64::new(0) } }; REGIONS_MAX];
/// Index from which on no cell was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Grows with each change of the table.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Ranges that the table cannot hold: those beyond its room, and those that begin at no address
/// (implicit on-demand paging).
static UNLISTED: AtomicUsize = AtomicUsize::new(0);

/// Adds a registered range. Without room in the table, nobody watches this range.
pub fn add(address: usize, len: usize, remote_writable: bool, access: u32) {
    if len == 0 {
        return;
    }
    if address < 2 {
        UNLISTED.fetch_add(1, Ordering::AcqRel);
        return;
    }
    for (index, cell) in TABLE.iter().enumerate() {
        if cell.address.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            cell.len.store(len, Ordering::Relaxed);
            cell.flags.store(u64::from(access) | u64::from(remote_writable) << 32, Ordering::Relaxed);
            cell.address.store(address, Ordering::Release);
            USED.fetch_max(index + 1, Ordering::AcqRel);
            GENERATION.fetch_add(1, Ordering::AcqRel);
            return;
        }
    }
    UNLISTED.fetch_add(1, Ordering::AcqRel);
}

/// Removes one range that was added with the same address and length.
pub fn remove(address: usize, len: usize) {
    if len == 0 {
        return;
    }
    for cell in used().iter().filter(|_| address > 1) {
        if cell.address.load(Ordering::Acquire) == address && cell.len.load(Ordering::Relaxed) == len {
            cell.address.store(0, Ordering::Release);
            GENERATION.fetch_add(1, Ordering::AcqRel);
            return;
        }
    }
    let _ = UNLISTED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
}

/// Returns whether [`iter`] has all ranges.
pub fn are_all_listed() -> bool {
    UNLISTED.load(Ordering::Acquire) == 0
}

/// Returns a number that changes with each change of the table.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Returns all ranges, in arbitrary order.
pub fn iter() -> impl Iterator<Item = Region> {
    used().iter().filter_map(|cell| {
        let address = cell.address.load(Ordering::Acquire);
        let flags = cell.flags.load(Ordering::Relaxed);
        (address > 1).then(|| Region { address, len: cell.len.load(Ordering::Relaxed), remote_writable: flags >> 32 != 0, access: flags as u32 })
    })
}

fn used() -> &'static [Cell] {
    &TABLE[..USED.load(Ordering::Acquire).min(REGIONS_MAX)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_removed_region_is_not_seen_again() {
        super::add(0x10000, 4096, true, 3);
        super::add(0x20000, 64, false, 0);
        assert_eq!(super::iter().filter(|region| region.remote_writable).count(), 1);
        super::remove(0x10000, 4096);
        assert_eq!(super::iter().map(|region| region.address).collect::<Vec<_>>(), [0x20000]);
        // One test, because the table belongs to the process.
        super::add(0, usize::MAX, true, 3);
        assert!(!super::are_all_listed());
        super::remove(0, usize::MAX);
        assert!(super::are_all_listed());
    }
}
