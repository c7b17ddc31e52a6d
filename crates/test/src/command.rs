//! The command `softband`, and the folder of a run.

use crate::Error;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the path of the command.
pub(crate) fn softband() -> Result<PathBuf, Error> {
    find(std::env::var_os("SOFTBAND_BIN"), std::env::var_os("PATH"))
}

fn find(named: Option<OsString>, path: Option<OsString>) -> Result<PathBuf, Error> {
    if let Some(named) = named {
        let named = PathBuf::from(named);
        return if named.is_file() { Ok(named) } else { Err(Error::NoCommand(format!("SOFTBAND_BIN names {}, which is no file", named.display()))) };
    }
    let found = std::env::split_paths(&path.unwrap_or_default()).map(|folder| folder.join("softband")).find(|file| file.is_file());
    found.ok_or_else(|| Error::NoCommand("PATH has none".into()))
}

/// Writes the fault plan into the folder, and returns the options for it.
pub(crate) fn words_of(folder: &Folder, faults: Option<&str>) -> Result<Vec<OsString>, Error> {
    let Some(plan) = faults else { return Ok(Vec::new()) };
    let path = folder.path().join("faults.toml");
    fs::write(&path, plan)?;
    Ok(vec!["--faults".into(), path.into()])
}

/// Returns a number that no other fabric of this process has.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("softband-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Folder of a run. It ends with its value, except in a test that fails.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn make() -> Result<Self, Error> {
        loop {
            let path = std::env::temp_dir().join(unique());
            // Outputs of programs are no business of other users.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // An earlier process with the same number failed and left its folder.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the content of a file. Returns an empty text if there is no file.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read(self.0.join(name)).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A folder that remains harms no other run.
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Folder, find, words_of};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_variable_comes_before_the_path() {
        let folder = Folder::make().unwrap();
        let file = folder.path().join("softband");
        let path = Some(folder.path().into());
        assert!(find(None, path.clone()).unwrap_err().to_string().starts_with("no command softband: PATH has none"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(find(None, path.clone()).unwrap(), file);
        assert!(find(Some("/nowhere".into()), path).unwrap_err().to_string().contains("SOFTBAND_BIN names /nowhere, which is no file"));
        assert_eq!(find(Some(file.clone().into()), None).unwrap(), file);
    }

    #[test]
    fn a_folder_ends_with_its_value() {
        let folder = Folder::make().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(words_of(&folder, None).unwrap(), Vec::<std::ffi::OsString>::new());
        assert_eq!(words_of(&folder, Some("[[faults]]")).unwrap(), ["--faults".into(), path.join("faults.toml").into_os_string()]);
        assert_eq!(folder.text("faults.toml"), "[[faults]]");
        drop(folder);
        assert!(!path.exists());
    }
}
