//! Shared by the tests: the real catalogue and the real fabrics.
#![allow(dead_code, unreachable_pub)] // several test crates include this file, each a part of it

use std::path::{Path, PathBuf};

use softband_catalog::{Catalog, CatalogError, FabricError, LoadOptions, LoadedFabric, PartFile, PartKind, parse_fabric};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn catalog() -> Catalog {
    Catalog::load(&root().join("catalog")).unwrap_or_else(|error| panic!("{}", error.to_text()))
}

/// Returns the real catalogue plus an HCA part: `text` of a file called `name`.
pub fn catalog_with_hca(name: &str, text: &str) -> Result<Catalog, CatalogError> {
    let mut files = vec![PartFile { kind: PartKind::Hca, name: name.into(), file: format!("{name}.toml"), text: text.into() }];
    for kind in PartKind::ALL {
        for entry in std::fs::read_dir(root().join("catalog").join(kind.folder())).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            files.push(PartFile { kind, name, file: path.display().to_string(), text });
        }
    }
    Catalog::from_files(&files)
}

/// Returns every fabric file of the repository, in order.
pub fn fabric_paths() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut folders = vec![root().join("fabrics")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
}

pub fn parse(text: &str) -> Result<LoadedFabric, FabricError> {
    parse_fabric("test.toml", text, &catalog(), &LoadOptions::default())
}

pub fn error_of(text: &str) -> String {
    parse(text).map(|_| ()).expect_err("the file is wrong").to_text()
}

/// Two DDR hosts and a switch, without cables.
pub const HOSTS_AND_SWITCH: &str = r#"[hosts.a]
part = "se7520jr23d"
[[hosts.a.hcas]]
device = "mthca0"
part = "voltaire-ddr"
[hosts.b]
part = "se7520jr23d"
[[hosts.b.hcas]]
device = "mthca0"
part = "voltaire-ddr"
[switches.sw]
part = "flextronics-f-x430046"
"#;
