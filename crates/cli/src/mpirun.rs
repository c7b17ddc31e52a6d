//! `softband mpirun`: the ranks of an MPI job as programs of a run.

mod place;
mod pmix;
mod recognize;
mod record;
pub(crate) mod server;
mod stacks;
mod watch;

use crate::capture::CaptureArguments;
use crate::output::{Copy, Stream};
use crate::run::PaceName;
use crate::run_folder::RunFolder;
use crate::scratch::Scratch;
use crate::{counter_table, home, programs, signals, why};
use anyhow::{Context, bail};
use clap::Args;
use place::Wish;
use recognize::Found;
use softband_catalog::LoadedFabric;
use softband_engine::{Engine, Failure, Interrupt, Limits, Options, Pace, Program, RunReport};
use stacks::{Rank, Stack};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use watch::{Events, Watch};

/// TCP port of the server of the ranks, on the host of rank 0.
const PORT: u16 = 28_111;
/// Name of the server in messages.
const SERVER: &str = "server of the ranks";
/// Exit status of a job that a limit of time ends, as of `run`.
const STATUS_TIMED_OUT: i32 = 124;

#[derive(Args)]
pub(crate) struct MpirunArguments {
    /// Number of ranks (default: one on each host, or one in each slot)
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    count: Option<u32>,
    /// Hosts of the ranks, in order, each with its number of slots (a:2,b:2; default: ranks share the hosts evenly)
    #[arg(long, value_delimiter = ',', value_name = "HOST[:SLOTS]", conflicts_with = "ppn")]
    hosts: Vec<String>,
    /// Ranks of each host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ppn: Option<u32>,
    /// MPI library of the program (default: recognized from the libraries that it loads)
    #[arg(long, value_enum)]
    mpi: Option<Stack>,
    /// Clock of the ranks
    #[arg(long, value_enum, default_value_t = PaceName::Virtual)]
    pace: PaceName,
    #[command(flatten)]
    network: crate::run::NetworkArguments,
    /// Processors that a run in simulated time uses (default: all for recorded computation, otherwise 2). Results do not depend on it
    #[arg(long, value_name = "N", env = "SOFTBAND_PROCESSORS", value_parser = clap::value_parser!(u32).range(1..=2))]
    processors: Option<u32>,
    /// Leave the output of ranks, resolved fabric, durations and counters in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "record")]
    out: Option<PathBuf>,
    /// Seed of all random numbers, in simulated time (default: the fabric file's)
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    packets: crate::run::PacketArguments,
    #[command(flatten)]
    limits: crate::limits::LimitArguments,
    #[command(flatten)]
    compute: crate::recording::compute::ComputeArguments,
    #[command(flatten)]
    record: record::RecordArguments,
    #[command(flatten)]
    capture: CaptureArguments,
    /// Print all counters of ports, HCAs, queue pairs and threads on standard error at the end, in simulated time
    #[arg(long)]
    counters: bool,
    /// Print the MPI library, the host of each rank and the variables that the library gets
    #[arg(short, long)]
    verbose: bool,
    /// Fabric file (ends with .toml) or fabric of `softband fabric list`; then the program with its arguments. Without a fabric, the
    /// hosts a, b, ... have current HCAs on one switch
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["[FABRIC] PROGRAM", "ARGUMENTS"])]
    words: Vec<String>,
}

/// A job that is ready to start.
struct Plan<'a> {
    arguments: &'a MpirunArguments,
    fabric: PathBuf,
    loaded: LoadedFabric,
    /// Host of each rank.
    hosts: Vec<usize>,
    mpi: Found,
    program: Vec<String>,
}

impl Plan<'_> {
    fn most_ranks_of_a_host(&self) -> u32 {
        let on = |host: &usize| self.hosts.iter().filter(|other| *other == host).count();
        self.hosts.iter().map(on).max().map_or(1, |ranks| ranks as u32)
    }
}

pub(crate) fn run(arguments: &MpirunArguments) -> anyhow::Result<i32> {
    let interrupt = signals::interrupt_on_signals();
    if arguments.counters {
        crate::run::check_pace_of_counters(arguments.pace)?;
    }
    if arguments.seed.is_some() {
        crate::run::check_pace_of_seed(arguments.pace)?;
    }
    let limits = arguments.limits.limits(arguments.pace == PaceName::Virtual)?;
    arguments.network.network(arguments.pace.into())?;
    let plan = plan(arguments)?;
    let mut compute = arguments.compute.clone();
    compute.mpicc = plan.mpi.stack.compiler(&compute.mpicc, plan.mpi.compiler.as_deref());
    compute.share_memory(plan.most_ranks_of_a_host());
    let prepared = compute.prepare(arguments.pace == PaceName::Virtual)?;
    let play = |environment: &[(String, String)]| plan.play(limits, environment, &interrupt);
    let status = match &arguments.record.record {
        Some(file) => arguments.record.record(file, &compute.mpicc, arguments.pace == PaceName::Virtual, play)?,
        None => play(prepared.environment())?,
    };
    if let Some(loss) = crate::output::take_loss() {
        bail!(loss);
    }
    Ok(status)
}

fn plan(arguments: &MpirunArguments) -> anyhow::Result<Plan<'_>> {
    let (fabric, program) = split_words(&arguments.words)?;
    if let Some((why, _)) = programs::why_not_to_run(&program[0]) {
        bail!("{why}");
    }
    let mpi = match arguments.mpi {
        Some(stack) => recognize::named(stack, &program[0])?,
        None => recognize::recognize(&program[0])?,
    };
    let wish = Wish {
        ranks: arguments.count.map(|count| count as usize),
        hosts: arguments.hosts.clone(),
        ranks_per_host: arguments.ppn.map(|ranks| ranks as usize),
    };
    let (fabric, mut loaded) = match &fabric {
        Some(fabric) => home::load_fabric(fabric, false)?,
        None => home::load_default(wish.hosts_needed(home::room_of_default()?))?,
    };
    loaded.seed = arguments.seed.unwrap_or(loaded.seed);
    let names: Vec<String> = loaded.spec.hosts.iter().map(|host| host.name.clone()).collect();
    let hosts = wish.place(&names)?;
    let plan = Plan { arguments, fabric, loaded, hosts, mpi, program };
    if arguments.verbose {
        plan.describe(arguments.pace.into());
    }
    Ok(plan)
}

/// Separates the fabric from the program with its arguments.
fn split_words(words: &[String]) -> anyhow::Result<(Option<PathBuf>, Vec<String>)> {
    let (fabric, program) = match words.iter().position(|word| word == "--") {
        Some(0) => (None, &words[1..]),
        Some(1) => (Some(PathBuf::from(&words[0])), &words[2..]),
        _ if words.len() > 1 && is_fabric(&words[0]) => (Some(PathBuf::from(&words[0])), &words[1..]),
        _ => (None, words),
    };
    match program.first() {
        Some(first) if fabric.is_none() && program.len() == 1 && first.ends_with(".toml") => {
            bail!("no program is named after the fabric {first}\n  help: softband mpirun -n 4 {first} ./program")
        }
        Some(_) => Ok((fabric, program.to_vec())),
        None => bail!("no program is named\n  help: softband mpirun -n 4 ./program"),
    }
}

/// Returns whether a word names a fabric: a file of that kind, or a fabric of the installation that
/// is not a program as well.
fn is_fabric(word: &str) -> bool {
    word.ends_with(".toml") || programs::why_not_to_run(word).is_some() && home::fabric_path(Path::new(word)).is_ok()
}

impl Plan<'_> {
    /// Runs the job with these variables in each rank. Returns its exit status.
    fn play(&self, limits: Limits, environment: &[(String, String)], interrupt: &Interrupt) -> anyhow::Result<i32> {
        let (arguments, pace) = (self.arguments, self.arguments.pace);
        let capture = arguments.capture.prepare(&self.loaded.spec, pace.into())?;
        let libraries = home::libraries()?;
        let watch = Watch::new(self.hosts.len(), interrupt.clone());
        let scratch = Scratch::make("mpirun")?;
        let folder = arguments.out.as_deref().map(RunFolder::make).transpose()?;
        let mut programs = self.programs((pace, folder.as_ref()), &libraries, scratch.path(), &watch)?;
        // The first program is the server.
        programs.iter_mut().skip(1).for_each(|rank| rank.environment.extend_from_slice(environment));
        let epoch_seconds = self.loaded.start_date.unix_seconds();
        let network = arguments.network.network(pace.into())?;
        let options = Options { by_preload: true, processors: arguments.processors, pace: pace.into(), network, epoch_seconds, limits };
        let mut engine = Engine::new(&self.loaded.spec, self.loaded.seed, &libraries, options, interrupt.clone())?;
        if arguments.packets.packet_by_packet {
            engine.go_packet_by_packet();
        }
        let at_end = watch.clone();
        engine.watch_ends(Box::new(move |program, status| at_end.ended(program, status)));
        if let Some(capture) = capture {
            capture.start(&mut engine, options.pace, epoch_seconds);
        }
        let report = engine.run(programs);
        engine.end_capture();
        drop(scratch);
        if arguments.verbose && report.announced_computations > 0 {
            eprintln!("softband: ranks computed {} recorded stretches beside the engine", report.announced_computations);
        }
        let (status, report) = self.conclude(report, &watch);
        let evidence = crate::run::evidence(&self.loaded, &engine, pace);
        if arguments.counters {
            eprint!("{}", counter_table::text(&evidence));
        }
        if let Some(folder) = folder {
            folder.leave((&self.fabric, pace), &self.loaded, status, (&report, &evidence, &why::bottlenecks(&evidence)))?;
        }
        if status == 0 {
            // The watch has ended the server by the interrupt.
            interrupt.lower();
        }
        Ok(status)
    }

    /// Returns whether a host has several ranks.
    fn shares_host(&self) -> bool {
        self.hosts.iter().collect::<BTreeSet<_>>().len() < self.hosts.len()
    }

    fn name_of_host(&self, rank: usize) -> &str {
        &self.loaded.spec.hosts[self.hosts[rank]].name
    }

    fn name_of_rank(&self, rank: usize) -> String {
        format!("rank {rank} on {} ('{}')", self.name_of_host(rank), self.program.join(" "))
    }

    fn describe(&self, pace: Pace) {
        eprintln!("softband: {}: {}", self.mpi.stack, self.mpi.reason);
        for rank in 0..self.hosts.len() {
            eprintln!("softband: rank {rank} runs on {}", self.name_of_host(rank));
        }
        for (name, value) in self.mpi.stack.settings(pace, self.shares_host()) {
            match std::env::var(name) {
                Ok(own) => eprintln!("softband: {name}={own} (from your environment, instead of {value})"),
                Err(_) => eprintln!("softband: {name}={value}"),
            }
        }
    }

    /// Returns the server and the ranks.
    fn programs(
        &self,
        (pace, folder): (PaceName, Option<&RunFolder>),
        libraries: &Path,
        scratch: &Path,
        watch: &Watch,
    ) -> anyhow::Result<Vec<Program>> {
        let binary = std::env::current_exe().context("cannot find the path of this binary")?.display().to_string();
        let library = libraries.join("libsoftband_pmi.so");
        if !library.is_file() {
            bail!("no {}\n  help: run `make build`", library.display());
        }
        let server = Program {
            host: self.hosts[0],
            command: SERVER.into(),
            arguments: [binary.clone()].into_iter().chain(self.words_of_server(scratch)).collect(),
            environment: self.settings(pace.into()),
            stdout: Some(Box::new(Events { watch: watch.clone(), line: Vec::new() })),
            stderr: Some(copy(Stream::Error, format!("softband: {SERVER}: "), None)),
        };
        let address = format!("{}:{PORT}", self.name_of_host(0));
        let mut programs = vec![server];
        for rank in 0..self.hosts.len() {
            let output = |ending| folder.map(|folder| folder.file(&format!("rank-{rank}.{ending}"))).transpose();
            let mut program = self.rank(rank, pace, &binary, (&address, &library.display().to_string()), scratch);
            program.stdout = Some(copy(Stream::Out, format!("[{rank}] "), output("out")?));
            program.stderr = Some(copy(Stream::Error, format!("[{rank}] "), output("err")?));
            programs.push(program);
        }
        Ok(programs)
    }

    /// Returns the words that start the server of the ranks, after the binary's name.
    fn words_of_server(&self, scratch: &Path) -> Vec<String> {
        let port = PORT.to_string();
        match &self.mpi.pmix {
            Some(library) if self.mpi.stack == Stack::Openmpi5 => {
                let hosts: Vec<&str> = (0..self.hosts.len()).map(|rank| self.name_of_host(rank)).collect();
                vec![pmix::SERVER_WORD.into(), port, library.display().to_string(), scratch.display().to_string(), hosts.join(",")]
            }
            _ => {
                let hosts: Vec<String> = self.hosts.iter().map(usize::to_string).collect();
                vec![server::SERVER_WORD.into(), port, hosts.join(",")]
            }
        }
    }

    /// Returns the words before a rank's program.
    fn words_before(&self, rank: usize, pace: Pace, binary: &str, server: &str, scratch: &Path) -> Vec<String> {
        let file = pmix::file_of(scratch, rank).display().to_string();
        match self.mpi.stack {
            Stack::Openmpi5 => [binary, pmix::RANK_WORD, server, &file].map(String::from).to_vec(),
            // In simulated time a connection waits for its listener. At the machine's clock it fails.
            _ if pace == Pace::Wall => [binary, server::RANK_WORD, server].map(String::from).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns the library's variables, without those that the user has.
    fn settings(&self, pace: Pace) -> Vec<(String, String)> {
        let settings = self.mpi.stack.settings(pace, self.shares_host()).into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn rank(&self, rank: usize, pace: PaceName, binary: &str, (address, library): (&str, &str), scratch: &Path) -> Program {
        let host = self.hosts[rank];
        let local = self.hosts[..rank].iter().filter(|other| **other == host).count();
        let locals = self.hosts.iter().filter(|other| **other == host).count();
        let place = Rank { rank, size: self.hosts.len(), local: (local, locals) };
        let hosts: Vec<&str> = (0..self.hosts.len()).map(|rank| self.name_of_host(rank)).collect();
        let mut environment = programs::environment(&hosts, rank);
        environment.push(("SOFTBAND_LOCAL_RANK".into(), local.to_string()));
        environment.extend(self.settings(pace.into()));
        environment.extend(self.mpi.stack.identity(&place, address, library, scratch));
        let before = self.words_before(rank, pace.into(), binary, address, scratch);
        Program {
            host,
            command: format!("rank {rank}: {}", self.program.join(" ")),
            arguments: before.into_iter().chain(self.program.iter().cloned()).collect(),
            environment,
            stdout: None,
            stderr: None,
        }
    }

    /// Prints the reason of the job's end, if it has one. Returns the exit status, and the report
    /// without the launcher's own interrupt.
    fn conclude(&self, mut report: RunReport, watch: &Watch) -> (i32, RunReport) {
        let (verdict, status, spawners) = watch.outcome();
        for rank in spawners {
            eprintln!("softband: {} asked for more processes (MPI_Comm_spawn), which Softband does not start", self.name_of_rank(rank));
        }
        if verdict.is_some() {
            // The verdict, not a user, interrupted the run.
            report.failure = report.failure.filter(|failure| *failure != Failure::Interrupted);
        }
        // The server has no output, and its end means nothing.
        report.programs = report.programs.split_off(report.programs.len().min(1));
        if let Some(Failure::Stuck { waiting } | Failure::TimedOut { waiting, .. }) = &mut report.failure {
            waiting.retain(|line| !line.contains(SERVER));
        }
        crate::run::tell(&report);
        if let Some(text) = verdict.and_then(|verdict| verdict.text(|rank| self.name_of_rank(rank))) {
            eprintln!("{}", crate::output::error_text(&text));
        }
        let status = match (verdict.and_then(watch::Verdict::status), &report.failure) {
            (Some(status), _) => status,
            (None, None) => status,
            (None, Some(Failure::Interrupted)) => 130,
            (None, Some(Failure::TimedOut { .. })) => STATUS_TIMED_OUT,
            (None, Some(_)) => status.max(1),
        };
        (status, report)
    }
}

fn copy(stream: Stream, prefix: String, file: Option<File>) -> softband_engine::ProgramOutput {
    Box::new(Copy { stream, prefix, file, line: Vec::new() })
}
