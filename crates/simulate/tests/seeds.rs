//! A fixed range of seeds. `make test-full` runs many more.

use softband_catalog::Catalog;
use softband_simulate::{Campaign, plan_of, try_plan};
use std::path::Path;

fn catalog() -> Catalog {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
    Catalog::load(&folder).expect("the repository's catalogue")
}

#[test]
fn the_first_seeds_hold_every_invariant() {
    let (catalog, mut campaign) = (catalog(), Campaign::default());
    for seed in 0..100 {
        if let Err(failure) = campaign.run(seed, &catalog) {
            panic!("{failure}");
        }
    }
    // Too few features prove nothing.
    for feature in ["Rc", "Uc", "Ud", "calm", "ethernet", "packet loss", "dead process", "reconnect", "deregistration", "shared receive queue"] {
        assert!(campaign.features.get(feature).is_some_and(|seeds| *seeds >= 5), "{feature}: {campaign}");
    }
    for operation in ["send", "receive", "write", "read", "read back", "fetch and add", "compare and swap"] {
        assert!(campaign.successes.get(operation).is_some_and(|count| *count >= 50), "{operation}: {campaign}");
    }
}

#[test]
fn a_seed_gives_the_same_run_twice_and_another_seed_gives_another() {
    let catalog = catalog();
    let run = |seed| try_plan(&plan_of(seed, &catalog), &catalog);
    let (first, second, other) = (run(4), run(4), run(5));
    assert_eq!((first.digest, first.events, first.ended), (second.digest, second.events, second.ended));
    assert_ne!(first.digest, other.digest);
}
