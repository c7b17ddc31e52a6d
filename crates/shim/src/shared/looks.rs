//! Finds out whether a thread that reads clocks looks at shared memory as well.
//!
//! A loop that reads clocks may wait for a write of another process, or it may compute. Only a loop
//! that looks at shared memory can see the write. So this module makes that memory inaccessible
//! between two reads of a clock. The first access faults, is noted, and opens the memory. The access
//! belongs to the thread's present time, so what happens before that comes first.

use super::{guard, ranges};
use crate::spin::watch;
use crate::time::clock;
use softband_client as client;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// The looks of a thread since the memory was closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The memory was not closed, or was opened for another reason.
    Unknown,
    None,
    Seen,
}

/// Set while the memory is inaccessible.
static CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LOOK: Cell<Look> = const { Cell::new(Look::Unknown) };
}

/// Returns the looks of the calling thread.
pub fn of_thread() -> Look {
    LOOK.get()
}

/// Closes the memory that another process has, too. The calling thread has the token. Memory that the
/// kernel may write at any time stays open, and nothing is known of looks then.
pub fn begin() {
    if client::any_is_away() {
        // The kernel may read the memory for another thread (`write` to a pipe).
        LOOK.set(Look::Seen);
        return;
    }
    LOOK.set(Look::None);
    for mapping in ranges::iter().filter(ranges::Mapping::is_shared) {
        CLOSED.store(true, Ordering::Release);
        if mapping.stays_open() || watch::is_near_stack(mapping.start, mapping.end) || !mapping.set_closed(true) {
            LOOK.set(Look::Seen);
        }
    }
}

/// Opens the memory: the thread does something else, or the kernel or the engine needs it.
pub fn end() {
    if LOOK.get() == Look::None {
        LOOK.set(Look::Unknown);
    }
    open();
}

fn open() {
    if !CLOSED.swap(false, Ordering::AcqRel) {
        return;
    }
    for mapping in ranges::iter().filter(ranges::Mapping::is_closed) {
        mapping.set_closed(false);
        watch::close_admitted(&mapping);
    }
}

/// Handles a fault. Returns false if this module did not cause it.
pub fn on_fault(address: usize, machine: &libc::ucontext_t) -> bool {
    let is_ours = || CLOSED.load(Ordering::Acquire) && ranges::at(address).is_some_and(|mapping| mapping.is_closed());
    if !is_ours() {
        return false;
    }
    if client::is_past_next_event() && guard::is_in_program(machine) {
        clock::catch_up();
    }
    open();
    LOOK.set(Look::Seen);
    client::set_clock_limit(0);
    true
}
