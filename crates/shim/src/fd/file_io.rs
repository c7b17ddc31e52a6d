//! Reads and writes of files at an offset, and `fsync`.

use crate::clib::real;
use crate::fd::file_costs::{pay_read, pay_sync, pay_write};
use crate::fd::io::check_room;
use crate::shared::mapping::{before_kernel_writes, before_kernel_writes_parts};
use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

/// Implements `pread`.
///
/// # Safety
/// `data` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(fd: c_int, data: *mut c_void, len: size_t, offset: off_t) -> ssize_t {
    before_kernel_writes(data, len);
    // SAFETY: the caller has room for the bytes.
    pay_read(fd, unsafe { real::pread(fd, data, len, offset) }, Some(offset))
}

/// Implements `pread` with a known size of the buffer.
///
/// # Safety
/// `data` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pread_chk(fd: c_int, data: *mut c_void, len: size_t, offset: off_t, room: size_t) -> ssize_t {
    check_room(len, room);
    // SAFETY: `len` is at most `room`, or the check ended the process.
    unsafe { pread(fd, data, len, offset) }
}

/// Implements `preadv`.
///
/// # Safety
/// `list` has `count` elements, and each has its room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: the list has as many parts.
    unsafe { before_kernel_writes_parts(list, count.max(0) as usize) };
    // SAFETY: the kernel checks the count, and fills the room of the list.
    pay_read(fd, unsafe { real::preadv(fd, list, count, offset) }, Some(offset))
}

/// Implements `pwrite`.
///
/// # Safety
/// `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, data: *const c_void, len: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the caller has the bytes.
    pay_write(fd, unsafe { real::pwrite(fd, data, len, offset) }, Some(offset))
}

/// Implements `pwritev`.
///
/// # Safety
/// `list` has `count` elements, and each has its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: the kernel checks the count, and reads the bytes of the list.
    pay_write(fd, unsafe { real::pwritev(fd, list, count, offset) }, Some(offset))
}

/// Implements `pread64`, the same function on this machine.
///
/// # Safety
/// As [`pread`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(fd: c_int, data: *mut c_void, len: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the arguments are those of `pread`.
    unsafe { pread(fd, data, len, offset) }
}

/// Implements `__pread64_chk`, the same function on this machine.
///
/// # Safety
/// As [`__pread_chk`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pread64_chk(fd: c_int, data: *mut c_void, len: size_t, offset: off_t, room: size_t) -> ssize_t {
    // SAFETY: the arguments are those of `__pread_chk`.
    unsafe { __pread_chk(fd, data, len, offset, room) }
}

/// Implements `preadv64`, the same function on this machine.
///
/// # Safety
/// As [`preadv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv64(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: the arguments are those of `preadv`.
    unsafe { preadv(fd, list, count, offset) }
}

/// Implements `pwrite64`, the same function on this machine.
///
/// # Safety
/// As [`pwrite`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, data: *const c_void, len: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the arguments are those of `pwrite`.
    unsafe { pwrite(fd, data, len, offset) }
}

/// Implements `pwritev64`, the same function on this machine.
///
/// # Safety
/// As [`pwritev`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: the arguments are those of `pwritev`.
    unsafe { pwritev(fd, list, count, offset) }
}

/// Implements `fsync`. The disk's time comes after the call, as that of other calls.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    let outcome = real::fsync(fd);
    if outcome == 0 {
        pay_sync(fd);
    }
    outcome
}

/// Implements `fdatasync`. The disk's time comes after the call, as that of other calls.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    let outcome = real::fdatasync(fd);
    if outcome == 0 {
        pay_sync(fd);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_bytes_go_to_an_offset_and_come_back() {
        let name = std::ffi::CString::new("offsets").unwrap();
        let mut back = [0u8; 3];
        // SAFETY: the buffers have the given lengths.
        unsafe {
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            let parts = [iovec { iov_base: c"abc".as_ptr() as *mut c_void, iov_len: 3 }];
            assert_eq!(pwrite64(fd, c"abc".as_ptr().cast(), 3, 5), 3);
            assert_eq!(pwritev64(fd, parts.as_ptr(), 1, 8), 3);
            assert_eq!(fsync(fd) | fdatasync(fd), 0);
            let room = [iovec { iov_base: back.as_mut_ptr().cast(), iov_len: 3 }];
            assert_eq!(preadv64(fd, room.as_ptr(), 1, 7), 3);
            assert_eq!(&back, b"cab");
            assert_eq!(pread64(fd, back.as_mut_ptr().cast(), 3, 5), 3);
            libc::close(fd);
        }
        assert_eq!(&back, b"abc");
    }
}
