//! Where the steps of a trace stand, once somebody asks.

use softband_workload::{RunError, goal};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The file of a trace. A run keeps no labels and lines of millions of steps: the file is read again, if it is what it was.
pub(super) struct Trace {
    path: PathBuf,
    hash: u64,
}

impl Trace {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self { path: path.to_path_buf(), hash: hash_of(text) }
    }

    /// Says of steps that wait for ever where they stand: `x.goal:4, l2`.
    pub(super) fn add_places(&self, error: &mut RunError) {
        let RunError::Stuck { waiting } = error else { return };
        let Ok(text) = std::fs::read_to_string(&self.path) else { return };
        if hash_of(&text) != self.hash {
            return;
        }
        if let Ok(places) = goal::places(&text) {
            waiting.at_places(|step| {
                let (line, label) = places.of(step);
                let label = if label.is_empty() { String::new() } else { format!(", {label}") };
                format!("{}:{line}{label}", self.path.display())
            });
        }
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
