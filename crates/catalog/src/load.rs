//! The only file of this crate that reads the disk.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::catalog::{Catalog, PartFile};
use crate::diagnostic::{CatalogError, FabricError, Fault, Findings, Warning};
use crate::fabric_file::{LoadOptions, LoadedFabric, parse_fabric};
use crate::parts::PartKind;
use crate::units::or_list;

impl Catalog {
    /// Reads every part file of `dir`: `hca/`, `bus/`, `cable/`, `switch/`, `host/`, `kernel/`, `nic/` and
    /// `limit/`.
    pub fn load(dir: &Path) -> Result<Self, CatalogError> {
        Self::load_with(dir, &[])
    }

    /// Reads `dir`, then each folder of `own`, which need not have all subfolders. A part of a
    /// later folder replaces the part of the same name.
    pub fn load_with(dir: &Path, own: &[PathBuf]) -> Result<Self, CatalogError> {
        let mut faults = Vec::new();
        let mut layers = vec![read_parts(dir, &PartKind::ALL, &mut faults)];
        let mut warnings = Vec::new();
        for dir in own {
            match own_kinds(dir, &mut warnings) {
                Ok(kinds) => layers.push(read_parts(dir, &kinds, &mut faults)),
                Err(error) => faults.push(unreadable(
                    dir,
                    &error.to_string(),
                    "name a folder with parts in hca/, bus/, cable/, switch/, host/, kernel/ or nic/",
                )),
            }
        }
        if !faults.is_empty() {
            return Err(CatalogError::new(faults));
        }
        let layers: Vec<&[PartFile]> = layers.iter().map(Vec::as_slice).collect();
        let mut catalog = Self::from_layers(&layers)?;
        catalog.warn(warnings);
        Ok(catalog)
    }
}

/// Returns a digest of the parts in `own`. Returns `None` if there are no parts.
pub fn digest_of_parts(own: &[PathBuf]) -> Option<u64> {
    let read = |dir: &PathBuf| read_parts(dir, &own_kinds(dir, &mut Vec::new()).unwrap_or_default(), &mut Vec::new());
    let layers: Vec<Vec<PartFile>> = own.iter().map(read).filter(|files| !files.is_empty()).collect();
    // FNV-1a gives the same digest in every build.
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for text in layers.iter().flat_map(|files| files.iter().flat_map(|file| [file.kind.folder(), &file.name, &file.text]).chain([""])) {
        for byte in text.bytes().chain([0]) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (!layers.is_empty()).then_some(digest)
}

fn read_parts(dir: &Path, kinds: &[PartKind], faults: &mut Vec<Fault>) -> Vec<PartFile> {
    let mut files = Vec::new();
    for kind in kinds {
        let folder = dir.join(kind.folder());
        match part_paths(&folder) {
            Ok(paths) => paths.iter().for_each(|path| match read_part(*kind, path) {
                Ok(file) => files.push(file),
                Err(fault) => faults.push(fault),
            }),
            Err(error) => faults.push(unreadable(&folder, &error.to_string(), "a catalogue has a folder for each kind of part")),
        }
    }
    files
}

/// Returns the kinds of parts that `dir` contains. Warns of files that look like parts but lie
/// elsewhere, because the loader would skip them silently.
fn own_kinds(dir: &Path, warnings: &mut Vec<Warning>) -> std::io::Result<Vec<PartKind>> {
    let strange = |folder: &Path| !PartKind::ALL.iter().any(|kind| folder.ends_with(kind.folder()));
    let mut places = vec![dir.to_path_buf()];
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        places.extend((path.is_dir() && strange(&path)).then_some(path));
    }
    places.sort();
    for place in places {
        if let Some(file) = part_paths(&place)?.first() {
            let folders = PartKind::ALL.map(|kind| format!("{}/", dir.join(kind.folder()).display()));
            let mut findings = Findings::new(&file.display().to_string(), "");
            let help = format!("parts lie in {}", or_list(&folders));
            findings.warning("not read: parts lie in a folder for their kind".into(), Vec::new(), Some(help));
            warnings.append(&mut findings.warnings);
        }
    }
    Ok(PartKind::ALL.into_iter().filter(|kind| dir.join(kind.folder()).is_dir()).collect())
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
    // The order of directory entries depends on the file system.
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
