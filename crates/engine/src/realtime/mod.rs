//! Wall pace: the clock, the tables and queues of programs that move data themselves.

pub(crate) mod datagrams;
pub(crate) mod direct;
pub mod harness;
pub(crate) mod notifications;
pub(crate) mod quiescence;
pub(crate) mod receive_queues;
pub(crate) mod shared_receive_queues;
pub(crate) mod shared_words;
pub(crate) mod wall;
