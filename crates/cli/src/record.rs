//! Records of running fabrics: a file for each, in a folder that only this user can access.
//!
//! The name of a shared fabric is its folder. The file lies there, and its rights decide on who
//! takes part.
//!
//! The engine holds a lock on its file for as long as it lives. A file without a lock is stale, and
//! the command that finds it removes it.

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Variable that names a fabric for all commands.
pub(crate) const NAME_VARIABLE: &str = "SOFTBAND_FABRIC";
pub(crate) const NAME_DEFAULT: &str = "default";
/// Name of the file of a shared fabric in its folder.
const SHARED: &str = "softband-fabric";
/// More than a file of a fabric has, in bytes.
const RECORD_BYTES_MAX: u64 = 64 << 10;
/// Longest wait for a reader's brief lock, or for the content of a new file.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// Content of the file of a fabric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    /// Address of the engine.
    pub(crate) engine: String,
    pub(crate) pid: u32,
    pub(crate) fabric: String,
    pub(crate) version: String,
}

/// Returns the folder of the files, which may not exist.
fn folder() -> anyhow::Result<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // After `su`, the folder may belong to another user.
    let runtime = runtime.filter(|folder| folder.metadata().is_ok_and(|data| data.is_dir() && data.uid() == own));
    let folder = runtime.map_or_else(|| PathBuf::from(format!("/tmp/softband-{own}")), |runtime| runtime.join("softband"));
    match folder.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(folder),
        _ => check_folder(&folder, own).map(|()| folder),
    }
}

/// Returns the folder, if it exists or this user can make it.
pub(crate) fn usable_folder() -> anyhow::Result<PathBuf> {
    use rustix::fs::{Access, access};
    let folder = folder()?;
    let place = if folder.is_dir() { &folder } else { folder.parent().unwrap_or(&folder) };
    access(place, Access::WRITE_OK | Access::EXEC_OK).with_context(|| format!("cannot write into {}", place.display()))?;
    Ok(folder)
}

fn make_folder() -> anyhow::Result<()> {
    let folder = folder()?;
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error).with_context(|| format!("cannot make {}", folder.display())),
        _ => self::folder().map(|_| ()),
    }
}

/// Checks the folder. In /tmp, any user may have created a folder of this name.
fn check_folder(folder: &Path, own: u32) -> anyhow::Result<()> {
    let data = folder.symlink_metadata().with_context(|| format!("cannot look at {}", folder.display()))?;
    if !data.is_dir() || data.uid() != own || data.mode() & 0o077 != 0 {
        bail!("{} must be a folder of this user alone\n  help: remove it, or set XDG_RUNTIME_DIR to a folder of yours", folder.display());
    }
    Ok(())
}

/// Returns the folder of a shared fabric, if `name` is one.
pub(crate) fn shared_folder(name: &str) -> Option<&Path> {
    name.contains('/').then_some(Path::new(name))
}

/// Checks the name of a fabric, which becomes the name of a file, or the folder of a shared fabric.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    if let Some(folder) = shared_folder(name) {
        if !folder.is_dir() {
            bail!(
                "'{name}' cannot name a fabric: it has a slash and is no folder\n  \
                 help: use letters, digits, - _ and .; or make the folder, and let those enter who shall take part"
            );
        }
        return Ok(());
    }
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty() || name.len() > 100 || name.starts_with(['.', '-']) || !name.chars().all(good) {
        bail!("'{name}' cannot name a fabric\n  help: use letters, digits, - _ and .");
    }
    Ok(())
}

/// Returns the name of a fabric by which other commands find it from any folder.
pub(crate) fn full_name(name: &str) -> anyhow::Result<String> {
    let Some(folder) = shared_folder(name) else { return Ok(name.to_owned()) };
    let whole = folder.canonicalize().with_context(|| format!("cannot enter {name}"))?;
    whole.into_os_string().into_string().map_err(|path| anyhow::anyhow!("the path {} is not UTF-8", path.display()))
}

fn path_of(name: &str) -> anyhow::Result<PathBuf> {
    check_name(name)?;
    match shared_folder(name) {
        Some(_) => Ok(Path::new(&full_name(name)?).join(SHARED)),
        None => Ok(folder()?.join(format!("{name}.json"))),
    }
}

/// A name that this process has claimed. Dropping the claim removes its file.
pub(crate) struct Claim {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Claims a name. Fails if a running fabric has it.
    pub(crate) fn take(name: &str) -> anyhow::Result<Self> {
        let path = path_of(name)?;
        let started = Instant::now();
        loop {
            let is_shared = shared_folder(name).is_some();
            if !is_shared {
                make_folder()?;
            }
            let mut options = OpenOptions::new();
            // Others may have put a link into the folder of a shared fabric.
            options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
            let file = options.mode(if is_shared { 0o644 } else { 0o600 }).open(&path);
            // The process that removed the last file also removed the folder.
            if !is_shared && file.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                continue;
            }
            let hint = if is_shared { "\n  help: a fabric of another user may have ended there: let its owner remove the file" } else { "" };
            let file = file.with_context(|| format!("cannot write {}{hint}", path.display()))?;
            let data = file.metadata()?;
            if !data.is_file() || data.nlink() > 1 || data.uid() != rustix::process::geteuid().as_raw() {
                bail!("{} is not a file of this user alone\n  help: remove it, unless a fabric of its owner is up", path.display());
            }
            if is_shared {
                // Under any umask the rights of the folder decide.
                rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o644))?;
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Another process may remove a stale file between our open and our lock.
                Ok(()) if is_at(&file, &path) => return Ok(Self { path, file }),
                Ok(()) => continue,
                Err(Errno::WOULDBLOCK) if started.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
            }
        }
        let what = find(name)?.map_or(String::new(), |record| format!(" (process {}, {})", record.pid, record.fabric));
        bail!("a fabric '{name}' is up already{what}\n  help: end it with softband down --name {name}, or give this one another name with --name")
    }

    /// Publishes the fabric to other commands.
    pub(crate) fn publish(&mut self, record: &Record) -> anyhow::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(format!("{}\n", serde_json::to_string(record)?).as_bytes())?;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removes the file before the lock ends, so that the file cannot belong to another process.
        remove(&self.path);
    }
}

/// Removes a file, and its folder if that is now empty.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    if shared_folder_of(path).is_none() {
        let _ = path.parent().map(std::fs::remove_dir);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

/// Returns the fabric of this name, if it is running.
pub(crate) fn find(name: &str) -> anyhow::Result<Option<Record>> {
    read(&path_of(name)?)
}

fn read(path: &Path) -> anyhow::Result<Option<Record>> {
    let started = Instant::now();
    loop {
        // Others may have put anything into the folder of a shared fabric.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                bail!("cannot open {}: Permission denied\n  help: ask the owner of the fabric for the right to enter its folder", path.display())
            }
            Err(_) => return Ok(None),
        };
        check_owner(&file, path)?;
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            // Its engine is gone. While we hold this lock, a process can claim the name only with
            // another file.
            if is_at(&file, path) {
                remove(path);
            }
            return Ok(None);
        }
        let mut text = String::new();
        file.take(RECORD_BYTES_MAX).read_to_string(&mut text)?;
        match serde_json::from_str(&text) {
            Ok(record) => return check_place(record, path).map(Some),
            Err(_) if started.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(_) => bail!("the fabric of {} is still coming up\n  help: try again", path.display()),
        }
    }
}

/// Checks that the file of a shared fabric is that of the folder's owner, of this user or of root.
/// The engine that it names gets access to the memory of each program.
fn check_owner(file: &File, path: &Path) -> anyhow::Result<()> {
    let Some(folder) = shared_folder_of(path) else { return Ok(()) };
    let data = file.metadata()?;
    let trusted = [folder.metadata()?.uid(), rustix::process::geteuid().as_raw(), 0];
    if !data.is_file() || !trusted.contains(&data.uid()) {
        bail!(
            "{} is not a file of the folder's owner, and its fabric is not to be trusted\n  help: let the owner of {} bring the fabric up",
            path.display(),
            folder.display()
        );
    }
    Ok(())
}

/// Returns the folder of a shared fabric with this file.
fn shared_folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|_| path.file_name().is_some_and(|name| name == SHARED))
}

/// Checks that a shared fabric has the same path here as at its engine: programs find its files
/// there.
fn check_place(record: Record, path: &Path) -> anyhow::Result<Record> {
    let engine = Path::new(&record.engine);
    let climbs = engine.components().any(|part| part == std::path::Component::ParentDir);
    match shared_folder_of(path) {
        Some(folder) if climbs || !engine.starts_with(folder) => bail!(
            "the engine of the fabric in {} has its folder elsewhere ({})\n  help: mount it at the same path in all containers",
            folder.display(),
            record.name
        ),
        _ => Ok(record),
    }
}

/// Returns every running fabric of this user, by name.
pub(crate) fn all() -> anyhow::Result<Vec<Record>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()?).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let mut records = Vec::new();
    for path in paths {
        records.extend(read(&path)?);
    }
    Ok(records)
}

/// Returns the fabric of this name. Otherwise fails and lists the running fabrics.
pub(crate) fn wanted(name: &str) -> anyhow::Result<Record> {
    if let Some(record) = find(name)? {
        return Ok(record);
    }
    if shared_folder(name).is_some() {
        bail!("no fabric is up in {name}\n  help: softband up --name {name} brings one up");
    }
    let others: Vec<String> = all()?.into_iter().map(|record| record.name).collect();
    match others.as_slice() {
        [] => bail!("no fabric is up\n  help: softband up brings one up"),
        others => {
            let known: Vec<&str> = others.iter().map(String::as_str).collect();
            let help = softband_catalog::suggest(name, "fabrics that are up", &known);
            bail!("no fabric '{name}' is up\n  help: {help}; say --name NAME, or set {NAME_VARIABLE}")
        }
    }
}

/// Waits until a fabric is gone. Returns false if it stays.
pub(crate) fn await_end(name: &str, engine: &str, limit: Duration) -> anyhow::Result<bool> {
    let started = Instant::now();
    while find(name)?.is_some_and(|record| record.engine == engine) {
        if started.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_file_names_are_refused() {
        for name in ["", "a/b", "..", ".x", "-n", "a b", "\n"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["default", "ci-7", "x.y_z"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
    }
}
