//! Streams of the C library on sockets of the engine. The C library reads and writes by functions
//! of its own, which this library cannot replace, so these streams get ours.

use crate::clib::args::Text;
use crate::clib::real;
use crate::fd::descriptors::{close, ours};
use crate::fd::io::{read, write};
use libc::{FILE, c_char, c_int, c_void, size_t, ssize_t};
use softband_client::fds::Kind;

/// `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// Offset of `_fileno` in `struct _IO_FILE` (bits/types/struct_FILE.h).
const FILENO_AT: usize = 112;

unsafe extern "C" fn read_stream(cookie: *mut c_void, data: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer has room for `len` bytes.
    unsafe { read(cookie as usize as c_int, data.cast(), len) }
}

unsafe extern "C" fn write_stream(cookie: *mut c_void, data: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer has `len` bytes. A stream reports an error as 0.
    unsafe { write(cookie as usize as c_int, data.cast(), len) }.max(0)
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    close(cookie as usize as c_int)
}

/// Implements `fdopen`.
#[unsafe(no_mangle)]
pub extern "C" fn fdopen(fd: c_int, mode: Text) -> *mut FILE {
    let is_socket = ours(fd).is_some_and(|entry| matches!(entry.kind, Kind::StreamSocket | Kind::DatagramSocket));
    if !is_socket || mode.is_null() {
        return real::fdopen(fd, mode);
    }
    let functions = Functions { read: read_stream, write: write_stream, seek: None, close: close_stream };
    // SAFETY: the mode is a string, and the functions have the types that the C library requires.
    let stream = unsafe { fopencookie(fd as usize as *mut c_void, mode.as_ptr(), functions) };
    if !stream.is_null() {
        // SAFETY: the number is a public field of the stream, which the C library has just made.
        unsafe { stream.cast::<u8>().add(FILENO_AT).cast::<c_int>().write(fd) };
    }
    stream
}
