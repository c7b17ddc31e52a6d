//! Arbitrary bytes as a request for metrics: an answer, never a panic, and the same for each end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_metrics::request::{Request, parse};

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    for end in 0..bytes.len() {
        // A beginning has the meaning of the whole as soon as it has one. Only the size may end it.
        let part = parse(&bytes[..end]);
        assert!(part == Request::Incomplete || part == whole || whole == Request::Malformed);
    }
});
