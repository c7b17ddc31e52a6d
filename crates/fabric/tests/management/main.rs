//! Management packets, agents, and fabrics that wait for a subnet manager.

#[path = "../common/mod.rs"]
mod common;

mod administration;
mod agents;
mod bring_up;
mod desk;
mod details;
mod enforcement;
mod equality;
mod lmc;
mod loops;
mod many_paths;
mod refusals;
mod snapshot;
mod sweeper;
mod switching;
mod training;
mod unmanaged;
mod violations;
