//! Calls that no program makes have no row in the table.

use softband_ipc::calls::Op;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Sides of the protocol that define and serve calls.
const NOT_CALLERS: [&str; 2] = ["ipc", "engine"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the names after `op::` and `Op::`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let rests = ["op::", "Op::"].into_iter().flat_map(|path| text.split(path).skip(1));
    rests.map(|rest| rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default())
}

#[test]
fn programs_make_every_call_of_the_table() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("the folder of crates") {
        let entry = entry.expect("a crate");
        if entry.path().join("src").is_dir() && !NOT_CALLERS.iter().any(|name| entry.file_name() == *name) {
            sources(&entry.path().join("src"), &mut files);
        }
    }
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).expect("a source")).collect();
    let made: BTreeSet<&str> = texts.iter().flat_map(|text| named(text)).collect();
    let unused: Vec<&Op> = Op::ALL.iter().filter(|op| !made.contains(format!("{op:?}").as_str())).collect();
    assert!(unused.is_empty(), "no program makes {unused:?}");
}
