//! Arbitrary files of rules (`libsdp.conf`): rules or an error with its line, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;

// The library in programs replaces functions of the C library, so its module comes alone.
#[allow(dead_code)]
#[path = "../../crates/shim/src/socket/sdp/rules.rs"]
mod rules;

fuzz_target!(|text: &str| {
    match rules::Rules::parse(text) {
        Ok(rules) => {
            for role in [rules::Role::Server, rules::Role::Client] {
                rules.transport(role, text.get(..9).unwrap_or("iperf3"), Ipv4Addr::new(10, 1, 0, 2), 5_001);
            }
        }
        Err(error) => assert!(error.starts_with(|first: char| first.is_ascii_digit()), "{error}"),
    }
});
