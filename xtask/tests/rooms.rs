//! The rooms of the engine (ARCHITECTURE.md): which folder may use which, and who owns which state.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders and files of `crates/engine/src`, each with those that it may use. Each one uses only
/// those above it, so no cycle exists.
const ARROWS: [(&str, &[&str]); 15] = [
    ("linker", &[]),
    ("options", &[]),
    ("procfs", &[]),
    ("protocol", &[]),
    ("report", &["options"]),
    ("control", &["linker", "procfs"]),
    ("host", &["control"]),
    ("process", &["linker", "options", "procfs", "protocol", "control", "host"]),
    ("scheduler", &["options", "protocol", "host", "process"]),
    ("completion", &["host", "process", "scheduler"]),
    ("realtime", &["procfs", "protocol", "host", "process", "scheduler", "completion"]),
    ("rpc", &["protocol", "report", "host", "process", "scheduler", "completion", "realtime"]),
    ("diagnosis", &["procfs", "protocol", "host", "process", "scheduler", "completion", "realtime"]),
    ("engine", &["options", "procfs", "protocol", "report", "control", "host", "process", "scheduler", "completion", "realtime", "rpc", "diagnosis"]),
    ("lib", &["control", "diagnosis", "engine", "options", "process", "report"]),
];
/// The structs that own state, by file. Their fields are private to their module, or to its folder.
const ROOMS: [(&str, &str); 21] = [
    ("completion/record.rs", "CqRecord"),
    ("completion/room.rs", "CompletionQueues"),
    ("control/room.rs", "Control"),
    ("diagnosis/vain_polls.rs", "VainPolls"),
    ("engine/mod.rs", "Engine"),
    ("host/datagrams.rs", "DatagramTable"),
    ("host/objects.rs", "Objects"),
    ("host/kernel/mod.rs", "Kernels"),
    ("host/relay/mod.rs", "Relay"),
    ("host/room.rs", "HostServices"),
    ("host/sockets.rs", "SocketTable"),
    ("host/stack_sockets.rs", "StackSockets"),
    ("process/memory.rs", "ProgramMemory"),
    ("process/processes.rs", "Processes"),
    ("process/programs.rs", "Programs"),
    ("process/record.rs", "Process"),
    ("process/thread.rs", "Thread"),
    ("realtime/room.rs", "Realtime"),
    ("report.rs", "Report"),
    ("scheduler/agenda.rs", "Agenda"),
    ("scheduler/room.rs", "Scheduler"),
];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/engine/src")
}

/// Returns each source file of the engine with its folder and its text.
fn files() -> Vec<(String, String, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&sources(), &mut found);
    found.sort();
    let one = |path: PathBuf| {
        let name = path.strip_prefix(sources()).expect("below the sources").to_string_lossy().into_owned();
        let folder = name.split(['/', '.']).next().unwrap_or_default().to_owned();
        (folder, name, std::fs::read_to_string(&path).expect("a source"))
    };
    found.into_iter().map(one).collect()
}

/// Returns the modules at the root of the crate that a text names, with `crate::` before the name.
/// Names in comments count too: they lead a reader there.
fn used(text: &str) -> BTreeSet<&str> {
    let module = |rest: &'_ str| rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(rest.len());
    text.split("crate::").skip(1).map(|rest| &rest[..module(rest)]).collect()
}

/// Returns the text of a struct's fields.
fn fields<'a>(text: &'a str, name: &str) -> &'a str {
    let after = text.split_once(&format!("struct {name} {{")).unwrap_or_else(|| panic!("struct {name} is missing")).1;
    after.split_once("\n}").expect("the struct ends").0
}

#[test]
fn folders_use_each_other_only_along_the_arrows() {
    for (folder, name, text) in files() {
        let (_, allowed) = ARROWS.iter().find(|(of, _)| *of == folder).unwrap_or_else(|| panic!("{name}: {folder} has no arrows"));
        for other in used(&text) {
            assert!(other == folder || allowed.contains(&other), "{name} must not use crate::{other} (ARCHITECTURE.md, rooms of the engine)");
        }
    }
}

#[test]
fn the_arrows_form_no_cycle_and_each_is_used() {
    let all = files();
    for (number, (folder, allowed)) in ARROWS.iter().enumerate() {
        for other in *allowed {
            assert!(ARROWS[..number].iter().any(|(above, _)| above == other), "{folder} stands above {other}");
            let is_used = |text: &str| used(text).contains(other) || *folder == "lib" && text.contains(&format!("pub use {other}::"));
            assert!(all.iter().any(|(of, _, text)| of == folder && is_used(text)), "{folder} no longer uses {other}: remove the arrow");
        }
    }
}

#[test]
fn only_its_own_folder_implements_the_engine() {
    let mut count = 0;
    for (folder, name, text) in files() {
        let implements = text.lines().any(|line| line.trim_start().starts_with("impl") && line.contains("Engine {"));
        assert!(!implements || folder == "engine", "{name}: the logic of a room belongs to the room's own struct");
        count += u32::from(implements);
    }
    assert!(count > 5, "the implementation of the engine was not found");
}

#[test]
fn rooms_keep_their_state_to_themselves() {
    for (file, name) in ROOMS {
        let text = std::fs::read_to_string(sources().join(file)).expect("a source");
        let open = fields(&text, name).lines().find(|line| line.trim_start().starts_with("pub") && !line.trim_start().starts_with("pub(super)"));
        assert_eq!(open, None, "{file}: {name} has a field that every folder sees");
    }
}
