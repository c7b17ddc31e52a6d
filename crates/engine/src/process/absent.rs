//! Threads that have a slot and never take their first turn. Without this check, a program that
//! speaks the protocol by hand could stop a run for ever with one hello.

use crate::engine::Engine;
use crate::scheduler::threads::TurnEnd;
use std::sync::atomic::Ordering;

impl Engine {
    /// Returns whether the thread has not begun its first turn, although nobody has stopped its
    /// process. The library writes the thread's number into its slot before it looks for its turn.
    pub(crate) fn is_absent(&self, process: usize, slot: u32) -> bool {
        let record = &self.processes[process];
        let has_come = record.shared.slot(slot).tid.load(Ordering::Relaxed) != 0;
        !has_come && !is_stopped(&crate::process::image::stat(format!("/proc/{}/stat", record.pid)))
    }

    /// Ends a process with an absent thread.
    pub(crate) fn end_absent(&mut self, process: usize) -> TurnEnd {
        let pid = self.processes[process].pid;
        self.warn(format!("{}: its process {pid} attached to the engine and never took its turn: the engine has ended it", self.command_of(process)));
        self.processes[process].send_signal(libc::SIGKILL);
        // Another process may hold the other end.
        self.processes[process].connection = None;
        TurnEnd::Gone
    }
}

/// Returns whether a line of proc_pid_stat(5) belongs to a process that a signal or a debugger has
/// stopped.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::is_stopped;

    #[test]
    fn a_name_cannot_look_like_a_state() {
        assert!(is_stopped("17 (a program) T 1 17 17"));
        assert!(!is_stopped("17 (a) T 1) S 1 17 17"));
        assert!(!is_stopped(""));
    }
}
