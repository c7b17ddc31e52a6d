//! Redirects the kernel's files about HCAs, network interfaces and processes. The engine writes
//! `/sys/class/infiniband*`, `/sys/class/net` and `/dev/infiniband` into a folder for each host. The C library
//! functions that take paths lead there. `shared_files` does the same for `/dev/shm`. A path to the system's random numbers leads to a file of
//! such numbers.

use crate::clib::args::{Out, Text, Zeroed};
use crate::clib::real;
use crate::fd::{
    connections, counter_files, interface_files, machine_files, management, name_files, processor_files, processor_rate, random_files, shared_files,
    status,
};
use crate::own_calls;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, errno, set_errno};
use libc::{DIR, FILE, c_char, c_int, c_void, mode_t, size_t, ssize_t};
use rustix::fd::{AsRawFd, OwnedFd};
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Prefix that also covers `infiniband_verbs` and `infiniband_mad`.
const CLASSES: &[u8] = b"/sys/class/infiniband";
const DEVICES: &[u8] = b"/dev/infiniband";
/// The host's network interfaces, and their tables below `/proc/net`.
const INTERFACES: &[u8] = b"/sys/class/net";
const INTERFACE_TABLES: [&[u8]; 3] = [b"dev", b"route", b"if_inet6"];

/// File by which a library recognises a peer on its own machine.
const BOOT_ID: &[u8] = b"/proc/sys/kernel/random/boot_id";

static FOLDER: OnceLock<OsString> = OnceLock::new();
/// The same folder without symbolic links, as the kernel names it.
static KERNEL_NAME: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Stores the folder of the host's files, before the program can change its environment.
pub fn remember() {
    if let Some(folder) = std::env::var_os(softband_ipc::environment::FILES).filter(|folder| !folder.is_empty()) {
        FOLDER.get_or_init(|| folder);
    }
}

fn is_about_hcas(path: &[u8]) -> bool {
    path.starts_with(CLASSES)
        || path.starts_with(connections::CLASS)
        || path.strip_prefix(DEVICES).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The replacement of `path`, and the owner of its text and file.
pub struct Led<'a> {
    path: Text<'a>,
    held: Option<CString>,
    file: Option<OwnedFd>,
}

impl Led<'_> {
    pub fn path(&self) -> Text<'_> {
        self.held.as_deref().map_or(self.path, Text::of)
    }

    /// Returns the length of the engine's folder in front of the program's path, if it is there.
    pub(super) fn length_of_folder(&self) -> Option<usize> {
        let folder = FOLDER.get()?.as_bytes();
        self.held.as_deref()?.to_bytes().starts_with(folder).then_some(folder.len())
    }

    /// Returns whether the path, from `folder`, leads to one of the engine's files.
    fn is_of_engine(&self, folder: c_int) -> bool {
        if let Some(held) = &self.held {
            return self.length_of_folder().is_some() && !shared_files::is_inside(held.to_bytes());
        }
        // The files of the host's `/dev/shm` are the programs' own.
        let is_engines = |name: Vec<u8>| !shared_files::is_place(&name);
        let is_relative = self.path.bytes().is_some_and(|path| !path.starts_with(b"/"));
        is_relative && attached() && counter_files::folder_name(folder).is_some_and(is_engines)
    }

    /// Returns the flags for `open`. Our random files open through a link, which the program may
    /// not want to follow. The engine's files stay as they are until [`machine_files`] has judged.
    fn flags(&self, folder: c_int, flags: c_int) -> c_int {
        const CHANGES: c_int = libc::O_TRUNC | libc::O_CREAT | libc::O_EXCL;
        if self.file.is_some() {
            flags & !libc::O_NOFOLLOW
        } else if flags & CHANGES != 0 && self.is_of_engine(folder) {
            flags & !CHANGES
        } else {
            flags
        }
    }

    /// Returns the mode for `fopen`, which leaves the engine's files as they are.
    fn mode<'a>(&self, mode: Text<'a>) -> Text<'a> {
        let truncates = mode.bytes().is_some_and(|mode| mode.starts_with(b"w"));
        if truncates && self.is_of_engine(libc::AT_FDCWD) { Text::of(c"r+") } else { mode }
    }
}

/// Returns the replacement of `path`.
pub fn led(path: Text<'_>) -> Led<'_> {
    Led { path, held: path.bytes().and_then(inside), file: None }
}

/// Returns the place of a path of the program on the machine.
pub(super) fn led_path(path: &[u8]) -> Option<CString> {
    inside(path).or_else(|| CString::new(path).ok())
}

/// Returns the replacement of a path, from `folder`, that the program opens. A file of random numbers
/// starts with `blocks` blocks.
fn led_to_open(folder: c_int, path: Text<'_>, blocks: usize) -> Led<'_> {
    let file = path.bytes().and_then(|path| {
        let counts = || counter_files::instead_of(folder, path).or_else(|| interface_files::instead_of(path));
        random_files::instead_of(path, blocks)
            .or_else(counts)
            .or_else(|| processor_rate::instead_of(folder, path))
            .or_else(|| processor_files::instead_of(path))
    });
    let Some(file) = file else { return led(path) };
    Led { path, held: Some(random_files::path_of(file.as_raw_fd())), file: Some(file) }
}

/// Returns the program's name of a folder that the kernel names by `path`. Returns `None` for
/// folders outside the engine's.
pub(super) fn name_for_program(path: &[u8]) -> Option<CString> {
    if let Some(name) = shared_files::name_for_program(path) {
        return Some(name);
    }
    let kernel_name = KERNEL_NAME.get_or_init(|| std::fs::canonicalize(FOLDER.get()?).ok());
    let rest = path.strip_prefix(kernel_name.as_ref()?.as_os_str().as_bytes())?;
    if rest.first() == Some(&b'/') { CString::new(rest).ok() } else { None }
}

fn is_about_interfaces(path: &[u8]) -> bool {
    path.strip_prefix(INTERFACES).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Folders to which the links of the classes lead.
const VIRTUAL: &[u8] = b"/sys/devices/virtual/net";
const CARDS: &[u8] = b"/sys/devices/pci0000:00/";

/// Returns whether a path leads to an interface or to a card of the host. The machine may have other
/// cards.
fn is_of_card(path: &[u8]) -> bool {
    if path.strip_prefix(VIRTUAL).is_some_and(|rest| rest.is_empty() || rest[0] == b'/') {
        return true;
    }
    let Some(rest) = path.strip_prefix(CARDS) else { return false };
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let card = || CString::new([FOLDER.get()?.as_bytes(), &path[..CARDS.len() + end]].concat()).ok();
    end > 0 && card().is_some_and(|card| rustix::fs::access(card.as_c_str(), rustix::fs::Access::EXISTS).is_ok())
}

/// Returns the path of a table below `/proc/net`, which is the process's own.
fn interface_table(path: &[u8]) -> Option<CString> {
    let name = interface_files::network_table(path)?;
    if !INTERFACE_TABLES.contains(&name) || !attached() {
        return None;
    }
    CString::new([FOLDER.get()?.as_bytes(), b"/proc/net/", name].concat()).ok()
}

fn inside(path: &[u8]) -> Option<CString> {
    if let Some(file) = shared_files::instead_of(path) {
        return Some(file);
    }
    if path.starts_with(b"/proc/")
        && let Some(table) = interface_table(path)
    {
        return Some(table);
    }
    if let Some(rest) = path.strip_prefix(b"/proc/")
        && (rest.first().is_some_and(u8::is_ascii_digit) || rest.starts_with(b"self/task/"))
    {
        return of_process(rest).filter(|led| led.as_bytes() != path);
    }
    if let Some(names) = name_files::instead_of(path) {
        return Some(names);
    }
    // Nearly every path ends here. The engine's folder has no file of a hidden path.
    let is_led = is_about_hcas(path)
        || is_about_interfaces(path)
        || path == BOOT_ID
        || is_of_card(path)
        || processor_files::leads(path)
        || processor_rate::hides(path);
    if !is_led || !attached() {
        return None;
    }
    CString::new([FOLDER.get()?.as_bytes(), path].concat()).ok()
}

/// Translates a path below `/proc` if the program knows the process, or its first thread, by
/// another number than the system.
fn of_process(rest: &[u8]) -> Option<CString> {
    let (process, below) = by_system_number(rest, crate::process::pid::translated);
    let (thread, last) = below.strip_prefix(b"/task/").map_or((Vec::new(), below), |below| {
        let (thread, last) = by_system_number(below, crate::process::pid::system_thread);
        ([b"/task/", thread.as_slice()].concat(), last)
    });
    CString::new([b"/proc/", process.as_slice(), &thread, last].concat()).ok()
}

/// Returns the first part of a path with the real number instead of the program's number, and the
/// rest.
fn by_system_number(path: &[u8], of: fn(libc::pid_t) -> libc::pid_t) -> (Vec<u8>, &[u8]) {
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    let (first, rest) = path.split_at(end);
    let known: Option<libc::pid_t> = std::str::from_utf8(first).ok().and_then(|first| first.parse().ok());
    let real = known.map(of).filter(|real| Some(*real) != known);
    (real.map_or_else(|| first.to_vec(), |real| real.to_string().into_bytes()), rest)
}

/// Returns the folder of the host's files, as the engine named it.
pub fn folder() -> Option<&'static [u8]> {
    FOLDER.get().map(|folder| folder.as_bytes())
}

/// Runs `open`. The open of a named pipe waits in the kernel for the other end. Both ends must wait
/// at once, so neither may have the token.
fn opening<R>(folder: c_int, led: &Led, flags: c_int, open: impl FnOnce() -> R) -> R {
    // A program opens files after it has loaded a library (modules of Python).
    own_calls::look_at_objects();
    let waits = active() && flags & (libc::O_NONBLOCK | libc::O_RDWR | libc::O_PATH) == 0 && {
        let mut about = libc::stat::zeroed();
        let saved = errno();
        let is_there = status::native_status(folder, led, Out::of(&mut about), 0) == 0;
        set_errno(saved);
        is_there && about.st_mode & libc::S_IFMT == libc::S_IFIFO
    };
    if waits { crate::runtime::world::away(open) } else { open() }
}

/// Checks a descriptor that `open` returned, and makes it stand for the host's file.
fn opened(path: Text, flags: c_int, fd: c_int) -> c_int {
    machine_files::opened(path, flags, management::opened(path, flags, fd))
}

/// Implements `open`. The mode travels in the same register whether it is present or not (System V
/// ABI); its relatives rely on that too.
#[unsafe(no_mangle)]
pub extern "C" fn open(path: Text, flags: c_int, mode: mode_t) -> c_int {
    let led = led_to_open(libc::AT_FDCWD, path, 1);
    opened(path, flags, opening(libc::AT_FDCWD, &led, flags, || real::open(led.path(), led.flags(libc::AT_FDCWD, flags), mode)))
}

#[unsafe(no_mangle)]
pub extern "C" fn open64(path: Text, flags: c_int, mode: mode_t) -> c_int {
    let led = led_to_open(libc::AT_FDCWD, path, 1);
    opened(path, flags, opening(libc::AT_FDCWD, &led, flags, || real::open64(led.path(), led.flags(libc::AT_FDCWD, flags), mode)))
}

#[unsafe(no_mangle)]
pub extern "C" fn openat(folder: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int {
    let led = led_to_open(folder, path, 1);
    opened(path, flags, opening(folder, &led, flags, || real::openat(folder, led.path(), led.flags(folder, flags), mode)))
}

#[unsafe(no_mangle)]
pub extern "C" fn openat64(folder: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int {
    let led = led_to_open(folder, path, 1);
    opened(path, flags, opening(folder, &led, flags, || real::openat64(folder, led.path(), led.flags(folder, flags), mode)))
}

#[unsafe(no_mangle)]
pub extern "C" fn __open_2(path: Text, flags: c_int) -> c_int {
    let led = led_to_open(libc::AT_FDCWD, path, 1);
    opened(path, flags, real::__open_2(led.path(), led.flags(libc::AT_FDCWD, flags)))
}

#[unsafe(no_mangle)]
pub extern "C" fn __open64_2(path: Text, flags: c_int) -> c_int {
    let led = led_to_open(libc::AT_FDCWD, path, 1);
    opened(path, flags, real::__open64_2(led.path(), led.flags(libc::AT_FDCWD, flags)))
}

#[unsafe(no_mangle)]
pub extern "C" fn __openat_2(folder: c_int, path: Text, flags: c_int) -> c_int {
    let led = led_to_open(folder, path, 1);
    opened(path, flags, real::__openat_2(folder, led.path(), led.flags(folder, flags)))
}

#[unsafe(no_mangle)]
pub extern "C" fn __openat64_2(folder: c_int, path: Text, flags: c_int) -> c_int {
    let led = led_to_open(folder, path, 1);
    opened(path, flags, real::__openat64_2(folder, led.path(), led.flags(folder, flags)))
}

#[unsafe(no_mangle)]
pub extern "C" fn creat(path: Text, mode: mode_t) -> c_int {
    open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode)
}

#[unsafe(no_mangle)]
pub extern "C" fn creat64(path: Text, mode: mode_t) -> c_int {
    creat(path, mode)
}

#[unsafe(no_mangle)]
pub extern "C" fn fopen(path: Text, mode: Text) -> *mut FILE {
    let led = led_to_open(libc::AT_FDCWD, path, random_files::BLOCKS_OF_STREAM);
    machine_files::opened_stream(path, mode, opening(libc::AT_FDCWD, &led, 0, || real::fopen(led.path(), led.mode(mode))))
}

#[unsafe(no_mangle)]
pub extern "C" fn fopen64(path: Text, mode: Text) -> *mut FILE {
    let led = led_to_open(libc::AT_FDCWD, path, random_files::BLOCKS_OF_STREAM);
    machine_files::opened_stream(path, mode, opening(libc::AT_FDCWD, &led, 0, || real::fopen64(led.path(), led.mode(mode))))
}

/// Implements `freopen`. The stream's descriptor leaves its socket.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE {
    let led = led_to_open(libc::AT_FDCWD, path, random_files::BLOCKS_OF_STREAM);
    // Without a path the stream keeps its file.
    if !path.is_null() {
        // SAFETY: the caller's stream is open.
        unsafe { crate::fd::stdio::leave(stream) };
    }
    let stream = opening(libc::AT_FDCWD, &led, 0, || real::freopen(led.path(), led.mode(mode), stream));
    if path.is_null() { stream } else { machine_files::opened_stream(path, mode, stream) }
}

/// Implements the name of `freopen` for large files.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen64(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE {
    // SAFETY: all files are large on this machine, so both names have one contract.
    unsafe { freopen(path, mode, stream) }
}

#[unsafe(no_mangle)]
pub extern "C" fn opendir(path: Text) -> *mut DIR {
    real::opendir(led(path).path())
}

/// Implements `scandir`.
///
/// # Safety
/// `list` has room for a pointer. `filter` and `order` are null or functions of entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scandir(path: Text, list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int {
    // SAFETY: the program answers for its functions; the path is a string.
    unsafe { real::scandir(led(path).path(), list, filter, order) }
}

/// Implements `scandir64`.
///
/// # Safety
/// `list` has room for a pointer. `filter` and `order` are null or functions of entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scandir64(path: Text, list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int {
    // SAFETY: an entry of `scandir` is one of `scandir64` on this machine; the functions are the caller's.
    unsafe { real::scandir(led(path).path(), list, filter, order) }
}

#[unsafe(no_mangle)]
pub extern "C" fn access(path: Text, mode: c_int) -> c_int {
    real::access(led(path).path(), mode)
}

#[unsafe(no_mangle)]
pub extern "C" fn faccessat(folder: c_int, path: Text, mode: c_int, flags: c_int) -> c_int {
    real::faccessat(folder, led(path).path(), mode, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn euidaccess(path: Text, mode: c_int) -> c_int {
    real::euidaccess(led(path).path(), mode)
}

#[unsafe(no_mangle)]
pub extern "C" fn eaccess(path: Text, mode: c_int) -> c_int {
    real::euidaccess(led(path).path(), mode)
}

/// Implements `readlink`.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: Text, out: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library writes at most `len` bytes, for which there is room.
    unsafe { real::readlink(led(path).path(), out, len) }
}

/// Implements `__readlink_chk`.
///
/// # Safety
/// `out` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(path: Text, out: *mut c_char, len: size_t, room: size_t) -> ssize_t {
    // SAFETY: the C library checks `len` against the room.
    unsafe { real::__readlink_chk(led(path).path(), out, len, room) }
}

/// Implements `readlinkat`.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(folder: c_int, path: Text, out: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the kernel writes no more than the `len` bytes that the caller has.
    unsafe { real::readlinkat(folder, led(path).path(), out, len) }
}

/// Replaces a resolved path in the engine's folder by the program's name of it, which is shorter.
///
/// # Safety
/// `found` is null or a string that the caller may change.
unsafe fn shown(led: &Led, found: *mut c_char) -> *mut c_char {
    if led.held.is_none() || found.is_null() {
        return found;
    }
    // SAFETY: the pointer is not null, so it leads to a string.
    let name = name_for_program(unsafe { CStr::from_ptr(found) }.to_bytes());
    if let Some(name) = name {
        let bytes = name.as_bytes_with_nul();
        // SAFETY: the name is the end of the string, so it fits there.
        unsafe { found.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    }
    found
}

/// Implements `realpath`.
///
/// # Safety
/// `out` is null or has room for `PATH_MAX` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: Text, out: *mut c_char) -> *mut c_char {
    let led = led(path);
    // SAFETY: the result is at most as long as the room, or in new memory.
    let found = unsafe { real::realpath(led.path(), out) };
    // SAFETY: the C library has written a string.
    unsafe { shown(&led, found) }
}

/// Implements `__realpath_chk`.
///
/// # Safety
/// `out` is null or has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(path: Text, out: *mut c_char, room: size_t) -> *mut c_char {
    let led = led(path);
    // SAFETY: the C library ends the process if the room is shorter than `PATH_MAX`.
    let found = unsafe { real::__realpath_chk(led.path(), out, room) };
    // SAFETY: the result is a string of the C library.
    unsafe { shown(&led, found) }
}

#[unsafe(no_mangle)]
pub extern "C" fn canonicalize_file_name(path: Text) -> *mut c_char {
    let led = led(path);
    let found = real::canonicalize_file_name(led.path());
    // SAFETY: the C library returns null or a new string.
    unsafe { shown(&led, found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_about_hcas_are_led_away() {
        for path in [
            "/sys/class/infiniband",
            "/sys/class/infiniband/mlx4_0/ports/1/lid",
            "/sys/class/infiniband_verbs/uverbs0",
            "/dev/infiniband/uverbs0",
            "/sys/class/misc/rdma_cm/abi_version",
        ] {
            assert!(is_about_hcas(path.as_bytes()), "{path}");
        }
        for path in ["", "/", "/sys/class/net", "/dev/infinibandits", "/dev/null", "sys/class/infiniband"] {
            assert!(!is_about_hcas(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn outside_a_fabric_files_are_the_systems() {
        let mut out = libc::stat::zeroed();
        let null = Text::of(c"/dev/null");
        assert_eq!(status::stat(null, Out::of(&mut out)), 0);
        assert_eq!(out.st_mode & libc::S_IFMT, libc::S_IFCHR);
        assert_eq!(access(Text::of(c"/dev/infiniband-is-not-here"), libc::F_OK), -1);
        assert_eq!(status::__xstat(1, null, Out::of(&mut out)), 0);
        assert_eq!(status::__xstat(7, null, Out::of(&mut out)), -1);
    }
}
