//! Completion queues: their rings in the program's memory, and their events.

pub(crate) mod armable;
pub(crate) mod record;
pub(crate) mod room;
