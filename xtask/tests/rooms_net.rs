//! The modules of `net` (ARCHITECTURE.md): which may use which.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Modules of `crates/net/src`, each with those that it may use. Each one uses only those above it,
/// so a connection knows neither sockets nor interfaces, and no cycle exists.
const ARROWS: [(&str, &[&str]); 19] = [
    ("error", &[]),
    ("events", &[]),
    ("payload", &[]),
    ("sequence", &[]),
    ("socket_id", &[]),
    ("packet", &["payload", "sequence"]),
    ("frame", &["packet"]),
    ("interface", &["frame", "socket_id"]),
    ("neighbour", &["frame", "interface", "packet"]),
    ("scope", &["frame", "interface", "packet"]),
    ("route", &["interface"]),
    ("tcp", &["error", "events", "packet", "payload", "sequence", "socket_id"]),
    ("wire", &["frame", "neighbour", "packet", "payload", "sequence"]),
    ("udp", &["error", "events", "interface", "payload"]),
    ("sdp", &["error", "events", "interface", "payload", "socket_id", "tcp"]),
    ("socket", &["error", "interface", "scope", "sdp", "socket_id", "tcp", "udp"]),
    (
        "stack",
        &[
            "error",
            "events",
            "frame",
            "interface",
            "neighbour",
            "packet",
            "payload",
            "route",
            "scope",
            "sdp",
            "sequence",
            "socket",
            "socket_id",
            "tcp",
            "udp",
            "wire",
        ],
    ),
    ("calls", &["error", "interface", "payload", "sdp", "socket", "socket_id", "stack", "tcp", "udp"]),
    ("lib", &[]),
];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/net/src")
}

/// Returns each source file with its module and its text.
fn files() -> Vec<(String, String, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                collect(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&sources(), &mut found);
    found.sort();
    let one = |path: PathBuf| {
        let name = path.strip_prefix(sources()).expect("below the sources").to_string_lossy().into_owned();
        let module = name.split(['/', '.']).next().unwrap_or_default().to_owned();
        (module, name, std::fs::read_to_string(&path).expect("a source"))
    };
    found.into_iter().map(one).collect()
}

/// Returns the modules at the root of the crate that a text names, with `crate::` before the name.
fn used(text: &str) -> BTreeSet<&str> {
    let module = |rest: &'_ str| rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(rest.len());
    text.split("crate::").skip(1).map(|rest| &rest[..module(rest)]).collect()
}

#[test]
fn modules_use_each_other_only_along_the_arrows() {
    for (module, name, text) in files() {
        let (_, allowed) = ARROWS.iter().find(|(of, _)| *of == module).unwrap_or_else(|| panic!("{name}: {module} has no arrows"));
        for other in used(&text) {
            assert!(other == module || allowed.contains(&other), "{name} must not use crate::{other}");
        }
    }
}

#[test]
fn the_arrows_form_no_cycle_and_each_is_used() {
    let all = files();
    for (number, (module, allowed)) in ARROWS.iter().enumerate() {
        for other in *allowed {
            assert!(ARROWS[..number].iter().any(|(above, _)| above == other), "{module} stands above {other}");
            assert!(all.iter().any(|(of, _, text)| of == module && used(text).contains(other)), "{module} no longer uses {other}: remove the arrow");
        }
    }
}
