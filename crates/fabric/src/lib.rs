//! The World: owns the nodes of a topology and turns model outputs into events.
#![forbid(unsafe_code)]

mod analysis;
pub mod faults;
mod hca;
mod link;
pub mod notice;
mod pdes;
pub mod spec;
mod subnet;

mod construct;
mod event;
mod slab;
mod world;

pub use analysis::connected_components::hosts_apart;
pub use analysis::credit_loops::{CreditLoop, LoopRemedy, credit_loops, loop_remedy};
pub use analysis::path_mtu::{PathMtuLimit, path_mtu_limit};
pub use construct::{lossy_ends, settings_of};
pub use hca::counters::HcaCounters;
pub use hca::queue_pairs::QPN_FIRST;
pub use hca::transfers::QueuePairRepeats;
pub use hca::views::QueuePairView;
pub use link::counters::{EthernetCounters, PortCounters};
pub use link::deadlock::Starved;
pub use pdes::partition::{Parcel, Partitioning};
pub use pdes::windows::lookahead;
pub use softband_model::transport::Repeats;
pub use subnet::routes::{neighbours, unroutable};
pub use world::World;
