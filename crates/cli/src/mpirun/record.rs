//! `--record`: a recording of the job's calls and computation.

use crate::recording::folder::{Folder, STARTS};
use crate::recording::{keep, layer};
use clap::Args;
use std::path::{Path, PathBuf};

/// Options that record a job.
#[derive(Args)]
pub(crate) struct RecordArguments {
    /// Record each rank's calls, and this machine's processor time between them, to a file for --compute recorded and `softband record goal`
    #[arg(long, value_name = "FILE", conflicts_with = "compute")]
    pub(crate) record: Option<PathBuf>,
    /// Number of runs to record. A stretch of computation gets the median of its times
    #[arg(long, value_name = "N", default_value_t = 1, requires = "record", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
}

impl RecordArguments {
    /// Runs the job as often as asked by `play`, which takes variables of the ranks and returns the
    /// exit status. A job in simulated time records when its ranks begin. Writes no recording of a job
    /// that fails. Returns the exit status.
    pub(crate) fn record(
        &self,
        file: &Path,
        mpicc: &str,
        is_simulated: bool,
        play: impl Fn(&[(String, String)]) -> anyhow::Result<i32>,
    ) -> anyhow::Result<i32> {
        let layer = layer::build(mpicc)?;
        let mut runs = Vec::new();
        for _ in 0..self.repeat {
            let folder = Folder::new()?;
            let mut environment = folder.record_environment(&layer);
            if is_simulated {
                environment.push((STARTS.into(), "1".into()));
            }
            let status = play(&environment)?;
            if status != 0 {
                return Ok(status);
            }
            runs.push(folder.read()?);
        }
        keep(file, &runs)
    }
}
