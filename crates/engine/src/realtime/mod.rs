//! Wall pace: the tables and queues of programs that move data themselves.

pub(crate) mod channel_events;
pub(crate) mod datagrams;
pub(crate) mod direct;
pub(crate) mod fallbacks;
pub(crate) mod notifications;
pub(crate) mod quiescence;
pub(crate) mod receive_queues;
pub(crate) mod room;
pub(crate) mod shared_receive_queues;
pub(crate) mod traffic;
