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

/// Place of a range in the table. Ranges can be equal and have other rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The range is empty.
    Nothing,
    /// The table cannot hold the range.
    Unlisted,
    /// Index of the cell.
    Cell(usize),
}

/// Adds a registered range. Without room in the table, nobody watches this range.
pub fn add(address: usize, len: usize, remote_writable: bool, access: u32) -> Listing {
    if len == 0 {
        return Listing::Nothing;
    }
    if address < 2 {
        UNLISTED.fetch_add(1, Ordering::AcqRel);
        return Listing::Unlisted;
    }
    for (index, cell) in TABLE.iter().enumerate() {
        if cell.address.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            cell.len.store(len, Ordering::Relaxed);
            cell.flags.store(u64::from(access) | u64::from(remote_writable) << 32, Ordering::Relaxed);
            cell.address.store(address, Ordering::Release);
            USED.fetch_max(index + 1, Ordering::AcqRel);
            GENERATION.fetch_add(1, Ordering::AcqRel);
            return Listing::Cell(index);
        }
    }
    UNLISTED.fetch_add(1, Ordering::AcqRel);
    Listing::Unlisted
}

/// Removes a range, once.
pub fn remove(listing: Listing) {
    match listing {
        Listing::Nothing => {}
        Listing::Unlisted => {
            let _ = UNLISTED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
        }
        Listing::Cell(index) => {
            if let Some(cell) = TABLE.get(index) {
                cell.address.store(0, Ordering::Release);
                GENERATION.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
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
        let first = super::add(0x10000, 4096, true, 3);
        super::add(0x20000, 64, false, 0);
        let equal = super::add(0x10000, 4096, false, 0);
        super::remove(equal);
        assert_eq!(super::iter().filter(|region| region.remote_writable).count(), 1);
        super::remove(first);
        assert_eq!(super::iter().map(|region| region.address).collect::<Vec<_>>(), [0x20000]);
        // One test, because the table belongs to the process.
        let whole = super::add(0, usize::MAX, true, 3);
        assert!(!super::are_all_listed());
        super::remove(whole);
        assert!(super::are_all_listed());
    }
}
