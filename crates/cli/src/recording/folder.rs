//! Folders of a run's records or of a replay's times.

use super::layer;
use crate::scratch::Scratch;
use anyhow::{Context, bail};
use softband_workload::recording::RankRecord;
use std::path::Path;

/// Variable that names the folder for the records of a run.
pub(super) const RECORD: &str = "SOFTBAND_MPI_RECORD";
/// Variable with which ranks record the end of `MPI_Init`. Only simulated time gives all ranks a common
/// clock on which it does not follow the load of a machine.
pub(crate) const STARTS: &str = "SOFTBAND_MPI_STARTS";
/// Variable that names the folder with the times of a replay.
pub(super) const REPLAY: &str = "SOFTBAND_MPI_REPLAY";

/// A folder that lives as long as this value.
pub(crate) struct Folder(Scratch);

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(Scratch::make("mpi")?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the variables by which a program leaves its records here.
    pub(crate) fn record_environment(&self, layer: &Path) -> Vec<(String, String)> {
        vec![layer::preload(layer), (RECORD.into(), self.path().display().to_string())]
    }

    pub(crate) fn read(&self) -> anyhow::Result<Vec<RankRecord>> {
        read_run(self.path())
    }
}

/// Reads the records of all ranks of a run.
pub(super) fn read_run(folder: &Path) -> anyhow::Result<Vec<RankRecord>> {
    let mut ranks = Vec::new();
    loop {
        let path = folder.join(format!("rank-{}.jsonl", ranks.len()));
        if !path.is_file() {
            break;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ranks.push(RankRecord::parse(&path.display().to_string(), &text)?);
    }
    let Some(first) = ranks.first() else {
        bail!(
            "{} has no records: the program made no call of the MPI that the layer was compiled for\n  help: name the compiler of the \
             program's MPI with --mpicc, and start the ranks on this machine",
            folder.display()
        );
    };
    if first.ranks as usize != ranks.len() {
        bail!(
            "{} has records of {} of {} ranks\n  help: all ranks must write to the same folder: start them on this machine",
            folder.display(),
            ranks.len(),
            first.ranks
        );
    }
    Ok(ranks)
}
