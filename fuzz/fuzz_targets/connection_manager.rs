//! Peers send any MADs to the connection manager, and programs write any commands to it. It survives
//! both, and then makes the connections of others.

#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_engine::cm_harness::survive;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<softband_catalog::LoadedFabric> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let text = include_str!("../../fabrics/two-hosts.toml");
    parse_fabric("two-hosts.toml", text, &catalog, &LoadOptions::default()).expect("a fabric")
});

fuzz_target!(|input: &[u8]| survive(&SPEC.spec, input));
