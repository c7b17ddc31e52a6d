//! Memory that processes of a host share, in simulated time.
//!
//! A program writes shared memory without a call, and a program in another process polls it. So the
//! engine must know in which turns a program has written.
//!
//! - [`ranges`] has the program's shared mappings. The engine says which of them another process
//!   has, too.
//! - [`guard`] makes those read-only while a thread has the token. Its first write faults, is noted
//!   in the header, and opens the mapping. At the end of the turn the engine wakes the pollers of
//!   the other processes.
//! - [`looks`] finds out whether a thread that reads clocks looks at shared memory as well.
//! - [`mapping`] has the C library's functions that create and remove mappings. [`entries`] leads the
//!   functions inside the C library there, for libraries that find them by other ways.
//! - [`semaphores`] has those for semaphores with names.

pub mod entries;
pub mod guard;
pub mod huge;
pub mod looks;
pub mod mapping;
pub mod ranges;
pub mod semaphores;

use softband_client as client;
use std::sync::atomic::Ordering;

/// Returns whether another process has shared memory of this one.
pub fn is_sharing() -> bool {
    ranges::any() && client::header().shared_ranges.iter().any(|word| word.load(Ordering::Relaxed) != 0)
}
