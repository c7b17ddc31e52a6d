//! What makes an unmodified program live in simulated time: everything in which it waits or asks the time is answered here.
//!
//! The functions of the C library that are defined here are exported by `libsoftband.so` (`symbols.txt` lists them), which is
//! preloaded. In a process that is not attached to an engine, and in a thread that the engine does not know, each one passes
//! straight through to the original.
//!
//! **Invariant:** nothing here calls an interposed function by its C name, `std` included (no `std::thread`, `std::net`,
//! `Instant`): originals come from [`real`], system calls from rustix.
//!
//! **Safety.** The exported functions are C functions: their callers owe them what the manual pages say of their arguments,
//! and every dereference of an argument below rests on that. Where a block rests on anything else, it says so.

#![allow(clippy::disallowed_methods)] // program side: the walls of the model do not hold here
#![allow(clippy::missing_safety_doc, unsafe_op_in_unsafe_fn)] // see "Safety" above
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[macro_use]
pub mod real;

pub mod alarm;
pub mod allocator;
pub mod attach;
pub mod children;
pub mod clock;
pub mod descriptors;
pub mod doorbell;
pub mod environment;
pub mod epoll;
pub mod exec;
pub mod files;
pub mod handlers;
pub mod interest;
pub mod io;
pub mod locks;
pub mod machine;
pub mod missing;
pub mod names;
pub mod pace;
pub mod pid;
pub mod poll;
pub mod process;
pub mod random;
pub mod random_files;
pub mod raw;
pub mod select;
pub mod semaphore;
pub mod shell;
pub mod signals;
pub mod sigwait;
pub mod sleep;
pub mod socket;
pub mod spawn;
pub mod spin;
pub mod symbols;
pub mod threads;
pub mod timerfd;
pub mod tsc;
pub mod wait;
pub mod world;
