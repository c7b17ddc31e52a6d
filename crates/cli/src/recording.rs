//! `softband record`: recordings of MPI programs, and traces of them.

pub(crate) mod compute;
pub(crate) mod folder;
pub(crate) mod layer;

use crate::files::Staged;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use folder::{Folder, read_run};
use softband_workload::recording::trace::{Options, goal};
use softband_workload::recording::{Recording, merge};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Subcommand)]
pub(crate) enum RecordCommand {
    /// Record an MPI program that COMMAND starts natively: each rank's calls, and the processor time between them
    Run(RunArguments),
    /// Merge folders of records, one for each repetition, to the median of each stretch
    Merge(MergeArguments),
    /// Write a recording as a GOAL trace, for `softband model`
    Goal(GoalArguments),
    /// Compile the recording layer for an MPI, and print its path
    Layer(MpiArguments),
}

#[derive(Args)]
pub(crate) struct MpiArguments {
    /// Compiler of the program's MPI
    #[arg(long, value_name = "COMMAND", env = "MPICC", default_value = "mpicc")]
    pub(crate) mpicc: String,
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// Recording to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Number of runs. A stretch of computation gets the median of its times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    mpi: MpiArguments,
    /// Command that starts the program, such as mpiexec -n 8 ./program
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct MergeArguments {
    /// Recording to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Folder with the records of all ranks of a run (SOFTBAND_MPI_RECORD)
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct GoalArguments {
    /// Recording
    recording: PathBuf,
    /// Trace to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Largest message that its sender does not wait for
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = softband_workload::parse_bytes)]
    eager: u64,
    /// Factor from the recording machine's time of computation to the modelled host's; 0 leaves computation out
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = compute::factor)]
    compute_factor: f64,
}

pub(crate) fn run(command: &RecordCommand) -> anyhow::Result<i32> {
    match command {
        RecordCommand::Run(arguments) => record(arguments),
        RecordCommand::Merge(arguments) => {
            let runs = arguments.folders.iter().map(|folder| read_run(folder)).collect::<anyhow::Result<Vec<_>>>()?;
            leave(&arguments.out, &merge(&runs)?)
        }
        RecordCommand::Goal(arguments) => {
            let recording = read(&arguments.recording)?;
            let options = Options { eager_bytes: arguments.eager, factor: arguments.compute_factor };
            let text = goal(&recording, &options).with_context(|| arguments.recording.display().to_string())?;
            write(&arguments.out, &text)?;
            Ok(0)
        }
        RecordCommand::Layer(arguments) => {
            let path = layer::build(&arguments.mpicc)?;
            crate::output::say(format!("{}\n", path.display()))?;
            Ok(0)
        }
    }
}

/// Runs the command as often as asked, and merges the records.
fn record(arguments: &RunArguments) -> anyhow::Result<i32> {
    let layer = layer::build(&arguments.mpi.mpicc)?;
    let mut runs = Vec::new();
    for _ in 0..arguments.repeat {
        let folder = Folder::new()?;
        let mut command = Command::new(&arguments.command[0]);
        command.args(&arguments.command[1..]).envs(folder.record_environment(&layer));
        let status = command
            .status()
            .map_err(|error| anyhow::anyhow!("cannot start {}: {error}\n  help: name the command that starts the program", arguments.command[0]))?;
        if !status.success() {
            bail!("the program failed ({status}), so there is no recording\n  help: run {} alone first", arguments.command.join(" "));
        }
        runs.push(folder.read()?);
    }
    leave(&arguments.out, &merge(&runs)?)
}

/// Reads a recording.
pub(crate) fn read(path: &Path) -> anyhow::Result<Recording> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        anyhow::anyhow!("cannot read the recording {}: {error}\n  help: `softband record run --out FILE` writes one", path.display())
    })?;
    Ok(Recording::parse(&path.display().to_string(), &text)?)
}

/// Writes a recording, and prints its size.
pub(crate) fn leave(path: &Path, recording: &Recording) -> anyhow::Result<i32> {
    write(path, &recording.text())?;
    let calls: usize = (0..recording.ranks.len()).map(|rank| recording.calls(rank)).sum();
    let nanos: u64 = (0..recording.ranks.len()).map(|rank| recording.nanos(rank)).sum();
    eprintln!(
        "softband: {}: {} ranks of {}, {calls} calls, {:.6} s of computation, {} repetition{}",
        path.display(),
        recording.ranks.len(),
        recording.library,
        nanos as f64 / 1e9,
        recording.repetitions,
        if recording.repetitions == 1 { "" } else { "s" }
    );
    Ok(0)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = Staged::write(path, |sink| sink.write_all(text.as_bytes())).and_then(Staged::settle);
    written.map_err(|error| anyhow::anyhow!("cannot write {}: {error}\n  help: name another file with --out", path.display()))
}
