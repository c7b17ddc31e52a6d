//! The files of a run: all of them, or those that fit on the disk.

use super::results::Results;
use crate::files::Staged;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Small files come first, so that many are complete if the disk fills. `model.json` is written and
/// moved last, so its presence implies the others.
const FILES: [&str; 6] = ["hot.svg", "ports.parquet", "ports.csv", "flows.parquet", "flows.csv", HEAD];
const HEAD: &str = "model.json";

/// Files that could not be written, the first reason, and the place of the others.
pub(super) struct Lack {
    missing: Vec<&'static str>,
    whole: Vec<&'static str>,
    place: PathBuf,
    error: std::io::Error,
}

impl Lack {
    /// Returns the text for the report.
    pub(super) fn in_short(&self) -> String {
        match self.whole.is_empty() {
            true => String::from("could not be written"),
            false => format!("{}, without {}", self.place.display(), self.missing.join(", ")),
        }
    }
}

impl std::fmt::Display for Lack {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.error)?;
        if !self.whole.is_empty() {
            write!(out, "\n  in {} are {}, but not {}", self.place.display(), self.whole.join(", "), self.missing.join(", "))?;
        }
        write!(out, "\n  help: make room there, or name another folder with --out, and run it again")
    }
}

/// Checks before a long run that the folder exists or can be created, and is writable.
pub(super) fn check_folder(out: &Path) -> anyhow::Result<()> {
    // For `file/folder`, the system's message says less than for `file`.
    if let Some(file) = out.ancestors().find(|place| place.exists() && !place.is_dir()) {
        let what = if file.is_file() { "a file" } else { "no folder" };
        anyhow::bail!("{} is {what}\n  help: name a folder with --out, one that is there or a new one", file.display());
    }
    std::fs::create_dir_all(out).map_err(|error| anyhow::anyhow!("{error}\n  help: name another folder with --out"))?;
    let probe = out.join(format!("{HEAD}.part"));
    let written = std::fs::write(&probe, "{}\n");
    // On a full disk, an empty file would remain. The write error says more than a failed removal.
    let removed = std::fs::remove_file(probe);
    written.and(removed).map_err(|error| match error.kind() {
        ErrorKind::StorageFull => anyhow::anyhow!("{error}\n  help: make room there, or name another folder with --out"),
        _ => anyhow::anyhow!("{error}\n  help: name another folder with --out"),
    })
}

/// Returns the place for an unfinished run: beside the results of a completed run, not in their place.
pub(super) fn place_of_unfinished(out: &Path) -> PathBuf {
    const HEAD_BYTES: u64 = 1 << 16;
    let mut head = Vec::new();
    let read = File::open(out.join(HEAD)).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    // The reason for the end stands before the flows and ports.
    let is_whole = read.is_ok() && !String::from_utf8_lossy(&head).contains("\n  \"ended_by\": \"");
    // `DIR/` and `.` have a name as well.
    let named = if out.file_name().is_some() { Some(out.to_path_buf()) } else { out.canonicalize().ok() };
    match named.filter(|_| is_whole).and_then(|named| Some((named.file_name()?.to_owned(), named))) {
        Some((mut name, named)) => {
            name.push("-unfinished");
            named.with_file_name(name)
        }
        None => out.to_path_buf(),
    }
}

/// Writes each file beside its place first, and moves all of them once they are complete. After a
/// failure, leaves the writable files as those of an unfinished run, without `model.json`.
pub(super) fn leave(results: &Results, out: &Path) -> Result<(), Lack> {
    if let Err(error) = std::fs::create_dir_all(out) {
        return Err(Lack { missing: FILES.to_vec(), whole: Vec::new(), place: out.to_path_buf(), error });
    }
    let tables = results.tables();
    let (mut staged, mut missing, mut first_error) = (Vec::new(), Vec::new(), None);
    for name in FILES {
        if name == HEAD && first_error.is_some() {
            missing.push(name);
            continue;
        }
        match Staged::write(&out.join(name), |sink| results.write(name, &tables, sink)) {
            Ok(file) => staged.push((name, file)),
            Err(error) => {
                missing.push(name);
                first_error.get_or_insert(error);
            }
        }
    }
    let place = if first_error.is_none() { out.to_path_buf() } else { place_of_unfinished(out) };
    let mut whole = staged.iter().map(|(name, _)| *name).collect();
    if let Err(error) = settle(&place, staged) {
        (whole, missing) = (Vec::new(), FILES.to_vec());
        first_error.get_or_insert(error);
    }
    first_error.map_or(Ok(()), |error| Err(Lack { missing, whole, place, error }))
}

/// Moves complete files to their place. First removes old files that this run lacks, `model.json`
/// before all others.
fn settle(place: &Path, staged: Vec<(&str, Staged)>) -> std::io::Result<()> {
    std::fs::create_dir_all(place)?;
    for name in FILES.iter().rev().filter(|name| staged.iter().all(|(whole, _)| whole != *name)) {
        match std::fs::remove_file(place.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    staged.into_iter().try_for_each(|(name, file)| file.settle_at(&place.join(name)))
}
