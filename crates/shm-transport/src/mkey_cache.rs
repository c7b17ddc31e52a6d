//! A cache of MR translations: the rights of a key, and the address of its memory in this process.

use crate::memory_spans::MemorySpan;
use crate::platform::Platform;
use crate::sync::Ordering;
use crate::tables::{KeyEntry, QpEntry};
use crate::tables_guard::TablesGuard;

/// The translation of one memory key, cached on its first use. It is valid while key and serial
/// equal those of the entry. Nothing else of a region changes meanwhile.
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
    /// Address of the region's first byte in this process; 0 if it is not mapped here.
    here: usize,
}

impl CachedMkey {
    #[inline(always)]
    fn is_still(&self, key: u32) -> bool {
        self.entry
            .is_some_and(|entry| self.key == key && entry.key.load(Ordering::SeqCst) == key && entry.serial.load(Ordering::Relaxed) == self.serial)
    }

    /// Fills the cache from the tables.
    #[cold]
    fn find<P: Platform>(&mut self, guard: &TablesGuard<P>, key: u32) -> Option<()> {
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
            here: P::alias(entry, key, address).map_or(0, |here| here as usize),
        };
        // Accept only data of one region: this thread may have stopped for so long that the engine
        // reused the entry.
        found.is_still(key).then(|| *self = found)
    }

    /// Returns the memory of `len_bytes` at `iova`, if queue pair `by` may access it with these
    /// rights.
    #[inline(always)]
    fn span(&self, by: &QpEntry, (iova, len_bytes): (u64, u64), rights: u32) -> Option<MemorySpan> {
        // A domain belongs to one process on one HCA.
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

impl<P: Platform> TablesGuard<P> {
    /// Returns the memory (address, length in bytes) in the region of `key`, if queue pair `by` may
    /// access it with these rights. `last` is the translation of the previous request, which
    /// usually has the same key.
    #[inline(always)]
    pub fn translate(&self, last: &mut CachedMkey, by: &QpEntry, key: u32, memory: (u64, u64), rights: u32) -> Option<MemorySpan> {
        if !last.is_still(key) {
            last.find(self, key)?;
        }
        last.span(by, memory, rights)
    }
}
