//! What a run leaves: durations, exit statuses, warnings.

use crate::pace::{Engine, Failure};
use crate::process::{ProcessState, ThreadState, Waiting};
use serde::Serialize;

/// One program of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    pub host: String,
    pub command: String,
    /// As a shell counts: the exit code, or 128 + the signal that ended it.
    pub exit_status: i32,
    /// Simulated time at which it ended.
    pub ended_at_seconds: f64,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub programs: Vec<ProgramReport>,
    pub virtual_seconds: f64,
    pub wall_seconds: f64,
    /// How often a program got the turn.
    pub turns: u64,
    /// Events that the fabric executed.
    pub fabric_events: u64,
    pub warnings: Vec<String>,
    pub failure: Option<Failure>,
}

impl RunReport {
    /// The worst exit status of all programs; a failed run is at least 1.
    pub fn worst_status(&self) -> i32 {
        let worst = self.programs.iter().map(|program| program.exit_status).max().unwrap_or(0);
        if self.failure.is_some() { worst.max(1) } else { worst }
    }
}

impl Engine {
    /// Threads that wait when nothing can happen any more.
    pub(crate) fn who_waits(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for process in self.processes.living().filter(|process| process.state == ProcessState::Attached) {
            for (slot, thread) in process.threads.iter().enumerate() {
                let what = match &thread.state {
                    ThreadState::Waiting(Waiting::Objects(_)) => "waits for a socket, channel or timer that will never be ready",
                    ThreadState::Waiting(Waiting::Look) => "waits for a child, a lock or a pipe of a process that waits itself",
                    ThreadState::Waiting(_) => "polls for something that will never come",
                    _ => continue,
                };
                let (host, command) = (&self.world.spec().hosts[process.host].name, &self.programs[process.program].command);
                lines.push(format!("{host}: '{command}' (thread {slot}) {what}"));
            }
        }
        lines
    }
}
