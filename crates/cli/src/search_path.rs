//! Folders in which hosts find programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Folders of administrators' programs, such as perfquery and opensm. The `PATH` of an ordinary user
/// of Debian lacks them. A user of Softband is the administrator of her hosts.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Appends the folders of administrators' programs to the `PATH` of this process and of all
/// programs that it starts. Call it before any thread starts.
pub(crate) fn append_administrators_folders() {
    let Some(path) = std::env::var_os("PATH") else { return };
    if let Some(longer) = with_administrators_folders(&path) {
        // SAFETY: `main` calls this function first, while the process has one thread.
        unsafe { std::env::set_var("PATH", longer) };
    }
}

/// Returns the path with the missing folders at its end, or `None` if it has all of them.
fn with_administrators_folders(path: &OsStr) -> Option<OsString> {
    let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    let given = folders.len();
    for folder in ADMINISTRATORS.map(Path::new) {
        if !folders.iter().any(|other| other == folder) {
            folders.push(folder.to_owned());
        }
    }
    if folders.len() > given { std::env::join_paths(folders).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(path: &str) -> Option<String> {
        with_administrators_folders(OsStr::new(path)).map(|longer| longer.into_string().unwrap())
    }

    #[test]
    fn missing_folders_come_last_so_no_program_is_replaced() {
        assert_eq!(extended("/opt/bin:/usr/bin").as_deref(), Some("/opt/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin"));
        assert_eq!(extended("/usr/sbin:/usr/bin").as_deref(), Some("/usr/sbin:/usr/bin:/usr/local/sbin:/sbin"));
    }

    #[test]
    fn a_path_with_all_folders_stays_as_it_is() {
        assert_eq!(extended("/usr/local/sbin:/bin:/usr/sbin:/sbin"), None);
    }
}
