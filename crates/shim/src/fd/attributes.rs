//! Further questions about paths: extended attributes (`ls -l` asks for them), file systems, and
//! changes of files (inotify).

use crate::clib::args::{Out, Text};
use crate::clib::real;
use crate::fd::files::led;
use libc::{c_char, c_int, c_void, size_t, ssize_t};

macro_rules! led_attributes {
    ($($name:ident($($argument:ident: $of:ty),*);)*) => {
        $(
            /// Implements the function of this name.
            ///
            /// # Safety
            /// The room has the stated length.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(path: Text, $($argument: $of),*) -> ssize_t {
                // SAFETY: the C library respects the length of the caller's room.
                unsafe { real::$name(led(path).path(), $($argument),*) }
            }
        )*
    };
}

led_attributes! {
    getxattr(name: Text, value: *mut c_void, size: size_t);
    lgetxattr(name: Text, value: *mut c_void, size: size_t);
    listxattr(list: *mut c_char, size: size_t);
    llistxattr(list: *mut c_char, size: size_t);
}

#[unsafe(no_mangle)]
pub extern "C" fn inotify_add_watch(fd: c_int, path: Text, mask: u32) -> c_int {
    real::inotify_add_watch(fd, led(path).path(), mask)
}

#[unsafe(no_mangle)]
pub extern "C" fn statfs(path: Text, out: Out<libc::statfs>) -> c_int {
    real::statfs(led(path).path(), out)
}

#[unsafe(no_mangle)]
pub extern "C" fn statfs64(path: Text, out: Out<libc::statfs>) -> c_int {
    statfs(path, out)
}

#[unsafe(no_mangle)]
pub extern "C" fn statvfs(path: Text, out: Out<libc::statvfs>) -> c_int {
    real::statvfs(led(path).path(), out)
}

#[unsafe(no_mangle)]
pub extern "C" fn statvfs64(path: Text, out: Out<libc::statvfs>) -> c_int {
    statvfs(path, out)
}
