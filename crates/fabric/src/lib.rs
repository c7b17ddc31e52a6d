//! The World: owns the nodes of a topology and turns model outputs into events.
//!
//! Each folder is a room: a struct with private fields and narrow methods. The World in `world`
//! owns the rooms and hands each the others that it needs. `ARCHITECTURE.md` lists which room may
//! use which.
#![forbid(unsafe_code)]

pub mod faults;
mod hca;
mod link;
pub mod notice;
mod pdes;
mod subnet;
mod world;

mod event;
mod numbering;
mod slab;
mod traffic;

pub use hca::{HcaCounters, QPN_FIRST, QueuePairRepeats, QueuePairView};
pub use link::{EthernetCounters, Parcel, PortCounters, Starved};
pub use pdes::lookahead;
pub use pdes::partition::Partitioning;
pub use softband_model::transport::Repeats;
pub use world::World;
