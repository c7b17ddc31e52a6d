//! In wall pace a program may write anything into the memory and the queues that it shares with the
//! engine. Other programs still get their messages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, LoadedFabric, parse_fabric};
use softband_engine::wall_harness::WallHarness;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<LoadedFabric> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let text = include_str!("../../fabrics/modern-pair.toml");
    parse_fabric("modern-pair.toml", text, &catalog, &LoadOptions::default()).expect("a fabric")
});

fuzz_target!(|input: &[u8]| WallHarness::new(&SPEC.spec).survive(input));
