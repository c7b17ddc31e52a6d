//! The connection manager neither panics nor hangs, regardless of MADs of peers and of commands.

use proptest::prelude::*;
use softband_catalog::{Catalog, LoadOptions, load_fabric};
use softband_engine::cm_harness::{step, survive};
use softband_spec::FabricSpec;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<FabricSpec> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    load_fabric(&root.join("fabrics/two-hosts.toml"), &catalog, &LoadOptions::default()).expect("a fabric").spec
});

/// Initial inputs of the fuzzer.
#[test]
fn the_fuzzers_first_inputs_are_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/connection_manager");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty());
    for file in files {
        survive(&SPEC, &std::fs::read(file).expect("a file"));
    }
}

/// Generates bytes of fields: mostly small numbers, which name identifiers.
fn field() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0u8), 3 => 0..8u8, 1 => any::<u8>()]
}

/// Generates a step of an input, with its kind and its length.
fn a_step() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(field(), 1..232);
    (0..step::KINDS, any::<u8>(), bytes).prop_map(|(kind, first, mut bytes)| {
        bytes[0] = first;
        [&[kind, bytes.len() as u8][..], &bytes].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_and_commands_are_survived(steps in prop::collection::vec(a_step(), 1..80)) {
        survive(&SPEC, &steps.concat());
    }
}
