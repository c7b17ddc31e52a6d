//! The engine and its programs among other work of the machine.
//!
//! Engine and program take turns on one processor: at each context switch one of them wakes and the
//! other sleeps. On a busy processor the scheduler may first run all other tasks, for milliseconds
//! each, although the switch itself takes microseconds. A task with a short time slice comes before
//! them as long as it has used less than its share. It gets no larger share by that.

use std::time::Duration;

/// The shortest time slice that Linux grants. Linux before 6.12 ignores the wish.
const TIME_SLICE: Duration = Duration::from_micros(100);

/// The attributes of `sched_setattr(2)`, as of their first version.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for short time slices for the calling thread and its future threads and children. Does
/// nothing for a thread of another policy than the usual one.
pub(crate) fn shorten_time_slice() {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the given size.
    let is_known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size_of::<Attributes>(), 0) } == 0;
    if is_known && attributes.policy == libc::SCHED_OTHER as u32 {
        attributes.size = size_of::<Attributes>() as u32;
        attributes.runtime_ns = TIME_SLICE.as_nanos() as u64;
        // SAFETY: the kernel reads the given size.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Returns whether the machine has at least as many runnable tasks as processors. The caller is
/// one of them.
pub(crate) fn is_crowded() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    runnable_in(&load).is_some_and(|runnable| runnable >= online())
}

/// Returns the number of runnable tasks of a line of `/proc/loadavg`.
fn runnable_in(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// Returns the number of processors that are online.
fn online() -> usize {
    // SAFETY: `sysconf` only returns a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_states_the_number_of_runnable_tasks() {
        assert_eq!(runnable_in("0.20 0.18 0.12 3/451 11206\n"), Some(3));
        assert_eq!(runnable_in("no load"), None);
    }

    #[test]
    fn a_thread_and_its_children_ask_for_short_slices() {
        shorten_time_slice();
        let slice = || {
            let mut attributes = Attributes::default();
            // SAFETY: the kernel writes at most the given size.
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size_of::<Attributes>(), 0) };
            attributes.runtime_ns
        };
        let own = slice();
        let inherited = std::thread::spawn(slice).join().unwrap_or_default();
        assert_eq!(own, inherited);
        // An older kernel states no slice at all.
        assert!(own == TIME_SLICE.as_nanos() as u64 || own == 0, "{own}");
    }
}
