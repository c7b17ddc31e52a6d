//! The table of shared mappings of this process.
//!
//! A fixed table without locks, because the handler of faults reads it. Only the thread with the
//! token changes it.

use softband_client as client;
use softband_ipc::calls::{SharedMapping, SharedRange, mapping, op};
use softband_ipc::layout::RANGES_MAX;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// Number of ranges up to which files on a disk count that the program only reads. Most of them are
/// data that nobody changes.
const DATA_MAX: usize = RANGES_MAX / 2;

/// The identity of shared memory ([`softband_ipc::calls::mapping`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub kind: u32,
    pub space: u64,
    pub number: u64,
}

struct Cell {
    /// Zero: free.
    start: AtomicUsize,
    end: AtomicUsize,
    /// The program's own access rights.
    rights: AtomicI32,
    /// Set while the pages have the program's own rights; otherwise they are read-only.
    is_open: AtomicBool,
    /// Set if the pages keep the program's own rights.
    stays_open: AtomicBool,
    /// Set while the pages are inaccessible, to notice a look.
    is_closed: AtomicBool,
    kind: AtomicU32,
    space: AtomicU64,
    number: AtomicU64,
}

static TABLE: [Cell; RANGES_MAX] = [const {
    Cell {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        rights: AtomicI32::new(0),
        is_open: AtomicBool::new(true),
        stays_open: AtomicBool::new(false),
        is_closed: AtomicBool::new(false),
        kind: AtomicU32::new(0),
        space: AtomicU64::new(0),
        number: AtomicU64::new(0),
    }
}; RANGES_MAX];
/// Index from which on no cell was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// One shared mapping.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    cell: &'static Cell,
    index: usize,
    pub start: usize,
    pub end: usize,
    pub rights: i32,
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:#x}", self.start.load(Ordering::Relaxed))
    }
}

impl Mapping {
    pub fn is_writable(&self) -> bool {
        self.rights & libc::PROT_WRITE != 0
    }

    pub fn is_open(&self) -> bool {
        self.cell.is_open.load(Ordering::Relaxed)
    }

    /// Returns whether the pages keep the program's own rights.
    pub fn stays_open(&self) -> bool {
        self.cell.stays_open.load(Ordering::Relaxed)
    }

    pub fn keep_open(&self) {
        self.cell.stays_open.store(true, Ordering::Relaxed);
    }

    /// Returns the present access rights of the pages.
    pub fn present_rights(&self) -> i32 {
        match (self.is_closed(), self.is_open()) {
            (true, _) => libc::PROT_NONE,
            (false, true) => self.rights,
            (false, false) => self.rights & !libc::PROT_WRITE,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.cell.is_closed.load(Ordering::Relaxed)
    }

    /// Makes the pages inaccessible, or gives them their present rights. Returns false if the kernel
    /// refuses.
    pub fn set_closed(&self, on: bool) -> bool {
        self.cell.is_closed.store(on, Ordering::Relaxed);
        let done = self.protect(self.present_rights());
        if !done && on {
            // The kernel stops at a hole, and has closed the pages before it.
            self.set_closed(false);
        }
        done
    }

    fn protect(&self, rights: i32) -> bool {
        // SAFETY: the range is a mapping of the program, which has at least these rights.
        unsafe { kernel!(libc::SYS_mprotect, self.start, self.end - self.start, rights) == 0 }
    }

    pub fn overlaps(&self, range: &Range<usize>) -> bool {
        self.start < range.end && range.start < self.end
    }

    /// Returns whether another process has the memory.
    pub fn is_shared(&self) -> bool {
        client::header().shared_ranges[self.index / 64].load(Ordering::Relaxed) & self.bit() != 0
    }

    fn bit(&self) -> u64 {
        1 << (self.index % 64)
    }

    /// Notes in the header that the program writes the memory in this turn.
    pub fn note_write(&self) {
        let header = client::header();
        header.written_ranges[self.index / 64].fetch_or(self.bit(), Ordering::Relaxed);
        let _ = header.written_at_ps.compare_exchange(0, client::now_ps().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Gives the pages the program's own rights, or takes the right to write away. Returns false if
    /// the kernel refuses.
    pub fn set_open(&self, on: bool) -> bool {
        let rights = if on { self.rights } else { self.rights & !libc::PROT_WRITE };
        let done = self.protect(rights);
        if done {
            self.cell.is_open.store(on, Ordering::Relaxed);
            self.cell.is_closed.store(false, Ordering::Relaxed);
        }
        done
    }

    fn memory(&self) -> Memory {
        Memory {
            kind: self.cell.kind.load(Ordering::Relaxed),
            space: self.cell.space.load(Ordering::Relaxed),
            number: self.cell.number.load(Ordering::Relaxed),
        }
    }
}

/// Returns whether the table was ever used.
pub fn any() -> bool {
    USED.load(Ordering::Relaxed) != 0
}

/// Returns all mappings.
pub fn iter() -> impl Iterator<Item = Mapping> {
    TABLE[..USED.load(Ordering::Acquire)].iter().enumerate().filter_map(|(index, cell)| {
        let start = cell.start.load(Ordering::Acquire);
        let (end, rights) = (cell.end.load(Ordering::Relaxed), cell.rights.load(Ordering::Relaxed));
        (start != 0).then_some(Mapping { cell, index, start, end, rights })
    })
}

/// Returns the mapping at an address.
pub fn at(address: usize) -> Option<Mapping> {
    iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
}

/// Adds a mapping of whole pages. Without room in the table, nobody follows it.
pub fn add(range: Range<usize>, rights: i32, memory: Memory) {
    let range = range.start..range.end.next_multiple_of(PAGE);
    if iter().any(|known| known.start == range.start && known.end == range.end && known.rights == rights && known.memory() == memory) {
        return;
    }
    forget(range.clone());
    insert(range, rights, memory, true);
}

fn insert(range: Range<usize>, rights: i32, memory: Memory, is_open: bool) {
    let is_data = memory.kind == mapping::DISK_FILE && rights & libc::PROT_WRITE == 0;
    let room = if is_data { DATA_MAX } else { RANGES_MAX };
    let Some(index) = TABLE[..room].iter().position(|cell| cell.start.load(Ordering::Relaxed) == 0) else {
        if is_data {
            return;
        }
        return client::warn::once("more shared mappings than Softband follows: programs that poll the others see writes up to a millisecond late");
    };
    let cell = &TABLE[index];
    cell.end.store(range.end, Ordering::Relaxed);
    cell.rights.store(rights, Ordering::Relaxed);
    cell.is_open.store(is_open, Ordering::Relaxed);
    cell.stays_open.store(false, Ordering::Relaxed);
    cell.is_closed.store(false, Ordering::Relaxed);
    cell.kind.store(memory.kind, Ordering::Relaxed);
    cell.space.store(memory.space, Ordering::Relaxed);
    cell.number.store(memory.number, Ordering::Relaxed);
    cell.start.store(range.start, Ordering::Release);
    USED.fetch_max(index + 1, Ordering::AcqRel);
    let Memory { kind, space, number } = memory;
    let (start, end, writable) = (range.start as u64, range.end as u64, u64::from(rights & libc::PROT_WRITE != 0));
    let _ = client::call::<op::MapShared>(&SharedMapping { range: index as u32, kind, space, number, start, end, writable });
}

/// Removes what the table has of a range.
pub fn forget(range: Range<usize>) {
    let range = range.start..range.end.next_multiple_of(PAGE);
    while let Some(known) = iter().find(|known| known.overlaps(&range)) {
        let (memory, is_open) = (known.memory(), known.is_open());
        known.cell.start.store(0, Ordering::Release);
        let _ = client::call::<op::UnmapShared>(&SharedRange { range: known.index as u32, reserved: 0 });
        for rest in [known.start..range.start, range.end..known.end] {
            if rest.start < rest.end && rest.start >= known.start && rest.end <= known.end {
                insert(rest, known.rights, memory, is_open);
            }
        }
    }
}

/// Notes that the program has set the access rights of a range.
pub fn set_rights(range: Range<usize>, rights: i32) {
    let range = range.start..range.end.next_multiple_of(PAGE);
    let touched: Vec<(Range<usize>, Memory)> =
        iter().filter(|known| known.overlaps(&range)).map(|known| (known.start.max(range.start)..known.end.min(range.end), known.memory())).collect();
    for (part, memory) in touched {
        forget(part.clone());
        insert(part, rights, memory, true);
    }
}

/// Returns the memory of the mapping at an address.
pub fn memory_at(address: usize) -> Option<Memory> {
    at(address).map(|mapping| mapping.memory())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_in_a_mapping_leaves_both_ends() {
        let memory = Memory { kind: 0, space: 1, number: 2 };
        add(0x10_0000..0x10_8000, libc::PROT_READ, memory);
        add(0x10_0000..0x10_8000, libc::PROT_READ, memory);
        assert_eq!(iter().count(), 1, "the same mapping again changes nothing");
        forget(0x10_2000..0x10_3001);
        let mut left: Vec<_> = iter().map(|mapping| (mapping.start, mapping.end)).collect();
        left.sort_unstable();
        assert_eq!(left, [(0x10_0000, 0x10_2000), (0x10_4000, 0x10_8000)]);
        set_rights(0x10_6000..0x10_7000, libc::PROT_READ | libc::PROT_WRITE);
        assert!(at(0x10_6fff).is_some_and(|mapping| mapping.is_writable()));
        assert!(at(0x10_7000).is_some_and(|mapping| !mapping.is_writable()));
        assert_eq!(memory_at(0x10_3000), None);
        forget(0..0x20_0000);
        assert_eq!(iter().count(), 0);
    }
}
