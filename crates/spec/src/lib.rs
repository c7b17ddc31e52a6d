//! The description of a fabric: checked, with every part resolved. The World is built from it.
//!
//! Properties that follow from the description alone are computed here, without a World: the
//! settings of trained links ([`settings_of`]), routes ([`unroutable`]), path MTUs
//! ([`path_mtu_limit`]), hosts without a path ([`hosts_apart`]), and credit loops
//! ([`credit_loops`]).
#![forbid(unsafe_code)]

mod analysis;
mod fabric;
pub mod faults;
mod link_settings;
mod routes;

pub use analysis::connected_components::hosts_apart;
pub use analysis::credit_loops::{CreditLoop, LoopRemedy, credit_loops, loop_remedy};
pub use analysis::path_mtu::{PathMtuLimit, path_mtu, path_mtu_limit};
pub use fabric::*;
pub use link_settings::{
    EndSettings, capabilities, end_settings, ethernet_part, framing_of, lane_and_loop, largest_packet, lossy_ends, settings_of, weights_of,
};
pub use routes::{lanes_of_switches, neighbours, unroutable};
