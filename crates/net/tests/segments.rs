//! A stack survives any segments, calls and times.

#[path = "common/segments.rs"]
mod input;

use proptest::prelude::*;
use softband_net::KernelPart;
use std::sync::LazyLock;

static KERNELS: LazyLock<Vec<KernelPart>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog");
    let catalog = softband_catalog::Catalog::load(folder.as_ref()).expect("the catalogue");
    ["linux-2.6.9", "linux-6.1"].into_iter().map(|name| catalog.kernel(name).expect("a kernel").clone()).collect()
});

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stack_survives_any_segments(input in proptest::collection::vec(any::<u8>(), 0..3_000), modern in any::<bool>()) {
        input::survive(KERNELS[usize::from(modern)].clone(), &input);
    }
}
