//! Faults: links that go down and come up, bit errors, lost packets, dead hosts and switches.
//!
//! The plan alone decides whether a link is down at a time, never the event order of a World. A
//! partitioned fabric therefore loses the same packets. A fault from a command joins the plan at
//! that moment.

mod state;
mod turns;

pub use state::FaultCounters;

pub(crate) use state::{Faults, Loss};
