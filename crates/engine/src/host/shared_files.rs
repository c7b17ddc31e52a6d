//! The folders that stand for `/dev/shm` of each host. Processes on one host share these files, and
//! no process of another host, run or job meets them. The library in the programs leads paths below
//! `/dev/shm` there (`shim/fd/shared_files`).

use crate::host::files::{lock, remove_stale};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Shared memory of a machine. These folders lie there too, so their files are memory.
const SHARED: &str = "/dev/shm";
const ENDING: &str = "-shm";
/// Every user may create files, and only the owner may remove a file, as in `/dev/shm`.
const RIGHTS: u32 = 0o1777;

/// The folders of all hosts. They disappear when this value is dropped.
#[derive(Debug)]
pub(crate) struct SharedFiles {
    folder: PathBuf,
    _lock: File,
}

impl SharedFiles {
    /// Makes the folder for the engine of this name. Returns `None` if the machine offers no place
    /// in `/dev/shm`.
    pub(crate) fn new(engine: &str) -> Option<Self> {
        let parent = Path::new(SHARED);
        remove_stale(parent, ENDING);
        let (folder, lock) = lock(parent, &format!("{engine}{ENDING}")).ok()?;
        Some(Self { folder, _lock: lock })
    }

    /// Returns the folder of the engine with this name.
    pub(crate) fn folder_of(engine: &str) -> PathBuf {
        Path::new(SHARED).join(format!("{engine}{ENDING}"))
    }

    /// Makes the folder `name` of a host, with a link at `link`.
    fn make(&self, name: &str, link: &Path) -> io::Result<()> {
        let folder = self.folder.join(name);
        open_to_all(&folder)?;
        symlink(&folder, link)
    }
}

impl Drop for SharedFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Puts the folder that stands for `/dev/shm` into a host's folder. It lies on the host's disk if
/// `/dev/shm` has no place for it.
pub(crate) fn write(root: &Path, name: &str, shared: Option<&SharedFiles>) -> io::Result<()> {
    let place = root.join("dev/shm");
    match shared {
        Some(shared) => shared.make(name, &place),
        None => open_to_all(&place),
    }
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(RIGHTS).create(folder)?;
    // The user's mask has taken rights away.
    fs::set_permissions(folder, Permissions::from_mode(RIGHTS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn folders_go_with_their_engine_and_hosts_have_their_own() {
        let name = format!("softband-test-{}-shared", std::process::id());
        let root = std::env::temp_dir().join(format!("{name}-root"));
        for host in ["0", "1"] {
            fs::create_dir_all(root.join(host).join("dev")).unwrap();
        }
        let shared = SharedFiles::new(&name).unwrap();
        for host in ["0", "1"] {
            write(&root.join(host), host, Some(&shared)).unwrap();
        }
        let file = |host: &str| root.join(host).join("dev/shm/segment");
        fs::write(file("0"), "bytes").unwrap();
        assert!(!file("1").exists());
        assert_eq!(fs::metadata(root.join("0/dev/shm")).unwrap().permissions().mode() & 0o7777, RIGHTS);
        let folder = shared.folder.clone();
        drop(shared);
        assert!(!folder.exists() && !file("0").exists());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_next_engine_removes_a_folder_without_a_lock() {
        let left = |name: &str| Path::new(SHARED).join(format!("softband-test-{}-{name}", std::process::id()));
        let killed = [left("killed-shm"), left("killed-at-its-start-shm.new")];
        let starting = left("starting-shm.new");
        for folder in killed.iter().chain([&starting]) {
            fs::create_dir_all(folder.join("host")).unwrap();
        }
        File::open(&killed[1]).unwrap().set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
        let shared = SharedFiles::new(&format!("softband-test-{}-next", std::process::id())).unwrap();
        assert!(!killed[0].exists() && !killed[1].exists() && starting.exists() && shared.folder.exists());
        fs::remove_dir_all(&starting).unwrap();
    }
}
