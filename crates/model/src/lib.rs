//! Pure state machines: links, switches, buses, transports, verbs, management.
//!
//! `now` is an argument; nothing here knows a clock, a file or another module's state.
#![forbid(unsafe_code)]

pub mod parts;
pub mod verbs;
