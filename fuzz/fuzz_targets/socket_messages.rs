//! A program may make any call on sockets of a host whose TCP/IP is modelled. The engine survives it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_engine::harness::Harness;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<softband_catalog::LoadedFabric> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let text = include_str!("../../fabrics/ipoib.toml");
    parse_fabric("ipoib.toml", text, &catalog, &LoadOptions::default()).expect("a fabric")
});

// Input: a sequence of calls. Each has its number, the lengths of its request and of its posted
// words, and both texts.
fuzz_target!(|input: &[u8]| {
    let mut harness = Harness::new(&SPEC.spec);
    let mut rest = input;
    while let [op, request_len, posted_len, tail @ ..] = rest {
        let request = &tail[..usize::from(*request_len).min(tail.len())];
        let after = &tail[request.len()..];
        let posted = &after[..usize::from(*posted_len).min(after.len())];
        rest = &after[posted.len()..];
        harness.call(u32::from(*op), request, posted);
        harness.step(64);
    }
});
