//! Pages into the file and out of it. Nothing here may allocate while a window is open: the allocator's own pages may be in it.

use super::PAGE;
use super::window::Window;
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, open, seek};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed, munmap};
use std::ffi::c_void;

/// Bits of `/proc/self/pagemap`: the page is in memory, or in swap.
const THERE: u64 = 3 << 62;
/// Pages of a piece.
const PIECE_PAGES: usize = super::PIECE / PAGE;

/// Copies private pages into the file and maps it in their place.
pub(super) fn into_file(file: &OwnedFd, start: usize, end: usize, alone: bool) -> Result<(), Errno> {
    let pagemap = open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    let window = if alone { None } else { Some(Window::open(start, end).ok_or(Errno::NOMEM)?) };
    let outcome = copy_in(file, pagemap.as_ref(), start, end).and_then(|()| {
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: takes the place of the program's own pages, whose contents are in the file now.
        unsafe { mmap(start as *mut c_void, end - start, ProtFlags::READ | ProtFlags::WRITE, flags, file, start as u64) }.map(|_| ())
    });
    if let (Err(_), Some(window)) = (&outcome, &window) {
        window.lift();
    }
    outcome
}

fn copy_in(file: &OwnedFd, pagemap: Option<&OwnedFd>, start: usize, end: usize) -> Result<(), Errno> {
    let mut entries = [0u64; PIECE_PAGES];
    let count = (end - start) / PAGE;
    let wanted = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut entries)[..count * 8];
    let knows = pagemap.is_some_and(|pagemap| pread(pagemap, &mut *wanted, (start / PAGE * 8) as u64) == Ok(count * 8));
    // What was there before, from a former life of these addresses.
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start as u64, (end - start) as u64)?;
    let is_there = |page: usize| !knows || entries[page] & THERE != 0;
    let mut page = 0;
    while page < count {
        let first = page;
        while page < count && is_there(page) {
            page += 1;
        }
        write_all(file, start + first * PAGE, start + page * PAGE)?;
        page += 1;
    }
    Ok(())
}

fn write_all(file: &OwnedFd, mut from: usize, to: usize) -> Result<(), Errno> {
    while from < to {
        // SAFETY: the caller's own mapped pages. Others may write to them where no window keeps them from it: bytes are only copied.
        let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, to - from) };
        match pwrite(file, bytes, from as u64)? {
            0 => return Err(Errno::IO),
            written => from += written,
        }
    }
    Ok(())
}

/// Makes pages private again that are the file's.
pub(super) fn out_of_file(file: &OwnedFd, start: usize, end: usize, alone: bool) -> Result<(), Errno> {
    let len = end - start;
    // SAFETY: a fresh mapping where the kernel likes.
    let room = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }? as usize;
    let window = if alone { None } else { Window::open(start, end) };
    read_data(file, start, end, room);
    if !move_over(room, start, len) {
        if let Some(window) = &window {
            window.lift();
        }
        // SAFETY: our own mapping.
        let _ = unsafe { munmap(room as *mut c_void, len) };
        return Err(Errno::NOMEM);
    }
    drop(window);
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start as u64, len as u64)
}

/// Copies what the file holds of a range to `room`, which is zero where the file has nothing.
pub(super) fn read_data(file: &OwnedFd, start: usize, end: usize, room: usize) {
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
