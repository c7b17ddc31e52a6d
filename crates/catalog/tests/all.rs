//! All integration tests of the crate in one binary, which links once.

mod common;

mod bad_input;
mod bad_parts;
mod drawing;
mod ethernet;
mod faults;
mod formatted;
mod generate;
mod impossible_parts;
mod interfaces;
mod layouts;
mod loads;
mod mutated;
mod nics;
mod own_parts;
mod path_mtu;
mod plurals;
mod published_buses;
mod qos;
mod resolved;
mod routes;
mod topology;
mod trained;
