//! The World: owns the nodes of a topology and turns model outputs into events.
#![forbid(unsafe_code)]

pub mod faults;
mod hca;
mod link;
pub mod notice;
mod pdes;
mod subnet;

mod construct;
mod event;
mod slab;
mod world;

pub use hca::counters::HcaCounters;
pub use hca::queue_pairs::QPN_FIRST;
pub use hca::transfers::QueuePairRepeats;
pub use hca::views::QueuePairView;
pub use link::counters::{EthernetCounters, PortCounters};
pub use link::deadlock::Starved;
pub use pdes::partition::{Parcel, Partitioning};
pub use pdes::windows::lookahead;
pub use softband_model::transport::Repeats;
pub use world::World;
