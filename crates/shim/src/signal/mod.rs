//! Signals of the program and of this library.

pub mod actions;
pub mod call_names;
pub mod handlers;
pub mod kept;
pub mod sigwait;
