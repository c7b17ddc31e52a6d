//! Access to the kernel's view of devices.

use crate::guard::minus_one;
use libc::{c_char, c_int};
use rustix::fs::{Mode, OFlags};
use softband_client::Errno;
use std::ffi::CStr;

/// Softband's devices are not in the kernel's sysfs. Programs find its other contents here.
const ROOT: &CStr = c"/sys";

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    ROOT.as_ptr()
}

/// Reads a file below `folder` into `text`, without its final newline. Returns the number of bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_read_sysfs_file(folder: *const c_char, file: *const c_char, text: *mut c_char, size: usize) -> c_int {
    minus_one(|| {
        if folder.is_null() || file.is_null() || text.is_null() || size == 0 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: no pointer is NULL, and the caller gives C strings and room for `size` bytes.
        let (folder, file, room) = unsafe { (CStr::from_ptr(folder), CStr::from_ptr(file), std::slice::from_raw_parts_mut(text.cast::<u8>(), size)) };
        let path = [folder.to_bytes(), b"/", file.to_bytes()].concat();
        let errno = |error: rustix::io::Errno| Errno(error.raw_os_error());
        let opened = rustix::fs::open(path.as_slice(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        let mut len = rustix::io::read(&opened, &mut *room).map_err(errno)?;
        if len > 0 && room[len - 1] == b'\n' {
            len -= 1;
        }
        let len = len.min(size - 1);
        room[len] = 0;
        Ok(len as c_int)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_without_its_newline() {
        let folder = std::env::temp_dir().join(format!("softband-sysfs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("lid"), "0x7\n").expect("a file");
        let name = std::ffi::CString::new(folder.to_str().expect("UTF-8")).expect("no NUL");
        let mut room = [0x55_u8; 8];
        // SAFETY: two C strings and eight bytes of room.
        let len = unsafe { ibv_read_sysfs_file(name.as_ptr(), c"lid".as_ptr(), room.as_mut_ptr().cast(), room.len()) };
        // SAFETY: two C strings and eight bytes of room.
        let missing = unsafe { ibv_read_sysfs_file(name.as_ptr(), c"none".as_ptr(), room.as_mut_ptr().cast(), room.len()) };
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((len, missing), (3, -1));
        assert_eq!(&room[..4], b"0x7\0");
    }
}
