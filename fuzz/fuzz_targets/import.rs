//! Arbitrary bytes as a topology: a fabric file that loads, or an error, never a panic.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, TopologyFormat, export_topology, import_topology, parse_fabric};

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog");
        Catalog::load(&folder).unwrap_or_else(|error| panic!("{}", error.to_text()))
    })
}

fuzz_target!(|bytes: &[u8]| {
    for format in [None, Some(TopologyFormat::Ibnetdiscover), Some(TopologyFormat::Ibsim)] {
        match import_topology("fuzzed.txt", bytes, format, catalog()) {
            Ok(imported) => {
                let fabric = parse_fabric("imported.toml", &imported.text, catalog(), &LoadOptions::default());
                let spec = fabric.unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
                let exported = export_topology(&spec, TopologyFormat::Ibsim).unwrap_or_else(|error| panic!("{error}"));
                assert!(import_topology("exported.net", exported.text.as_bytes(), None, catalog()).is_ok());
            }
            Err(error) => assert!(!error.to_text().is_empty()),
        }
    }
});
