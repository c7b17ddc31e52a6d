//! Huge pages. A machine that has none reserved gives a program small pages, and a line says so. Memory
//! then has the same addresses and contents; only the processor's tables differ.

use crate::clib::args::Text;
use crate::clib::real;
use crate::fd::files;
use crate::runtime::attach::attached;
use crate::runtime::world::{errno, fail, keeping_errno, set_errno};
use libc::{c_int, c_uint, c_void, key_t, off_t, size_t};
use rustix::fs::{Mode, OFlags};
use softband_client::warn;
use std::sync::atomic::{AtomicBool, Ordering};

/// Place of the size in the flags of `mmap`, `shmget` and `memfd_create` (asm-generic/hugetlb_encode.h).
const SIZE_SHIFT: u32 = 26;
const SIZE_MASK: c_uint = 0x3f;
const DEFAULT_SIZE_LOG2: c_uint = 21;
const PAGE: usize = 4096;
/// `shmget` without a reservation of swap (linux/shm.h).
const SHM_NORESERVE: c_int = 0o10000;

/// Returns the size of a page that the flags ask for.
fn page_bytes(flags: c_uint) -> usize {
    match flags >> SIZE_SHIFT & SIZE_MASK {
        0 => 1 << DEFAULT_SIZE_LOG2,
        log2 => 1 << log2.min(40),
    }
}

fn without_size(flags: c_int, huge: c_int) -> c_int {
    (flags & !huge) & !((SIZE_MASK << SIZE_SHIFT) as c_int)
}

/// Returns whether a call for huge pages failed because this machine does not have them for the program.
fn lacks_pages() -> bool {
    matches!(errno(), libc::ENOMEM | libc::EPERM | libc::EINVAL | libc::ENOSYS | libc::ENODEV | libc::EOPNOTSUPP)
}

/// Returns whether this machine has any pages of a size. A mapping without a reservation (`MAP_NORESERVE`)
/// succeeds in any case, and its first use would end the program.
fn exist(bytes: usize) -> bool {
    let count = |name: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", bytes >> 10);
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0; 32];
        let len = rustix::io::read(file, &mut text).ok()?;
        std::str::from_utf8(&text[..len]).ok()?.trim().parse::<u64>().ok()
    };
    ["nr_hugepages", "nr_overcommit_hugepages"].into_iter().any(|name| count(name).unwrap_or(0) > 0)
}

/// States once on each host that huge pages are missing. Libraries such as UCX ask in each rank.
fn note() {
    static IS_NOTED: AtomicBool = AtomicBool::new(false);
    if IS_NOTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let is_first = keeping_errno(|| {
        let Some(folder) = files::folder() else { return true };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = rustix::fs::open([folder, b"/noted-huge-pages"].concat(), flags, Mode::from_raw_mode(0o600));
        !matches!(made, Err(rustix::io::Errno::EXIST))
    });
    if is_first {
        say();
    }
}

fn say() {
    warn::once("the machine has no huge pages reserved, so memory has small pages");
}

/// Maps small pages at an address that is a multiple of the huge page, in place of huge pages.
///
/// # Safety
/// A mapping at a fixed address replaces memory that nobody uses any more.
pub unsafe fn map_small(address: *mut c_void, len: size_t, rights: c_int, flags: c_int) -> *mut c_void {
    let bytes = page_bytes(flags as c_uint);
    let small = without_size(flags, libc::MAP_HUGETLB);
    let Some(whole) = len.checked_next_multiple_of(bytes.min(1 << 30)) else { return fail_map(libc::ENOMEM) };
    if small & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
        // SAFETY: the caller answers for the address.
        return unsafe { real::mmap(address, whole, rights, small, -1, 0) };
    }
    let Some(room) = whole.checked_add(bytes) else { return fail_map(libc::ENOMEM) };
    let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses an address that is free.
    let start = unsafe { real::mmap(address, room, libc::PROT_NONE, reserve, -1, 0) };
    if start == libc::MAP_FAILED {
        return start;
    }
    let first = (start as usize).next_multiple_of(bytes);
    let end = start as usize + room;
    // SAFETY: all ranges lie in the room above, which nobody else knows.
    unsafe {
        let mapped = real::mmap(first as *mut c_void, whole, rights, small | libc::MAP_FIXED, -1, 0);
        if mapped == libc::MAP_FAILED {
            keeping_errno(|| real::munmap(start, room));
            return mapped;
        }
        if first > start as usize {
            real::munmap(start, first - start as usize);
        }
        if end > first + whole {
            real::munmap((first + whole) as *mut c_void, end - first - whole);
        }
        mapped
    }
}

fn fail_map(error: c_int) -> *mut c_void {
    set_errno(error);
    libc::MAP_FAILED
}

/// Calls `mmap`. A mapping of huge pages that the machine does not have becomes one of small pages.
///
/// # Safety
/// As `mmap`.
pub unsafe fn map(address: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    let is_huge = flags & libc::MAP_HUGETLB != 0 && flags & libc::MAP_ANONYMOUS != 0;
    let fails_late = is_huge && flags & libc::MAP_NORESERVE != 0 && len > 0 && attached() && !exist(page_bytes(flags as c_uint));
    let mapped = if fails_late {
        fail_map(libc::ENOMEM)
    } else {
        // SAFETY: the caller answers for a fixed address.
        unsafe { real::mmap(address, len, rights, flags, fd, offset) }
    };
    if mapped != libc::MAP_FAILED || !is_huge || len == 0 || !attached() || !lacks_pages() {
        return mapped;
    }
    // SAFETY: the first call has mapped nothing.
    let mapped = unsafe { map_small(address, len, rights, flags) };
    if mapped != libc::MAP_FAILED {
        note();
    }
    mapped
}

/// Implements `shmget`.
#[unsafe(no_mangle)]
pub extern "C" fn shmget(key: key_t, size: size_t, flags: c_int) -> c_int {
    let fails_late = flags & libc::SHM_HUGETLB != 0 && flags & SHM_NORESERVE != 0 && attached() && !exist(page_bytes(flags as c_uint));
    let segment = if fails_late { fail(libc::ENOMEM) } else { real::shmget(key, size, flags) };
    if segment >= 0 || flags & libc::SHM_HUGETLB == 0 || !attached() || !lacks_pages() {
        return segment;
    }
    let bytes = page_bytes(flags as c_uint);
    let whole = size.checked_next_multiple_of(bytes).unwrap_or(size);
    let segment = real::shmget(key, whole, without_size(flags, libc::SHM_HUGETLB));
    if segment >= 0 {
        note();
    }
    segment
}

/// Implements `memfd_create`. A file of huge pages exists without them, so a mapping shows whether
/// the machine has them.
#[unsafe(no_mangle)]
pub extern "C" fn memfd_create(name: Text, flags: c_uint) -> c_int {
    let fd = real::memfd_create(name, flags);
    if flags & libc::MFD_HUGETLB == 0 || !attached() || fd < 0 && !lacks_pages() || fd >= 0 && has_pages(fd, page_bytes(flags)) {
        return fd;
    }
    if fd >= 0 {
        real::close(fd);
    }
    note();
    real::memfd_create(name, without_size(flags as c_int, libc::MFD_HUGETLB as c_int) as c_uint)
}

/// Returns whether the machine can give a page to a file.
fn has_pages(fd: c_int, bytes: usize) -> bool {
    keeping_errno(|| {
        // SAFETY: the file is new and empty, and the mapping ends here.
        unsafe {
            let sized = kernel!(libc::SYS_ftruncate, fd, bytes) == 0;
            let page = real::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, 0);
            let is_mapped = page != libc::MAP_FAILED;
            if is_mapped {
                real::munmap(page, bytes);
            }
            kernel!(libc::SYS_ftruncate, fd, 0);
            sized && is_mapped
        }
    })
}

/// Implements `madvise`. A kernel without transparent huge pages refuses the wish for them.
///
/// # Safety
/// The advice may discard the contents of the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, len: size_t, advice: c_int) -> c_int {
    // SAFETY: the caller answers for the advice.
    let status = unsafe { real::madvise(address, len, advice) };
    let is_wish = matches!(advice, libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE | MADV_COLLAPSE);
    if status == 0 || !is_wish || !attached() || !(address as usize).is_multiple_of(PAGE) || errno() == libc::ENOMEM && !is_mapped(address, len) {
        return status;
    }
    if advice != libc::MADV_NOHUGEPAGE {
        note();
    }
    0
}

/// Wish of Linux 6.1 for huge pages at once (linux/mman.h).
const MADV_COLLAPSE: c_int = 25;

/// Returns whether a range has mappings everywhere.
fn is_mapped(address: *mut c_void, len: size_t) -> bool {
    let mut resident = vec![0u8; len.div_ceil(PAGE)];
    // SAFETY: the kernel writes a byte for each page.
    keeping_errno(|| unsafe { kernel!(libc::SYS_mincore, address, len, resident.as_mut_ptr()) == 0 })
}
