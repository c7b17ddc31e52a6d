//! Calls of programs in the protocol: checks, conversion, and the way into the World.

pub(crate) mod calls;
pub(crate) mod completion_queues;
pub(crate) mod convert;
pub(crate) mod posts;
pub(crate) mod regions;
pub(crate) mod shared_queues;
pub(crate) mod verbs;
