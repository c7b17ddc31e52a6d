//! The plan of a fabric's faults: links that go down and come up, bit errors, lost packets, dead
//! hosts and switches.

mod errors;
mod names;
mod plan;

pub use errors::BitErrorRate;
pub use names::Unknown;
pub use plan::{FaultKind, FaultSpec, PacketClass};
