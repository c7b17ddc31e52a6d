//! Arbitrary text as a GOAL trace: steps or an error with its line, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_workload::goal::parse;

fuzz_target!(|text: &str| {
    // A larger number of ranks only costs memory.
    if text.len() > 1 << 16 {
        return;
    }
    match parse(text) {
        Ok(schedule) => assert_eq!(schedule.check(), Ok(())),
        Err(error) => assert!(error.line as usize <= text.lines().count().max(1) && !error.help.is_empty()),
    }
});
