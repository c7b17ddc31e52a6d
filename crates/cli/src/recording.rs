//! `softband record`: recordings of MPI programs, and traces of them.

mod compressed;
pub(crate) mod compute;
pub(crate) mod folder;
pub(crate) mod layer;
pub(crate) mod rates;

use crate::files::Staged;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use folder::{Folder, read_run};
use softband_workload::Protocol;
use softband_workload::recording::multiply::{Rule, Size, multiply};
use softband_workload::recording::trace::{Options, goal};
use softband_workload::recording::{RankRecord, Recording, merge};
use std::collections::BTreeMap;
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
    /// Protocol that carries the messages: that of UCX, which MPICH and Open MPI use, or the messages of a rendezvous in the trace, for
    /// other simulators (default: that of the recorded library)
    #[arg(long, value_enum)]
    protocol: Option<ProtocolName>,
    /// Largest message that is sent before its receiver asks for it (default: by the rate of the port, as UCX computes it; 16KiB with
    /// --protocol messages)
    #[arg(long, value_name = "BYTES", value_parser = softband_workload::parse_bytes)]
    eager: Option<u64>,
    /// Largest message that the library copies, so that its send ends at once (default: by the rate of the port, as UCX computes it)
    #[arg(long, value_name = "BYTES", value_parser = softband_workload::parse_bytes)]
    copied: Option<u64>,
    /// Ranks of the trace, by --rule: their number, or the lengths of their grid, such as 8x8
    #[arg(long, value_name = "N", requires = "rule", value_parser = Size::parse)]
    ranks: Option<Size>,
    /// Grid of the recorded ranks: open-2d or periodic-3d, with :4x3 behind it for another grid than a balanced one. Each new rank takes
    /// the role of a recorded rank by its position
    #[arg(long, value_name = "RULE", requires = "ranks", value_parser = Rule::parse)]
    rule: Option<Rule>,
    /// Only the part that the program times: from each rank's first call of MPI_Wtime to its last
    #[arg(long)]
    timed: bool,
    /// Factor from the recording machine's time of computation to the modelled host's; 0 leaves computation out
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = compute::factor)]
    compute_factor: f64,
    #[command(flatten)]
    rates: rates::RateArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProtocolName {
    /// Inline data, copies, and a rendezvous by RDMA read, as UCX 1.13 over rc_verbs
    Ucx,
    /// Each message a send of the trace, with announcement and answer before long ones
    Messages,
}

/// Largest eager message with `--protocol messages`. (MVAPICH2 and Open MPI over InfiniBand: 12 to 17
/// KiB.)
const EAGER_BYTES: u64 = 16_384;

impl GoalArguments {
    fn options(&self, recording: &Recording) -> anyhow::Result<Options> {
        let is_over_ucx = ["MPICH", "Open MPI"].iter().any(|name| recording.library.starts_with(name));
        let protocol = match self.protocol.unwrap_or(if is_over_ucx { ProtocolName::Ucx } else { ProtocolName::Messages }) {
            ProtocolName::Messages if self.copied.is_some() => {
                bail!("--copied has no effect with --protocol messages\n  help: leave it out, or use --protocol ucx")
            }
            ProtocolName::Messages => None,
            ProtocolName::Ucx => {
                // The limits of a protocol are the first sizes of the next way.
                let after = |bytes: Option<u64>| bytes.map(|bytes| bytes.min(u64::from(u32::MAX) - 1) as u32 + 1);
                Some(Protocol { direct_bytes: after(self.copied), rendezvous_bytes: after(self.eager), ..Protocol::UCX })
            }
        };
        Ok(Options { protocol, eager_bytes: self.eager.unwrap_or(EAGER_BYTES), factor: self.compute_factor * self.rates.factor(&recording.rates)? })
    }
}

pub(crate) fn run(command: &RecordCommand) -> anyhow::Result<i32> {
    match command {
        RecordCommand::Run(arguments) => record(arguments),
        RecordCommand::Merge(arguments) => {
            let runs = arguments.folders.iter().map(|folder| read_run(folder)).collect::<anyhow::Result<Vec<_>>>()?;
            leave(&arguments.out, &merge(&runs)?)
        }
        RecordCommand::Goal(arguments) => {
            let mut recording = read(&arguments.recording)?;
            if arguments.timed {
                recording = recording.timed().with_context(|| arguments.recording.display().to_string())?;
            }
            if let (Some(size), Some(rule)) = (&arguments.ranks, &arguments.rule) {
                recording = multiply(&recording, rule, size).with_context(|| arguments.recording.display().to_string())?;
            }
            let text = goal(&recording, &arguments.options(&recording)?).with_context(|| arguments.recording.display().to_string())?;
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
    keep(&arguments.out, &runs)
}

/// Writes the recording of runs on this machine, with its rates of computation. Without a compiler the
/// recording has no rates.
pub(crate) fn keep(path: &Path, runs: &[Vec<RankRecord>]) -> anyhow::Result<i32> {
    let mut recording = merge(runs)?;
    recording.rates = rates::measure().unwrap_or_else(|why| {
        let why = why.to_string();
        eprintln!(
            "softband: warning: the recording has no rates of this machine: {}; give them to `record goal` with --compute-rate, or record again \
             with gcc installed",
            why.lines().next().unwrap_or_default()
        );
        BTreeMap::new()
    });
    leave(path, &recording)
}

/// Reads a recording.
pub(crate) fn read(path: &Path) -> anyhow::Result<Recording> {
    let text = compressed::read(path).map_err(|error| {
        anyhow::anyhow!("cannot read the recording {}: {error}\n  help: `softband record run --out FILE` writes one", path.display())
    })?;
    Ok(Recording::parse(&path.display().to_string(), &text)?)
}

/// Writes a recording, and prints its size.
fn leave(path: &Path, recording: &Recording) -> anyhow::Result<i32> {
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
    let content = compressed::content(path, text)?;
    let written = Staged::write(path, |sink| sink.write_all(&content)).and_then(Staged::settle);
    written.map_err(|error| anyhow::anyhow!("cannot write {}: {error}\n  help: name another file with --out", path.display()))
}
