//! The events of a job that its launcher learns, each as a line of text.

use std::fmt;

/// A change in the life of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The rank called `MPI_Init`.
    Init { rank: usize },
    /// The rank called `MPI_Finalize`.
    Finalize { rank: usize },
    /// The rank called `MPI_Abort`.
    Abort { rank: usize, code: i32 },
    /// The rank's connection ended without `MPI_Finalize`.
    Lost { rank: usize },
    /// The rank asked for more processes, which the job does not start.
    Spawn { rank: usize },
    /// The rank sent something that is not PMI-1.
    Unreadable { rank: usize },
}

impl fmt::Display for Event {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init { rank } => write!(to, "init {rank}"),
            Self::Finalize { rank } => write!(to, "finalize {rank}"),
            Self::Abort { rank, code } => write!(to, "abort {rank} {code}"),
            Self::Lost { rank } => write!(to, "lost {rank}"),
            Self::Spawn { rank } => write!(to, "spawn {rank}"),
            Self::Unreadable { rank } => write!(to, "unreadable {rank}"),
        }
    }
}

impl Event {
    /// Reads the text of an event.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (name, rank) = (words.next()?, words.next()?.parse().ok()?);
        let code = words.next().and_then(|code| code.parse().ok());
        Some(match name {
            "init" => Self::Init { rank },
            "finalize" => Self::Finalize { rank },
            "abort" => Self::Abort { rank, code: code? },
            "lost" => Self::Lost { rank },
            "spawn" => Self::Spawn { rank },
            "unreadable" => Self::Unreadable { rank },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_back() {
        let rank = 7;
        let all = [
            Event::Init { rank },
            Event::Finalize { rank },
            Event::Abort { rank, code: -3 },
            Event::Lost { rank },
            Event::Spawn { rank },
            Event::Unreadable { rank },
        ];
        for event in all {
            assert_eq!(Event::parse(&event.to_string()), Some(event));
        }
        for text in ["", "init", "init x", "abort 1", "fly 1"] {
            assert_eq!(Event::parse(text), None, "{text}");
        }
    }
}
