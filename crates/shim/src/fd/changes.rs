//! Functions that make, name and remove files. Paths below `/dev/shm` lead to the run's folder.

use crate::clib::args::Text;
use crate::clib::real;
use crate::fd::shared_files;
use crate::runtime::world::{errno, fail};
use libc::{c_char, c_int, c_uint, dev_t, gid_t, mode_t, off_t, timespec, timeval, uid_t};
use std::ffi::CString;

/// A path, and its replacement.
struct Led<'a> {
    path: Text<'a>,
    held: Option<CString>,
}

impl Led<'_> {
    fn as_ptr(&self) -> *const c_char {
        self.held.as_deref().map_or(self.path, Text::of).as_ptr()
    }
}

fn led(path: Text<'_>) -> Led<'_> {
    Led { path, held: path.bytes().and_then(shared_files::instead_of) }
}

/// Declares functions of the C library that are system calls. `path` is a path.
macro_rules! system_calls {
    ($($number:ident: fn $name:ident$([$($before:ident: $kind:ty),*])?(path $(, $after:ident: $type:ty)*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($($before: $kind,)*)? path: Text $(, $after: $type)*) -> c_int {
            // SAFETY: the kernel reads a string, and checks numbers and addresses.
            unsafe { kernel!(libc::$number $($(, $before)*)?, led(path).as_ptr() $(, $after)*) as c_int }
        }
    )*};
}

system_calls! {
    SYS_unlink: fn unlink(path);
    SYS_unlinkat: fn unlinkat[folder: c_int](path, flags: c_int);
    SYS_rmdir: fn rmdir(path);
    SYS_mkdir: fn mkdir(path, mode: mode_t);
    SYS_mkdirat: fn mkdirat[folder: c_int](path, mode: mode_t);
    SYS_mknod: fn mknod(path, mode: mode_t, device: dev_t);
    SYS_mknodat: fn mknodat[folder: c_int](path, mode: mode_t, device: dev_t);
    SYS_chmod: fn chmod(path, mode: mode_t);
    SYS_chown: fn chown(path, user: uid_t, group: gid_t);
    SYS_lchown: fn lchown(path, user: uid_t, group: gid_t);
    SYS_fchownat: fn fchownat[folder: c_int](path, user: uid_t, group: gid_t, flags: c_int);
    SYS_truncate: fn truncate(path, len: off_t);
    SYS_truncate: fn truncate64(path, len: off_t);
    SYS_utimes: fn utimes(path, times: *const timeval);
}

#[unsafe(no_mangle)]
pub extern "C" fn mkfifo(path: Text, mode: mode_t) -> c_int {
    mknod(path, mode | libc::S_IFIFO, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn mkfifoat(folder: c_int, path: Text, mode: mode_t) -> c_int {
    mknodat(folder, path, mode | libc::S_IFIFO, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn remove(path: Text) -> c_int {
    let outcome = unlink(path);
    if outcome != 0 && errno() == libc::EISDIR { rmdir(path) } else { outcome }
}

#[unsafe(no_mangle)]
pub extern "C" fn rename(from: Text, to: Text) -> c_int {
    // SAFETY: the kernel reads two strings.
    unsafe { kernel!(libc::SYS_rename, led(from).as_ptr(), led(to).as_ptr()) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn renameat(folder: c_int, from: Text, to_folder: c_int, to: Text) -> c_int {
    renameat2(folder, from, to_folder, to, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn renameat2(folder: c_int, from: Text, to_folder: c_int, to: Text, flags: c_uint) -> c_int {
    // SAFETY: the kernel reads the two paths.
    unsafe { kernel!(libc::SYS_renameat2, folder, led(from).as_ptr(), to_folder, led(to).as_ptr(), flags) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn link(from: Text, to: Text) -> c_int {
    linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn linkat(folder: c_int, from: Text, to_folder: c_int, to: Text, flags: c_int) -> c_int {
    // SAFETY: the kernel reads both strings, and no other memory.
    unsafe { kernel!(libc::SYS_linkat, folder, led(from).as_ptr(), to_folder, led(to).as_ptr(), flags) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn symlink(target: Text, path: Text) -> c_int {
    symlinkat(target, libc::AT_FDCWD, path)
}

/// Implements `symlinkat`. The kernel follows links, so the link's text leads to the run's file too.
#[unsafe(no_mangle)]
pub extern "C" fn symlinkat(target: Text, folder: c_int, path: Text) -> c_int {
    // SAFETY: the kernel reads the text of the link and its path.
    unsafe { kernel!(libc::SYS_symlinkat, led(target).as_ptr(), folder, led(path).as_ptr()) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn fchmodat(folder: c_int, path: Text, mode: mode_t, flags: c_int) -> c_int {
    let led = led(path);
    real::fchmodat(folder, led.held.as_deref().map_or(path, Text::of), mode, flags)
}

/// Implements `utimensat`. Without a path, it is about an open file.
///
/// # Safety
/// `times` is null or has two elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utimensat(folder: c_int, path: Text, times: *const timespec, flags: c_int) -> c_int {
    if path.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the kernel reads a path and two times.
    unsafe { kernel!(libc::SYS_utimensat, folder, led(path).as_ptr(), times, flags) as c_int }
}

/// Runs a function that completes a template, and copies the completed name into the program's
/// template. Both end alike, and only the last part of a path changes.
///
/// # Safety
/// `template` is null or a C string that may change.
unsafe fn completed<R>(template: *mut c_char, make: impl FnOnce(*mut c_char) -> R) -> R {
    // SAFETY: the program passes a string.
    let held = unsafe { Text::from_raw(template) }.bytes().and_then(shared_files::instead_of);
    let Some(held) = held else { return make(template) };
    let mut own = held.into_bytes_with_nul();
    let made = make(own.as_mut_ptr().cast());
    let name = own.iter().rposition(|byte| *byte == b'/').map_or(own.len(), |slash| own.len() - slash - 1);
    // SAFETY: the template ends with this many bytes, which may change.
    unsafe {
        let len = libc::strlen(template) + 1;
        let name = name.min(len);
        template.add(len - name).copy_from_nonoverlapping(own.as_ptr().add(own.len() - name).cast(), name);
    }
    made
}

/// Declares functions that make a file by a template.
macro_rules! templates {
    ($(fn $name:ident as $large:ident($($argument:ident),*);)*) => {$(
        /// Makes a file with a name of its own.
        ///
        /// # Safety
        /// `template` is a string that may change.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(template: *mut c_char $(, $argument: c_int)*) -> c_int {
            // SAFETY: the template is the program's, or as long as it has to be.
            unsafe { completed(template, |template| real::$name(template $(, $argument)*)) }
        }

        /// Makes a file with a name of its own. All files are large on this machine.
        ///
        /// # Safety
        /// `template` is a string that may change.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $large(template: *mut c_char $(, $argument: c_int)*) -> c_int {
            // SAFETY: the caller keeps the promise of the other name.
            unsafe { $name(template $(, $argument)*) }
        }
    )*};
}

templates! {
    fn mkstemp as mkstemp64();
    fn mkostemp as mkostemp64(flags);
    fn mkstemps as mkstemps64(suffix);
    fn mkostemps as mkostemps64(suffix, flags);
}

/// Implements `mkdtemp`.
///
/// # Safety
/// `template` is a string that may change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: the template is a string that may change, of the program or our own.
    let made: *mut c_char = unsafe { completed(template, |template| real::mkdtemp(template)) };
    if made.is_null() { made } else { template }
}

/// Implements `shm_open`.
#[unsafe(no_mangle)]
pub extern "C" fn shm_open(name: Text, flags: c_int, mode: mode_t) -> c_int {
    let Some(path) = name.bytes().and_then(|name| shared_files::named(b"", name)) else { return fail(libc::EINVAL) };
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let fd = real::open(Text::of(&path), flags, mode);
    // As in the C library, a folder is no name.
    if fd < 0 && errno() == libc::EISDIR { fail(libc::EINVAL) } else { fd }
}

#[unsafe(no_mangle)]
pub extern "C" fn shm_unlink(name: Text) -> c_int {
    unlink_named(b"", name)
}

#[unsafe(no_mangle)]
pub extern "C" fn sem_unlink(name: Text) -> c_int {
    unlink_named(b"sem.", name)
}

fn unlink_named(prefix: &[u8], name: Text) -> c_int {
    let Some(path) = name.bytes().and_then(|name| shared_files::named(prefix, name)) else { return fail(libc::ENOENT) };
    // SAFETY: the kernel reads the path.
    let outcome = unsafe { kernel!(libc::SYS_unlink, path.as_ptr()) as c_int };
    if outcome != 0 && errno() == libc::EPERM { fail(libc::EACCES) } else { outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn outside_a_fabric_files_come_and_go_as_in_the_system() {
        let name = format!("/softband-test-{}-changes", std::process::id());
        let shm = CString::new(name.clone()).unwrap();
        let fd = shm_open(Text::of(&shm), libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600);
        assert!(fd >= 0 && std::path::Path::new("/dev/shm").join(&name[1..]).exists());
        assert_eq!(shm_open(Text::of(&shm), libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600), -1);
        assert_eq!((shm_unlink(Text::of(&shm)), shm_unlink(Text::of(&shm))), (0, -1));
        assert_eq!(shm_open(Text::of(c"/a/b"), libc::O_RDWR, 0), -1);
        let mut template = *b"/tmp/softband-test-XXXXXX\0";
        // SAFETY: the template is a string of its own.
        let folder = unsafe { CStr::from_ptr(mkdtemp(template.as_mut_ptr().cast())) };
        assert_eq!(remove(Text::of(folder)), 0);
        assert_eq!(rmdir(Text::of(folder)), -1);
    }
}
