//! Faults: links that go down and come up, bit errors, packets that get lost, hosts and switches that die.
//!
//! Whether a link is down at a time follows from the plan alone, never from the order in which a World works through its events: so a
//! fabric in partitions loses the same packets. A fault that comes as a command joins the plan at its moment.

mod errors;
mod names;
mod plan;
mod state;
mod turns;

pub use errors::BitErrorRate;
pub use names::Unknown;
pub use plan::{FaultKind, FaultSpec, PacketClass};
pub use state::FaultCounters;

pub(crate) use state::{Faults, Loss};
