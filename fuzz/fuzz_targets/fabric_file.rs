//! Arbitrary text as a fabric file: an answer, never a panic.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use softband_catalog::{Catalog, LoadOptions, draw_svg, draw_text, format_fabric, parse_fabric};

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog");
        Catalog::load(&folder).unwrap_or_else(|error| panic!("{}", error.to_text()))
    })
}

fuzz_target!(|text: &str| {
    for allow_out_of_spec in [false, true] {
        match parse_fabric("fuzzed.toml", text, catalog(), &LoadOptions { allow_out_of_spec }) {
            Ok(fabric) => {
                assert!(!fabric.resolved_toml().is_empty());
                assert!(!draw_text(&fabric.spec).is_empty());
                assert!(draw_svg(&fabric.spec).ends_with("</svg>\n"));
            }
            Err(error) => assert!(!error.to_text().is_empty()),
        }
    }
    match format_fabric("fuzzed.toml", text) {
        Ok(formatted) => assert_eq!(format_fabric("fuzzed.toml", &formatted).ok().as_deref(), Some(&*formatted)),
        // Formatting keeps the meaning of each text that is TOML.
        Err(error) => assert!(!error.to_text().contains("cannot format"), "{}", error.to_text()),
    }
});
