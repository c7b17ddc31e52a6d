//! Checks of ARCHITECTURE.md's boundaries that the compiler does not check.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// Longest file, in lines.
const LINES_MAX: usize = 500;
/// Allowed dependencies of each crate on our own crates. The model side never depends upwards. The
/// program side never depends on the model.
const ARROWS: [(&str, &[&str]); 25] = [
    ("types", &[]),
    ("sim", &[]),
    ("wire", &["types"]),
    ("model", &["types", "sim", "wire"]),
    ("spec", &["types", "sim", "wire", "model"]),
    ("fabric", &["types", "sim", "wire", "model", "spec"]),
    ("net", &["sim", "model"]),
    ("workload", &["types", "sim", "model", "spec", "fabric"]),
    ("parallel", &["sim", "spec", "fabric", "workload"]),
    ("catalog", &["types", "sim", "wire", "model", "spec"]),
    ("simulate", &["types", "sim", "model", "spec", "fabric", "catalog"]),
    ("abi", &[]),
    ("metrics", &[]),
    ("test", &[]),
    ("pmi", &[]),
    ("libpmi", &["pmi"]),
    ("pmix", &["pmi"]),
    ("ipc", &[]),
    ("shm-transport", &["types", "ipc"]),
    ("client", &["ipc", "shm-transport"]),
    ("libibverbs", &["types", "wire", "abi", "client", "ipc", "shm-transport"]),
    ("shim", &["client", "ipc"]),
    ("preload", &["shim", "libibverbs"]),
    ("engine", &["types", "sim", "wire", "model", "spec", "fabric", "net", "catalog", "ipc", "shm-transport", "metrics"]),
    ("cli", &["types", "sim", "spec", "fabric", "catalog", "engine", "workload", "parallel", "metrics", "pmi", "pmix"]),
];
/// Crates that must not contain `unsafe`.
const SAFE: [&str; 14] =
    ["types", "sim", "wire", "metrics", "test", "pmi", "model", "spec", "fabric", "net", "workload", "parallel", "catalog", "simulate"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["crates", "xtask", "lab", "tests", "conformance", "fuzz", "tools", "benches", "scripts", "recipes", "examples"] {
        files(&root().join(folder), &[".rs", ".py", ".c", ".h"], &mut found);
    }
    assert!(found.len() > 100, "the sources were not found");
    found
}

#[test]
fn files_stay_small_enough_to_see() {
    let long: Vec<String> = sources()
        .into_iter()
        .filter_map(|path| {
            let lines = std::fs::read_to_string(&path).ok()?.lines().count();
            (lines > LINES_MAX).then(|| format!("{} has {lines} lines", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "split by topic: {long:?}");
}

#[test]
fn crates_depend_only_along_the_arrows() {
    for (name, allowed) in ARROWS {
        let manifest = std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).expect("a manifest");
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in dependencies.lines() {
            if let Some(rest) = line.strip_prefix("softband-") {
                let other = rest.split(['.', ' ', '=']).next().unwrap_or_default();
                assert!(allowed.contains(&other), "crate {name} must not depend on {other} (ARCHITECTURE.md)");
            }
        }
    }
}

#[test]
fn every_crate_has_its_arrows() {
    let folders = std::fs::read_dir(root().join("crates")).expect("crates").flatten().filter(|entry| entry.path().join("Cargo.toml").is_file());
    let mut crates: Vec<String> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let mut known: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    crates.sort();
    known.sort_unstable();
    assert_eq!(crates, known);
}

#[test]
fn the_model_side_forbids_unsafe_code() {
    for name in SAFE {
        let text = std::fs::read_to_string(root().join("crates").join(name).join("src/lib.rs")).expect("a lib.rs");
        assert!(text.contains("#![forbid(unsafe_code)]"), "crate {name} must forbid unsafe code");
    }
}

#[test]
fn nothing_is_left_open_in_the_code() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimpl", "emented!("), concat!("to", "do!(")];
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for mark in marks {
            assert!(!text.contains(mark), "{} contains {mark}", path.display());
        }
    }
}

#[test]
fn no_part_is_named_in_code() {
    let mut parts = Vec::new();
    files(&root().join("catalog"), &[".toml"], &mut parts);
    let names: Vec<String> =
        parts.iter().filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).filter(|name| name.len() > 6).collect();
    assert!(names.len() > 10);
    for name in ["sim", "model", "spec", "fabric", "net", "workload", "parallel", "engine", "client", "shim", "libibverbs"] {
        let mut code = Vec::new();
        files(&root().join("crates").join(name).join("src"), &[".rs"], &mut code);
        for path in code {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for part in &names {
                assert!(!text.contains(part.as_str()), "{} names the part {part}", path.display());
            }
        }
    }
}
