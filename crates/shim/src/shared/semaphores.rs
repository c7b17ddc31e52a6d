//! Semaphores with names. Each is a file of the host's `/dev/shm`, as in the C library, which looks
//! past the functions of this library.

use super::ranges::{self, Memory};
use super::{guard, mapping};
use crate::clib::args::Text;
use crate::clib::real;
use crate::fd::shared_files;
use crate::runtime::world::{active, errno, fail, keeping_errno};
use libc::{c_int, c_uint, mode_t, sem_t};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use softband_ipc::calls::mapping::FILE;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;
const BYTES: usize = size_of::<sem_t>();
/// Greatest value of a semaphore (`SEM_VALUE_MAX`).
const VALUE_MAX: c_uint = 0x7fff_ffff;

/// A semaphore of this process: one file has one address.
struct Opened {
    file: (u64, u64),
    uses: usize,
}

static OPENED: Mutex<BTreeMap<usize, Opened>> = Mutex::new(BTreeMap::new());
static MADE: AtomicU32 = AtomicU32::new(0);

fn refuse(error: c_int) -> *mut sem_t {
    fail::<c_int>(error);
    libc::SEM_FAILED
}

/// Implements `sem_open`. The last two arguments travel in the same places whether present or not.
#[unsafe(no_mangle)]
pub extern "C" fn sem_open(name: Text, flags: c_int, mode: mode_t, value: c_uint) -> *mut sem_t {
    let Some(path) = name.bytes().and_then(|name| shared_files::named(b"sem.", name)) else { return refuse(libc::EINVAL) };
    let creates = flags & libc::O_CREAT != 0;
    let is_exclusive = creates && flags & libc::O_EXCL != 0;
    loop {
        if !is_exclusive {
            match open(&path, libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0) {
                Some(file) => return map(file.as_fd()),
                None if errno() == libc::ENOENT && creates => {}
                None => return libc::SEM_FAILED,
            }
        }
        if value > VALUE_MAX {
            return refuse(libc::EINVAL);
        }
        match create(&path, mode, value) {
            Some(file) => return map(file.as_fd()),
            // Another process was faster.
            None if errno() == libc::EEXIST && !is_exclusive => {}
            None => return libc::SEM_FAILED,
        }
    }
}

fn open(path: &CStr, flags: c_int, mode: mode_t) -> Option<OwnedFd> {
    let fd = real::open(Text::of(path), flags, mode);
    // SAFETY: the descriptor is new, and nobody else knows it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a semaphore under another name, and gives it its name when it is complete.
fn create(path: &CStr, mode: mode_t, value: c_uint) -> Option<OwnedFd> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let own = format!(".{}-{number}.new", rustix::process::getpid().as_raw_nonzero());
    let nascent = CString::new([path.to_bytes(), own.as_bytes()].concat()).ok()?;
    let file = open(&nascent, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC, mode)?;
    let mut bytes = [0_u64; BYTES / size_of::<u64>()];
    // SAFETY: the room has the size and alignment of a semaphore, and nobody else uses it.
    unsafe { libc::sem_init(bytes.as_mut_ptr().cast(), 1, value) };
    // SAFETY: the kernel reads the bytes and the two paths.
    unsafe {
        let written = kernel!(libc::SYS_write, file.as_raw_fd(), bytes.as_ptr(), BYTES) == BYTES as i64;
        let is_made = written && kernel!(libc::SYS_link, nascent.as_ptr(), path.as_ptr()) == 0;
        keeping_errno(|| kernel!(libc::SYS_unlink, nascent.as_ptr()));
        is_made.then_some(file)
    }
}

/// Returns the semaphore of a file.
fn map(file: BorrowedFd) -> *mut sem_t {
    let Ok(status) = rustix::fs::fstat(file) else { return refuse(libc::EINVAL) };
    if status.st_size < BYTES as i64 {
        return refuse(libc::EINVAL);
    }
    let file_number = (status.st_dev, status.st_ino);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((address, known)) = opened.iter_mut().find(|(_, known)| known.file == file_number) {
        known.uses += 1;
        return *address as *mut sem_t;
    }
    // SAFETY: the kernel chooses a free place.
    let place = unsafe { real::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if place == libc::MAP_FAILED {
        return libc::SEM_FAILED;
    }
    opened.insert(place as usize, Opened { file: file_number, uses: 1 });
    if active() {
        let memory = Memory { kind: FILE, space: file_number.0, number: file_number.1 };
        let start = place as usize;
        keeping_errno(|| ranges::add(start..start + PAGE, libc::PROT_READ | libc::PROT_WRITE, memory));
    }
    place.cast()
}

/// Implements `sem_close`. The last close of a semaphore gives its memory back.
#[unsafe(no_mangle)]
pub extern "C" fn sem_close(semaphore: *mut sem_t) -> c_int {
    let address = semaphore as usize;
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = opened.get_mut(&address) else { return fail(libc::EINVAL) };
    known.uses -= 1;
    if known.uses > 0 {
        return 0;
    }
    opened.remove(&address);
    let page = address & !(PAGE - 1);
    guard::open_for(page, PAGE);
    // SAFETY: the program gives the semaphore up with its last close.
    unsafe { mapping::munmap(page as *mut libc::c_void, PAGE) }
}
