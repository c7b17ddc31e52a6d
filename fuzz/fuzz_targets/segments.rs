//! Peers send any segments to a host, and its programs make any calls. The stack survives, and its
//! queues keep their bounds.

#![no_main]

#[path = "../../crates/net/tests/common/segments.rs"]
mod segments;

use libfuzzer_sys::fuzz_target;
use softband_catalog::Catalog;
use softband_net::KernelPart;
use std::path::Path;
use std::sync::LazyLock;

static KERNELS: LazyLock<Vec<KernelPart>> = LazyLock::new(|| {
    let catalog = Catalog::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog")).expect("the catalogue");
    ["linux-2.6.9", "linux-6.1"].into_iter().map(|name| catalog.kernel(name).expect("a kernel").clone()).collect()
});

fuzz_target!(|input: &[u8]| {
    let kernel = &KERNELS[input.len() % KERNELS.len()];
    segments::survive(kernel.clone(), input);
});
