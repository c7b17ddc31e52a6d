//! Parallel discrete-event simulation: partitions, windows, and the event queue.

pub(crate) mod partition;
pub(crate) mod timeline;
pub(crate) mod windows;
