//! Moves pages into the file and out of it. This code must not allocate while a window is open: the
//! window may cover pages of the allocator.

use super::PAGE;
use super::maps::Others;
use super::window::Window;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, open, seek};
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap_fixed, munmap};
use std::ffi::c_void;

/// Bits of `/proc/self/pagemap`: the page is in memory or in swap.
const THERE: u64 = 3 << 62;
/// Pages of a piece.
const PIECE_PAGES: usize = super::PIECE / PAGE;

/// Copies private pages into the file and maps it in their place.
pub(super) fn into_file(file: BorrowedFd<'_>, start: usize, end: usize, others: Others) -> Result<(), Errno> {
    let pagemap = open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    let len = end - start;
    // Clears data of an earlier registration of these addresses.
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start as u64, len as u64)?;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
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
    // SAFETY: the mapping is ours, and no other code uses it.
    let _ = unsafe { munmap(room as *mut c_void, len) };
    Err(Errno::NOMEM)
}

/// Copies the present pages of a piece.
fn copy_to(room: usize, pagemap: Option<&OwnedFd>, start: usize, end: usize) {
    let mut entries = [0u64; PIECE_PAGES];
    let count = (end - start) / PAGE;
    let wanted = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut entries)[..count * 8];
    let knows = pagemap.is_some_and(|pagemap| pread(pagemap, &mut *wanted, (start / PAGE * 8) as u64) == Ok(count * 8));
    for page in (0..count).filter(|page| !knows || entries[*page] & THERE != 0) {
        let at = page * PAGE;
        // SAFETY: the source is a mapped page of the program, and the target is ours.
        unsafe { std::ptr::copy_nonoverlapping((start + at) as *const u8, (room + at) as *mut u8, PAGE) };
    }
}

/// Makes pages of the file private again. `room`, private memory of ours with the same size, takes
/// their place.
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

/// Blocks all signals of this thread while this lives. Writes of a signal handler could be lost. A
/// handler that waits for the window would wait for its own thread.
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

/// Sets the thread's mask of blocked signals. Returns the former mask.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut former = 0u64;
    // SAFETY: both pointers refer to signal sets of eight bytes, the kernel's size.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut former, size_of::<u64>()) };
    former
}

/// Copies the file's data of a range to `room`. Leaves holes of the file unchanged: `room` is zero
/// there.
pub(super) fn read_data(file: BorrowedFd<'_>, start: usize, end: usize, room: usize) {
    let mut at = start as u64;
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        let data_end = seek(file, SeekFrom::Hole(data)).unwrap_or(end as u64).min(end as u64);
        let mut from = data;
        while from < data_end {
            // SAFETY: the slice is a part of the caller's own mapping, which is as large as the
            // range.
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

/// Moves a mapping over another one. Returns false on failure.
pub(super) fn move_over(room: usize, start: usize, len: usize) -> bool {
    // SAFETY: a mapping of ours replaces pages with the same contents.
    unsafe { mremap_fixed(room as *mut c_void, len, len, MremapFlags::MAYMOVE, start as *mut c_void) }.is_ok()
}
