//! Bytes that the process has written to the page cache since the last `fsync`, by file.
//!
//! `write` may run in a signal handler, so the list allocates nothing and never waits.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files of the list. A further file takes the place of an older one, as if the kernel had written
/// that file back.
const FILES: usize = 256;

/// A file, and no later one that has got the number of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub device: u64,
    pub inode: u64,
    /// Seconds and nanoseconds. Zero if the file system keeps none.
    pub born: (i64, u32),
}

/// Bytes at an offset of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub bytes: u64,
}

const NOTHING: (File, Extent) = (File { device: 0, inode: 0, born: (0, 0) }, Extent { offset: 0, bytes: 0 });

struct List {
    entries: [(File, Extent); FILES],
    used: usize,
    /// Place for a file beyond the room.
    next: usize,
}

impl List {
    const fn new() -> Self {
        Self { entries: [NOTHING; FILES], used: 0, next: 0 }
    }

    fn position(&self, file: &File) -> Option<usize> {
        self.entries[..self.used].iter().position(|(known, _)| known == file)
    }

    /// Adds bytes to those of a file. The offset of the first write stays.
    fn add(&mut self, file: File, more: Extent) {
        if let Some(at) = self.position(&file) {
            let bytes = &mut self.entries[at].1.bytes;
            *bytes = bytes.saturating_add(more.bytes);
        } else if self.used < FILES {
            self.entries[self.used] = (file, more);
            self.used += 1;
        } else {
            self.entries[self.next] = (file, more);
            self.next = (self.next + 1) % FILES;
        }
    }

    fn take(&mut self, file: &File) -> Option<Extent> {
        let at = self.position(file)?;
        let (_, extent) = self.entries[at];
        self.used -= 1;
        self.entries[at] = self.entries[self.used];
        Some(extent)
    }
}

struct Shared {
    is_taken: AtomicBool,
    list: UnsafeCell<List>,
}

// SAFETY: only the caller that has set `is_taken` uses the list.
unsafe impl Sync for Shared {}

static UNWRITTEN: Shared = Shared { is_taken: AtomicBool::new(false), list: UnsafeCell::new(List::new()) };

/// Runs `body` with the list, or returns `None` in a signal handler that has interrupted its use.
fn with_list<R>(body: impl FnOnce(&mut List) -> R) -> Option<R> {
    if UNWRITTEN.is_taken.swap(true, Ordering::Acquire) {
        return None;
    }
    // SAFETY: the flag was clear, so nothing else uses the list until it is clear again.
    let result = body(unsafe { &mut *UNWRITTEN.list.get() });
    UNWRITTEN.is_taken.store(false, Ordering::Release);
    Some(result)
}

/// Notes bytes that have gone to the page cache.
pub fn add(file: File, more: Extent) {
    with_list(|list| list.add(file, more));
}

/// Returns the unwritten bytes of a file, and forgets them.
pub fn take(file: &File) -> Option<Extent> {
    with_list(|list| list.take(file)).flatten()
}

/// Forgets all files in a forked child: its parent pays for them. Another thread of the parent may
/// have held the list during the fork.
pub fn forget_all() {
    UNWRITTEN.is_taken.store(false, Ordering::Relaxed);
    with_list(|list| list.used = 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> File {
        File { device: 1, inode, born: (0, 0) }
    }

    #[test]
    fn bytes_of_a_file_add_up_until_their_sync() {
        let mut list = List::new();
        list.add(file(1), Extent { offset: 8, bytes: 2 });
        list.add(file(2), Extent { offset: 0, bytes: 5 });
        list.add(file(1), Extent { offset: 10, bytes: u64::MAX });
        assert_eq!(list.take(&file(1)), Some(Extent { offset: 8, bytes: u64::MAX }));
        assert_eq!(list.take(&file(1)), None);
        assert_eq!(list.take(&file(2)), Some(Extent { offset: 0, bytes: 5 }));
    }

    #[test]
    fn a_later_file_with_the_same_inode_has_no_bytes() {
        let mut list = List::new();
        list.add(file(1), Extent { offset: 0, bytes: 2 });
        assert_eq!(list.take(&File { born: (7, 0), ..file(1) }), None);
    }

    #[test]
    fn a_file_beyond_the_room_takes_the_place_of_the_first() {
        let mut list = List::new();
        let count = FILES as u64;
        (0..=count).for_each(|inode| list.add(file(inode), Extent { offset: 0, bytes: 1 }));
        assert_eq!(list.take(&file(0)), None);
        assert!((1..=count).all(|inode| list.take(&file(inode)).is_some()));
        assert_eq!(list.used, 0);
    }
}
