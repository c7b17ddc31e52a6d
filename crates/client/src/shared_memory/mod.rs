//! Registered memory in wall pace lies in a file, so that peers can map it: they then move data without a system call, and atomically
//! where the processor is.
//!
//! Each process has one sparse file, made by the engine, in which each page has the place of its own address. When memory is
//! registered its pages are copied there and the file is mapped in their stead; when the last registration of a page goes, it becomes
//! private memory again. What cannot be put into a file (stacks, mappings of files, huge pages) stays as it is, and is reached by
//! `process_vm_readv` and its like.

mod copy;
mod maps;
mod peers;
mod window;

use crate::session::{header, is_wall};
use maps::{Kind, covering};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use softband_ipc::layout::{MEMORY_FILE_NAME, QUEUES_OFFSET};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

pub(crate) use peers::{alias, forget_all as forget_peers, sweep};

const PAGE: usize = 4096;
/// Pages are copied in pieces of this size, so that a thread that wants to write to one waits a moment only.
const PIECE: usize = 2 << 20;
/// Where more is shared than this, the child of a fork sees the file, later changes of its parent's included, and not a copy.
const COPIED_AT_FORK_MAX: usize = 256 << 20;

/// Held while memory changes its place; over forks too.
pub(crate) static CHANGES: Mutex<()> = Mutex::new(());
/// Page ranges of the registrations that are shared, one for each registration.
static SHARED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
/// While a fork is under way: where the child finds what it gets for each range.
static COPIES: Mutex<Vec<(usize, usize, usize)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of process memory that the engine holds as descriptor `number`.
fn open_file(number: u32) -> Option<OwnedFd> {
    let path = format!("/proc/{}/fd/{number}", header().engine_pid);
    open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Maps a part of a process's file; `number` as in the tables.
pub(crate) fn map_part(number: u32, offset: u64, bytes: usize) -> Option<*mut u8> {
    let file = open_file(number.checked_sub(1)?)?;
    // SAFETY: a fresh mapping where the kernel likes.
    let mapped = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, offset) };
    mapped.ok().map(<*mut c_void>::cast)
}

/// # Safety
/// `map_part` mapped it with this size, and nobody looks at it any more.
pub(crate) unsafe fn unmap_part(base: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { munmap(base.cast(), bytes) };
}

fn own_file() -> Option<OwnedFd> {
    header().memory_file.checked_sub(1).and_then(open_file)
}

fn mapped_name() -> String {
    format!("/memfd:{MEMORY_FILE_NAME}")
}

fn pages(address: usize, len: usize) -> (usize, usize) {
    (address & !(PAGE - 1), (address + len).next_multiple_of(PAGE))
}

/// Puts the pages of a range that is to be registered into the file. False: they stay as they are.
pub fn share(address: usize, len: usize) -> bool {
    if !is_wall() || address.checked_add(len).is_none_or(|end| end as u64 > QUEUES_OFFSET - PAGE as u64) {
        return false;
    }
    let _changes = lock(&CHANGES);
    let (start, end) = pages(address, len);
    let (Some(file), Some(parts)) = (own_file(), covering(start, end, &mapped_name())) else { return false };
    if parts.iter().any(|part| part.kind == Kind::Other) {
        return false;
    }
    let alone = maps::is_single_threaded();
    for part in parts.iter().filter(|part| part.kind == Kind::Plain) {
        for (from, to) in pieces(part.start, part.end) {
            if copy::into_file(&file, from, to, alone).is_err() {
                give_back(&file, start, end, alone);
                return false;
            }
        }
    }
    lock(&SHARED).push((start, end));
    true
}

/// A range that was shared is registered no more.
pub fn unshare(address: usize, len: usize) {
    let _changes = lock(&CHANGES);
    let range = pages(address, len);
    {
        let mut shared = lock(&SHARED);
        let Some(place) = shared.iter().position(|other| *other == range) else { return };
        shared.swap_remove(place);
    }
    if let Some(file) = own_file() {
        give_back(&file, range.0, range.1, maps::is_single_threaded());
    }
}

/// Makes those pages of a range private that no registration needs.
fn give_back(file: &OwnedFd, start: usize, end: usize, alone: bool) {
    let shared = lock(&SHARED).clone();
    for (from, to) in without(start, end, &shared) {
        // Only what is still the file's: the program may have unmapped it, or mapped something else there.
        for part in covering(from, to, &mapped_name()).unwrap_or_default().iter().filter(|part| part.kind == Kind::Shared) {
            for (from, to) in pieces(part.start, part.end) {
                let _ = copy::out_of_file(file, from, to, alone);
            }
        }
    }
}

fn pieces(start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
    (start..end).step_by(PIECE).map(move |from| (from, (from + PIECE).min(end)))
}

/// What is left of a range when others are taken out of it.
fn without(start: usize, end: usize, others: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut left = vec![(start, end)];
    for (from, to) in others {
        left =
            left.into_iter().flat_map(|(start, end)| [(start, end.min(*from)), (start.max(*to), end)]).filter(|(start, end)| start < end).collect();
    }
    left
}

/// The ranges that are shared, none of them twice.
fn union() -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (start, end) in lock(&SHARED).iter() {
        let new = without(*start, *end, &all);
        all.extend(new);
    }
    all
}

/// Before a fork: a child must not write into what its parent has registered, so it gets copies.
pub(crate) fn before_fork() {
    let ranges = if is_wall() { union() } else { Vec::new() };
    if ranges.is_empty() || ranges.iter().map(|(start, end)| end - start).sum::<usize>() > COPIED_AT_FORK_MAX {
        return;
    }
    let Some(file) = own_file() else { return };
    for (start, end) in ranges {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping where the kernel likes.
        let room = unsafe { mmap_anonymous(std::ptr::null_mut(), end - start, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let Ok(room) = room else { continue };
        copy::read_data(&file, start, end, room as usize);
        lock(&COPIES).push((start, end, room as usize));
    }
}

pub(crate) fn after_fork_in_parent() {
    for (start, end, room) in lock(&COPIES).drain(..) {
        // SAFETY: our own mapping, of which nobody knows.
        let _ = unsafe { munmap(room as *mut c_void, end - start) };
    }
}

/// In a child: what was shared is its own from now on.
pub(crate) fn after_fork_in_child() {
    let mut copied = Vec::new();
    for (start, end, room) in lock(&COPIES).drain(..) {
        if copy::move_over(room, start, end - start) {
            copied.push((start, end));
        }
    }
    let ranges = union();
    lock(&SHARED).clear();
    for (start, end) in ranges.iter().flat_map(|(start, end)| without(*start, *end, &copied)) {
        let Some(file) = own_file() else { return };
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: takes the place of a mapping of the same pages of the same file.
        let _ = unsafe { mmap(start as *mut c_void, end - start, ProtFlags::READ | ProtFlags::WRITE, flags, &file, start as u64) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_is_left_out() {
        assert_eq!(without(0, 100, &[]), [(0, 100)]);
        assert_eq!(without(0, 100, &[(20, 30), (90, 200)]), [(0, 20), (30, 90)]);
        assert_eq!(without(10, 20, &[(0, 100)]), []);
        assert_eq!(without(10, 20, &[(0, 12), (12, 20)]), []);
    }

    #[test]
    fn pieces_cover_a_range_once() {
        assert_eq!(pieces(0, PIECE + PAGE).collect::<Vec<_>>(), [(0, PIECE), (PIECE, PIECE + PAGE)]);
    }
}
