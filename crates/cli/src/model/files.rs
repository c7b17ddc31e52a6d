//! The files of a run: all of them, or those that there is room for.

use super::results::Results;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

pub(super) type PartFile = BufWriter<File>;

/// The small ones first, so that many are whole where not all have room. `model.json` is the last one to be written and to be moved to its
/// place: where it is, the others are.
const FILES: [&str; 6] = ["hot.svg", "ports.parquet", "ports.csv", "flows.parquet", "flows.csv", HEAD];
const HEAD: &str = "model.json";

/// Files that could not be written, and why the first of them could not; where the others are.
pub(super) struct Lack {
    missing: Vec<&'static str>,
    whole: Vec<&'static str>,
    place: PathBuf,
    error: std::io::Error,
}

impl Lack {
    /// For the report.
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

/// That the folder is there and can be written to, before a long run.
pub(super) fn check_folder(out: &Path) -> anyhow::Result<()> {
    // Of `file/folder` the system says less than of `file`.
    if let Some(file) = out.ancestors().find(|place| place.exists() && !place.is_dir()) {
        let what = if file.is_file() { "a file" } else { "no folder" };
        anyhow::bail!("{} is {what}\n  help: name a folder with --out, one that is there or a new one", file.display());
    }
    std::fs::create_dir_all(out)?;
    let probe = out.join(format!("{HEAD}.part"));
    let written = std::fs::write(&probe, "{}\n");
    // Of a full disk an empty file would stay. Why nothing could be written says more than that nothing was there to be removed.
    let removed = std::fs::remove_file(probe);
    written.and(removed).map_err(|error| match error.kind() {
        ErrorKind::StorageFull => anyhow::anyhow!("{error}\n  help: make room there, or name another folder with --out"),
        _ => error.into(),
    })
}

/// Where what an unfinished run did is left: beside the results of one that came to its end, not in their place.
pub(super) fn place_of_unfinished(out: &Path) -> PathBuf {
    const HEAD_BYTES: u64 = 1 << 16;
    let mut head = Vec::new();
    let read = File::open(out.join(HEAD)).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    // Why a run ended stands before its flows and ports.
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

/// Writes each file beside its place first, and moves all there when they are whole. Where not all can be written, those that can be are left
/// as of an unfinished run, without `model.json`.
pub(super) fn leave(results: &Results, out: &Path) -> Result<(), Lack> {
    if let Err(error) = std::fs::create_dir_all(out) {
        return Err(Lack { missing: FILES.to_vec(), whole: Vec::new(), place: out.to_path_buf(), error });
    }
    let tables = results.tables();
    let (mut whole, mut missing, mut first_error) = (Vec::new(), Vec::new(), None);
    for name in FILES {
        if name == HEAD && first_error.is_some() {
            missing.push(name);
            continue;
        }
        let part = part_of(out, name);
        let written = File::create(&part).and_then(|file| {
            let mut file = PartFile::new(file);
            results.write(name, &tables, &mut file)?;
            file.flush()
        });
        match written {
            Ok(()) => whole.push(name),
            Err(error) => {
                // Its room is for the others.
                let _ = std::fs::remove_file(part);
                missing.push(name);
                first_error.get_or_insert(error);
            }
        }
    }
    let place = if first_error.is_none() { out.to_path_buf() } else { place_of_unfinished(out) };
    if let Err(error) = settle(out, &place, &whole) {
        whole.iter().for_each(|name| drop(std::fs::remove_file(part_of(out, name))));
        (whole, missing) = (Vec::new(), FILES.to_vec());
        first_error.get_or_insert(error);
    }
    first_error.map_or(Ok(()), |error| Err(Lack { missing, whole, place, error }))
}

fn part_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.part"))
}

/// Moves what is whole to its place. What is missing there is none of another run, and `model.json` first of all.
fn settle(out: &Path, place: &Path, whole: &[&str]) -> std::io::Result<()> {
    std::fs::create_dir_all(place)?;
    for name in FILES.iter().rev().filter(|name| !whole.contains(name)) {
        match std::fs::remove_file(place.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    whole.iter().try_for_each(|name| std::fs::rename(part_of(out, name), place.join(name)))
}
