//! The engine: one process that owns the fabric and hands the execution token to one program thread
//! at a time.
//!
//! **Invariant (causality).** The engine executes an event at time `t` only when no thread can
//! still cause an earlier event. A thread that holds the token stamps all its posts with its own
//! clock. This clock is at least the time at which the thread got the token. The engine executes no
//! event before the thread returns the token. The engine executes a call as an event at the clock
//! of its thread.
//!
//! **Invariant (order).** Every occurrence is an event with a place in one total order. This order
//! alone determines the next thread. The host's scheduling has no influence.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // only the engine reads clocks and uses threads and sockets

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
