//! `softband model`: a fabric under a workload, without programs.

mod choice;
mod files;
mod hot;
mod progress;
mod results;
mod sweep;
mod table;
mod text;
mod trace;

use crate::why::{Evidence, Whole};
use crate::{home, output, why};
use anyhow::Context;
use clap::{ArgMatches, Args};
use softband_fabric::{HcaCounters, QueuePairRepeats};
use softband_parallel::ParallelRunner;
use softband_spec::{FabricSpec, SubnetManager};
use softband_workload::{RunError, Schedule};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct ModelArguments {
    /// Fabric file, or name of an installed fabric
    fabric: PathBuf,
    /// permutation, shift, all-to-all, incast, uniform-random, ring-allreduce, tree-allreduce, broadcast, stream; or a file: WORKLOAD.toml with
    /// the options below as keys, or a GOAL trace
    workload: String,
    /// Bytes of each message, or of each rank's vector in a collective: 65536, 64KiB, 1MiB
    #[arg(long, value_parser = softband_workload::parse_bytes)]
    bytes: Option<u64>,
    /// Messages of each flow, or of each sender in uniform-random
    #[arg(long, value_name = "N")]
    messages: Option<u32>,
    /// Outstanding messages of each flow
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// Target host of an incast, or first host of a broadcast or tree
    #[arg(long, value_name = "HOST")]
    root: Option<String>,
    /// Hosts that send in an incast (default: all others)
    #[arg(long, value_name = "N")]
    senders: Option<u32>,
    /// Hosts from the sender to the receiver of a shift (default: half of the hosts)
    #[arg(long, value_name = "N")]
    distance: Option<u32>,
    /// Sender of a stream (default: the first host)
    #[arg(long, value_name = "HOST")]
    from: Option<String>,
    /// Receiver of a stream (default: the second host)
    #[arg(long, value_name = "HOST")]
    to: Option<String>,
    /// Verb: RC sends or RDMA writes
    #[arg(long, value_enum)]
    operation: Option<choice::OperationName>,
    /// MTU of all connections: 256, 512, 1024, 2048 or 4096 (default: the path MTU of each)
    #[arg(long, value_name = "BYTES", value_parser = choice::parse_mtu_word)]
    mtu: Option<u32>,
    /// Service level of all connections: 0 to 15 (default: 0)
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(..=15))]
    service_level: Option<u32>,
    /// Number of repetitions of the workload. Each rank continues when it has done its part
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Ranks on each host, in the order of the fabric file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks_per_host: Option<u32>,
    /// Seed of all random numbers (default: the fabric file's)
    #[arg(long)]
    seed: Option<u64>,
    /// Threads that execute partitions of the fabric (default: one per processor, with at least 256 hosts each). The results do
    /// not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Folder for model.json, flows and ports as CSV and Parquet, and hot.svg (default: results/model-WORKLOAD)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run cables beyond their length limit
    #[arg(long)]
    allow_out_of_spec: bool,
    /// Check the fabric, the workload and its options without a run
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    packets: crate::run::PacketArguments,
    #[command(flatten)]
    campaign: sweep::SweepArguments,
}

/// The workload to run, with its name.
pub(crate) struct Chosen {
    name: String,
    schedule: Schedule,
    seed: u64,
    ranks_per_host: u32,
    /// Prefix of errors about the MTU: its place in the workload file, if the file sets it.
    mtu_place: String,
    trace: Option<trace::Trace>,
}

/// Exit statuses of a run that did not complete: of Ctrl-C in a shell, and of every error.
const INTERRUPTED: i32 = 130;
const FAILED: i32 = 2;

/// Runs the command. `matches` contains the options as typed.
pub(crate) fn run(arguments: &ModelArguments, matches: Option<&ArgMatches>) -> anyhow::Result<i32> {
    if let Some(matches) = matches.filter(|_| arguments.campaign.is_asked_for()) {
        return sweep::hand_over(matches);
    }
    let (path, loaded) = home::load_fabric(&arguments.fabric, arguments.allow_out_of_spec)?;
    anyhow::ensure!(
        loaded.spec.subnet.manager == SubnetManager::Builtin,
        "{}: a workload begins at time zero, and needs a configured subnet\n  help: leave `manager = \"{}\"` out, or use `softband run`",
        path.display(),
        loaded.spec.subnet.manager.name()
    );
    let chosen = choice::choose(arguments, (&path, &loaded))?;
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from("results").join(format!("model-{}", chosen.name)));
    let begun = Instant::now();
    let threads = arguments.threads.unwrap_or_else(|| threads_for(loaded.spec.hosts.len()));
    let schedule = Arc::new(chosen.schedule);
    let made = ParallelRunner::new(&loaded.spec, chosen.seed, &schedule, (chosen.ranks_per_host, threads));
    let mut runner = made.map_err(|error| match error {
        RunError::NoPort { .. } => anyhow::anyhow!("{}: {error}", path.display()),
        RunError::PathMtu { .. } => anyhow::anyhow!("{}{error}", chosen.mtu_place),
        other => other.into(),
    })?;
    if arguments.packets.packet_by_packet {
        runner.go_packet_by_packet();
    }
    if arguments.check {
        return Ok(0);
    }
    files::check_folder(&out).with_context(|| format!("cannot write to the results folder {}", out.display()))?;
    let mut ended_by = drive(&mut runner, begun).err();
    if let (Some(error), Some(trace)) = (&mut ended_by, &chosen.trace) {
        trace.add_places(error);
    }
    for warning in runner.warnings() {
        eprintln!("softband: {warning}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    let results = results::Results::new(&path, (chosen.name, chosen.seed), &loaded.spec, &runner, ended_by.as_ref());
    let threads = runner.threads();
    let (hcas, repeats) = (runner.hca_counters(), runner.repeats());
    // A million connections take more memory than their results.
    drop(runner);
    let out = if ended_by.is_some() { files::place_of_unfinished(&out) } else { out };
    let left = files::leave(&results, &out);
    let Some(error) = ended_by else {
        let report = text::report(&results, (seconds, threads), peak_memory_bytes());
        let report = report + &text::bottlenecks(&why::bottlenecks(&evidence(&results, &loaded.spec, (hcas, repeats))));
        let place = left.as_ref().map_or_else(files::Lack::in_short, |()| out.display().to_string());
        // The report comes first, so that a user has the results of a long run even if the files fail.
        let said = output::say(format_args!("{report}  results           {place}\n"));
        left.map_err(|lack| cannot_leave(&out, &lack))?;
        return said.map(|()| 0);
    };
    let so_far = text::time(results.measured.completion.as_secs_f64());
    eprintln!("softband: the workload did not end, after {so_far} of simulated time: {error}");
    left.map_err(|lack| cannot_leave(&out, &lack))?;
    eprintln!("softband: its results until then are in {}", out.display());
    Ok(if error == RunError::Interrupted { INTERRUPTED } else { FAILED })
}

/// Returns the counters at the end of a run. Ranks share no processor, and the run does not count
/// the times of their threads.
fn evidence(results: &results::Results, spec: &FabricSpec, (hcas, repeats): (Vec<HcaCounters>, Vec<QueuePairRepeats>)) -> Evidence {
    let ports = results.ports.iter().map(|port| port.counters.clone()).collect();
    let whole_picos = results.measured.completion.as_picos();
    Evidence { ports, hcas, repeats, whole_picos, whole: Whole::Run, ..Evidence::of_fabric(spec) }
}

fn cannot_leave(out: &Path, lack: &files::Lack) -> anyhow::Error {
    anyhow::anyhow!("cannot write the results to {}: {lack}", out.display())
}

/// Returns one thread per processor, but fewer if each thread would have too few hosts to be worth
/// its waits.
fn threads_for(hosts: usize) -> u8 {
    const THREADS_MAX: usize = 16;
    const HOSTS_EACH: usize = 256;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (hosts / HOSTS_EACH).clamp(1, cores.min(THREADS_MAX)) as u8
}

fn drive(runner: &mut ParallelRunner, begun: Instant) -> Result<(), RunError> {
    let mut shown = progress::Shown::new(begun);
    let interrupt = crate::signals::interrupt_on_signals();
    let outcome = runner.run(&mut |progress| {
        shown.update(|seconds| text::progress(&progress, seconds));
        if interrupt.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    shown.clear();
    outcome
}

/// Returns the process's peak memory from the kernel (`VmHWM`), in bytes.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
