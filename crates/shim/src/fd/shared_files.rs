//! `/dev/shm` of the host. Programs of a host meet in a folder of the run there, which no other host,
//! run or job uses. A folder that the machine's `/dev/shm` has stays what it is: users keep projects
//! there.

use crate::fd::files;
use crate::runtime::attach::attached;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

const PLACE: &[u8] = b"/dev/shm";

/// The folder that stands for `/dev/shm`, without symbolic links.
static FOLDER: OnceLock<Option<Vec<u8>>> = OnceLock::new();

fn folder() -> Option<&'static [u8]> {
    if !attached() {
        return None;
    }
    let found = FOLDER.get_or_init(|| {
        let folder = Path::new(OsStr::from_bytes(files::folder()?));
        let folder = std::fs::canonicalize(folder.join("dev/shm")).ok()?;
        Some(folder.into_os_string().into_vec())
    });
    found.as_deref()
}

/// Returns the part of a path below `/dev/shm`, with its slash. Nearly every path has none.
fn below(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(PLACE).filter(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns whether a path of a program is `/dev/shm` or lies below it.
pub(super) fn is_place(path: &[u8]) -> bool {
    below(path).is_some()
}

/// Returns whether a path of the machine lies in the folder that stands for `/dev/shm`. The engine's
/// folder of the host may lead there by a link.
pub(super) fn is_inside(path: &[u8]) -> bool {
    let in_host = |path: &[u8]| files::folder().and_then(|folder| path.strip_prefix(folder)).is_some_and(is_place);
    folder().is_some_and(|folder| path.starts_with(folder)) || in_host(path)
}

/// Returns the path of the run's file for a path below `/dev/shm`.
pub(super) fn instead_of(path: &[u8]) -> Option<CString> {
    let below = below(path)?;
    let folder = folder()?;
    let first = below.split(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or_default();
    if path.starts_with(folder) || first == b".." || (!first.is_empty() && is_folder_of_the_machine(folder, first)) {
        return None;
    }
    CString::new([folder, below].concat()).ok()
}

/// Returns whether the machine's `/dev/shm`, but not the run's, has a folder of this name.
fn is_folder_of_the_machine(folder: &[u8], name: &[u8]) -> bool {
    let status = |parent: &[u8]| rustix::fs::lstat([parent, b"/", name].concat()).ok();
    // A folder of another user could show, or change, the files of the run.
    let own = rustix::process::geteuid().as_raw();
    let is_folder = |status: &rustix::fs::Stat| status.st_mode & libc::S_IFMT == libc::S_IFDIR && status.st_uid == own;
    status(folder).is_none() && status(PLACE).as_ref().is_some_and(is_folder)
}

/// Returns the path of the file behind a name of `shm_open`, with a prefix that its users agree on.
/// Returns `None` for a name that the C library refuses.
pub fn named(prefix: &[u8], name: &[u8]) -> Option<CString> {
    let start = name.iter().position(|byte| *byte != b'/')?;
    let name = &name[start..];
    // As in the C library: a name has no further slash, and its file a name of at most 255 bytes.
    if name.contains(&b'/') || prefix.len() + name.len() > 255 {
        return None;
    }
    CString::new([folder().unwrap_or(PLACE), b"/", prefix, name].concat()).ok()
}

/// Returns the program's name of a folder that the kernel names by `path`, if it is the run's.
pub(super) fn name_for_program(path: &[u8]) -> Option<CString> {
    let rest = path.strip_prefix(folder()?).filter(|rest| rest.is_empty() || rest[0] == b'/')?;
    CString::new([PLACE, rest].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_place_are_its_own() {
        assert_eq!(below(b"/dev/shm"), Some(b"".as_slice()));
        assert_eq!(below(b"/dev/shm/a/b"), Some(b"/a/b".as_slice()));
        assert_eq!(below(b"/dev/shmem"), None);
        assert_eq!(below(b"dev/shm/a"), None);
    }

    #[test]
    fn names_are_those_of_the_c_library() {
        let path = |name: &[u8]| named(b"sem.", name).map(|path| path.to_bytes().to_vec());
        assert_eq!(path(b"/a"), Some(b"/dev/shm/sem.a".to_vec()));
        assert_eq!(path(b"a"), Some(b"/dev/shm/sem.a".to_vec()));
        assert_eq!(path(b"/a/b"), None);
        assert_eq!(path(b"/"), None);
        assert!(path(&[b'a'; 251]).is_some() && path(&[b'a'; 252]).is_none());
    }

    #[test]
    fn a_folder_of_the_machine_stays_unless_the_run_has_the_name() {
        let run = std::env::temp_dir().join(format!("softband-test-{}-run", std::process::id()));
        let name = format!("softband-test-{}-of-user", std::process::id());
        let machine = Path::new("/dev/shm").join(&name);
        std::fs::create_dir_all(&run).unwrap();
        std::fs::create_dir_all(&machine).unwrap();
        let stays = || is_folder_of_the_machine(run.as_os_str().as_bytes(), name.as_bytes());
        assert!(stays());
        std::fs::write(run.join(&name), "").unwrap();
        assert!(!stays());
        std::fs::remove_dir_all(&run).unwrap();
        std::fs::remove_dir_all(&machine).unwrap();
    }
}
