//! All integration tests of the crate in one binary, which links once.

mod common;

mod arbitration;
mod atomic_write;
mod audit;
mod congestion;
mod deadlock;
mod draining;
mod elsewhere;
mod ethernet;
mod faults;
mod frames;
mod hardware_counters;
mod hca_counters;
mod life_cycle;
mod local_work;
mod multicast;
mod naks;
mod partitions;
mod physics;
mod read_flush;
mod shared_queues;
mod small_messages;
mod soak;
mod transfers;
mod transport;
mod windows;
mod write_fault;
mod xrc;
