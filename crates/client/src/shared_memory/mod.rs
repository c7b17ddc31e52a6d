//! Registered memory at wall pace. It lies in a file that peers map. They then move data without a
//! system call, and atomically where the processor is atomic.
//!
//! The engine creates a sparse file for each process, in which each page has the offset of its own
//! address. Registration copies the pages to the file and maps the file in their place. After the
//! last registration of a page ends, the page becomes private memory again. Some memory cannot move
//! into a file: stacks, mappings of files, huge pages. It stays in place, and peers reach it by
//! `process_vm_readv` and `process_vm_writev`.

mod copy;
mod files;
mod forks;
mod maps;
mod peers;
mod window;

use crate::connection::fetch_file;
use crate::session::{header, is_wall};
use maps::{Kind, Mapping, Others, covering};
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use softband_ipc::layout::{MEMORY_FILE_NAME, QUEUES_OFFSET};
use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

pub use files::{is_kept, kept_fds};
pub(crate) use forks::{after_fork_in_child, after_fork_in_parent, before_fork};
pub(crate) use peers::{PEERS, alias, forget_all as forget_peers, gone, put_former, release_all, take_former};

const PAGE: usize = 4096;
/// Size of the pieces in which pages are copied, in bytes. A thread that writes to a page waits for
/// one piece only.
const PIECE: usize = 2 << 20;
/// Held while memory moves, and over forks.
pub(crate) static CHANGES: Mutex<()> = Mutex::new(());
/// Page ranges of all registrations, one entry for each.
static REGISTERED: Mutex<Vec<Range>> = Mutex::new(Vec::new());
/// This process's own file while it is attached.
static FILE: AtomicI32 = AtomicI32::new(-1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: usize,
    end: usize,
    /// The range lies in the file. Other ranges are written through the kernel at any time, so
    /// their pages must not move.
    is_shared: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the own file, which came with the welcome.
pub(crate) fn keep_own(file: Option<OwnedFd>) {
    // High numbers stay out of the way of programs that expect their first file to be 3.
    let file = file.map(|file| rustix::io::fcntl_dupfd_cloexec(&file, 900).unwrap_or(file));
    FILE.store(file.map_or(-1, IntoRawFd::into_raw_fd), Ordering::Release);
}

fn own_file() -> Option<BorrowedFd<'static>> {
    let fd = FILE.load(Ordering::Acquire);
    // SAFETY: the descriptor is open as long as the process is attached.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Maps a part of a process's file. `number` is the file's number in the tables.
pub(crate) fn map_part(number: u32, offset: u64, bytes: usize) -> Option<*mut u8> {
    let own = own_file().filter(|_| number == header().memory_file);
    let other = if own.is_some() { None } else { fetch_file(number) };
    let file = own.or_else(|| other.as_ref().map(AsFd::as_fd))?;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let mapped = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, offset) };
    mapped.ok().map(<*mut c_void>::cast)
}

/// Unmaps a part of a file.
///
/// # Safety
/// `map_part` mapped it with this size, and nobody uses it any more.
pub(crate) unsafe fn unmap_part(base: *mut u8, bytes: usize) {
    // SAFETY: the caller promises that this mapping has this size and no users.
    let _ = unsafe { munmap(base.cast(), bytes) };
}

fn mapped_name() -> String {
    format!("/memfd:{MEMORY_FILE_NAME}")
}

fn pages(address: usize, len: usize) -> (usize, usize) {
    let limit = QUEUES_OFFSET as usize;
    let end = address.saturating_add(len).min(limit).next_multiple_of(PAGE);
    ((address & !(PAGE - 1)).min(end), end)
}

/// Records a range before its registration and moves its pages into the file, unless the
/// registration is `on_demand`. Returns false if peers must use the kernel for the range.
pub fn register(address: usize, len: usize, on_demand: bool) -> bool {
    if !is_wall() {
        return false;
    }
    let _changes = lock(&CHANGES);
    let (start, end) = pages(address, len);
    let is_shared = !on_demand && address.saturating_add(len) <= QUEUES_OFFSET as usize && share(start, end);
    lock(&REGISTERED).push(Range { start, end, is_shared });
    is_shared
}

fn share(start: usize, end: usize) -> bool {
    let (Some(file), Some(parts)) = (own_file(), covering(start, end, &mapped_name())) else { return false };
    let others = maps::other_writers();
    let moves = |part: &&Mapping| part.kind == Kind::Plain;
    let overlaps = |part: &Mapping| lock(&REGISTERED).iter().any(|range| !range.is_shared && range.start < part.end && part.start < range.end);
    let can_be = parts.iter().all(|part| match part.kind {
        Kind::Other => false,
        Kind::Shared => true,
        Kind::Plain => others != Others::Unable && !overlaps(part),
    });
    if !can_be {
        return false;
    }
    for part in parts.iter().filter(moves) {
        for (from, to) in pieces(part.start, part.end) {
            if copy::into_file(file, from, to, others).is_err() {
                give_back(start, end);
                return false;
            }
        }
    }
    true
}

/// Ends a registration.
pub fn unregister(address: usize, len: usize) {
    if !is_wall() {
        return;
    }
    let _changes = lock(&CHANGES);
    if take_out(address, len) {
        let (start, end) = pages(address, len);
        give_back(start, end);
    }
}

/// Replaces the range of a registration by another or the same. Its pages stay in place, and peers
/// use the kernel for them.
pub fn reregister(former: (usize, usize), next: (usize, usize)) {
    if !is_wall() {
        return;
    }
    let _changes = lock(&CHANGES);
    take_out(former.0, former.1);
    let (start, end) = pages(next.0, next.1);
    lock(&REGISTERED).push(Range { start, end, is_shared: false });
    let (start, end) = pages(former.0, former.1);
    give_back(start, end);
}

fn take_out(address: usize, len: usize) -> bool {
    let (start, end) = pages(address, len);
    let mut registered = lock(&REGISTERED);
    let place = registered.iter().position(|range| (range.start, range.end) == (start, end));
    place.map(|place| registered.swap_remove(place)).is_some()
}

/// Makes the pages of a range private unless another registration needs them.
fn give_back(start: usize, end: usize) {
    let Some(file) = own_file() else { return };
    let others = maps::other_writers();
    if others == Others::Unable {
        return; // the pages stay in the file, which the program does not notice
    }
    let registered: Vec<_> = lock(&REGISTERED).iter().map(|range| (range.start, range.end)).collect();
    for (from, to) in without(start, end, &registered) {
        // Only pages that are still the file's: the program may have unmapped or replaced them.
        for part in covering(from, to, &mapped_name()).unwrap_or_default().iter().filter(|part| part.kind == Kind::Shared) {
            make_private(file, part, others);
        }
    }
}

fn make_private(file: BorrowedFd<'_>, part: &Mapping, others: Others) {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let len = part.end - part.start;
    // One mapping for all pieces, so that the kernel merges them again.
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let room = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) };
    let Ok(room) = room.map(|room| room as usize) else { return };
    for (from, to) in pieces(part.start, part.end) {
        if copy::out_of_file(file, from, to, room + (from - part.start), others).is_err() {
            // SAFETY: the mapping is ours, and no other code has its address.
            let _ = unsafe { munmap((room + (from - part.start)) as *mut c_void, part.end - from) };
            return;
        }
    }
}

fn pieces(start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
    (start..end).step_by(PIECE).map(move |from| (from, (from + PIECE).min(end)))
}

/// Returns the rest of a range without the ranges `others`.
fn without(start: usize, end: usize, others: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut left = vec![(start, end)];
    for (from, to) in others {
        left =
            left.into_iter().flat_map(|(start, end)| [(start, end.min(*from)), (start.max(*to), end)]).filter(|(start, end)| start < end).collect();
    }
    left
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
