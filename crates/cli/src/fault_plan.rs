//! `--faults`: a plan of faults beside those of the fabric file.

use anyhow::Context;
use clap::Args;
use softband_catalog::LoadedFabric;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct FaultPlanArguments {
    /// File with further [[faults]], in the format of fabric files
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

impl FaultPlanArguments {
    /// Adds the faults of the plan to the fabric.
    pub(crate) fn add_to(&self, loaded: &mut LoadedFabric) -> anyhow::Result<()> {
        let Some(path) = &self.faults else { return Ok(()) };
        let text = std::fs::read_to_string(path).map_err(|error| {
            anyhow::anyhow!("cannot read the fault plan {}: {error}\n  help: --faults names a file with [[faults]]", path.display())
        })?;
        loaded.add_faults(&path.display().to_string(), &text).map_err(crate::output::diagnostic)
    }

    /// Returns the words that repeat these arguments in another working folder.
    pub(crate) fn words(&self) -> anyhow::Result<Vec<PathBuf>> {
        let Some(path) = &self.faults else { return Ok(Vec::new()) };
        let path = std::path::absolute(path).context("cannot find the working folder")?;
        Ok(vec![Path::new("--faults").to_owned(), path])
    }
}
