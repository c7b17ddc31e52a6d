//! Simulated time of reads and writes of regular files: the page cache, and requests to the disk of
//! the host. Hosts without these costs have files that take no time.

use crate::runtime::world::{active, keeping_errno};
use libc::{c_int, off_t, ssize_t};
use softband_client as client;
use softband_ipc::calls::{DiskTransfer, op};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

const MEBIBYTE: u128 = 1 << 20;

/// Device and inode of a file.
type File = (u64, u64);

/// Offset and number of the bytes that the process has written to the page cache since the last
/// `fsync`, by file.
static UNWRITTEN: Mutex<BTreeMap<File, (u64, u64)>> = Mutex::new(BTreeMap::new());

/// Returns the list, or `None` in a signal handler that has interrupted its use.
fn unwritten() -> Option<MutexGuard<'static, BTreeMap<File, (u64, u64)>>> {
    match UNWRITTEN.try_lock() {
        Ok(list) => Some(list),
        Err(TryLockError::Poisoned(list)) => Some(list.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

fn files_take_time() -> bool {
    active() && (client::header().cost_file_mebibyte > 0 || client::header().has_disk > 0)
}

/// Returns the file behind a descriptor if it is a regular file with content. Files of `/proc` have
/// no size.
fn regular_file(fd: c_int) -> Option<File> {
    // SAFETY: a negative number stands for no descriptor, and `fstat` fails for an unused one.
    let about = rustix::fs::fstat(unsafe { rustix::fd::BorrowedFd::borrow_raw(fd.max(0)) }).ok()?;
    (fd >= 0 && about.st_mode & libc::S_IFMT == libc::S_IFREG && about.st_size > 0).then_some((about.st_dev, about.st_ino))
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
    u64::try_from(position).unwrap_or(0).saturating_sub(count)
}

fn pay_for_copy(bytes: u64) {
    let picos = u128::from(client::header().cost_file_mebibyte) * u128::from(bytes) / MEBIBYTE;
    client::advance_ps(picos as u64);
    client::sync();
}

fn pay_disk((device, inode): File, offset: u64, bytes: u64) {
    if client::header().has_disk > 0 && bytes > 0 {
        // The engine refuses times after the end of simulated time. The transfer itself has succeeded.
        let _ = client::call::<op::DiskTransfer>(&DiskTransfer { device, inode, offset, bytes });
    }
}

fn pay(fd: c_int, count: ssize_t, offset: Option<off_t>, direction: Direction) {
    let Ok(bytes @ 1..) = u64::try_from(count) else { return };
    if !files_take_time() {
        return;
    }
    keeping_errno(|| {
        let Some(file) = regular_file(fd) else { return };
        let offset = offset.map_or_else(|| offset_before(fd, bytes), |offset| u64::try_from(offset).unwrap_or(0));
        let flags = flags(fd);
        if flags & libc::O_DIRECT != 0 {
            return pay_disk(file, offset, bytes);
        }
        pay_for_copy(bytes);
        if direction == Direction::Write && flags & libc::O_DSYNC != 0 {
            pay_disk(file, offset, bytes);
        } else if direction == Direction::Write
            && let Some(mut list) = unwritten()
        {
            list.entry(file).or_insert((offset, 0)).1 += bytes;
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

/// Takes the time in which the disk writes the bytes that the process has written to the file.
pub fn pay_sync(fd: c_int) {
    if !files_take_time() {
        return;
    }
    keeping_errno(|| {
        let Some(file) = regular_file(fd) else { return };
        let waiting = unwritten().and_then(|mut list| list.remove(&file));
        if let Some((offset, bytes)) = waiting {
            pay_disk(file, offset, bytes);
        }
    });
}

/// Takes the time in which a core copies bytes in memory. A program whose own copies are part of
/// its protocol calls it, because user code takes no simulated time.
#[unsafe(no_mangle)]
pub extern "C" fn softband_copied(bytes: u64) {
    if active() {
        let picos = u128::from(client::header().cost_copy_mebibyte) * u128::from(bytes) / MEBIBYTE;
        client::advance_ps(u64::try_from(picos).unwrap_or(0));
        client::sync();
    }
}
