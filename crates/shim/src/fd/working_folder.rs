//! Names of files: the working folder, and paths without links. A program that enters a folder of the host's files works in the engine's
//! folder, and sees the name that it asked for.

use crate::clib::args::Text;
use crate::clib::real;
use crate::fd::files::{led, name_for_program};
use crate::runtime::attach::attached;
use crate::runtime::world::fail;
use libc::{c_char, c_int, c_long, size_t};
use std::ffi::CString;

#[unsafe(no_mangle)]
pub extern "C" fn chdir(path: Text) -> c_int {
    real::chdir(led(path).path())
}

/// Returns the program's name of the working folder if it is the engine's.
fn name_of_working_folder() -> Option<CString> {
    if !attached() {
        return None;
    }
    let folder = rustix::process::getcwd(Vec::new()).ok()?;
    name_for_program(folder.to_bytes())
}

/// Implements `getcwd`.
///
/// # Safety
/// `out` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(out: *mut c_char, len: size_t) -> *mut c_char {
    let Some(name) = name_of_working_folder() else {
        // SAFETY: the room is the caller's; the C library writes at most `len` bytes.
        return unsafe { real::getcwd(out, len) };
    };
    let name = name.to_bytes_with_nul();
    if len == 0 && !out.is_null() {
        fail::<c_int>(libc::EINVAL);
        return std::ptr::null_mut();
    }
    if len != 0 && len < name.len() {
        fail::<c_int>(libc::ERANGE);
        return std::ptr::null_mut();
    }
    // SAFETY: the program frees the result, so it comes from the program's allocator.
    let room = if out.is_null() { unsafe { libc::malloc(len.max(name.len())) }.cast() } else { out };
    if !room.is_null() {
        // SAFETY: the room has at least the length of the name with its NUL.
        unsafe { room.copy_from_nonoverlapping(name.as_ptr().cast(), name.len()) };
    }
    room
}

/// Implements the system call `getcwd`, which returns the length with the NUL. Returns `None` if the
/// kernel has to answer.
///
/// # Safety
/// `out` has room for `len` bytes, or for a page if `len` is more.
pub unsafe fn system_call(out: *mut c_char, len: size_t) -> Option<c_long> {
    let name = name_of_working_folder()?;
    let name = name.to_bytes_with_nul();
    if len < name.len() {
        return Some(fail(libc::ERANGE));
    }
    // SAFETY: the room has at least the length of the name with its NUL.
    unsafe { out.copy_from_nonoverlapping(name.as_ptr().cast(), name.len()) };
    Some(name.len() as c_long)
}

/// Implements `getcwd` with a known size of the buffer.
///
/// # Safety
/// `out` is null or has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __getcwd_chk(out: *mut c_char, len: size_t, room: size_t) -> *mut c_char {
    crate::fd::io::check_room(len, room);
    // SAFETY: `len` is at most `room`, or the check ended the process.
    unsafe { getcwd(out, len) }
}

/// Implements `get_current_dir_name`. The variable `PWD` cannot name a folder of the engine.
#[unsafe(no_mangle)]
pub extern "C" fn get_current_dir_name() -> *mut c_char {
    match name_of_working_folder() {
        // SAFETY: without room, `getcwd` takes new memory.
        Some(_) => unsafe { getcwd(std::ptr::null_mut(), 0) },
        None => real::get_current_dir_name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_a_fabric_the_working_folder_is_the_systems() {
        let mut room = [0; 4096];
        // SAFETY: the room has the given length.
        assert!(!unsafe { getcwd(room.as_mut_ptr(), room.len()) }.is_null());
        let expected = std::fs::canonicalize(std::env::current_dir().unwrap()).unwrap();
        // SAFETY: `getcwd` succeeded, so the room holds a string.
        let found = unsafe { std::ffi::CStr::from_ptr(room.as_ptr()) };
        assert_eq!(found.to_str().unwrap(), expected.to_str().unwrap());
    }
}
