//! Recordings of MPI programs: the calls of each rank, and the computation before each call.
//!
//! A layer between the program and its MPI (`tools/mpirecord`) writes a file for each rank.
//! [`RankRecord::parse`] reads it. [`merge`] makes one recording of all ranks and repetitions, with
//! the median of each stretch. [`Recording::parse`] and [`Recording::text`] are its file, JSON
//! lines:
//!
//! ```text
//! {"format":"softband-mpi-record","version":1,"ranks":1,"repetitions":1,"library":"MPICH"}
//! {"rank":0}
//! {"comm":0,"inter":0,"members":[0]}
//! {"c":"MPI_Init","t":0}
//! {"c":"MPI_Barrier","t":1200,"comm":0,"b":0}
//! {"end":1}
//! ```
//!
//! [`multiply::multiply`] adds ranks by a rule. [`trace::goal`] writes a recording as a GOAL trace, and [`Recording::times`] as the times that
//! the layer replays.

mod line;
mod merged;
pub mod multiply;
mod read;
mod timed;
pub mod trace;

pub use line::{Call, Communicator, Line};
pub use merged::merge;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Version of both formats.
pub const VERSION: u32 = 1;

/// Defect of a record: file or line, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  help: {help}")]
pub struct RecordingError {
    /// Statement of the problem, with its place.
    pub message: String,
    /// Remedy.
    pub help: String,
}

pub(crate) fn fail<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, RecordingError> {
    Err(RecordingError { message: message.into(), help: help.into() })
}

/// Remedy for a damaged or truncated file.
pub(crate) const AGAIN: &str = "record the program again";

/// Record of one rank of one repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankRecord {
    /// Number of the rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Number of ranks of the program.
    pub ranks: u32,
    /// Name of the MPI, as it states it.
    pub library: String,
    /// Lines in the order of the program.
    pub lines: Vec<Line>,
}

/// Recording of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Number of merged repetitions.
    pub repetitions: u32,
    /// Name of the MPI, as it states it.
    pub library: String,
    /// Rates of a core of the recording machine by kind of work, in operations or bytes per second.
    pub rates: BTreeMap<String, u64>,
    /// Lines of each rank, by rank.
    pub ranks: Vec<Vec<Line>>,
}

impl Recording {
    /// Returns the text of the recording's file.
    pub fn text(&self) -> String {
        let head = read::Head::of(self);
        let mut text = line::json(&head);
        for (rank, lines) in self.ranks.iter().enumerate() {
            let _ = writeln!(text, "{{\"rank\":{rank}}}");
            lines.iter().for_each(|line| text.push_str(&line.json()));
            text.push_str("{\"end\":1}\n");
        }
        text
    }

    /// Returns the number of calls of a rank that a replay counts.
    pub fn calls(&self, rank: usize) -> usize {
        self.ranks[rank].iter().filter(|line| matches!(line, Line::Call(call) if !call.is_poll())).count()
    }

    /// Returns all computation of a rank, in nanoseconds.
    pub fn nanos(&self, rank: usize) -> u64 {
        self.ranks[rank].iter().filter_map(Line::call).fold(0, |sum, call| sum.saturating_add(call.nanos))
    }

    /// Returns the times of a rank for a replay: a line of picoseconds and call for each call. A `+`
    /// follows the picoseconds if the program looks for messages in between.
    /// `factor` turns the time of the recording machine into that of the modelled host.
    pub fn times(&self, rank: usize, factor: f64) -> String {
        let (mut text, mut nanos, mut looked) = (String::new(), 0u64, false);
        for call in self.ranks[rank].iter().filter_map(Line::call) {
            nanos = nanos.saturating_add(call.nanos);
            looked |= call.is_poll() || call.looked.is_some();
            if !call.is_poll() {
                let picos = (std::mem::take(&mut nanos) as f64 * 1000.0 * factor).round() as u64;
                let mark = if std::mem::take(&mut looked) { "+" } else { "" };
                let _ = writeln!(text, "{picos}{mark} {}", call.signature());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
