//! Arbitrary bytes as each header of packets, and as each header, attribute and message of
//! management: they parse and read back alike, or they are too short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_wire::headers::HEADERS;
use softband_wire::mad::{LAYOUTS, Layout, LinkRecord, MAD_BYTES, NodeDescription, PathRecord, records};

fuzz_target!(|bytes: &[u8]| {
    for layout in LAYOUTS.iter().chain(HEADERS) {
        let (mut first, mut second) = ([0; MAD_BYTES], [0; MAD_BYTES]);
        let parsed = (layout.reemit)(bytes, &mut first);
        assert_eq!(parsed.is_ok(), bytes.len() >= layout.bytes, "{}", layout.name);
        if parsed.is_ok() {
            assert_eq!((layout.reemit)(&first, &mut second), Ok(()));
            assert_eq!(first, second, "{}", layout.name);
        }
    }
    if let Some((offset, data)) = bytes.split_first_chunk() {
        let offset = u16::from_be_bytes(*offset);
        assert!(records::<LinkRecord>(data, offset).count() <= data.len());
        assert!(records::<PathRecord>(data, offset).count() <= data.len());
    }
    if let Ok(description) = NodeDescription::parse(bytes) {
        let text = description.as_str();
        assert_eq!(NodeDescription::new(text).as_str(), text);
    }
});
