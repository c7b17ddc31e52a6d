//! Checks of the crates that others may use as libraries: those whose manifest permits publishing.
//! `make publish-check` packages and builds them.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// Fewest lines of a crate's own documentation that still leave room for an example.
const DOC_LINES_MIN: usize = 15;

struct Library {
    name: String,
    folder: PathBuf,
    manifest: String,
}

/// The crates that may be published, in order.
const LIBRARIES: [&str; 9] = ["fabric", "model", "parallel", "sim", "spec", "test", "types", "wire", "workload"];

/// Returns the crates that may be published.
fn libraries() -> Vec<Library> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let folders = std::fs::read_dir(crates).expect("crates").flatten().map(|entry| entry.path());
    let mut found: Vec<Library> = folders
        .filter_map(|folder| {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
            let name = format!("softband-{}", folder.file_name()?.to_string_lossy());
            (!manifest.contains("publish")).then_some(Library { name, folder, manifest })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<&str> = found.iter().filter_map(|library| library.name.strip_prefix("softband-")).collect();
    assert_eq!(names, LIBRARIES, "ARCHITECTURE.md lists the libraries");
    found
}

impl Library {
    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.join(file)).unwrap_or_else(|error| panic!("crate {}: {file}: {error}", self.name))
    }
}

#[test]
fn a_library_demands_documentation_of_its_items() {
    for library in libraries() {
        assert!(library.text("src/lib.rs").contains("#![warn(missing_docs)]"), "crate {}: src/lib.rs lacks #![warn(missing_docs)]", library.name);
    }
}

#[test]
fn a_library_begins_with_an_example_that_runs() {
    for library in libraries() {
        let text = library.text("src/lib.rs");
        let docs: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(docs.len() >= DOC_LINES_MIN, "crate {}: src/lib.rs explains too little", library.name);
        assert!(docs.contains(&"//! ```"), "crate {}: src/lib.rs lacks an example that runs", library.name);
        let module = library.name.replace('-', "_");
        assert!(docs.iter().any(|line| line.contains(&format!("use {module}::"))), "crate {}: its example does not use it", library.name);
    }
}

#[test]
fn a_library_says_to_registries_what_it_is() {
    for library in libraries() {
        for key in ["version", "license", "repository", "rust-version", "description", "readme", "keywords", "categories"] {
            let has_key = library.manifest.lines().any(|line| line.split([' ', '.']).next() == Some(key));
            assert!(has_key, "crate {}: Cargo.toml lacks `{key}`", library.name);
        }
        let readme = library.text("README.md");
        assert!(readme.starts_with(&format!("# {}\n", library.name)), "crate {}: README.md begins with another name", library.name);
        assert!(readme.contains("```rust"), "crate {}: README.md shows no use", library.name);
    }
}
