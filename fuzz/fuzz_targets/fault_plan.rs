//! Arbitrary text as a fault plan: an answer, never a panic, and no part of a plan with a mistake.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, LoadedFabric, load_fabric};

const FABRIC: &str = "fabrics/ddr-through-switch.toml";

fn fabric() -> &'static LoadedFabric {
    static FABRIC_LOADED: OnceLock<LoadedFabric> = OnceLock::new();
    FABRIC_LOADED.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let catalog = Catalog::load(&root.join("catalog")).unwrap_or_else(|error| panic!("{}", error.to_text()));
        load_fabric(&root.join(FABRIC), &catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text()))
    })
}

fuzz_target!(|text: &str| {
    let mut loaded = fabric().clone();
    let before = loaded.spec.faults.len();
    match loaded.add_faults("fuzzed.toml", text) {
        Ok(()) => assert!(loaded.spec.faults.len() > before),
        Err(error) => {
            assert!(!error.to_text().is_empty());
            assert_eq!(loaded.spec.faults.len(), before);
        }
    }
});
