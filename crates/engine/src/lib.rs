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

mod completion;
mod control;
mod diagnosis;
mod engine;
mod host;
mod linker;
mod options;
mod process;
mod procfs;
mod protocol;
mod realtime;
mod report;
mod rpc;
mod scheduler;

pub use control::admission::random_word;
pub use control::remote::{Pass, Remote};
pub use diagnosis::work::ThreadWork;
#[doc(hidden)]
pub use engine::cm_harness;
#[doc(hidden)]
pub use engine::harness;
#[doc(hidden)]
pub use engine::wall_harness;
pub use engine::{CaptureOpener, Engine, Opened};
pub use options::{Failure, Interrupt, Limits, Options, Pace, SocketNetwork};
pub use process::launch::{Program, ProgramOutput, arguments_of};
pub use process::programs::EndWatcher;
pub use report::{ProgramReport, RunReport};
/// Variable by which a program finds its engine.
pub use softband_ipc::environment::ENGINE as ENGINE_VARIABLE;
pub use softband_ipc::image;
pub use softband_shm_transport::fallback::FallbackReason;
