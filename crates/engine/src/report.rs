//! Results of a run: durations, exit statuses, warnings.

use crate::options::Failure;
use serde::Serialize;

/// Exit status of a run that reached its time limit, as for `timeout` of coreutils.
const STATUS_TIMED_OUT: i32 = 124;

/// One program of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    pub host: String,
    pub command: String,
    /// Exit status as in a shell: the exit code, or 128 + the signal that ended the program.
    pub exit_status: i32,
    /// Simulated time of its end, in seconds.
    pub ended_at_seconds: f64,
    /// Whether the run waited for its end. A server is none of these programs.
    #[serde(rename = "main")]
    pub is_main: bool,
    /// Whether the engine ended it, because all main programs had ended.
    #[serde(rename = "stopped")]
    pub is_stopped: bool,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub programs: Vec<ProgramReport>,
    pub virtual_seconds: f64,
    pub wall_seconds: f64,
    /// Number of turns of all programs.
    pub turns: u64,
    /// Number of events that the fabric executed.
    pub fabric_events: u64,
    /// Number of computations that threads announced and carried out beside the engine.
    pub announced_computations: u64,
    /// Warnings that the user reads at the end.
    pub warnings: Vec<String>,
    /// Warnings that went to standard error during the run.
    pub told: Vec<String>,
    pub failure: Option<Failure>,
    /// In wall pace: numbers of requests that went to the engine instead of the direct path, by
    /// reason.
    pub fallbacks: Option<serde_json::Value>,
}

impl RunReport {
    /// Returns the worst exit status of all main programs. A failed run returns at least 1. A run that
    /// reached its time limit returns 124, as coreutils does.
    pub fn worst_status(&self) -> i32 {
        if matches!(self.failure, Some(Failure::TimedOut { .. })) {
            return STATUS_TIMED_OUT;
        }
        let worst = self.programs.iter().filter(|program| program.is_main).map(|program| program.exit_status).max().unwrap_or(0);
        if self.failure.is_some() { worst.max(1) } else { worst }
    }
}

/// The room of what the user reads at the end: warnings, and a deadlock of the fabric.
#[derive(Default)]
pub(crate) struct Report {
    warnings: Vec<String>,
    /// Description of packets that will never move again, if a deadlock exists.
    deadlock: Option<String>,
    fabric_events: u64,
    announced_computations: u64,
}

impl Report {
    /// Adds a warning for the user. Each warning appears once.
    pub(crate) fn warn(&mut self, line: String) {
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    /// Adds a warning that may appear several times.
    pub(crate) fn warn_again(&mut self, line: String) {
        self.warnings.push(line);
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Notes packets that will never move again.
    pub(crate) fn note_deadlock(&mut self, waits: String) {
        self.deadlock.get_or_insert(waits);
    }

    pub(crate) fn take_deadlock(&mut self) -> Option<String> {
        self.deadlock.take()
    }

    pub(crate) fn count_fabric_event(&mut self) {
        self.fabric_events += 1;
    }

    pub(crate) fn fabric_events(&self) -> u64 {
        self.fabric_events
    }

    /// Counts a computation that a thread has announced.
    pub(crate) fn note_announced_computation(&mut self) {
        self.announced_computations += 1;
    }

    pub(crate) fn announced_computations(&self) -> u64 {
        self.announced_computations
    }
}
