//! Copying between places of this process and of others: by the processor where both are mapped here, by a system call elsewhere.

use arrayvec::ArrayVec;

/// Most memory spans of a request that is carried out by the posting thread.
pub const SPANS_MAX: usize = 32;

/// A span of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpan {
    pub address: u64,
    pub len_bytes: u64,
    /// Where it is mapped in this process; null where it is not.
    pub here: *mut u8,
}

impl MemorySpan {
    pub const EMPTY: Self = Self { address: 0, len_bytes: 0, here: std::ptr::null_mut() };

    /// `len_bytes` of it from byte `from` on.
    pub fn part(&self, from: u64, len_bytes: u64) -> Self {
        let here = if self.here.is_null() { self.here } else { self.here.wrapping_add(from as usize) };
        Self { address: self.address + from, len_bytes, here }
    }
}

/// Where the bytes of a request are, one span after another.
pub struct MemorySpans {
    list: ArrayVec<MemorySpan, SPANS_MAX>,
    len_bytes: u64,
    /// All that has bytes is mapped in this process.
    are_here: bool,
}

impl Default for MemorySpans {
    #[inline]
    fn default() -> Self {
        Self { list: ArrayVec::new(), len_bytes: 0, are_here: true }
    }
}

impl MemorySpans {
    /// Adds one; `None` when there are too many.
    #[inline(always)]
    pub fn push(&mut self, span: MemorySpan) -> Option<()> {
        self.len_bytes += span.len_bytes;
        self.are_here &= span.len_bytes == 0 || !span.here.is_null();
        self.list.try_push(span).ok()
    }

    /// How many bytes they have in all.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether all that has bytes is mapped in this process.
    pub fn are_here(&self) -> bool {
        self.are_here
    }

    /// Bytes `from..from + len` of them.
    pub fn part(&self, from: u64, len: u64) -> Self {
        let (mut skip, mut rest, mut parts) = (from, len, Self::default());
        for span in &self.list {
            let begin = skip.min(span.len_bytes);
            let part = (span.len_bytes - begin).min(rest);
            skip -= begin;
            rest -= part;
            if part > 0 {
                let _ = parts.push(span.part(begin, part)); // there are not more than before
            }
        }
        parts
    }
}

impl From<MemorySpan> for MemorySpans {
    #[inline]
    fn from(span: MemorySpan) -> Self {
        let mut only = Self::default();
        let _ = only.push(span); // there is room for one
        only
    }
}

/// Copies from this process's `local` to `remote` of process `pid`; false unless all of it went.
#[inline(always)]
pub fn write(pid: u32, local: &MemorySpans, remote: &MemorySpans) -> bool {
    copy_here(local, remote) || transfer(libc::SYS_process_vm_writev, pid, &local.list, &remote.list)
}

/// The other way round.
#[inline(always)]
pub fn read(pid: u32, local: &MemorySpans, remote: &MemorySpans) -> bool {
    copy_here(remote, local) || transfer(libc::SYS_process_vm_readv, pid, &local.list, &remote.list)
}

/// Copies by the processor; false where something is not mapped here.
#[inline(always)]
fn copy_here(from: &MemorySpans, to: &MemorySpans) -> bool {
    let are_here = from.are_here && to.are_here;
    if are_here {
        each_part(&from.list, &to.list, |from, to, len| {
            // SAFETY: both are mapped for as long as the caller holds its guard, and are at least this long.
            unsafe { copy_upwards(from, to, len) }
        });
    }
    are_here
}

/// Copies from one span to another that is not shorter, if both are here; false where they are not.
#[inline(always)]
pub fn copy_one(from: &MemorySpan, to: &MemorySpan) -> bool {
    let are_here = !from.here.is_null() && !to.here.is_null();
    if are_here {
        // SAFETY: both are mapped for as long as the caller holds its guard, and the second is as long at least.
        unsafe { copy_upwards(from.here, to.here, from.len_bytes as usize) };
    }
    are_here
}

/// Pairs what is on one side with what is on the other, for as long as both have something.
#[inline(always)]
fn each_part(local: &[MemorySpan], remote: &[MemorySpan], copy: impl Fn(*mut u8, *mut u8, usize)) {
    if let ([from], [to]) = (local, remote) {
        return copy(from.here, to.here, from.len_bytes.min(to.len_bytes) as usize); // as most are
    }
    let mut others = remote.iter();
    let mut other = MemorySpan::EMPTY;
    for span in local {
        let mut span = *span;
        while span.len_bytes > 0 {
            if other.len_bytes == 0 {
                let Some(next) = others.next() else { return };
                other = *next;
                continue;
            }
            let len = span.len_bytes.min(other.len_bytes);
            copy(span.here, other.here, len as usize);
            span = span.part(len, span.len_bytes - len);
            other = other.part(len, other.len_bytes - len);
        }
    }
}

/// Bytes at the end that are written one word after another.
const LAST_BYTES: usize = 64;

/// Copies bytes so that the last ones are seen last: programs look at the last byte to know that a message is there.
///
/// # Safety
/// Both are valid for `len` bytes. Others may read and write them at the same time.
#[inline(always)]
unsafe fn copy_upwards(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let bulk = if len > LAST_BYTES { copy_all_but_the_last(from, to, len) } else { 0 };
        let (from, to, len) = (from.add(bulk), to.add(bulk), len - bulk);
        let words = len / 8;
        for word in 0..words {
            to.cast::<Unaligned>().add(word).write_volatile(from.cast::<Unaligned>().add(word).read_volatile());
        }
        for byte in words * 8..len {
            to.add(byte).write_volatile(from.add(byte).read_volatile());
        }
    }
}

/// Copies the bytes before the last ones; how many those were.
///
/// # Safety
/// As for [`copy_upwards`].
#[inline(never)]
unsafe fn copy_all_but_the_last(from: *const u8, to: *mut u8, len: usize) -> usize {
    let bulk = len.saturating_sub(LAST_BYTES);
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bulk);
        // Large copies may go past the cache, where only this keeps them in order.
        std::arch::x86_64::_mm_sfence();
    }
    bulk
}

/// Eight bytes anywhere.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(#[allow(dead_code)] u64);

fn transfer(call: libc::c_long, pid: u32, local: &[MemorySpan], remote: &[MemorySpan]) -> bool {
    let bytes = local.iter().map(|span| span.len_bytes).sum::<u64>();
    if bytes == 0 {
        return true;
    }
    let vector = |span: &MemorySpan| libc::iovec { iov_base: span.address as *mut libc::c_void, iov_len: span.len_bytes as usize };
    let here: ArrayVec<_, SPANS_MAX> = local.iter().map(vector).collect();
    let there: ArrayVec<_, SPANS_MAX> = remote.iter().map(vector).collect();
    // SAFETY: the kernel checks both sides' addresses; which of them may be named was checked against the tables.
    let moved = unsafe { libc::syscall(call, pid as libc::pid_t, here.as_ptr(), here.len(), there.as_ptr(), there.len(), 0usize) };
    moved >= 0 && moved as u64 == bytes
}
