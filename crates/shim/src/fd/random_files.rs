//! The system's files of random numbers. Each open creates a new file in memory, with numbers of
//! this process's stream.

use crate::clib::real;
use crate::fd::random::{next, number};
use crate::runtime::world::{active, keeping_errno};
use libc::{c_int, c_void, iovec, rlimit, size_t, ssize_t};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes that a file keeps before its end when it grows.
const KEPT: i64 = 8 << 20;
const UUID: &[u8] = b"/proc/sys/kernel/random/uuid";
/// Name by which programs that inherited the file recognise it.
const NAME: &str = "softband-random";
const LINK: &[u8] = b"/memfd:softband-random (deleted)";
const BLOCK: usize = 1 << 20;
/// Number of blocks for streams of the C library. Their reads bypass this module, so their files do
/// not grow.
pub const BLOCKS_OF_STREAM: usize = 8;
/// Lowest descriptor, as for lifelines: the program gets the lowest free numbers.
const HIGH: c_int = 901;

/// Whether this process has opened such a file; most never do.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Returns the descriptor that replaces `path`, if `path` is a source of random numbers.
pub fn instead_of(path: &[u8], blocks: usize) -> Option<OwnedFd> {
    let is_uuid = path == UUID;
    // Nearly every path ends here.
    if !(is_uuid || path == b"/dev/urandom" || path == b"/dev/random") || !active() {
        return None;
    }
    IS_USED.store(true, Ordering::Relaxed);
    keeping_errno(|| if is_uuid { new_file("softband-uuid", &uuid(next(), next())) } else { new_file(NAME, &block_from(next(), blocks)) })
}

/// Makes a file in memory with these bytes.
pub(super) fn new_file(name: &str, bytes: &[u8]) -> Option<OwnedFd> {
    if !is_allowed(bytes.len()) {
        return None;
    }
    let file = memfd_create(name, MemfdFlags::CLOEXEC).ok()?;
    // SAFETY: the kernel reads the bytes of the slice.
    let count = unsafe { kernel!(libc::SYS_write, file.as_raw_fd(), bytes.as_ptr(), bytes.len()) };
    // SAFETY: F_DUPFD_CLOEXEC takes a number.
    let high = unsafe { kernel!(libc::SYS_fcntl, file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH) as c_int };
    // SAFETY: nothing else owns the copy.
    let file = if high >= 0 { unsafe { OwnedFd::from_raw_fd(high) } } else { file };
    (count == bytes.len() as i64).then_some(file)
}

/// Returns whether the limit on file sizes allows `len` bytes. A longer file would end the program.
fn is_allowed(len: usize) -> bool {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the current limit to `limit`, and reads no new limit.
    unsafe { kernel!(libc::SYS_prlimit64, 0, libc::RLIMIT_FSIZE, std::ptr::null::<rlimit>(), &raw mut limit) == 0 && limit.rlim_cur >= len as u64 }
}

/// Returns `blocks` blocks. Each block follows from the end of the previous block, so a thread that
/// has the file can make the next.
fn block_from(seed: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK * blocks);
    let mut seed = seed;
    for _ in 0..blocks {
        (0..BLOCK as u64 / 8).for_each(|index| bytes.extend_from_slice(&number(seed, index).to_le_bytes()));
        seed = last_word(&bytes);
    }
    bytes
}

fn last_word(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// Returns a line with a random UUID (RFC 4122, version 4).
fn uuid(high: u64, low: u64) -> Vec<u8> {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(3 << 62) | 1 << 63;
    let line = format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\n", high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff);
    line.into_bytes()
}

fn is_ours(fd: c_int) -> bool {
    let mut link = [0u8; LINK.len() + 1];
    // SAFETY: the buffer has the given length. Only files in memory have seals.
    unsafe {
        kernel!(libc::SYS_fcntl, fd, libc::F_GET_SEALS) >= 0 && {
            let path = path_of(fd);
            let len = kernel!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), link.as_mut_ptr(), link.len());
            link.get(..len.max(0) as usize) == Some(LINK)
        }
    }
}

/// Returns a path that opens an open file again.
pub fn path_of(fd: c_int) -> std::ffi::CString {
    std::ffi::CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default()
}

/// Makes the file longer, if it belongs to this module.
fn grow(fd: c_int) -> bool {
    keeping_errno(|| {
        if !is_ours(fd) {
            return false;
        }
        // SAFETY: the program has just read from the file, so it is open meanwhile.
        let size = fstat(unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) }).map_or(0, |about| about.st_size);
        if !is_allowed(size as usize + BLOCK) {
            return false;
        }
        let mut last = [0u8; 8];
        // SAFETY: the buffers have the given lengths; the second descriptor is ours.
        unsafe {
            let seed = if kernel!(libc::SYS_pread64, fd, last.as_mut_ptr(), last.len(), size - 8) == 8 { last_word(&last) } else { next() };
            let again = kernel!(libc::SYS_openat, libc::AT_FDCWD, path_of(fd).as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) as c_int;
            let bytes = block_from(seed, 1);
            let count = kernel!(libc::SYS_pwrite64, again, bytes.as_ptr(), bytes.len(), size);
            // Blocks that were read long ago use no memory.
            let holes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            kernel!(libc::SYS_fallocate, again, holes, 0, (size - KEPT).max(0));
            kernel!(libc::SYS_close, again);
            count == BLOCK as i64
        }
    })
}

/// Continues a short read at the end of a file of this module.
///
/// # Safety
/// `data` has room for `len` bytes, and the first `count` are read.
pub unsafe fn read_on(fd: c_int, data: *mut c_void, len: size_t, mut count: ssize_t) -> ssize_t {
    let may_be_ours = |count: ssize_t| count == 0 || count > 0 && IS_USED.load(Ordering::Relaxed);
    while may_be_ours(count) && (count as usize) < len && active() && grow(fd) {
        // SAFETY: `count` is less than `len`, so the rest of the room begins within it.
        match unsafe { real::read(fd, data.cast::<u8>().add(count as usize).cast(), len - count as usize) } {
            more @ 1.. => count += more,
            _ => break,
        }
    }
    count
}

/// Continues a read of several parts. A short result is enough, but an empty result is not.
///
/// # Safety
/// `list` has `parts` elements, and each has its room.
pub unsafe fn read_parts_on(fd: c_int, list: *const iovec, parts: c_int, count: ssize_t) -> ssize_t {
    // SAFETY: the first read left the room of the list unused.
    if count == 0 && active() && grow(fd) { unsafe { real::readv(fd, list, parts) } } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_follows_from_the_one_before() {
        let two = block_from(7, 2);
        let first = block_from(7, 1);
        assert_eq!(two[..BLOCK], first);
        assert_eq!(two[BLOCK..], block_from(last_word(&first), 1));
    }

    #[test]
    fn a_uuid_has_its_form() {
        assert_eq!(uuid(u64::MAX, u64::MAX), b"ffffffff-ffff-4fff-bfff-ffffffffffff\n");
        assert_eq!(uuid(0, 0), b"00000000-0000-4000-8000-000000000000\n");
    }

    #[test]
    fn a_file_of_ours_is_known_and_goes_on_by_the_same_numbers() {
        let file = new_file(NAME, &block_from(7, 1)).unwrap();
        assert!(grow(file.as_raw_fd()));
        let mut back = vec![0u8; 2 * BLOCK];
        // SAFETY: the buffer has the given length.
        assert_eq!(unsafe { kernel!(libc::SYS_pread64, file.as_raw_fd(), back.as_mut_ptr(), back.len(), 0) }, back.len() as i64);
        assert!(back == block_from(7, 2));
        assert!(!grow(memfd_create("another", MemfdFlags::CLOEXEC).unwrap().as_raw_fd()));
    }
}
