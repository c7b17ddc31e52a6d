//! Checks that each `unsafe` block states its own reason. Clippy checks only that a comment exists.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// Beginnings of comments without a reason. The reader would have to find it elsewhere, and code in
/// between moves.
const EMPTY: [&str; 9] = ["as above", "as below", "as before", "as in ", "as said", "passed on", "only asks", "see ", "the caller's promise."];
/// Phrases that lead elsewhere from anywhere in a comment.
const ELSEWHERE: [&str; 4] = ["as above", "see above", concat!("same as", " above"), "as there"];
/// Most blocks with one and the same reason. More blocks need a function that states it once.
const REPEATS_MAX: usize = 10;
/// Lints that hold in every crate.
const LINTS: [&str; 4] = ["undocumented_unsafe_blocks", "unsafe_op_in_unsafe_fn", "unreachable_pub", "missing_safety_doc"];

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

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "fuzz", "xtask/src"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 100, "the sources were not found");
    files
}

/// Returns the reasons of a text with their line numbers. A reason may continue on further lines.
fn reasons(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//").filter(|rest| !rest.starts_with(['/', '!']));
        if let Some((_, reason)) = line.split_once("// SAFETY:") {
            found.push((index + 1, reason.trim().to_string()));
            continues = comment.is_some();
        } else if let (true, Some(rest), Some(last)) = (continues, comment, found.last_mut()) {
            last.1 = format!("{} {}", last.1, rest.trim()).trim().to_string();
        } else {
            continues = false;
        }
    }
    found
}

/// Returns the line numbers of empty reasons in a text.
fn without_reason(text: &str) -> Vec<usize> {
    let is_empty = |reason: &str| {
        let reason = reason.to_lowercase();
        reason.is_empty() || EMPTY.iter().any(|words| reason.starts_with(words)) || ELSEWHERE.iter().any(|words| reason.contains(words))
    };
    reasons(text).into_iter().filter(|(_, reason)| is_empty(reason)).map(|(number, _)| number).collect()
}

#[test]
fn each_reason_says_something() {
    let mut faults = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source file");
        faults.extend(without_reason(&text).into_iter().map(|number| format!("{}:{number}", path.display())));
    }
    assert!(faults.is_empty(), "state the reason itself: {faults:#?}");
}

#[test]
fn no_reason_is_copied_over_and_over() {
    let mut uses = std::collections::BTreeMap::<String, usize>::new();
    for path in sources() {
        for (_, reason) in reasons(&std::fs::read_to_string(&path).expect("a source file")) {
            *uses.entry(reason).or_default() += 1;
        }
    }
    assert!(uses.len() > 300, "the reasons were not found");
    uses.retain(|_, count| *count > REPEATS_MAX);
    assert!(uses.is_empty(), "state the reason once, in a function for all these blocks: {uses:#?}");
}

#[test]
fn references_to_other_comments_are_no_reasons() {
    let text = "// SAFETY: As above; and more.\n// SAFETY:\n// SAFETY: the slot lies within the mapping.\n// SAFETY: as in `take`.\n";
    assert_eq!(without_reason(text), [1, 2, 4]);
    let continued = "// SAFETY: the word is ours,\n// as above.\nlet a = 1;\n// SAFETY:\n// the slot is mapped.\n/// As above.\n";
    assert_eq!(without_reason(continued), [1]);
}

/// Returns the lints that the attributes of a text allow or expect.
fn allowed(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["[allow(", "[expect(", "[warn("] {
        for (at, _) in text.match_indices(start) {
            let list = text[at + start.len()..].split(')').next().unwrap_or_default();
            found.extend(list.split(',').map(|lint| lint.trim().trim_start_matches("clippy::").to_string()));
        }
    }
    found
}

#[test]
fn no_crate_allows_itself_an_exception() {
    let mut faults = Vec::new();
    for path in sources() {
        // Several test crates include such a file, each a part of it.
        if path.ends_with("tests/common/mod.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        let exceptions = allowed(&text).into_iter().filter(|lint| LINTS.contains(&lint.as_str()));
        faults.extend(exceptions.map(|lint| format!("{}: {lint}", path.display())));
    }
    assert!(faults.is_empty(), "make the code follow the lint: {faults:#?}");
}

#[test]
fn exceptions_are_found_in_each_form() {
    let text = "#![allow(clippy::missing_safety_doc, unsafe_op_in_unsafe_fn)]\n#[expect(unreachable_pub, reason = \"x\")]";
    let found = allowed(text);
    for lint in ["missing_safety_doc", "unsafe_op_in_unsafe_fn", "unreachable_pub"] {
        assert!(found.iter().any(|other| other == lint), "{lint}");
    }
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
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest of the workspace");
    assert!(["warn", "deny"].iter().any(|level| workspace.contains(&format!("unreachable_pub = \"{level}\""))), "unreachable_pub is off");
    // The fuzz targets are a separate workspace, which repeats the lints about `unsafe`.
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let text = std::fs::read_to_string(root().join(manifest)).expect("a manifest");
        for lint in ["undocumented_unsafe_blocks", "unsafe_op_in_unsafe_fn"] {
            assert!(text.contains(&format!("{lint} = \"deny\"")), "{manifest} does not deny {lint}");
        }
    }
}
