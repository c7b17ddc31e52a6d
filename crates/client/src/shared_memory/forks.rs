//! Registered memory over a fork: a child must not write into what its parent has registered, so it gets copies.
//!
//! From the first copy on until the child has put its copies in place nothing here may touch the heap: the heap may be among what is
//! copied, and in the child it is the parent's until then.

use super::{FILE, REGISTERED, copy, lock, own_file, without};
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Where more is shared than this, the child sees the file, later changes of its parent's included, and not a copy.
const COPIED_MAX: usize = 256 << 20;

/// A range that is shared, and where its copy is; 0 for nowhere.
#[derive(Clone, Copy)]
struct Copied {
    start: usize,
    end: usize,
    room: usize,
}

/// While a fork is under way.
static COPIES: Mutex<Vec<Copied>> = Mutex::new(Vec::new());

/// The ranges that are shared, none of them twice.
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
        // SAFETY: a fresh mapping where the kernel likes.
        let room = unsafe { mmap_anonymous(std::ptr::null_mut(), range.end - range.start, ProtFlags::READ | ProtFlags::WRITE, flags) };
        if let Ok(room) = room {
            copy::read_data(file, range.start, range.end, room as usize);
            range.room = room as usize;
        }
    }
}

pub(crate) fn after_fork_in_parent() {
    for range in std::mem::take(&mut *lock(&COPIES)).into_iter().filter(|range| range.room != 0) {
        // SAFETY: our own mapping; no other code has its address.
        let _ = unsafe { munmap(range.room as *mut c_void, range.end - range.start) };
    }
}

/// In a child: what was shared is its own from now on.
pub(crate) fn after_fork_in_child() {
    if let Some(file) = own_file() {
        for range in lock(&COPIES).iter() {
            let len = range.end - range.start;
            if range.room != 0 && copy::move_over(range.room, range.start, len) {
                continue;
            }
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: takes the place of a mapping of the same pages of the same file.
            let _ = unsafe { mmap(range.start as *mut c_void, len, ProtFlags::READ | ProtFlags::WRITE, flags, file, range.start as u64) };
        }
    }
    // The heap is the child's own from here on.
    lock(&COPIES).clear();
    lock(&REGISTERED).clear();
    let fd = FILE.swap(-1, Ordering::AcqRel);
    if fd >= 0 {
        // SAFETY: the child's copy of a descriptor of ours, which nobody else uses.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}
