//! Checks that each `unsafe` block states its own reason. Clippy checks only that a comment exists.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// Beginnings of comments without a reason. The reader would have to find it elsewhere, and code in
/// between moves.
const EMPTY: [&str; 8] = ["as above", "as below", "as before", "as said", "passed on", "only asks", "see above", concat!("same as", " above")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name() != "target" {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Returns the line numbers of empty reasons in a text.
fn without_reason(text: &str) -> Vec<usize> {
    let is_empty = |reason: &str| reason.is_empty() || EMPTY.iter().any(|words| reason.to_lowercase().starts_with(words));
    let reasons = text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, line.split_once("// SAFETY:")?.1.trim())));
    reasons.filter(|(_, reason)| is_empty(reason)).map(|(number, _)| number).collect()
}

#[test]
fn each_reason_says_something() {
    let mut files = Vec::new();
    for folder in ["crates", "fuzz", "xtask/src"] {
        rust_files(&root().join(folder), &mut files);
    }
    let mut reasons = 0;
    let mut faults = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a source file");
        reasons += text.matches("// SAFETY:").count();
        faults.extend(without_reason(&text).into_iter().map(|number| format!("{}:{number}", path.display())));
    }
    assert!(reasons > 100, "the sources were not found");
    assert!(faults.is_empty(), "state the reason itself: {faults:#?}");
}

#[test]
fn references_to_other_comments_are_no_reasons() {
    let text = "// SAFETY: As above; and more.\n// SAFETY:\n// SAFETY: the slot lies within the mapping.\n// SAFETY: as in `take`.\n";
    assert_eq!(without_reason(text), [1, 2]);
}

#[test]
fn every_crate_follows_the_lints_of_the_workspace() {
    let mut manifests = vec![root().join("xtask/Cargo.toml")];
    manifests.extend(std::fs::read_dir(root().join("crates")).expect("crates").flatten().map(|entry| entry.path().join("Cargo.toml")));
    assert!(manifests.len() > 10);
    for manifest in manifests {
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        assert!(text.contains("[lints]\nworkspace = true"), "{} does not follow them", manifest.display());
    }
    // The fuzz targets are a separate workspace, which repeats the lints about `unsafe`.
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let text = std::fs::read_to_string(root().join(manifest)).expect("a manifest");
        for lint in ["undocumented_unsafe_blocks", "unsafe_op_in_unsafe_fn"] {
            assert!(text.contains(&format!("{lint} = \"deny\"")), "{manifest} does not deny {lint}");
        }
    }
}
