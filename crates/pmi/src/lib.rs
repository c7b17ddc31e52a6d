//! PMI-1, the protocol by which the ranks of an MPI job find each other: lines of `key=value` words
//! over a stream.
//!
//! `message` has the lines, `job` the server's rules, `client` the other side, and `mapping` the
//! text that says which ranks share a host. Nothing here opens a socket.

#![forbid(unsafe_code)]

pub mod client;
pub mod event;
pub mod job;
pub mod lines;
pub mod mapping;
pub mod message;

/// Longest name of a key-value space, in bytes.
pub const NAME_MAX: usize = 256;
/// Longest key, in bytes.
pub const KEY_MAX: usize = 64;
/// Longest value, in bytes.
pub const VALUE_MAX: usize = 1024;
/// Longest line, in bytes. No correct line of either side is longer.
pub const LINE_MAX: usize = 4096;
/// Key of the text of `mapping`.
pub const MAPPING_KEY: &str = "PMI_process_mapping";
