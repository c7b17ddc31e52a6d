//! The part of a recording that the program times by `MPI_Wtime`.

use super::{Line, Recording, RecordingError, fail};

const CLOCK: &str = "MPI_Wtime";

impl Recording {
    /// Returns the calls of each rank after its first `MPI_Wtime`, up to its last.
    ///
    /// # Errors
    /// A rank that reads the clock less than twice.
    pub fn timed(&self) -> Result<Self, RecordingError> {
        let ranks = self.ranks.iter().enumerate().map(|(rank, lines)| timed(rank, lines)).collect::<Result<_, _>>()?;
        Ok(Self { ranks, ..self.clone() })
    }
}

fn timed(rank: usize, lines: &[Line]) -> Result<Vec<Line>, RecordingError> {
    let reads_clock = |line: &Line| line.call().is_some_and(|call| call.name == CLOCK);
    let (first, last) = (lines.iter().position(reads_clock), lines.iter().rposition(reads_clock));
    let (Some(first), Some(last)) = (first, last) else { return fail_untimed(rank, 0) };
    if first == last {
        return fail_untimed(rank, 1);
    }
    // Communicators keep their numbers, which later calls use.
    let kept = |(place, line): (usize, &Line)| match line {
        Line::Communicator(_) => (place <= last).then(|| line.clone()),
        Line::Call(_) => (first < place && place <= last).then(|| line.clone()),
    };
    Ok(lines.iter().enumerate().filter_map(kept).collect())
}

fn fail_untimed<T>(rank: usize, reads: u32) -> Result<T, RecordingError> {
    fail(
        format!("rank {rank} calls {CLOCK} {}, so it times no part", if reads == 0 { "never" } else { "once" }),
        "leave out --timed, or record a program whose ranks all read the clock of MPI before and after the part",
    )
}
