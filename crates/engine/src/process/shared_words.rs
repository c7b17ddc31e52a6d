//! Words of programs' memory that programs change with atomic instructions, in wall pace. The
//! engine must also use atomic instructions on them. Otherwise one change would undo the other.

use crate::process::image::Mapped;
use rustix::fd::{AsFd, OwnedFd};
use softband_types::ProcessId;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const PAGE_BYTES: u64 = 4096;

/// A registered region in the memory file of its process.
struct Region {
    key: u32,
    start: u64,
    end: u64,
    file: Arc<OwnedFd>,
}

/// Page of the last word. It usually contains the next word too.
struct Page {
    process: ProcessId,
    address: u64,
    mapped: Mapped,
}

/// Regions of all processes, by process number.
#[derive(Default)]
pub(crate) struct SharedWords {
    regions: Vec<Vec<Region>>,
    last: Option<Page>,
}

impl SharedWords {
    /// Notes a region that programs can map from now on.
    pub(crate) fn note(&mut self, process: ProcessId, key: u32, (start, len): (u64, u64), file: Arc<OwnedFd>) {
        let index = process.0 as usize;
        if self.regions.len() <= index {
            self.regions.resize_with(index + 1, Vec::new);
        }
        self.regions[index].push(Region { key, start, end: start.saturating_add(len), file });
    }

    /// Forgets a region that no program maps any more.
    pub(crate) fn forget(&mut self, process: ProcessId, key: u32) {
        self.forget_those(process, |region| region.key == key);
    }

    pub(crate) fn forget_process(&mut self, process: ProcessId) {
        self.forget_those(process, |_| true);
    }

    fn forget_those(&mut self, process: ProcessId, goes: impl Fn(&Region) -> bool) {
        if let Some(regions) = self.regions.get_mut(process.0 as usize) {
            regions.retain(|region| !goes(region));
        }
        if self.last.as_ref().is_some_and(|page| page.process == process) {
            self.last = None;
        }
    }

    /// Returns the word at `address`, if programs can map it.
    pub(crate) fn word(&mut self, process: ProcessId, address: u64) -> Option<&AtomicU64> {
        if !address.is_multiple_of(size_of::<AtomicU64>() as u64) {
            return None;
        }
        let page = address & !(PAGE_BYTES - 1);
        if !self.last.as_ref().is_some_and(|last| last.process == process && last.address == page) {
            let regions = self.regions.get(process.0 as usize)?;
            // The file contains whole pages. A word beside a region may belong to another region
            // that is not noted as shared.
            let touches = |region: &&Region| region.start < page.saturating_add(PAGE_BYTES) && region.end > page;
            let file = &regions.iter().find(touches)?.file;
            let mapped = Mapped::new(file.as_fd(), page, PAGE_BYTES as usize)?;
            self.last = Some(Page { process, address: page, mapped });
        }
        let base = self.last.as_ref()?.mapped.base();
        // SAFETY: the word is aligned and lies within the page. The page stays mapped as long as it
        // is the last page, which cannot change during this borrow.
        Some(unsafe { AtomicU64::from_ptr(base.add((address - page) as usize).cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_word_is_shared_as_long_as_a_region_of_its_page_is() {
        let file = Arc::new(memfd_create("words", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, 3 * PAGE_BYTES).unwrap();
        let (owner, other) = (ProcessId(1), ProcessId(0));
        let mut words = SharedWords::default();
        assert!(words.word(owner, PAGE_BYTES).is_none());
        words.note(owner, 7, (PAGE_BYTES + 64, 64), file.clone());
        words.note(owner, 8, (PAGE_BYTES + 256, PAGE_BYTES), file.clone());
        assert_eq!(words.word(owner, PAGE_BYTES + 64).unwrap().fetch_add(5, Ordering::SeqCst), 0);
        let mut bytes = [0; 8];
        rustix::io::pread(&file, &mut bytes[..], PAGE_BYTES + 64).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 5);
        assert!(words.word(owner, PAGE_BYTES + 65).is_none(), "it may lie across two pages");
        assert!(words.word(other, PAGE_BYTES + 64).is_none() && words.word(owner, 0).is_none());
        words.forget(owner, 8);
        assert!(words.word(owner, 2 * PAGE_BYTES).is_none() && words.word(owner, PAGE_BYTES).is_some());
        words.forget_process(owner);
        assert!(words.word(owner, PAGE_BYTES + 64).is_none());
    }
}
