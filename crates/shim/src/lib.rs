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
//! the manual pages require, and every dereference of an argument below relies on that. A block
//! that relies on anything else states it.

#![allow(clippy::disallowed_methods)] // program side: the bans of the model do not apply here
#![allow(clippy::missing_safety_doc, unsafe_op_in_unsafe_fn)] // see "Safety" above
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[macro_use]
pub mod clib;

pub mod fd;
pub mod process;
pub mod runtime;
pub mod signal;
pub mod socket;
pub mod spin;
pub mod sync;
pub mod time;
pub mod tsc;
