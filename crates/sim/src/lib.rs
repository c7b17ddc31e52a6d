//! Simulated time, the totally ordered event queue and seeded random streams.
//!
//! Nothing here knows InfiniBand, and nothing here asks a clock: `now` is always an argument.
#![forbid(unsafe_code)]

mod days;
mod entry;
mod queue;
mod random;
mod small_queue;
mod time;

pub use queue::EventQueue;
pub use random::RandomStream;
pub use small_queue::{Keyed, SmallQueue};
pub use time::{SimDuration, SimTime};
