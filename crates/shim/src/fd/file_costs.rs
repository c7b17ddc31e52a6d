//! Simulated time of reads and writes of regular files: the page cache, and requests to the disk of
//! the host. Hosts without these costs have files that take no time.

use crate::fd::unwritten::{self, Extent, File};
use crate::runtime::world::{active, keeping_errno};
use libc::{c_int, off_t, ssize_t};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, StatxFlags};
use softband_client as client;
use softband_ipc::calls::{DiskTransfer, op};

const MEBIBYTE: u128 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

fn files_take_time() -> bool {
    active() && (client::header().cost_file_mebibyte > 0 || client::header().has_disk > 0)
}

/// A regular file, and its present size.
struct Regular {
    file: File,
    bytes: u64,
}

/// Returns the file behind a descriptor if it is a regular one.
fn regular_file(fd: c_int) -> Option<Regular> {
    if fd < 0 {
        return None;
    }
    // SAFETY: the number is not negative, and both calls fail for an unused one.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let about = rustix::fs::fstat(fd).ok().filter(|about| about.st_mode & libc::S_IFMT == libc::S_IFREG)?;
    let born = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME)
        .ok()
        .filter(|more| more.stx_mask & StatxFlags::BTIME.bits() != 0)
        .map_or((0, 0), |more| (more.stx_btime.tv_sec, more.stx_btime.tv_nsec));
    let file = File { device: about.st_dev, inode: about.st_ino, born };
    Some(Regular { file, bytes: u64::try_from(about.st_size).ok()? })
}

/// Returns the status flags of a descriptor.
fn flags(fd: c_int) -> c_int {
    // SAFETY: the question for the flags has no argument.
    unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_GETFL) as c_int }
}

/// Returns the offset of a call that has moved the position of the file by `count` bytes.
fn offset_before(fd: c_int, count: u64) -> u64 {
    // SAFETY: the call reads the position.
    let position = unsafe { kernel!(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) };
    u64::try_from(position).unwrap_or(u64::MAX).saturating_sub(count)
}

/// Moves the clock by a copy at a rate of `cost_mebibyte` picoseconds.
fn pay_for_copy(bytes: u64, cost_mebibyte: u64) {
    let picos = u128::from(cost_mebibyte) * u128::from(bytes) / MEBIBYTE;
    client::advance_ps(u64::try_from(picos).unwrap_or(u64::MAX));
    client::sync();
}

fn pay_disk(file: File, Extent { offset, bytes }: Extent) {
    if client::header().has_disk > 0 && bytes > 0 {
        // The engine refuses times after the end of simulated time. The transfer has succeeded.
        let _ = client::call::<op::DiskTransfer>(&DiskTransfer { device: file.device, inode: file.inode, offset, bytes });
    }
}

fn pay(fd: c_int, count: ssize_t, offset: Option<off_t>, direction: Direction) {
    let Ok(bytes @ 1..) = u64::try_from(count) else { return };
    if !files_take_time() {
        return;
    }
    keeping_errno(|| {
        // Files of `/proc` have no size.
        let Some(regular @ Regular { bytes: 1.., .. }) = regular_file(fd) else { return };
        let flags = flags(fd);
        let writes = direction == Direction::Write;
        let offset = match offset {
            None => offset_before(fd, bytes),
            // The kernel appends at any offset (pwrite(2), bugs).
            Some(_) if writes && flags & libc::O_APPEND != 0 => regular.bytes.saturating_sub(bytes),
            // The call has taken the offset, so it is not negative.
            Some(offset) => offset.unsigned_abs(),
        };
        let extent = Extent { offset, bytes };
        if flags & libc::O_DIRECT != 0 {
            return pay_disk(regular.file, extent);
        }
        pay_for_copy(bytes, client::header().cost_file_mebibyte);
        if writes && flags & libc::O_DSYNC != 0 {
            pay_disk(regular.file, extent);
        } else if writes {
            unwritten::add(regular.file, extent);
        }
    });
}

/// Takes the time of a read that has returned `count`. Without an offset the read has moved the
/// position of the file.
pub fn pay_read(fd: c_int, count: ssize_t, offset: Option<off_t>) -> ssize_t {
    pay(fd, count, offset, Direction::Read);
    count
}

/// Takes the time of a write that has returned `count`. Without an offset the write has moved the
/// position of the file.
pub fn pay_write(fd: c_int, count: ssize_t, offset: Option<off_t>) -> ssize_t {
    pay(fd, count, offset, Direction::Write);
    count
}

/// Takes the time in which the disk writes the bytes that the process has written to the file. The
/// page cache holds at most the present size: later writes replace earlier ones, and a file that
/// was cut has lost its end.
pub fn pay_sync(fd: c_int) {
    if !files_take_time() {
        return;
    }
    keeping_errno(|| {
        let Some(Regular { file, bytes: size }) = regular_file(fd) else { return };
        let Some(extent) = unwritten::take(&file) else { return };
        let bytes = extent.bytes.min(size);
        pay_disk(file, Extent { offset: extent.offset.min(size - bytes), bytes });
    });
}

/// Takes the time in which a core copies bytes in memory. A program whose own copies are part of
/// its protocol calls it, because user code takes no simulated time.
#[unsafe(no_mangle)]
pub extern "C" fn softband_copied(bytes: u64) {
    if active() {
        pay_for_copy(bytes, client::header().cost_copy_mebibyte);
    }
}
