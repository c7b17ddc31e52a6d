//! Simulated time, the totally ordered event queue and seeded random streams.
//!
//! Nothing here knows InfiniBand, and nothing here asks a clock: `now` is always an argument. The
//! same calls give the same results on each machine and in each run.
//!
//! - [`SimTime`] and [`SimDuration`] are instants and spans in whole picoseconds.
//! - [`EventQueue`] returns events by time, node and class, in one total order.
//! - [`SmallQueue`] orders a few items by a key, without a heap allocation.
//! - [`RandomStream`] gives seeded random numbers.
//!
//! # Example
//!
//! ```
//! use softband_sim::{EventQueue, SimDuration, SimTime};
//!
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! enum Event {
//!     Ping,
//!     Pong,
//! }
//!
//! let (a, b) = (0, 1); // nodes
//! let delay = SimDuration::from_nanos(100);
//! let mut queue = EventQueue::default();
//! queue.push(SimTime::ZERO, a, Event::Ping);
//!
//! let mut log = Vec::new();
//! while let Some((now, event)) = queue.pop_until(SimTime::from_picos(250_000)) {
//!     log.push((now.as_nanos(), queue.node(), event));
//!     match event {
//!         Event::Ping => queue.push_from(now + delay, b, 0, Event::Pong),
//!         Event::Pong => queue.push_from(now + delay, a, 0, Event::Ping),
//!     }
//! }
//! assert_eq!(log, [(0, a, Event::Ping), (100, b, Event::Pong), (200, a, Event::Ping)]);
//! assert_eq!(queue.next_time(), Some(SimTime::from_picos(300_000)));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod days;
mod entry;
mod queue;
mod random;
mod small_queue;
mod time;

pub use queue::{EventQueue, Moment};
pub use random::RandomStream;
pub use small_queue::{Keyed, SmallQueue};
pub use time::{SimDuration, SimTime};

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
