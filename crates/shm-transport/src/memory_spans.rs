//! Copies between memory of this process and of others: by the processor if both are mapped here,
//! otherwise by a system call.

use arrayvec::ArrayVec;

/// Most memory spans of a request that the posting thread executes.
pub const SPANS_MAX: usize = 32;

/// A span of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpan {
    pub address: u64,
    pub len_bytes: u64,
    /// Its address in this process; null if it is not mapped here.
    pub here: *mut u8,
}

impl MemorySpan {
    pub const EMPTY: Self = Self { address: 0, len_bytes: 0, here: std::ptr::null_mut() };

    /// Returns `len_bytes` of the span from byte `from` on.
    pub fn part(&self, from: u64, len_bytes: u64) -> Self {
        let here = if self.here.is_null() { self.here } else { self.here.wrapping_add(from as usize) };
        Self { address: self.address + from, len_bytes, here }
    }
}

/// The bytes of a request, as consecutive spans.
pub struct MemorySpans {
    list: ArrayVec<MemorySpan, SPANS_MAX>,
    len_bytes: u64,
    /// All nonempty spans are mapped in this process.
    are_here: bool,
}

impl Default for MemorySpans {
    #[inline]
    fn default() -> Self {
        Self { list: ArrayVec::new(), len_bytes: 0, are_here: true }
    }
}

impl MemorySpans {
    /// Adds a span. Returns `None` beyond [`SPANS_MAX`] spans.
    #[inline(always)]
    pub fn push(&mut self, span: MemorySpan) -> Option<()> {
        self.len_bytes += span.len_bytes;
        self.are_here &= span.len_bytes == 0 || !span.here.is_null();
        self.list.try_push(span).ok()
    }

    /// Returns the total length in bytes.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Checks whether all nonempty spans are mapped in this process.
    pub fn are_here(&self) -> bool {
        self.are_here
    }

    /// Returns the bytes `from..from + len`.
    pub fn part(&self, from: u64, len: u64) -> Self {
        let (mut skip, mut rest, mut parts) = (from, len, Self::default());
        for span in &self.list {
            let begin = skip.min(span.len_bytes);
            let part = (span.len_bytes - begin).min(rest);
            skip -= begin;
            rest -= part;
            if part > 0 {
                let _ = parts.push(span.part(begin, part)); // not more spans than before
            }
        }
        parts
    }
}

impl From<MemorySpan> for MemorySpans {
    #[inline]
    fn from(span: MemorySpan) -> Self {
        let mut only = Self::default();
        let _ = only.push(span); // an empty list has room
        only
    }
}

/// Copies from this process's `local` to `remote` of process `pid`. Returns false unless all bytes
/// were copied.
#[inline(always)]
pub fn write(pid: u32, local: &MemorySpans, remote: &MemorySpans) -> bool {
    copy_here(local, remote) || transfer(libc::SYS_process_vm_writev, pid, &local.list, &remote.list)
}

/// Copies from `remote` of process `pid` to this process's `local`. Returns false unless all bytes
/// were copied.
#[inline(always)]
pub fn read(pid: u32, local: &MemorySpans, remote: &MemorySpans) -> bool {
    copy_here(remote, local) || transfer(libc::SYS_process_vm_readv, pid, &local.list, &remote.list)
}

/// Copies by the processor. Returns false if a span is not mapped here.
#[inline(always)]
fn copy_here(from: &MemorySpans, to: &MemorySpans) -> bool {
    let are_here = from.are_here && to.are_here;
    if are_here {
        each_part(&from.list, &to.list, |from, to, len| {
            // SAFETY: both spans are mapped for as long as the caller holds its guard, and have at
            // least this length.
            unsafe { copy_upwards(from, to, len) }
        });
    }
    are_here
}

/// Copies a span to another that is not shorter, if both are mapped here. Returns false otherwise.
#[inline(always)]
pub fn copy_one(from: &MemorySpan, to: &MemorySpan) -> bool {
    let are_here = !from.here.is_null() && !to.here.is_null();
    if are_here {
        // SAFETY: both spans are mapped for as long as the caller holds its guard, and the second
        // has at least the first's length.
        unsafe { copy_upwards(from.here, to.here, from.len_bytes as usize) };
    }
    are_here
}

/// Calls `copy` for corresponding pieces of both sides, until either side ends.
#[inline(always)]
fn each_part(local: &[MemorySpan], remote: &[MemorySpan], copy: impl Fn(*mut u8, *mut u8, usize)) {
    if let ([from], [to]) = (local, remote) {
        return copy(from.here, to.here, from.len_bytes.min(to.len_bytes) as usize); // the common case
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

/// Bytes at the end, copied word by word in order.
const LAST_BYTES: usize = 64;

/// Copies bytes so that the last ones become visible last: programs poll the last byte to detect a
/// message.
///
/// # Safety
/// Both pointers are valid for `len` bytes. Others may read and write them at the same time.
#[inline(always)]
unsafe fn copy_upwards(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises that both pointers are valid for `len` bytes.
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

/// Copies all bytes except the last [`LAST_BYTES`]. Returns the number of copied bytes.
///
/// # Safety
/// As for [`copy_upwards`].
#[inline(never)]
unsafe fn copy_all_but_the_last(from: *const u8, to: *mut u8, len: usize) -> usize {
    let bulk = len.saturating_sub(LAST_BYTES);
    // SAFETY: the caller promises that both pointers are valid for `len` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bulk);
        // Large copies may bypass the cache, where only this fence keeps them in order.
        std::arch::x86_64::_mm_sfence();
    }
    bulk
}

/// Eight bytes at any alignment.
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
    // SAFETY: the kernel checks the addresses of both sides, and the caller checked against the
    // tables that it may use them.
    let moved = unsafe { libc::syscall(call, pid as libc::pid_t, here.as_ptr(), here.len(), there.as_ptr(), there.len(), 0usize) };
    moved >= 0 && moved as u64 == bytes
}
