//! Places of the steps of a trace, on demand.

use softband_workload::{RunError, goal};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The file of a trace. A run does not keep the labels and lines of millions of steps. The command
/// reads the file again if it is unchanged.
pub(super) struct Trace {
    path: PathBuf,
    hash: u64,
}

impl Trace {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self { path: path.to_path_buf(), hash: hash_of(text) }
    }

    /// Adds to each stuck step its place: `x.goal:4, l2`.
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
