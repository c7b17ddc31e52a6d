//! Parts of the user: the folder `catalog` beside a fabric file, and folders that the user names.

use crate::home;
use anyhow::bail;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Variable with a list of folders like PATH. The first part of a name wins.
const VARIABLE: &str = "SOFTBAND_CATALOG";
/// Name of the folder beside a fabric file.
const BESIDE: &str = "catalog";

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Records the folder of the command line.
pub(crate) fn name(folder: Option<PathBuf>) {
    if let Some(folder) = folder {
        NAMED.get_or_init(|| folder);
    }
}

/// Returns the folders of own parts for a fabric file. Later folders take precedence: beside the
/// file, then the environment, then the command line.
pub(crate) fn folders(fabric: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = from_environment();
    folders.extend(NAMED.get().cloned());
    if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
        bail!(
            "there is no folder {}\n  help: --catalog and {VARIABLE} name folders with parts in hca/, bus/, cable/, switch/ or host/",
            missing.display()
        );
    }
    let beside = fabric.map(|fabric| fabric.with_file_name(BESIDE)).filter(|folder| folder.is_dir());
    folders.splice(0..0, beside);
    // A fabric file may lie beside the installation's catalogue.
    let mut known: BTreeSet<PathBuf> = home::home().ok().and_then(|home| home.join(BESIDE).canonicalize().ok()).into_iter().collect();
    folders.reverse();
    folders.retain(|folder| folder.canonicalize().map_or(true, |folder| known.insert(folder)));
    folders.reverse();
    Ok(folders)
}

/// Returns the folders of the variable in reverse, because its first folder takes precedence.
fn from_environment() -> Vec<PathBuf> {
    let variable = std::env::var_os(VARIABLE).unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&variable).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    folders
}

/// Passes the folders to a command that reads a copy of the fabric file elsewhere.
pub(crate) fn hand_over(command: &mut Command, fabric: Option<&Path>) -> anyhow::Result<()> {
    let mut folders = folders(fabric)?.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
    folders.reverse();
    if !folders.is_empty() {
        command.env(VARIABLE, std::env::join_paths(folders)?);
    }
    Ok(())
}

/// Returns the fabric file among the words of a command of the lab. That is the first word of
/// `softband model`, or the only file.
pub(crate) fn fabric_of(words: &[OsString]) -> Option<PathBuf> {
    let mut others = words.iter().skip(1);
    let named = match words.first()?.to_str()? {
        "model-sweep" => others.skip_while(|word| *word != "--").nth(1),
        "what-if" => others.find(|word| Path::new(word).is_file()),
        _ => None,
    };
    home::fabric_path(Path::new(named?)).ok()
}

/// Returns the version, with the commit if the sources were in git, and with a digest of own parts.
/// The digest makes caches of results by version run again.
pub(crate) fn version() -> String {
    let version = match env!("SOFTBAND_COMMIT") {
        "" => env!("CARGO_PKG_VERSION").to_owned(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    };
    match softband_catalog::digest_of_parts(&from_environment()) {
        Some(digest) => format!("{version} with own parts {digest:016x}"),
        None => version,
    }
}

static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints each warning of the catalogue once, even if the command reads the catalogue again.
pub(crate) fn say(warnings: &[softband_catalog::Warning]) {
    for text in warnings.iter().map(softband_catalog::Warning::to_text) {
        if SAID.lock().is_ok_and(|mut said| said.insert(text.clone())) {
            eprintln!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fabric_of;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_fabric_of_a_command_of_the_lab_is_found_among_its_words() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics/default.toml").display().to_string();
        let of = |words: &str| fabric_of(&words.replace("FILE", &root).split(' ').map(OsString::from).collect::<Vec<_>>());
        let found = Some(PathBuf::from(&root));
        assert_eq!(of("model-sweep --sweep bytes=1,2 --out there -- FILE incast --bytes 1"), found);
        assert_eq!(of("what-if FILE"), found);
        assert_eq!(of("what-if --vls 1,2 FILE --cable 0"), found);
        assert_eq!(of("what-if --vls 1,2"), None);
        assert_eq!(of("study cables"), None);
    }
}
