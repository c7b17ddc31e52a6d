//! Access checks, gathering and scattering.

use super::api::{HostMemory, PayloadSlice, ScatterGatherEntry};
use super::memory_window::{WINDOW_KEY, WindowType};
use super::objects::{MemoryRegion, Verbs};
use softband_types::{Access, HcaId, LKey, MrHandle, PdHandle, ProcessId, Qpn, WcStatus};
use std::collections::VecDeque;
use std::sync::Arc;

/// Span of a program's memory that has passed the access check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Region, which is checked again before bytes move: it may be deregistered meanwhile.
    pub mr: MrHandle,
    /// Process of the memory.
    pub process: ProcessId,
    /// First byte in the process's address space.
    pub address: u64,
    /// Length in bytes.
    pub len_bytes: u32,
}

impl MemoryRegion {
    /// Returns the place in the program of `len_bytes` at `iova`, if they lie inside the region.
    pub(super) fn translate(&self, iova: u64, len_bytes: u64) -> Option<u64> {
        let offset = iova.checked_sub(self.init.iova)?;
        let end = offset.checked_add(len_bytes)?;
        (end <= self.init.len_bytes).then(|| self.init.address + offset)
    }

    /// Checks whether a segment that was checked before still lies inside: the region may have been
    /// moved since.
    pub fn holds(&self, segment: &Segment) -> bool {
        let offset = segment.address.checked_sub(self.init.address);
        offset.is_some_and(|offset| offset + u64::from(segment.len_bytes) <= self.init.len_bytes)
    }
}

/// Queue pair by which memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub hca: HcaId,
    pub pd: PdHandle,
    pub qpn: Qpn,
}

/// Access that a peer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteAccess {
    Read,
    Write,
    Atomic,
}

impl RemoteAccess {
    const fn allowed_by(self, access: Access) -> bool {
        match self {
            Self::Read => access.remote_read,
            Self::Write => access.remote_write,
            Self::Atomic => access.remote_atomic,
        }
    }
}

impl Verbs {
    /// Checks a local scatter/gather entry (IBTA 10.6.3): key, protection domain, bounds and, with
    /// `write`, the right to write.
    pub(crate) fn check_local(&self, hca: HcaId, pd: PdHandle, entry: ScatterGatherEntry, write: bool) -> Option<Segment> {
        let ScatterGatherEntry { address, len_bytes, lkey: LKey(key) } = entry;
        let mr = self.mrs.get(key)?;
        if mr.hca != hca || mr.init.pd != pd || write && !mr.init.access.local_write {
            return None;
        }
        let address = mr.translate(address, u64::from(len_bytes))?;
        Some(Segment { mr: MrHandle(key), process: mr.init.owner, address, len_bytes })
    }

    /// Checks a peer's request: key, protection domain, bounds and right.
    pub(crate) fn check_remote(&self, by: Reach, key: u32, iova: u64, len_bytes: u32, access: RemoteAccess) -> Option<Segment> {
        if key & WINDOW_KEY != 0 {
            return self.check_window(by, key, iova, len_bytes, access);
        }
        let mr = self.mrs.get(key)?;
        if mr.hca != by.hca || mr.init.pd != by.pd || !access.allowed_by(mr.init.access) {
            return None;
        }
        let address = mr.translate(iova, u64::from(len_bytes))?;
        Some(Segment { mr: MrHandle(key), process: mr.init.owner, address, len_bytes })
    }

    /// Checks a peer's request by a window's key: the window decides, within its region (IBTA
    /// 10.6.7.2).
    fn check_window(&self, by: Reach, key: u32, iova: u64, len_bytes: u32, access: RemoteAccess) -> Option<Segment> {
        let (_, window) = self.window_of(key)?;
        let binding = window.binding?;
        let by_right = window.window_type == WindowType::One || binding.qpn == by.qpn;
        if window.hca != by.hca || window.pd != by.pd || !by_right || !access.allowed_by(binding.access) {
            return None;
        }
        let offset = if binding.zero_based { iova } else { iova.checked_sub(binding.iova)? };
        if offset.checked_add(u64::from(len_bytes))? > binding.len_bytes {
            return None;
        }
        let mr = self.mrs.get(binding.mr.0)?;
        let address = mr.translate(binding.iova + offset, u64::from(len_bytes))?;
        Some(Segment { mr: binding.mr, process: mr.init.owner, address, len_bytes })
    }

    /// Calls `each` with the checked parts of `entries` that hold bytes `offset..offset + len`.
    /// Returns `None` if a check fails.
    pub(crate) fn walk_local(
        &self,
        hca: HcaId,
        pd: PdHandle,
        entries: &[ScatterGatherEntry],
        (offset, len): (u64, u32),
        write: bool,
        mut each: impl FnMut(Segment),
    ) -> Option<()> {
        let (mut skip, mut rest) = (offset, len);
        for entry in entries {
            if rest == 0 {
                break;
            }
            if skip >= u64::from(entry.len_bytes) {
                skip -= u64::from(entry.len_bytes);
                continue;
            }
            let part = (entry.len_bytes - skip as u32).min(rest);
            let address = entry.address.checked_add(skip)?;
            each(self.check_local(hca, pd, ScatterGatherEntry { address, len_bytes: part, lkey: entry.lkey }, write)?);
            rest -= part;
            skip = 0;
        }
        (rest == 0).then_some(())
    }

    /// Returns the checked bytes `offset..offset + len` of an entry.
    fn part_of(&self, hca: HcaId, pd: PdHandle, entry: ScatterGatherEntry, (offset, len): (u64, u32)) -> Option<Segment> {
        if offset + u64::from(len) > u64::from(entry.len_bytes) {
            return None;
        }
        let address = entry.address.checked_add(offset)?;
        self.check_local(hca, pd, ScatterGatherEntry { address, len_bytes: len, lkey: entry.lkey }, false)
    }

    /// Gathers bytes `offset..offset + len` of `entries` into one buffer.
    ///
    /// # Errors
    /// `LocalProtectionError` if a key does not allow it or the memory is gone.
    pub fn gather(
        &self,
        pool: &mut ChunkPool,
        memory: &mut dyn HostMemory,
        (hca, pd): (HcaId, PdHandle),
        entries: &[ScatterGatherEntry],
        (offset, len): (u64, u32),
    ) -> Result<PayloadSlice, WcStatus> {
        if !pool.counts_only
            && let [entry] = entries
            && let Some(segment) = self.part_of(hca, pd, *entry, (offset, len))
            && let Some(shared) = memory.share(segment.process, segment.address, len)
        {
            return Ok(shared);
        }
        pool.filled(len as usize, |into| {
            let mut at = 0;
            let mut fault = false;
            let walked = self.walk_local(hca, pd, entries, (offset, len), false, |segment| {
                let next = at + segment.len_bytes as usize;
                fault |= memory.read(segment.process, segment.address, &mut into[at..next]).is_err();
                at = next;
            });
            if walked.is_none() || fault { Err(WcStatus::LocalProtectionError) } else { Ok(()) }
        })
    }
}

/// Pool of buffers for payload on its way, which are used again when nobody holds them any more.
pub struct ChunkPool {
    lent: VecDeque<Arc<[u8]>>,
    /// Whether nobody looks at payload: only its length is kept.
    counts_only: bool,
}

impl Default for ChunkPool {
    fn default() -> Self {
        Self { lent: VecDeque::with_capacity(Self::BUFFERS_MAX), counts_only: false }
    }
}

impl ChunkPool {
    /// Size of the pieces in which payload is read from a program's memory; every MTU divides it.
    pub const CHUNK_BYTES: u32 = 64 * 1024;
    const BUFFERS_MAX: usize = 64;
    /// Size up to which a message gets a buffer of its own size.
    const SMALL_BYTES: usize = 4_096;

    /// Creates a pool for payload without bytes: memory is neither read nor written.
    pub fn counting_only() -> Self {
        Self { lent: VecDeque::new(), counts_only: true }
    }

    /// Returns a buffer of `len` bytes, filled by `fill`.
    ///
    /// # Errors
    /// The error of `fill`.
    pub fn filled<E>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<PayloadSlice, E> {
        debug_assert!(len <= Self::CHUNK_BYTES as usize);
        if self.counts_only {
            return Ok(PayloadSlice { buffer: None, offset: 0, len: len as u32 });
        }
        if len <= Self::SMALL_BYTES {
            let mut buffer = new_buffer(len);
            fill(Arc::get_mut(&mut buffer).expect("a new buffer has one holder"))?;
            return Ok(PayloadSlice { buffer: Some(buffer), offset: 0, len: len as u32 });
        }
        let mut buffer = self.take();
        let result = fill(&mut Arc::get_mut(&mut buffer).expect("taken only when unshared")[..len]);
        if self.lent.len() < Self::BUFFERS_MAX {
            self.lent.push_back(Arc::clone(&buffer));
        }
        result.map(|()| PayloadSlice { buffer: Some(buffer), offset: 0, len: len as u32 })
    }

    /// Returns the buffer lent out longest if it is back, otherwise a new one.
    fn take(&mut self) -> Arc<[u8]> {
        if let Some(mut oldest) = self.lent.pop_front() {
            if Arc::get_mut(&mut oldest).is_some() {
                return oldest;
            }
            self.lent.push_back(oldest);
        }
        new_buffer(Self::CHUNK_BYTES as usize)
    }
}

fn new_buffer(len: usize) -> Arc<[u8]> {
    // The length of this iterator is known, so the bytes are written once and in place.
    std::iter::repeat_n(0, len).collect()
}
