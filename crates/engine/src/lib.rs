//! The engine: one process that owns the fabric and hands the execution token to one program thread at a time.
//!
//! **Invariant (causality).** An event at time `t` is executed only when no thread can still cause an earlier one: a thread that
//! holds the token has all its posts stamped with its own clock, which is at least the time at which it got the token, and no
//! event is executed before it gives the token back. A call of a thread is executed as an event at the thread's own clock.
//!
//! **Invariant (order).** Everything that happens is an event with a place in one total order; which thread runs next follows
//! from it alone. The host's scheduling has no say.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the model side's only reader of clocks, threads and sockets

mod absent;
mod admission;
mod agenda;
mod attach;
mod calls;
mod completion_queues;
mod context_switch;
mod control;
mod control_events;
mod convert;
mod cq_producers;
mod daemon;
mod datagrams;
mod direct;
mod faults;
mod files;
#[doc(hidden)]
pub mod harness;
mod launch;
mod lifecycle;
mod memory;
mod native_waits;
mod network;
mod notifications;
mod objects;
mod options;
mod outputs;
mod pace;
mod posts;
mod process;
mod processes;
mod quiescence;
mod quota;
mod receive_queues;
mod regions;
mod remote;
mod report;
mod shared_queues;
mod shared_receive_queues;
mod shared_words;
mod sockets;
mod sweep;
mod system_process;
mod threads;
mod tickets;
mod time_limit;
mod tsc;
mod vain_polls;
mod verbs;
mod waits;
mod wall;
#[doc(hidden)]
pub mod wall_harness;
mod work;

pub use launch::{Program, ProgramOutput, arguments_of};
pub use pace::{Engine, Failure, Interrupt, Options, Pace};
pub use remote::{Pass, Remote};
pub use report::{ProgramReport, RunReport};
pub use time_limit::Limits;
pub use work::ThreadWork;
