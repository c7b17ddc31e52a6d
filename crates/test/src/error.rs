//! Errors of the fabric. A program that fails is no error of these.

use std::fmt;

/// The reason why a fabric did not do its work.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no command `softband`. Set `SOFTBAND_BIN` to its path, or install Softband.
    NoCommand(String),
    /// Softband refused the fabric, the faults or the programs. The text has its messages.
    Refused(String),
    /// The programs took longer than the time limit. The text names the wait of each thread.
    TimeLimit(String),
    /// A file or a process failed.
    System(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommand(place) => write!(f, "no command softband: {place}\n  help: install Softband, or set SOFTBAND_BIN to its path"),
            Self::Refused(messages) => write!(f, "softband failed:\n{messages}"),
            Self::TimeLimit(messages) => write!(f, "the time limit ended the programs:\n{messages}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}
