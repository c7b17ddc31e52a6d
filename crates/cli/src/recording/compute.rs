//! `--compute`: how computation takes time in simulated time.

use super::folder::{Folder, REPLAY};
use super::layer;
use super::rates::{RateArguments, measure};
use anyhow::{Context, bail};
use clap::Args;
use std::path::PathBuf;

/// Variable by which a process learns how its computation takes time (`ipc::environment::COMPUTE`).
const COMPUTE: &str = "SOFTBAND_COMPUTE";
const FACTOR_MAX: f64 = 1e6;
/// Compiler of the program's MPI, unless the user names another.
pub(crate) const DEFAULT_COMPILER: &str = "mpicc";

/// Way in which computation takes time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Free,
    Measured,
    Recorded(PathBuf),
}

/// Options of each command that starts programs in simulated time.
#[derive(Args, Clone, Debug)]
pub(crate) struct ComputeArguments {
    /// Time of computation in simulated time: free, measured (results vary), or recorded=FILE of `softband record`
    #[arg(long, value_name = "WAY", default_value = "free", value_parser = way)]
    pub(crate) compute: Way,
    /// Factor from this or the recording machine's time of computation to the modelled host's
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) compute_factor: f64,
    #[command(flatten)]
    rates: RateArguments,
    /// Compiler of the program's MPI, for recordings
    #[arg(long, value_name = "COMMAND", env = "MPICC", default_value = DEFAULT_COMPILER)]
    pub(crate) mpicc: String,
}

fn way(text: &str) -> Result<Way, String> {
    match text {
        "free" => Ok(Way::Free),
        "measured" => Ok(Way::Measured),
        _ => match text.strip_prefix("recorded=") {
            Some(file) if !file.is_empty() => Ok(Way::Recorded(file.into())),
            _ => Err("write free, measured or recorded=FILE".into()),
        },
    }
}

pub(super) fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.0..=FACTOR_MAX).contains(&factor) => Ok(factor),
        _ => Err(format!("write a number from 0 to {FACTOR_MAX}, such as 0.8")),
    }
}

/// What programs of a run need for the time of their computation. It must outlive the run.
pub(crate) struct Compute {
    environment: Vec<(String, String)>,
    _times: Option<Folder>,
}

impl Compute {
    /// Returns the variables of each program.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}

impl ComputeArguments {
    /// Sets the number of processes that share the memory of a host, unless the user gave it.
    pub(crate) fn share_memory(&mut self, ranks: u32) {
        self.rates.share(ranks);
    }

    /// Prepares the run, and prints a line if its results may vary.
    pub(crate) fn prepare(&self, has_simulated_time: bool) -> anyhow::Result<Compute> {
        if self.compute != Way::Free && !has_simulated_time {
            bail!(
                "--compute has no effect with --pace wall, where computation takes the machine's time\n  help: leave it out, or leave out --pace wall"
            );
        }
        if self.compute == Way::Free && !self.rates.is_empty() {
            bail!("--compute-kind has no effect, because computation takes no time\n  help: add --compute recorded=FILE or --compute measured");
        }
        let way = |name: &str, factor: f64| (COMPUTE.to_owned(), format!("{name}:{}", (self.compute_factor * factor * 1e6).round() as u64));
        match &self.compute {
            Way::Free => Ok(Compute { environment: Vec::new(), _times: None }),
            Way::Measured => {
                let factor = if self.rates.is_empty() { 1.0 } else { self.rates.factor(&measure()?)? };
                eprintln!("softband: --compute measured takes the time of this machine's processor, so results vary from run to run");
                Ok(Compute { environment: vec![way("measured", factor)], _times: None })
            }
            Way::Recorded(file) => {
                let recording = super::read(file)?;
                let factor = self.rates.factor(&recording.rates).with_context(|| file.display().to_string())?;
                let (folder, layer) = (Folder::new()?, layer::build(&self.mpicc)?);
                for rank in 0..recording.ranks.len() {
                    let path = folder.path().join(format!("rank-{rank}.times"));
                    std::fs::write(&path, recording.times(rank, 1.0)).map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?;
                }
                let environment = vec![layer::preload(&layer), (REPLAY.into(), folder.path().display().to_string()), way("recorded", factor)];
                Ok(Compute { environment, _times: Some(folder) })
            }
        }
    }
}
