//! The World: owns the nodes of a topology and turns model outputs into events.
#![forbid(unsafe_code)]

pub mod faults;
pub mod notice;
pub mod spec;

mod complete;
mod congestion;
mod connected_components;
mod construct;
mod credit_loops;
mod deadlock;
mod ethernet;
mod event;
mod gids;
mod hca_counters;
mod link;
mod multicast;
mod partition;
mod path_mtu;
mod port;
mod port_counters;
mod queue_pairs;
mod receive;
mod receive_requests;
mod routes;
mod send_engine;
mod sending;
mod slab;
mod timeline;
mod transfers;
mod tx_pending;
mod verbs;
mod views;
mod windows;
mod world;

pub use connected_components::hosts_apart;
pub use construct::{lossy_ends, settings_of};
pub use credit_loops::{CreditLoop, LoopRemedy, credit_loops, loop_remedy};
pub use deadlock::Starved;
pub use hca_counters::HcaCounters;
pub use partition::{Parcel, Partitioning};
pub use path_mtu::{PathMtuLimit, path_mtu_limit};
pub use port_counters::{EthernetCounters, PortCounters};
pub use queue_pairs::QPN_FIRST;
pub use routes::{neighbours, unroutable};
pub use softband_model::transport::Repeats;
pub use transfers::QueuePairRepeats;
pub use views::QueuePairView;
pub use windows::lookahead;
pub use world::World;
