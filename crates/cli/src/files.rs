//! Writes result files. A file under its final name is complete, or it is the former file.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

pub(crate) type Sink = BufWriter<File>;

/// A complete file beside its final place. Dropping it without a move deletes it.
pub(crate) struct Staged {
    part: PathBuf,
    place: PathBuf,
    is_settled: bool,
}

impl Staged {
    /// Writes `NAME.part` beside `place`. Leaves nothing behind on failure.
    pub(crate) fn write(place: &Path, content: impl FnOnce(&mut Sink) -> Result<()>) -> Result<Self> {
        // A symbolic link keeps its target.
        let place = place.canonicalize().unwrap_or_else(|_| place.to_path_buf());
        let Some(name) = place.file_name() else { return Err(Error::from(ErrorKind::IsADirectory)) };
        let mut name = name.to_owned();
        name.push(".part");
        let staged = Self { part: place.with_file_name(name), place, is_settled: false };
        let mut sink = Sink::new(File::create(&staged.part)?);
        if let Ok(former) = staged.place.metadata() {
            sink.get_ref().set_permissions(former.permissions())?;
        }
        content(&mut sink)?;
        sink.flush()?;
        Ok(staged)
    }

    /// Moves the file to its place.
    pub(crate) fn settle(self) -> Result<()> {
        let place = self.place.clone();
        self.settle_at(&place)
    }

    /// Moves the file to another place of the same file system.
    pub(crate) fn settle_at(mut self, place: &Path) -> Result<()> {
        std::fs::rename(&self.part, place)?;
        self.is_settled = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_settled {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Writes a complete file, or leaves the former file. Writes directly to a pipe or a device, which
/// cannot be replaced.
pub(crate) fn write(place: &Path, text: &str) -> anyhow::Result<()> {
    let is_special = place.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir());
    let written = match is_special {
        true => std::fs::write(place, text),
        false => Staged::write(place, |sink| sink.write_all(text.as_bytes())).and_then(Staged::settle),
    };
    written.map_err(|error| cannot_write(place, &error))
}

/// Writes all of several files into a folder, or none. The last file appears last, so its presence
/// implies the others.
pub(crate) fn write_all(folder: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    let mut staged = Vec::new();
    for (name, text) in files {
        let place = folder.join(name);
        let file = Staged::write(&place, |sink| sink.write_all(text.as_bytes())).map_err(|error| cannot_write(&place, &error))?;
        staged.push((place, file));
    }
    staged.into_iter().try_for_each(|(place, file)| file.settle().map_err(|error| cannot_write(&place, &error)))
}

/// Returns the error with the file, the reason and the remedy.
pub(crate) fn cannot_write(place: &Path, error: &Error) -> anyhow::Error {
    anyhow::anyhow!("cannot write {}: {error}\n  help: {}", place.display(), remedy(place, error.kind()))
}

fn remedy(place: &Path, kind: ErrorKind) -> String {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => String::from("make room there, or name another folder, and run it again"),
        ErrorKind::FileTooLarge => String::from("raise the limit on file sizes (ulimit -f), and run it again"),
        ErrorKind::NotFound | ErrorKind::NotADirectory => format!("make the folder {} first, or name another one", folder.display()),
        ErrorKind::IsADirectory => String::from("name a file, not a folder"),
        _ => String::from("name a place that this user may write to"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Staged, write, write_all};
    use std::io::{Error, ErrorKind, Write};
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("softband-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_is_what_it_was() {
        let folder = folder("half");
        let place = folder.join("fabric.toml");
        std::fs::write(&place, "former").unwrap();
        let half = |sink: &mut super::Sink| {
            sink.write_all(&[b'x'; 100_000])?;
            Err(Error::from(ErrorKind::StorageFull))
        };
        assert!(Staged::write(&place, half).is_err());
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "former");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        write(&place, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "new");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn of_several_files_all_are_written_or_none() {
        let folder = folder("several");
        // A file cannot replace a folder.
        std::fs::create_dir(folder.join("b.json.part")).unwrap();
        let error = write_all(&folder, &[("a.json", String::from("{}")), ("b.json", String::from("{}"))]).unwrap_err();
        assert!(error.to_string().contains("b.json: ") && error.to_string().contains("\n  help: "), "{error}");
        assert!(!folder.join("a.json").exists() && !folder.join("a.json.part").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_keeps_leading_where_it_does_and_a_device_stays_a_device() {
        let folder = folder("link");
        let (target, link) = (folder.join("target.svg"), folder.join("link.svg"));
        std::fs::write(&target, "former").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        write(std::path::Path::new("/dev/null"), "gone").unwrap();
        assert!(!std::path::Path::new("/dev/null").metadata().unwrap().is_file());
        let error = write(&folder.join("no/such/file"), "").unwrap_err().to_string();
        assert!(error.contains("help: make the folder"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
