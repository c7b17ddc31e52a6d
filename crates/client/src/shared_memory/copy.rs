//! Pages into the file and out of it. Nothing here may allocate while a window is open: the allocator's own pages may be in it.

use super::PAGE;
use super::maps::Others;
use super::window::Window;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, open, seek};
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap_fixed, munmap};
use std::ffi::c_void;

/// Bits of `/proc/self/pagemap`: the page is in memory, or in swap.
const THERE: u64 = 3 << 62;
/// Pages of a piece.
const PIECE_PAGES: usize = super::PIECE / PAGE;

/// Copies private pages into the file and maps it in their place.
pub(super) fn into_file(file: BorrowedFd<'_>, start: usize, end: usize, others: Others) -> Result<(), Errno> {
    let pagemap = open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    let len = end - start;
    // The region that was there before, from a former life of these addresses.
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start as u64, len as u64)?;
    // SAFETY: a fresh mapping where the kernel likes.
    let room = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, start as u64) }? as usize;
    let _undisturbed = Undisturbed::begin();
    let window = if others == Others::None { None } else { Window::open(start, end) };
    let is_safe = window.is_some() || others == Others::None;
    if is_safe {
        copy_to(room, pagemap.as_ref(), start, end);
    }
    if is_safe && move_over(room, start, len) {
        return Ok(());
    }
    if let Some(window) = &window {
        window.lift();
    }
    // SAFETY: our own mapping.
    let _ = unsafe { munmap(room as *mut c_void, len) };
    Err(Errno::NOMEM)
}

/// Copies those pages of a piece that are there.
fn copy_to(room: usize, pagemap: Option<&OwnedFd>, start: usize, end: usize) {
    let mut entries = [0u64; PIECE_PAGES];
    let count = (end - start) / PAGE;
    let wanted = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut entries)[..count * 8];
    let knows = pagemap.is_some_and(|pagemap| pread(pagemap, &mut *wanted, (start / PAGE * 8) as u64) == Ok(count * 8));
    for page in (0..count).filter(|page| !knows || entries[*page] & THERE != 0) {
        let at = page * PAGE;
        // SAFETY: the program's own mapped page, and ours.
        unsafe { std::ptr::copy_nonoverlapping((start + at) as *const u8, (room + at) as *mut u8, PAGE) };
    }
}

/// Makes pages private again that are the file's; `room` is private memory of ours of that size, which takes their place.
pub(super) fn out_of_file(file: BorrowedFd<'_>, start: usize, end: usize, room: usize, others: Others) -> Result<(), Errno> {
    let len = end - start;
    let undisturbed = Undisturbed::begin();
    let window = if others == Others::None { None } else { Some(Window::open(start, end).ok_or(Errno::NOMEM)?) };
    read_data(file, start, end, room);
    if !move_over(room, start, len) {
        if let Some(window) = &window {
            window.lift();
        }
        return Err(Errno::NOMEM);
    }
    drop(window);
    drop(undisturbed);
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start as u64, len as u64)
}

/// No signal handler of the program runs in this thread while this lives: what it writes could be lost, and if it had to wait for the
/// window it would wait for itself.
struct Undisturbed(u64);

impl Undisturbed {
    fn begin() -> Self {
        Self(set_mask(u64::MAX))
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

/// Sets the thread's mask of blocked signals; answers what it was.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut former = 0u64;
    // SAFETY: both are sets as the kernel has them, of eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut former, size_of::<u64>()) };
    former
}

/// Copies what the file holds of a range to `room`, which is zero where the file has nothing.
pub(super) fn read_data(file: BorrowedFd<'_>, start: usize, end: usize, room: usize) {
    let mut at = start as u64;
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        let data_end = seek(file, SeekFrom::Hole(data)).unwrap_or(end as u64).min(end as u64);
        let mut from = data;
        while from < data_end {
            // SAFETY: a part of the caller's own mapping, as large as the range.
            let into = unsafe { std::slice::from_raw_parts_mut((room + from as usize - start) as *mut u8, (data_end - from) as usize) };
            match pread(file, into, from) {
                Ok(read) if read > 0 => from += read as u64,
                _ => return,
            }
        }
        at = data_end;
        if at >= end as u64 {
            return;
        }
    }
}

/// Puts a mapping in the place of another one.
pub(super) fn move_over(room: usize, start: usize, len: usize) -> bool {
    // SAFETY: a mapping of ours takes the place of pages with the same contents.
    unsafe { mremap_fixed(room as *mut c_void, len, len, MremapFlags::MAYMOVE, start as *mut c_void) }.is_ok()
}
