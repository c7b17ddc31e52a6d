//! What the engine has to know of descriptors of the kernel: questions and waits.

use crate::session::{header, thread_slot};
use std::sync::atomic::Ordering;

/// Notes that the program asks the kernel for a descriptor, without a wait. The next write to such a
/// descriptor wakes its polling threads.
pub fn ask_kernel() {
    header().kernel_questions.fetch_add(1, Ordering::Relaxed);
}

/// Runs `step`, a part of the thread's wait for a descriptor of the kernel. A write to such a
/// descriptor ends the wait of a call in it.
pub fn awaiting_kernel<R>(step: impl FnOnce() -> R) -> R {
    let mark = |value: u32| {
        if let Some(slot) = thread_slot() {
            slot.awaits_kernel.store(value, Ordering::Relaxed);
        }
    };
    mark(1);
    let result = step();
    mark(0);
    result
}
