//! Everything a program gets preloaded, as one static library: `cargo xtask link` makes shared objects of it.
//!
//! There is no code here: the crates below define C symbols, and naming them brings them in.

extern crate softband_guest as _;
extern crate softband_libibverbs as _;
