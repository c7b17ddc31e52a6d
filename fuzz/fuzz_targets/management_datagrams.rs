//! Programs write any records to a MAD device, and peers send any MADs. The engine survives both.

#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_engine::harness::Harness;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<softband_catalog::LoadedFabric> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let text = include_str!("../../fabrics/two-hosts.toml");
    parse_fabric("two-hosts.toml", text, &catalog, &LoadOptions::default()).expect("a fabric")
});

/// Numbers of the calls.
const OPEN: u32 = 60;
const REGISTER: u32 = 61;
const SEND: u32 = 64;
const RECEIVE: u32 = 65;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

// Input: a sequence of MADs. Each has its direction, the length of its bytes, and the bytes.
fuzz_target!(|input: &[u8]| {
    let mut harness = Harness::new(&SPEC.spec);
    assert_eq!(harness.call(OPEN, &words(&[0, 0]), &[]), 0);
    let object = u32::from_ne_bytes(harness.reply()[..4].try_into().expect("a number"));
    // Subnet administration with segments, performance, and the directed route: all methods.
    for (qpn, class, version, rmpp) in [(1, 3, 2, 1), (1, 4, 1, 0), (0, 0x81, 1, 0)] {
        let agent = [object, 0, qpn, class, version, 0, rmpp, 0, 1, 0, u32::MAX, u32::MAX, u32::MAX, u32::MAX];
        assert_eq!(harness.call(REGISTER, &words(&agent), &[]), 0);
    }
    let mut rest = input;
    while let [direction, len, tail @ ..] = rest {
        let bytes = &tail[..usize::from(*len).min(tail.len())];
        rest = &tail[bytes.len()..];
        if direction % 2 == 0 {
            harness.arrive(bytes);
        } else {
            // Longer records than the bytes: they become messages of many segments.
            let record = bytes.repeat(usize::from(*direction));
            let record = &record[..record.len().min(30_000)];
            let head = words(&[object, record.len() as u32, 0, 0]);
            harness.call(SEND, &[&head[..], record].concat(), &[]);
        }
        harness.step(8);
        harness.call(RECEIVE, &words(&[object, 1 << 16, 0, 0]), &[]);
    }
});
