//! The only file of this crate that reads the disk.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::catalog::{Catalog, PartFile};
use crate::diagnostic::{CatalogError, FabricError, Fault, Findings};
use crate::fabric_file::{LoadOptions, LoadedFabric, parse_fabric};
use crate::parts::PartKind;

impl Catalog {
    /// Reads every part file of `dir`: `hca/`, `bus/`, `cable/`, `switch/`, `host/` and `limit/`.
    pub fn load(dir: &Path) -> Result<Self, CatalogError> {
        let mut files = Vec::new();
        let mut faults = Vec::new();
        for kind in PartKind::ALL {
            let folder = dir.join(kind.folder());
            match part_paths(&folder) {
                Ok(paths) => paths.iter().for_each(|path| match read_part(kind, path) {
                    Ok(file) => files.push(file),
                    Err(fault) => faults.push(fault),
                }),
                Err(error) => faults.push(unreadable(&folder, &error.to_string(), "a catalogue has a folder for each kind of part")),
            }
        }
        if faults.is_empty() { Self::from_files(&files) } else { Err(CatalogError::new(faults)) }
    }
}

/// Reads and checks a fabric file.
pub fn load_fabric(path: &Path, catalog: &Catalog, options: &LoadOptions) -> Result<LoadedFabric, FabricError> {
    let failed = |why: &str, help: &str| FabricError::new(vec![unreadable(path, why, help)]);
    let bytes = fs::read(path).map_err(|error| failed(&error.to_string(), "name a fabric file, such as one of those in fabrics/"))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not text in UTF-8", "a fabric file is TOML"))?;
    parse_fabric(&path.display().to_string(), &text, catalog, options)
}

fn part_paths(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("toml")) {
            paths.push(path);
        }
    }
    // The order of a folder is the file system's business.
    paths.sort();
    Ok(paths)
}

fn read_part(kind: PartKind, path: &Path) -> Result<PartFile, Fault> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error.to_string(), "a part file is TOML"))?;
    let name = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    Ok(PartFile { kind, name, file: path.display().to_string(), text })
}

fn unreadable(path: &Path, why: &str, help: &str) -> Fault {
    let mut findings = Findings::new(&path.display().to_string(), "");
    findings.error(format!("cannot read {}: {why}", path.display()), Vec::new(), Some(help.to_owned()));
    findings.errors.remove(0)
}
