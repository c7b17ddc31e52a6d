//! Client of the engine inside a program: it attaches, gives the execution token away, and gets a
//! value or an errno.
//!
//! Each process has one copy of this crate's statics, in `libsoftband.so`. The rest of the program
//! side builds on it. It must not call C library functions that the shim interposes, so system
//! calls use rustix's raw backend.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // program side: the walls of the model do not hold here

mod ahead;
pub mod calls;
pub mod completion;
mod computation;
mod connection;
pub mod direct;
mod event_socket;
mod execution_token;
pub mod fds;
mod fork;
mod hosts;
mod kernel_news;
pub mod post;
pub mod refused;
pub mod regions;
mod ring;
mod session;
pub mod shared_memory;
mod single_threaded;
mod wake_word;
pub mod warn;

pub use ahead::{catch_up, is_ahead, set_catch_up_hook};
pub use calls::{Errno, call, call_with_tail, tell_last};
pub use computation::{advance_by_computation, announce_computation, set_computation, thread_cpu_ns};
pub use connection::{is_shared, shared_socket};
pub use event_socket::event_socket;
pub use execution_token::{
    advance_ps, any_is_away, await_token, away, cq_polls, end_looks, is_past_next_event, last_answer_ps, next_event_ps, note_cq_poll, note_signals,
    now_ps, pause, poll_empty, progress, return_if_away, set_clock_at_least, set_clock_limit, set_signal_raiser, set_token_hooks, spin_wait,
    spin_wait_at, sync, tick,
};
pub use fork::{follow_forks, own_number as process_id, set_child_hook};
pub use hosts::{host_address, host_name, place_at, place_of, places_of_host};
pub use kernel_news::{ask_kernel, awaiting_kernel};
pub use session::{
    AttachError, attach_child, attach_from_environment, bind_thread, control_fd, forget_thread, has_slot, header, is_attached, is_init, is_wall,
    leave_without_engine, process_number, secret, shared_base, thread_pointer, thread_slot_number, traffic,
};
pub use single_threaded::is_single_threaded;
