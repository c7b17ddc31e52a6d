//! Checks of the rooms of `crates/fabric`: who may use whom, who owns the state, and who asks which
//! link layer a port has (ARCHITECTURE.md, "Rooms of the World" and "Link layers").

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders of the fabric, and the other folders that each may use. A folder stands behind all that
/// it uses, so the list has no cycle.
const ARROWS: [(&str, &[&str]); 7] = [
    ("pdes", &[]),
    ("faults", &[]),
    ("subnet", &[]),
    ("link", &["pdes", "faults", "subnet"]),
    ("hca", &["pdes", "faults", "subnet", "link"]),
    ("management", &["pdes", "faults", "subnet", "link", "hca"]),
    ("world", &["pdes", "faults", "subnet", "link", "hca", "management"]),
];
/// Files beside the folders. All folders may use them; they use no folder.
const SHARED: [&str; 5] = ["event", "notice", "numbering", "slab", "traffic"];
/// The struct of each room, and the folder's file that has it.
const ROOMS: [(&str, &str); 7] = [
    ("World", "world/mod.rs"),
    ("Agents", "management/mod.rs"),
    ("Hcas", "hca/mod.rs"),
    ("Links", "link/mod.rs"),
    ("Subnet", "subnet/mod.rs"),
    ("Faults", "faults/mod.rs"),
    ("Timeline", "pdes/timeline.rs"),
];
/// Fields by which a context struct or the World hands a room on, and the folder of the room.
const FIELDS: [(&str, &str); 5] = [("links", "link"), ("timeline", "pdes"), ("faults", "faults"), ("subnet", "subnet"), ("hcas", "hca")];
/// Files that ask for a link layer. The first three decide about the model's behaviour. In `parts` a
/// part says what it is; in `spec` the description resolves parts.
const ASKS_FOR_LINK_LAYER: [&str; 8] = [
    "model/src/link/framing.rs",
    "model/src/link/flow_control.rs",
    "fabric/src/subnet/gids.rs",
    "model/src/parts.rs",
    "spec/src/fabric.rs",
    // States the link layer that its caller chose.
    "spec/src/builder.rs",
    "spec/src/link_settings.rs",
    "spec/src/analysis/credit_loops.rs",
];
/// Variants whose names ask.
const LINK_LAYER_WORDS: [&str; 6] =
    ["LinkLayer::Infiniband", "LinkLayer::Ethernet", "Framing::Infiniband", "Framing::Ethernet", "FlowControl::Credits", "FlowControl::Pause"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

/// Returns all Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") && path.file_stem().is_some_and(|name| name != "tests") {
            found.push(path);
        }
    }
    found
}

/// Returns the code of a file: without comments and without its test module.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source");
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the words that follow `before` in `text`.
fn words_after<'a>(text: &'a str, before: &str) -> BTreeSet<&'a str> {
    let word = |rest: &'a str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    text.match_indices(before).map(|(at, _)| word(&text[at + before.len()..])).filter(|word| !word.is_empty()).collect()
}

/// Returns the folders and shared files that a source uses, by path or by a field of a context.
fn uses(text: &str) -> BTreeSet<&str> {
    let mut used = words_after(text, "crate::");
    for field in ["hop.", "self."].into_iter().flat_map(|owner| words_after(text, owner)) {
        let of_room = FIELDS.iter().find(|(name, _)| *name == field && text.contains("Hop"));
        used.extend(of_room.map(|(_, folder)| *folder));
    }
    used
}

#[test]
fn rooms_use_each_other_only_along_the_arrows() {
    for (folder, allowed) in ARROWS {
        let files = sources(&crates().join("fabric/src").join(folder));
        assert!(!files.is_empty(), "the folder {folder} is gone");
        for path in files {
            let text = code(&path);
            for used in uses(&text) {
                let is_fine = used == folder || allowed.contains(&used) || SHARED.contains(&used);
                assert!(is_fine, "{} must not use {used} (ARCHITECTURE.md)", path.display());
            }
        }
    }
    for name in SHARED {
        let text = code(&crates().join("fabric/src").join(name).with_extension("rs"));
        let used = uses(&text);
        assert!(used.iter().all(|used| SHARED.contains(used)), "{name}.rs uses {used:?}, so it belongs into a folder");
    }
}

#[test]
fn the_arrows_between_rooms_have_no_cycle() {
    let mut before = BTreeSet::new();
    for (folder, allowed) in ARROWS {
        assert!(allowed.iter().all(|used| before.contains(used)), "{folder} stands before a folder that it uses");
        before.insert(folder);
    }
    let entries = std::fs::read_dir(crates().join("fabric/src")).expect("the sources").flatten();
    for name in entries.map(|entry| entry.file_name().to_string_lossy().replace(".rs", "")).filter(|name| name != "lib") {
        assert!(before.contains(name.as_str()) || SHARED.contains(&name.as_str()), "no arrows name {name}");
    }
}

#[test]
fn only_its_own_folder_extends_a_room() {
    for path in sources(&crates().join("fabric/src")) {
        let text = code(&path);
        for (room, file) in ROOMS {
            let folder = Path::new(file).parent().expect("it is in a folder");
            let is_home = path.ancestors().skip(1).any(|parent| parent.ends_with(folder));
            let extends = words_after(&text, "\nimpl ").contains(room) || text.contains(&format!(" for {room} {{"));
            assert!(is_home || !extends, "{} extends {room}: only the folder {} may", path.display(), folder.display());
        }
    }
}

#[test]
fn rooms_have_only_private_fields() {
    for (room, file) in ROOMS {
        let text = code(&crates().join("fabric/src").join(file));
        let (_, body) = text.split_once(&format!("struct {room} {{\n")).unwrap_or_else(|| panic!("{file} has no struct {room}"));
        let body = body.split("\n}").next().unwrap_or_default();
        let shared: Vec<&str> = body.lines().map(str::trim).filter(|line| line.starts_with("pub")).collect();
        assert!(shared.is_empty() && body.contains(':'), "{room} shares {shared:?}");
    }
}

#[test]
fn few_files_ask_which_link_layer_a_port_has() {
    let mut asking = BTreeSet::new();
    for name in ["model", "spec", "fabric"] {
        for path in sources(&crates().join(name).join("src")) {
            let text = code(&path);
            if let Some(word) = LINK_LAYER_WORDS.iter().find(|word| text.contains(*word)) {
                let allowed = ASKS_FOR_LINK_LAYER.iter().find(|file| path.ends_with(file));
                asking.insert(*allowed.unwrap_or_else(|| panic!("{} asks for {word} (ARCHITECTURE.md)", path.display())));
            }
        }
    }
    // `flow_control` matches on its own variants as `Self`.
    let unused: Vec<_> = ASKS_FOR_LINK_LAYER.iter().filter(|file| !asking.contains(*file) && !file.ends_with("flow_control.rs")).collect();
    assert!(unused.is_empty(), "these files no longer ask: {unused:?}");
}

#[test]
fn the_checks_see_what_they_look_for() {
    assert_eq!(uses("use crate::link::Hop;\nhop.faults.any(); hop.go();"), BTreeSet::from(["link", "faults"]));
    assert_eq!(words_after("\nimpl World {\n\nimpl Hop<'_> {", "\nimpl "), BTreeSet::from(["World", "Hop"]));
}
