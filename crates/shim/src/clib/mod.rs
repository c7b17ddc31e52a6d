//! The C library's own functions, and raw system calls.

#[macro_use]
pub mod real;

pub mod args;
pub mod buffers;
pub mod raw;
pub mod symbols;
