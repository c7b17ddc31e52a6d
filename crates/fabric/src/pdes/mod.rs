//! The room of time: parallel discrete-event simulation. Events, windows and partitions.

pub(crate) mod partition;
pub(crate) mod timeline;
mod windows;

pub use windows::lookahead;
