//! Parts of one's own: the folder `catalog` beside a fabric file, and those that the user names.

use crate::home;
use anyhow::bail;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Folders as in PATH: of the parts of one name the first is taken.
const VARIABLE: &str = "SOFTBAND_CATALOG";
/// Of a fabric file's own folder.
const BESIDE: &str = "catalog";

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Notes what the command line says.
pub(crate) fn name(folder: Option<PathBuf>) {
    if let Some(folder) = folder {
        NAMED.get_or_init(|| folder);
    }
}

/// The folders of own parts for a fabric file, later ones in place of earlier: what lies beside it, what the environment and what the command
/// line names.
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

/// The last of them is the first in the variable.
fn from_environment() -> Vec<PathBuf> {
    let variable = std::env::var_os(VARIABLE).unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&variable).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    folders
}

/// A command that reads a copy of the fabric file elsewhere gets the same parts.
pub(crate) fn hand_over(command: &mut Command, fabric: Option<&Path>) -> anyhow::Result<()> {
    let mut folders = folders(fabric)?.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
    folders.reverse();
    if !folders.is_empty() {
        command.env(VARIABLE, std::env::join_paths(folders)?);
    }
    Ok(())
}

/// The fabric file among the words of a command of the lab that has one: the first word of `softband model`, or the one file that is named.
pub(crate) fn fabric_of(words: &[OsString]) -> Option<PathBuf> {
    let mut others = words.iter().skip(1);
    let named = match words.first()?.to_str()? {
        "model-sweep" => others.skip_while(|word| *word != "--").nth(1),
        "what-if" => others.find(|word| Path::new(word).is_file()),
        _ => None,
    };
    home::fabric_path(Path::new(named?)).ok()
}

/// The version, the commit where the sources were in git, and what tells results with these parts from others: a tool that keeps
/// results by version runs them again.
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

/// Says each warning of the catalogue once, however often it is read.
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
