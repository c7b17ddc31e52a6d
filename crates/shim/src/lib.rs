//! Lets an unmodified program live in simulated time: this crate answers every call that waits or
//! reads the time.
//!
//! `libsoftband.so` is preloaded and exports the C library functions defined here (`symbols.txt`
//! lists them). Each function passes straight through to the original in a process that is not
//! attached to an engine, and in a thread that the engine does not know.
//!
//! **Invariant:** no code here calls an interposed function by its C name, including through `std`
//! (no `std::thread`, `std::net`, `Instant`). Originals come from [`clib::real`], system calls from
//! rustix.
//!
//! **Safety.** The exported functions are C functions. Their callers must pass the arguments that
//! the manual pages require. [`clib::args`] and [`clib::buffers`] state that contract in types, so a
//! function that takes them is safe. A function that takes a pointer and a length apart, a stream,
//! a timer or a thread is `unsafe`, and its documentation states the contract.

#![allow(clippy::disallowed_methods)] // program side: the bans of the model do not apply here
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[macro_use]
pub mod clib;

pub mod ahead;
pub mod fd;
pub mod own_calls;
pub mod process;
pub mod runtime;
pub mod shared;
pub mod signal;
pub mod socket;
pub mod spin;
pub mod sync;
pub mod time;
pub mod tsc;
