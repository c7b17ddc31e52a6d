//! Folders for files of a job or a recording, closed to other users.

use anyhow::Context;
use softband_engine::random_word;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Rights of a folder: its owner's only.
const RIGHTS: u32 = 0o700;

/// A folder that lives as long as this value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder with a random name. Fails if the folder exists: another user can have made it.
    pub(crate) fn make(purpose: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("softband-{purpose}-{}", random_word()?));
        DirBuilder::new().mode(RIGHTS).create(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn folders_have_names_of_their_own_and_belong_to_their_owner() {
        let (one, other) = (Scratch::make("test").unwrap(), Scratch::make("test").unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(one.path().metadata().unwrap().permissions().mode() & 0o077, 0);
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
    }
}
