//! The C library's functions that create and remove mappings.

use super::guard;
use super::huge;
use super::ranges::{self, Memory};
use crate::clib::real;
use crate::runtime::world::{active, keeping_errno};
use crate::spin;
use libc::{c_int, c_void, off_t, size_t};
use rustix::fd::BorrowedFd;
use softband_client as client;
use softband_ipc::calls::mapping;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Magic numbers of file systems in memory (statfs(2)).
const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;

static MADE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set in a call of this module. Libraries replace code of the C library, and then make the
    /// system call by themselves.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Makes a native call, which may come back to this module, and notes its outcome once.
fn once<R: Copy>(call: impl FnOnce() -> R, note: impl FnOnce(R)) -> R {
    if INSIDE.replace(true) {
        return call();
    }
    let result = call();
    keeping_errno(|| note(result));
    INSIDE.set(false);
    result
}

/// Returns the memory of a file, if programs can share it.
fn memory_of_file(fd: c_int) -> Option<Memory> {
    if fd < 0 {
        return None;
    }
    // SAFETY: the program passes an open descriptor to mmap, which has accepted it.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let status = rustix::fs::fstat(file).ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::RegularFile;
    let is_memory = || rustix::fs::fstatfs(file).is_ok_and(|system| matches!(system.f_type, TMPFS | HUGETLBFS));
    is_file.then(|| Memory { kind: if is_memory() { mapping::FILE } else { mapping::DISK_FILE }, space: status.st_dev, number: status.st_ino })
}

fn note_map(address: usize, len: size_t, rights: c_int, flags: c_int, fd: c_int) {
    let range = address..address + len;
    if ranges::any() {
        ranges::forget(range.clone());
    }
    let kind = flags & libc::MAP_TYPE;
    if !matches!(kind, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE) || !active() {
        return;
    }
    let memory = if flags & libc::MAP_ANONYMOUS != 0 {
        let space = u64::from(client::process_number());
        Some(Memory { kind: mapping::ANONYMOUS, space, number: MADE.fetch_add(1, Ordering::Relaxed) })
    } else {
        memory_of_file(fd)
    };
    if let Some(memory) = memory {
        ranges::add(range, rights, memory);
    }
}

fn map(call: impl FnOnce() -> *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int) -> *mut c_void {
    if flags & libc::MAP_FIXED != 0 && ranges::any() {
        // The rest of a mapping keeps the rights of its pages.
        spin::before_native();
    }
    once(call, |address| {
        if address != libc::MAP_FAILED {
            note_map(address as usize, len, rights, flags, fd);
        }
    })
}

/// Implements `mmap`.
///
/// # Safety
/// A mapping at a fixed address replaces memory that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(address: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    // SAFETY: the caller answers for a fixed address.
    map(|| unsafe { huge::map(address, len, rights, flags, fd, offset) }, len, rights, flags, fd)
}

/// Implements `mmap64`, the same function on this machine.
///
/// # Safety
/// As [`mmap`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(address: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    // SAFETY: the caller of this function keeps the promise of `mmap`.
    unsafe { mmap(address, len, rights, flags, fd, offset) }
}

fn unmap(call: impl FnOnce() -> c_int, range: std::ops::Range<usize>) -> c_int {
    if !ranges::any() {
        return call();
    }
    if ranges::iter().any(|mapping| mapping.overlaps(&range)) {
        // The rest of a mapping keeps the rights of its pages.
        spin::before_native();
    }
    once(call, |status| {
        if status == 0 {
            ranges::forget(range);
        }
    })
}

/// Implements `munmap`.
///
/// # Safety
/// Nobody uses the memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, len: size_t) -> c_int {
    let start = address as usize;
    // SAFETY: the caller gives the memory up.
    unmap(|| unsafe { real::munmap(address, len) }, start..start.saturating_add(len))
}

fn protect(call: impl FnOnce() -> c_int, range: std::ops::Range<usize>, rights: c_int) -> c_int {
    if !ranges::any() {
        return call();
    }
    spin::before_native();
    once(call, |status| {
        if status == 0 {
            ranges::set_rights(range, rights);
        }
    })
}

/// Implements `mprotect`.
///
/// # Safety
/// Nobody uses the memory in a way that the new rights forbid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, len: size_t, rights: c_int) -> c_int {
    let start = address as usize;
    // SAFETY: the caller answers for the use of the memory.
    protect(|| unsafe { real::mprotect(address, len, rights) }, start..start.saturating_add(len), rights)
}

fn remap(call: impl FnOnce() -> *mut c_void, (old, old_len): (usize, size_t), new_len: size_t) -> *mut c_void {
    if ranges::any() {
        // All pages of a mapping that moves have the same rights.
        spin::before_native();
        guard::open_for(old, old_len.max(1));
    }
    let known = ranges::at(old).zip(ranges::memory_at(old));
    once(call, |new| {
        if new == libc::MAP_FAILED {
            return;
        }
        if old_len > 0 {
            ranges::forget(old..old.saturating_add(old_len));
        }
        ranges::forget(new as usize..new as usize + new_len);
        if let Some((mapping, memory)) = known {
            ranges::add(new as usize..new as usize + new_len, mapping.rights, memory);
        }
    })
}

/// Implements `mremap`. The last argument travels in the same place whether present or not.
///
/// # Safety
/// Nobody uses the memory that goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(address: *mut c_void, old_len: size_t, len: size_t, flags: c_int, new: *mut c_void) -> *mut c_void {
    // SAFETY: the caller answers for the memory that goes.
    remap(|| unsafe { real::mremap(address, old_len, len, flags, new) }, (address as usize, old_len), len)
}

fn segment_len(segment: c_int) -> Option<usize> {
    // SAFETY: `shmid_ds` consists of numbers, for which all zero is valid.
    let mut state: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the state of the segment there.
    (unsafe { kernel!(libc::SYS_shmctl, segment, libc::IPC_STAT, &raw mut state) } == 0).then_some(state.shm_segsz)
}

fn attach(call: impl FnOnce() -> *mut c_void, segment: c_int, flags: c_int) -> *mut c_void {
    once(call, |address| {
        let Some(len) = segment_len(segment).filter(|_| address != libc::MAP_FAILED && active()) else { return };
        let rights = if flags & libc::SHM_RDONLY == 0 { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        ranges::add(address as usize..address as usize + len, rights, Memory { kind: mapping::SYSTEM_V, space: 0, number: segment as u64 });
    })
}

/// Implements `shmat`.
///
/// # Safety
/// With `SHM_REMAP`, nobody uses the memory at the address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(segment: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the caller answers for a fixed address.
    attach(|| unsafe { real::shmat(segment, address, flags) }, segment, flags)
}

fn detach(call: impl FnOnce() -> c_int, address: usize) -> c_int {
    let known = ranges::at(address).map(|mapping| mapping.start..mapping.end);
    once(call, |status| {
        if let Some(range) = known.filter(|_| status == 0) {
            ranges::forget(range);
        }
    })
}

/// Implements `shmdt`.
///
/// # Safety
/// Nobody uses the segment any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    // SAFETY: the caller gives the segment up.
    detach(|| unsafe { real::shmdt(address) }, address as usize)
}

/// Makes one of these calls for a program that calls the kernel by `syscall`. Returns `None` for
/// another call.
///
/// # Safety
/// The arguments are those of the system call.
pub unsafe fn system_call(number: libc::c_long, [a, b, c, d, e, f]: [libc::c_long; 6]) -> Option<libc::c_long> {
    // SAFETY: the arguments are the caller's.
    let call = || unsafe { kernel!(number, a, b, c, d, e, f) };
    let (start, end) = (a as usize, (a as usize).saturating_add(b as usize));
    Some(match number {
        libc::SYS_mmap => map(|| call() as *mut c_void, b as size_t, c as c_int, d as c_int, e as c_int) as libc::c_long,
        libc::SYS_munmap => unmap(|| call() as c_int, start..end).into(),
        libc::SYS_mprotect => protect(|| call() as c_int, start..end, c as c_int).into(),
        libc::SYS_mremap => remap(|| call() as *mut c_void, (start, b as size_t), c as size_t) as libc::c_long,
        libc::SYS_shmat => attach(|| call() as *mut c_void, a as c_int, c as c_int) as libc::c_long,
        libc::SYS_shmdt => detach(|| call() as c_int, start).into(),
        _ => return None,
    })
}

/// Implements `fread`, which reads large parts into the program's memory by a system call.
///
/// # Safety
/// `data` has room for `count` items of `size` bytes, and `stream` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fread(data: *mut c_void, size: size_t, count: size_t, stream: *mut libc::FILE) -> size_t {
    before_kernel_writes(data, size.saturating_mul(count));
    // SAFETY: the caller has room for the items.
    unsafe { real::fread(data, size, count, stream) }
}

/// Makes memory accessible into which the kernel is about to write.
pub fn before_kernel_writes(data: *mut c_void, len: size_t) {
    if ranges::any() && active() {
        spin::before_native();
        guard::open_for(data as usize, len);
    }
}

/// Makes the parts of a list accessible into which the kernel is about to write.
///
/// # Safety
/// The list has `count` parts.
pub unsafe fn before_kernel_writes_parts(parts: *const libc::iovec, count: usize) {
    if ranges::any() && active() && !parts.is_null() {
        // SAFETY: the caller has as many parts.
        for part in unsafe { std::slice::from_raw_parts(parts, count) } {
            before_kernel_writes(part.iov_base, part.iov_len);
        }
    }
}

/// Reports a write to memory of another process.
pub fn note_written(process: libc::pid_t) {
    let _ = client::call::<softband_ipc::calls::op::WroteMemory>(&softband_ipc::calls::ProcessNumber { number: process as u32, reserved: 0 });
}
