//! The shim's list of exported functions, beside the functions in its sources. The link exports
//! only listed functions, so a missing line would leave an interposed function without effect.

#![allow(clippy::disallowed_methods)] // a test of the sources

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "c") {
            found.push(path);
        }
    }
}

/// Returns the names of exported functions: those after `no_mangle`, or all words of a C file.
fn names(path: &Path, text: &str) -> BTreeSet<String> {
    let words = |text: &str| text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').map(str::to_owned).collect::<Vec<_>>();
    if path.extension().is_some_and(|ending| ending == "c") {
        return words(text).into_iter().collect();
    }
    // The head ends before the body, so that the name of an exported static does not come from later code.
    let heads = text.split("#[unsafe(no_mangle)]").skip(1).filter_map(|rest| rest.split(['{', '=']).next());
    heads.filter_map(|head| words(head.split_once("fn ")?.1).into_iter().next()).collect()
}

#[test]
fn the_shim_exports_each_function_that_it_interposes() {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/shim");
    let list = std::fs::read_to_string(shim.join("symbols.txt")).expect("the list");
    let listed: BTreeSet<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut files = Vec::new();
    sources(&shim.join("src"), &mut files);
    let (mut in_rust, mut in_c) = (BTreeSet::new(), BTreeSet::new());
    for path in files {
        let found = names(&path, &std::fs::read_to_string(&path).expect("a source"));
        if path.extension().is_some_and(|ending| ending == "c") { in_c.extend(found) } else { in_rust.extend(found) }
    }
    assert!(in_rust.len() > 150, "only {} functions were found", in_rust.len());
    // Names with this prefix belong to Softband: its C file calls them, and its libraries look them up.
    let missing: Vec<_> = in_rust.iter().filter(|name| !name.starts_with("softband_") && !listed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "add to crates/shim/symbols.txt: {missing:?}");
    let stale: Vec<_> = listed.iter().filter(|name| !name.starts_with("softband_") && !in_rust.contains(**name) && !in_c.contains(**name)).collect();
    assert!(stale.is_empty(), "crates/shim/symbols.txt names functions that do not exist: {stale:?}");
}
