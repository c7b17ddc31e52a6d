//! Facts of the kernel about processes.
//!
//! Programs of a shared fabric may live in other namespaces, where the engine can name no process.
//! There the engine gives them numbers that no process has ([`HIDDEN_FIRST`]). It sees them by the
//! descriptors that they pass ([`View`]).

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// First number of a hidden process. The kernel's process numbers are lower than 2^22
/// (`PID_MAX_LIMIT`), so system calls with such a number fail.
const HIDDEN_FIRST: i32 = 1 << 30;
/// Value of `f_type` of `/proc` (statfs(2)).
const PROC_MAGIC: i64 = 0x9fa0;

/// More than a file of `/proc` has that the engine reads, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// Descriptors by which a hidden process shows itself.
#[derive(Debug)]
pub(crate) struct View {
    /// Its folder in its own `/proc`.
    folder: OwnedFd,
    /// Its `mem` and `maps`, unless the process could not open them.
    memory: Option<File>,
    maps: Option<File>,
    /// Its connection to the engine. The kernel ends the process if the engine shuts it down.
    connection: OwnedFd,
}

impl View {
    /// Takes the descriptors of a hello. Each may be any file. Returns `None` if the first
    /// is not a readable folder of a process.
    pub(crate) fn of(descriptors: Vec<OwnedFd>, connection: OwnedFd) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        let folder = descriptors.next().filter(is_folder_of_proc)?;
        let mut named = |name| descriptors.next().filter(|file| is_same(file, &folder, name)).map(File::from);
        let view = Self { memory: named("mem"), maps: named("maps"), folder, connection };
        // A `/proc` that hides processes from other users is no view.
        text_of(view.read("stat")).contains(") ").then_some(view)
    }

    fn read(&self, file: &str) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from(open_below(&self.folder, file, OFlags::RDONLY | OFlags::NONBLOCK)?).take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Opens a file below a folder of `/proc`. The process may have mounted other files over it, which
/// could make the engine wait, or let it write with its own rights.
fn open_below(folder: &OwnedFd, file: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, file, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn is_folder_of_proc(folder: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(folder).map(|data| rustix::fs::FileType::from_raw_mode(data.st_mode));
    kind == Ok(rustix::fs::FileType::Directory) && rustix::fs::fstatfs(folder).is_ok_and(|system| system.f_type == PROC_MAGIC)
}

/// Returns whether a descriptor is the file of this name in a folder of `/proc`.
fn is_same(descriptor: &OwnedFd, folder: &OwnedFd, name: &str) -> bool {
    let there = open_below(folder, name, OFlags::PATH).and_then(rustix::fs::fstat);
    let (Ok(there), Ok(here)) = (there, rustix::fs::fstat(descriptor)) else { return false };
    (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
}

/// Views of the hidden processes, by their numbers.
static VIEWS: Mutex<BTreeMap<i32, Arc<View>>> = Mutex::new(BTreeMap::new());

fn views() -> MutexGuard<'static, BTreeMap<i32, Arc<View>>> {
    VIEWS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn view(pid: i32) -> Option<Arc<View>> {
    if is_hidden(pid) { views().get(&pid).cloned() } else { None }
}

/// Returns the number of the hidden process with this connection.
pub(crate) fn hidden_number(connection: u64) -> i32 {
    HIDDEN_FIRST + (connection % (1 << 29)) as i32
}

/// Returns the number of a process in its own namespace, or the given one if the process is gone.
pub(crate) fn number_for_users(pid: i32) -> i32 {
    if is_hidden(pid) { stat(pid).split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(pid) } else { pid }
}

/// Returns whether a number is that of a hidden process.
pub(crate) fn is_hidden(pid: i32) -> bool {
    pid >= HIDDEN_FIRST
}

/// Notes the view of a hidden process.
pub(crate) fn note(pid: i32, view: View) {
    views().insert(pid, Arc::new(view));
}

/// Closes the descriptors of a hidden process.
pub(crate) fn forget(pid: i32) {
    views().remove(&pid);
}

/// Ends a hidden process. Returns whether the engine knows it.
pub(crate) fn end_hidden(pid: i32) -> bool {
    view(pid).is_some_and(|view| rustix::net::shutdown(&view.connection, rustix::net::Shutdown::Both).is_ok())
}

/// Returns the path of a file of a process that is not hidden.
pub(crate) fn path(pid: i32, file: &str) -> PathBuf {
    format!("/proc/{pid}/{file}").into()
}

/// Reads a file of a process, as far as the engine may.
pub(crate) fn read(pid: i32, file: &str) -> std::io::Result<Vec<u8>> {
    if !is_hidden(pid) {
        return std::fs::read(path(pid, file));
    }
    view(pid).ok_or(std::io::ErrorKind::NotFound)?.read(file)
}

/// Reads the mappings of a process.
pub(crate) fn maps(pid: i32) -> std::io::Result<Vec<u8>> {
    if !is_hidden(pid) {
        return read(pid, "maps");
    }
    let view = view(pid).ok_or(std::io::ErrorKind::NotFound)?;
    let mut maps = view.maps.as_ref().ok_or(std::io::ErrorKind::PermissionDenied)?;
    maps.rewind()?;
    let mut bytes = Vec::new();
    maps.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens the memory of a process, to write if `writes`.
pub(crate) fn memory(pid: i32, writes: bool) -> std::io::Result<File> {
    if !is_hidden(pid) {
        return File::options().read(!writes).write(writes).open(path(pid, "mem"));
    }
    let view = view(pid).ok_or(std::io::ErrorKind::NotFound)?;
    view.memory.as_ref().ok_or(std::io::ErrorKind::PermissionDenied)?.try_clone()
}

/// Reads the `stat` of a process; returns empty text if it does not exist. Process names may be any
/// bytes, and a cut name may not be UTF-8.
pub(crate) fn stat(pid: i32) -> String {
    text_of(read(pid, "stat"))
}

/// Reads the `stat` of a thread, as [`stat`].
pub(crate) fn thread_stat(pid: i32, tid: i32) -> String {
    text_of(read(pid, &format!("task/{tid}/stat")))
}

fn text_of(bytes: std::io::Result<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn connection() -> OwnedFd {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        rustix::net::socketpair(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET, flags, None).unwrap().0
    }

    fn opened(path: &str) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    #[test]
    fn a_hidden_process_shows_itself_by_its_descriptors() {
        let pid = hidden_number(7);
        assert!(is_hidden(pid) && !is_hidden(std::process::id() as i32));
        assert!(stat(pid).is_empty() && maps(pid).is_err() && memory(pid, false).is_err());
        let view = View::of(vec![opened("/proc/self"), opened("/proc/self/mem"), opened("/proc/self/maps")], connection()).unwrap();
        note(pid, view);
        assert_eq!(number_for_users(pid), std::process::id() as i32);
        assert!(String::from_utf8_lossy(&maps(pid).unwrap()).contains("[stack]"));
        assert!(!maps(pid).unwrap().is_empty(), "a second read begins at the start");
        let (known, mut seen) = ([1_u8, 2, 3, 4], [0; 4]);
        memory(pid, false).unwrap().read_exact_at(&mut seen, known.as_ptr() as u64).unwrap();
        assert_eq!(seen, known);
        assert!(end_hidden(pid));
        forget(pid);
        assert!(stat(pid).is_empty() && !end_hidden(pid));
    }

    #[test]
    fn other_files_are_no_view() {
        assert!(View::of(vec![], connection()).is_none());
        assert!(View::of(vec![opened("/")], connection()).is_none());
        assert!(View::of(vec![opened("/proc/self/mem")], connection()).is_none());
        assert!(View::of(vec![opened("/proc")], connection()).is_none(), "it has no state of a process");
        let view = View::of(vec![opened("/proc/self"), opened("/proc/self/maps"), opened("/etc/passwd")], connection()).unwrap();
        assert!(view.memory.is_none() && view.maps.is_none());
    }
}
