//! Registered memory over a fork: a child must not write into its parent's registered memory, so it
//! gets copies.
//!
//! This code must not touch the heap from the first copy until the child has put its copies in
//! place. The heap may be part of the copied memory. Until then, the child shares it with its
//! parent.

use super::{FILE, REGISTERED, copy, lock, own_file, without};
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Most bytes that a fork copies. Above this, the child sees the file
/// instead of a copy, including later writes of its parent.
const COPIED_MAX: usize = 256 << 20;

/// A shared range and the address of its copy; 0 for no copy.
#[derive(Clone, Copy)]
struct Copied {
    start: usize,
    end: usize,
    room: usize,
}

/// Copies of a fork in progress.
static COPIES: Mutex<Vec<Copied>> = Mutex::new(Vec::new());

/// Returns the shared ranges without overlaps.
fn union() -> Vec<Copied> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for range in lock(&REGISTERED).iter().filter(|range| range.is_shared) {
        let new = without(range.start, range.end, &all);
        all.extend(new);
    }
    all.into_iter().map(|(start, end)| Copied { start, end, room: 0 }).collect()
}

pub(crate) fn before_fork() {
    let Some(file) = own_file() else { return };
    let mut copies = lock(&COPIES);
    *copies = union();
    let bytes: usize = copies.iter().map(|range| range.end - range.start).sum();
    if bytes > COPIED_MAX {
        return;
    }
    for range in copies.iter_mut() {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let room = unsafe { mmap_anonymous(std::ptr::null_mut(), range.end - range.start, ProtFlags::READ | ProtFlags::WRITE, flags) };
        if let Ok(room) = room {
            copy::read_data(file, range.start, range.end, room as usize);
            range.room = room as usize;
        }
    }
}

pub(crate) fn after_fork_in_parent() {
    for range in std::mem::take(&mut *lock(&COPIES)).into_iter().filter(|range| range.room != 0) {
        // SAFETY: the mapping is ours, and no other code has its address.
        let _ = unsafe { munmap(range.room as *mut c_void, range.end - range.start) };
    }
}

/// Makes the shared ranges private in a child.
pub(crate) fn after_fork_in_child() {
    if let Some(file) = own_file() {
        for range in lock(&COPIES).iter() {
            let len = range.end - range.start;
            if range.room != 0 && copy::move_over(range.room, range.start, len) {
                continue;
            }
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: the mapping replaces one of the same pages of the same file.
            let _ = unsafe { mmap(range.start as *mut c_void, len, ProtFlags::READ | ProtFlags::WRITE, flags, file, range.start as u64) };
        }
    }
    // From here on, the heap belongs to the child.
    lock(&COPIES).clear();
    lock(&REGISTERED).clear();
    let fd = FILE.swap(-1, Ordering::AcqRel);
    if fd >= 0 {
        // SAFETY: the descriptor is the child's copy of ours, and nobody else uses it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}
