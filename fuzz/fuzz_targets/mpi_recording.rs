//! Arbitrary text as a recording of an MPI program: lines or an error, never a panic. What was
//! read is written alike, and becomes a trace or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_workload::recording::trace::{Options, goal};
use softband_workload::recording::{RankRecord, Recording};

fuzz_target!(|text: &str| {
    if text.len() > 1 << 16 {
        return;
    }
    let _ = RankRecord::parse("rank", text);
    match Recording::parse("recording", text) {
        Ok(recording) => {
            assert_eq!(Recording::parse("recording", &recording.text()), Ok(recording.clone()));
            if let Ok(trace) = goal(&recording, &Options { eager_bytes: 1024, factor: 1.0 }) {
                let _ = softband_workload::goal::parse(&trace);
            }
        }
        Err(error) => assert!(!error.help.is_empty()),
    }
});
