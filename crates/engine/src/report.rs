//! Results of a run: durations, exit statuses, warnings.

use crate::engine::{Engine, Failure};
use serde::Serialize;
use std::time::Duration;

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
    /// Warnings that the user reads at the end.
    pub warnings: Vec<String>,
    /// Warnings that went to standard error during the run.
    pub told: Vec<String>,
    pub failure: Option<Failure>,
}

impl RunReport {
    /// Returns the worst exit status of all programs. A failed run returns at least 1. A run that
    /// reached its time limit returns 124, as coreutils does.
    pub fn worst_status(&self) -> i32 {
        if matches!(self.failure, Some(Failure::TimedOut { .. })) {
            return STATUS_TIMED_OUT;
        }
        let worst = self.programs.iter().map(|program| program.exit_status).max().unwrap_or(0);
        if self.failure.is_some() { worst.max(1) } else { worst }
    }
}

impl Engine {
    /// Returns the results of the run.
    pub(crate) fn report(&self, failure: Option<Failure>, wall: Duration) -> RunReport {
        let programs = self.programs.iter().enumerate().map(|(number, program)| ProgramReport {
            host: self.world.spec().hosts[program.host].name.clone(),
            command: program.command.clone(),
            exit_status: self.statuses[number].unwrap_or(1),
            ended_at_seconds: self.ended_at[number].as_secs_f64(),
        });
        RunReport {
            programs: programs.collect(),
            virtual_seconds: self.ended_at.iter().max().map_or(0.0, |at| at.as_secs_f64()),
            wall_seconds: wall.as_secs_f64(),
            turns: self.turns,
            fabric_events: self.fabric_events,
            warnings: self.warnings.clone(),
            told: self.vain_polls.told.clone(),
            failure,
        }
    }
}
