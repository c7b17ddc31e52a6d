//! The data plane of wall pace: the tables, queues and rings by which programs move data without
//! the engine, and the protocol on them.
//!
//! Three parties use it. The engine publishes [`tables`] and owns their content. A posting thread
//! reads them under a [`tables_guard::TablesGuard`] and works on the queues of its peer
//! ([`receive_queue`], [`remote_cqe_ring`]). The owner of a queue posts requests and takes
//! completions. The engine may take each queue over at any time, after [`quiescence`].
//!
//! The crate knows neither verbs nor processes: a [`platform::Platform`] gives it the PID, the clock
//! and the mappings. It runs on x86-64 only, whose stores stay in order.

#![allow(clippy::disallowed_methods)] // program side: the walls of the model do not hold here

pub mod arming;
pub mod connection;
pub mod cq_producers;
pub mod epoch_slots;
pub mod fallback;
pub mod memory_spans;
pub mod mkey_cache;
#[cfg(all(test, loom))]
mod models;
pub mod platform;
mod prefetch;
pub mod queue_memory;
pub mod queues;
pub mod quiescence;
pub mod receive_queue;
pub mod remote_cqe_ring;
pub mod rq_consumer_lock;
#[cfg(loom)]
pub mod sync;
#[cfg(not(loom))]
mod sync;
pub mod tables;
pub mod tables_guard;
pub mod traffic;
