//! For any mutated fabric file, the loader returns a fabric or a printable error.

use crate::common;

use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use softband_catalog::{Catalog, LoadOptions, draw_svg, draw_text, parse_fabric};

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(common::catalog)
}

fn seeds() -> &'static [String] {
    static SEEDS: OnceLock<Vec<String>> = OnceLock::new();
    SEEDS.get_or_init(|| common::fabric_paths().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect())
}

/// Loads the text and uses the result in every way that the command line does.
fn exercise(text: &str) {
    match parse_fabric("mutated.toml", text, catalog(), &LoadOptions::default()) {
        Ok(loaded) => {
            assert!(!loaded.spec.hosts.is_empty());
            assert!(loaded.resolved_toml().parse::<toml_edit::DocumentMut>().is_ok(), "{}", loaded.resolved_toml());
            assert!(!draw_text(&loaded.spec).is_empty() && !draw_svg(&loaded.spec).is_empty());
            loaded.warnings.iter().for_each(|warning| assert!(!warning.to_text().is_empty()));
        }
        Err(error) => {
            assert!(!error.to_text().is_empty());
            assert!(!error.to_snippet().is_empty());
        }
    }
}

/// Returns pieces that lead to corner cases.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "",
        "\"",
        "[",
        "]]",
        "{}",
        "[[cables]]",
        "[hosts.a]",
        "[switches.a]",
        "hcas = []",
        "= -1",
        "9223372036854775807",
        "1e308",
        "nan",
        "\u{FEFF}",
        "é",
        "'''",
        "\n",
        "length = \"1e30 m\"",
        "length = \"0.0000001 m\"",
        "a/mthca0/255",
        "///",
        "rate = \"qdr\"",
        "node_guid = \"ffff:ffff:ffff:ffff\"",
        "max_op_vls = 0",
        "a.b.c = 1",
        "1979-05-27",
        "copper-4x",
        "optical-active",
        "connectx2-qdr",
        "[[faults]]",
        "kind = \"drop\"",
        "at = \"1e9 s\"",
        "number = 0",
        "rate = 1e-400",
    ];
    prop_oneof![proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned), "\\PC{0,12}"]
}

/// Replaces a range of `text`, cut at whole characters.
fn replace(text: &mut String, at: proptest::sample::Index, length: usize, piece: &str) {
    let boundary = |text: &str, at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = boundary(text, at.index(text.len() + 1));
    let end = boundary(text, (start + length).min(text.len()));
    text.replace_range(start..end.max(start), piece);
}

proptest! {
    // A fixed seed gives the same result every time. The fuzz target explores further.
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_fabric_file_never_panics(
        seed in any::<proptest::sample::Index>(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0_usize..20, piece()), 1..6),
    ) {
        let mut text = seed.get(seeds()).clone();
        for (at, length, piece) in &edits {
            replace(&mut text, *at, *length, piece);
        }
        exercise(&text);
    }

    #[test]
    fn swapped_lines_never_panic(seed in any::<proptest::sample::Index>(), swaps in proptest::collection::vec(any::<(proptest::sample::Index, proptest::sample::Index)>(), 1..8)) {
        let mut lines: Vec<&str> = seed.get(seeds()).lines().collect();
        for (a, b) in &swaps {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        exercise(&lines.join("\n"));
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        exercise(&text);
    }
}
