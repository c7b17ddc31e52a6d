//! Management packets, agents, and fabrics that wait for a subnet manager.

#[path = "../common/mod.rs"]
mod common;

mod administration;
mod agents;
mod desk;
mod unmanaged;
