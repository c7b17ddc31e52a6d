//! Threads that have a slot and never begin to play: a program that speaks the protocol by hand could stop a run for ever by one hello.

use crate::pace::Engine;
use crate::threads::TurnEnd;
use std::sync::atomic::Ordering;

impl Engine {
    /// Whether the thread has not begun its first turn, although nobody has stopped its process. The library notes the thread's number in its
    /// slot before it looks for its turn.
    pub(crate) fn is_absent(&self, process: usize, slot: u32) -> bool {
        let record = &self.processes[process];
        let has_come = record.shared.slot(slot).tid.load(Ordering::Relaxed) != 0;
        !has_come && !is_stopped(&crate::process::stat(format!("/proc/{}/stat", record.pid)))
    }

    /// Ends a process with such a thread.
    pub(crate) fn end_absent(&mut self, process: usize) -> TurnEnd {
        let pid = self.processes[process].pid;
        self.warn(format!(
            "{}: its process {pid} said hello to the engine and never took its turn: the engine has ended it",
            self.command_of(process)
        ));
        self.processes[process].send_signal(libc::SIGKILL);
        // Somebody else may hold the other end.
        self.processes[process].connection = None;
        TurnEnd::Gone
    }
}

/// Whether a line of proc_pid_stat(5) is of a process that is stopped, by a signal or a debugger.
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
