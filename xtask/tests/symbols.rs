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
    heads.filter_map(|head| words(head.split_once("fn ")?.1).into_iter().next()).filter(|name| !name.is_empty()).collect()
}

/// Returns the names of functions that macros of a file may export: those of rows such as
/// `fn NAME(...);`, `fn NAME as SECOND(...);` and `NAME = libc::SYS_CALL;`.
fn names_in_macros(text: &str) -> Vec<String> {
    if !text.contains("fn $") {
        return Vec::new();
    }
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let first_word = |text: &str| text.split(|letter| !is_name(letter)).next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for row in text.lines().map(str::trim).filter(|line| line.ends_with(';') && !line.contains('$')) {
        if let Some((name, _)) = row.split_once(" = libc::SYS_") {
            found.push(first_word(name));
        } else if let Some((_, rest)) = row.split_once("fn ") {
            found.push(first_word(rest));
            found.extend(rest.split_once(" as ").map(|(_, second)| first_word(second)));
        }
    }
    found
}

#[test]
fn rows_of_macros_name_functions() {
    let text = "fn $name() {}\n    mount = libc::SYS_mount;\n    SYS_unlink: fn unlink(path);\n    fn mkstemp as mkstemp64();\n";
    assert_eq!(names_in_macros(text), ["mount", "unlink", "mkstemp", "mkstemp64"]);
    assert!(names_in_macros("mount = libc::SYS_mount;\n").is_empty());
}

#[test]
fn the_shim_exports_each_function_that_it_interposes() {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/shim");
    let list = std::fs::read_to_string(shim.join("symbols.txt")).expect("the list");
    let listed: BTreeSet<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut files = Vec::new();
    sources(&shim.join("src"), &mut files);
    let (mut in_rust, mut in_c, mut in_macros) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a source");
        let found = names(&path, &text);
        in_macros.extend(names_in_macros(&text));
        if path.extension().is_some_and(|ending| ending == "c") { in_c.extend(found) } else { in_rust.extend(found) }
    }
    assert!(in_rust.len() > 150, "only {} functions were found", in_rust.len());
    // Names with this prefix belong to Softband: its C file calls them, and its libraries look them up.
    let missing: Vec<_> = in_rust.iter().filter(|name| !name.starts_with("softband_") && !listed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "add to crates/shim/symbols.txt: {missing:?}");
    let stale: Vec<_> = listed
        .iter()
        .filter(|name| !name.starts_with("softband_") && ![&in_rust, &in_c, &in_macros].iter().any(|names| names.contains(**name)))
        .collect();
    assert!(stale.is_empty(), "crates/shim/symbols.txt names functions that do not exist: {stale:?}");
}
