//! Calls of programs in the protocol: checks, conversion, and the way into the World.

mod channels;
mod cm;
mod completion_queues;
mod counters;
mod datagrams;
mod devices;
mod disks;
pub(crate) mod host_calls;
mod interfaces;
mod kernels;
mod mads;
mod objects;
mod posts;
mod queue_pairs;
mod regions;
mod relay;
pub(crate) mod room;
mod shared_queues;
mod sharing;
mod sockets;
mod stack;
mod threads;
mod timers;
mod verbs;
mod waiting;
