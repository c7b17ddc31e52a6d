//! A cache of memory translations: what a key allows, and where its memory is mapped here.

use crate::direct::TablesGuard;
use crate::memory_spans::MemorySpan;
use crate::shared_memory;
use softband_ipc::tables::{KeyEntry, QpEntry};
use std::sync::atomic::Ordering;

/// The translation of one memory key, kept after its first use. It holds as long as the key and its serial are those of the entry: nothing
/// else of a region changes meanwhile.
#[derive(Default)]
pub struct CachedMkey {
    entry: Option<&'static KeyEntry>,
    key: u32,
    pd: u32,
    access: u32,
    serial: u64,
    iova: u64,
    len_bytes: u64,
    address: u64,
    /// Where its first byte is mapped here; 0 where it is not.
    here: usize,
}

impl CachedMkey {
    #[inline(always)]
    fn is_still(&self, key: u32) -> bool {
        self.entry
            .is_some_and(|entry| self.key == key && entry.key.load(Ordering::SeqCst) == key && entry.serial.load(Ordering::Relaxed) == self.serial)
    }

    /// The caller holds a guard.
    #[cold]
    fn find(&mut self, guard: &TablesGuard, key: u32) -> Option<()> {
        *self = Self::default();
        let entry = guard.region(key)?;
        let serial = entry.serial.load(Ordering::SeqCst);
        let address = entry.address.load(Ordering::Relaxed);
        let found = Self {
            entry: Some(entry),
            key,
            pd: entry.pd.load(Ordering::Relaxed),
            access: entry.access.load(Ordering::Relaxed),
            serial,
            iova: entry.iova.load(Ordering::Relaxed),
            len_bytes: entry.len_bytes.load(Ordering::Relaxed),
            address,
            here: shared_memory::alias(entry, key, address).map_or(0, |here| here as usize),
        };
        // Of one region, all of it: this thread may have been stopped for so long that the engine put another one there meanwhile.
        found.is_still(key).then(|| *self = found)
    }

    /// Where `len_bytes` at `iova` are, if queue pair `by` may reach them with these rights.
    #[inline(always)]
    fn span(&self, by: &QpEntry, (iova, len_bytes): (u64, u64), rights: u32) -> Option<MemorySpan> {
        // A domain is one process's, on one HCA.
        let is_in_domain = self.pd == by.pd.load(Ordering::Relaxed);
        let offset = iova.wrapping_sub(self.iova);
        let fits = offset <= self.len_bytes && len_bytes <= self.len_bytes - offset;
        if !is_in_domain || !fits || self.access & rights != rights {
            return None;
        }
        let here = if self.here == 0 { 0 } else { self.here + offset as usize };
        Some(MemorySpan { address: self.address.wrapping_add(offset), len_bytes, here: here as *mut u8 })
    }
}

impl TablesGuard {
    /// Where `len_bytes` at `iova` of the region of `key` are, if queue pair `by` may reach them with these rights. `last` is the
    /// translation that the request before used, which is mostly the same.
    #[inline(always)]
    pub fn translate(&self, last: &mut CachedMkey, by: &QpEntry, key: u32, memory: (u64, u64), rights: u32) -> Option<MemorySpan> {
        if !last.is_still(key) {
            last.find(self, key)?;
        }
        last.span(by, memory, rights)
    }
}
