//! Properties of all layouts.

use super::{Description, Error, LAYOUTS, MAD_BYTES};
use proptest::prelude::*;

/// Returns whether a bit belongs to a field.
fn is_known(layout: &Description, bit: usize) -> bool {
    layout.fields.iter().any(|field| (field.bit..field.bit + field.width).contains(&bit))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_emitted_is_parsed_alike(bytes in proptest::collection::vec(any::<u8>(), MAD_BYTES)) {
        for layout in LAYOUTS {
            let (mut first, mut second) = ([0xEE; MAD_BYTES], [0x11; MAD_BYTES]);
            prop_assert_eq!((layout.reemit)(&bytes, &mut first), Ok(()));
            prop_assert_eq!((layout.reemit)(&first, &mut second), Ok(()));
            prop_assert_eq!(&first[..layout.bytes], &second[..layout.bytes], "{}", layout.name);
            // Nothing after the layout changes.
            prop_assert!(first[layout.bytes..].iter().all(|byte| *byte == 0xEE), "{}", layout.name);
        }
    }

    #[test]
    fn views_agree_with_reprs_whatever_the_length(bytes in proptest::collection::vec(any::<u8>(), 0..=MAD_BYTES)) {
        for layout in LAYOUTS {
            (layout.assert_views_agree)(&bytes);
            let parsed = (layout.reemit)(&bytes, &mut [0; MAD_BYTES]);
            let short = Error::Short { needed: layout.bytes, given: bytes.len() };
            prop_assert_eq!(parsed, if bytes.len() < layout.bytes { Err(short) } else { Ok(()) });
        }
    }
}

/// Layouts that contain others, whose reserved bits are not in their tables.
const NESTING: [&str; 10] = [
    "CmMad",
    "InformInfoRecord",
    "PerformanceMad",
    "PortInfoRecord",
    "Req",
    "SaMad",
    "Smp",
    "SwitchInfoRecord",
    "VlArbitrationTable",
    "VlArbitrationTableRecord",
];

#[test]
fn every_bit_of_a_field_is_kept_and_every_reserved_bit_is_zero() {
    for layout in LAYOUTS {
        let mut emitted = [0; MAD_BYTES];
        (layout.reemit)(&[0xFF; MAD_BYTES], &mut emitted).unwrap();
        for bit in 0..layout.bytes * 8 {
            let set = emitted[bit / 8] >> (7 - bit % 8) & 1 == 1;
            let known = is_known(layout, bit);
            assert!(set == known || known && NESTING.contains(&layout.name), "{} bit {bit}", layout.name);
        }
    }
}

#[test]
fn every_layout_has_its_own_name_and_fits_into_a_datagram() {
    let mut names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), LAYOUTS.len());
    assert!(LAYOUTS.iter().all(|layout| layout.bytes <= MAD_BYTES && !layout.fields.is_empty()));
}
