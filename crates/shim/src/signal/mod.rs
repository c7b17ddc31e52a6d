//! Signals of the program and of this library.

pub mod actions;
pub mod handlers;
pub mod sigwait;
