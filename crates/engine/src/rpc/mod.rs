//! Calls of programs in the protocol: checks, conversion, and the way into the World.

pub(crate) mod calls;
pub(crate) mod completion_queues;
pub(crate) mod convert;
mod devices;
mod notices;
mod objects;
pub(crate) mod posts;
mod processes;
mod queue_pairs;
pub(crate) mod regions;
pub(crate) mod shared_queues;
mod sockets;
mod timers;
pub(crate) mod verbs;
mod waiting;
