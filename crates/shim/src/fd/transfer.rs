//! Transfers within the kernel: `sendfile` and `splice`. The kernel cannot reach the sockets of the
//! fabric. Programs then copy by reads and writes, as for files that have no such transfer.

use crate::fd::descriptors::ours;
use crate::runtime::world::{active, fail};
use crate::spin;
use libc::{c_int, c_uint, off_t, size_t, ssize_t};
use softband_client::fds::Kind;

/// Returns whether a descriptor is a socket of the fabric.
fn is_of_fabric(fd: c_int) -> bool {
    active() && ours(fd).is_some_and(|entry| matches!(entry.kind, Kind::StreamSocket | Kind::DatagramSocket))
}

/// Implements `sendfile`.
///
/// # Safety
/// `offset` is null or the address of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    if is_of_fabric(to) || is_of_fabric(from) {
        return fail(libc::EINVAL);
    }
    spin::before_native();
    // SAFETY: the kernel refuses a bad address.
    unsafe { kernel!(libc::SYS_sendfile, to, from, offset, count) as ssize_t }
}

/// Implements `sendfile64`.
///
/// # Safety
/// `offset` is null or the address of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: all offsets have 64 bits on this machine, so both names have one contract.
    unsafe { sendfile(to, from, offset, count) }
}

/// Implements `splice`.
///
/// # Safety
/// Both offsets are null or addresses of numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, len: size_t, flags: c_uint) -> ssize_t {
    if is_of_fabric(to) || is_of_fabric(from) {
        return fail(libc::EINVAL);
    }
    spin::before_native();
    // SAFETY: the kernel refuses bad addresses.
    unsafe { kernel!(libc::SYS_splice, from, from_offset, to, to_offset, len, flags) as ssize_t }
}
