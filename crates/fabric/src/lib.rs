//! Topology and the World: owns the nodes and turns model outputs into events.
#![forbid(unsafe_code)]

pub mod spec;
pub mod notice;
