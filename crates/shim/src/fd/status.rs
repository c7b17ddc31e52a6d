//! The states of files: `stat` and its relatives.

use crate::clib::args::{Out, Text, Zeroed};
use crate::clib::real;
use crate::fd::files::{Led, led};
use crate::fd::management;
use crate::runtime::world::fail;
use libc::{c_int, c_uint};

/// Uses the system call, whose structure equals the C library's on this machine. C libraries before
/// 2.33 have no `stat` to call.
pub(super) fn native_status(folder: c_int, led: &Led, out: Out<libc::stat>, flags: c_int) -> c_int {
    // SAFETY: the kernel reads a string and writes a `stat`, for which an `Out` has room. It
    // refuses null.
    unsafe { kernel!(libc::SYS_newfstatat, folder, led.path().as_ptr(), out.address(), flags) as c_int }
}

fn status_of(folder: c_int, path: Text, out: Out<libc::stat>, flags: c_int) -> c_int {
    native_status(folder, &led(path), out, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn stat(path: Text, out: Out<libc::stat>) -> c_int {
    status_of(libc::AT_FDCWD, path, out, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn stat64(path: Text, out: Out<libc::stat>) -> c_int {
    status_of(libc::AT_FDCWD, path, out, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn lstat(path: Text, out: Out<libc::stat>) -> c_int {
    status_of(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW)
}

#[unsafe(no_mangle)]
pub extern "C" fn lstat64(path: Text, out: Out<libc::stat>) -> c_int {
    status_of(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW)
}

#[unsafe(no_mangle)]
pub extern "C" fn fstatat(folder: c_int, path: Text, out: Out<libc::stat>, flags: c_int) -> c_int {
    status_of(folder, path, out, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn fstatat64(folder: c_int, path: Text, out: Out<libc::stat>, flags: c_int) -> c_int {
    status_of(folder, path, out, flags)
}

/// Implements `fstat` by the system call, as `native_status` does for paths.
#[unsafe(no_mangle)]
pub extern "C" fn fstat(fd: c_int, out: Out<libc::stat>) -> c_int {
    let mut status = libc::stat::zeroed();
    // SAFETY: the kernel writes a `stat`.
    let outcome = unsafe { kernel!(libc::SYS_fstat, fd, &raw mut status) as c_int };
    if outcome == 0 && out.is_null() {
        return fail(libc::EFAULT);
    }
    if outcome == 0 {
        management::correct_status(fd, &mut status);
        out.set(status);
    }
    outcome
}

#[unsafe(no_mangle)]
pub extern "C" fn fstat64(fd: c_int, out: Out<libc::stat>) -> c_int {
    fstat(fd, out)
}

#[unsafe(no_mangle)]
pub extern "C" fn __fxstat(version: c_int, fd: c_int, out: Out<libc::stat>) -> c_int {
    if is_version(version) { fstat(fd, out) } else { fail(libc::EINVAL) }
}

#[unsafe(no_mangle)]
pub extern "C" fn __fxstat64(version: c_int, fd: c_int, out: Out<libc::stat>) -> c_int {
    __fxstat(version, fd, out)
}

/// Returns whether `version` is valid for `__xstat` and its relatives. Programs built against C
/// libraries before 2.33 call them. Both versions have the same structure.
fn is_version(version: c_int) -> bool {
    (0..=1).contains(&version)
}

#[unsafe(no_mangle)]
pub extern "C" fn __xstat(version: c_int, path: Text, out: Out<libc::stat>) -> c_int {
    if is_version(version) { status_of(libc::AT_FDCWD, path, out, 0) } else { fail(libc::EINVAL) }
}

#[unsafe(no_mangle)]
pub extern "C" fn __xstat64(version: c_int, path: Text, out: Out<libc::stat>) -> c_int {
    __xstat(version, path, out)
}

#[unsafe(no_mangle)]
pub extern "C" fn __lxstat(version: c_int, path: Text, out: Out<libc::stat>) -> c_int {
    if is_version(version) { status_of(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW) } else { fail(libc::EINVAL) }
}

#[unsafe(no_mangle)]
pub extern "C" fn __lxstat64(version: c_int, path: Text, out: Out<libc::stat>) -> c_int {
    __lxstat(version, path, out)
}

#[unsafe(no_mangle)]
pub extern "C" fn __fxstatat(version: c_int, folder: c_int, path: Text, out: Out<libc::stat>, flags: c_int) -> c_int {
    if is_version(version) { status_of(folder, path, out, flags) } else { fail(libc::EINVAL) }
}

#[unsafe(no_mangle)]
pub extern "C" fn __fxstatat64(version: c_int, folder: c_int, path: Text, out: Out<libc::stat>, flags: c_int) -> c_int {
    __fxstatat(version, folder, path, out, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn statx(folder: c_int, path: Text, flags: c_int, mask: c_uint, out: Out<libc::statx>) -> c_int {
    real::statx(folder, led(path).path(), flags, mask, out)
}
