//! `softband run`: programs on the hosts of a fabric.

use crate::output::{Copy, Stream};
use crate::programs::{self, Wanted};
use crate::run_folder::RunFolder;
use crate::why::{self, Evidence};
use crate::{counter_table, home, signals};
use anyhow::bail;
use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use softband_catalog::{LoadedFabric, StartDate};
use softband_engine::{Engine, Failure, Options, Pace, Program, RunReport, SocketNetwork};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct RunArguments {
    /// Fabric file, or name of an installed fabric (cables/sdr-cx4); default: hosts with current HCAs on one switch
    fabric: Option<PathBuf>,
    /// Run COMMAND on HOST. Repeat for further programs, servers first
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], action = clap::ArgAction::Append)]
    pub(crate) on: Vec<String>,
    /// Number of copies of PROGRAM, each on the next host (default: one on each host of the fabric)
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) count: Option<u32>,
    /// Program with its arguments. SOFTBAND_RANK, _SIZE, _HOST and _HOSTS in its environment identify each copy
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "on")]
    pub(crate) program: Vec<String>,
    /// End the run as soon as the programs on HOST have ended, with their exit status. Programs on other hosts are servers, which the
    /// run stops. Repeat for further hosts
    #[arg(long, value_name = "HOST", action = clap::ArgAction::Append)]
    pub(crate) main: Vec<String>,
    /// Leave output, resolved fabric, durations and counters in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of all random numbers, in simulated time (default: the fabric file's)
    #[arg(long)]
    seed: Option<u64>,
    /// Start of the hosts' clocks in simulated time (UTC), such as 2026-01-31 or 2026-01-31T12:30:00Z (default: the fabric file's
    /// start_date, else 2026-01-01)
    #[arg(long, value_name = "DATE", value_parser = StartDate::parse)]
    start_date: Option<StartDate>,
    /// Run cables beyond their length limit
    #[arg(long)]
    allow_out_of_spec: bool,
    /// Load the library by LD_LIBRARY_PATH only, for programs that LD_PRELOAD breaks
    #[arg(long)]
    pub(crate) no_preload: bool,
    /// Clock of the programs
    #[arg(long, value_enum, default_value_t = PaceName::Virtual)]
    pace: PaceName,
    #[command(flatten)]
    network: NetworkArguments,
    /// Processors that a run in simulated time uses (default: all for recorded computation, otherwise 2). Results do not depend on it
    #[arg(long, value_name = "N", env = "SOFTBAND_PROCESSORS", value_parser = clap::value_parser!(u32).range(1..=2))]
    processors: Option<u32>,
    #[command(flatten)]
    compute: crate::recording::compute::ComputeArguments,
    #[command(flatten)]
    faults: crate::fault_plan::FaultPlanArguments,
    #[command(flatten)]
    limits: crate::limits::LimitArguments,
    #[command(flatten)]
    capture: crate::capture::CaptureArguments,
    #[command(flatten)]
    packets: PacketArguments,
    /// Do not print the bottlenecks of transfers on standard error
    #[arg(long, env = "SOFTBAND_QUIET", hide_env_values = true, value_parser = FalseyValueParser::new())]
    quiet: bool,
    /// Print all counters of ports, HCAs, queue pairs and threads on standard error at the end, in simulated time
    #[arg(long)]
    counters: bool,
}

/// How the model handles packets.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PacketArguments {
    /// Give each hop of each packet an event of its own. Results are the same, runs are slower
    #[arg(long, env = "SOFTBAND_PACKET_BY_PACKET", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) packet_by_packet: bool,
}

/// Carrier of sockets at wall pace.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct NetworkArguments {
    /// Carrier of sockets at wall pace: the machine (fast), or the interfaces of the fabric file at their modelled rate
    #[arg(long, value_enum, default_value_t = NetworkName::Machine)]
    network: NetworkName,
}

/// As the user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkName {
    Machine,
    Modelled,
}

impl NetworkArguments {
    /// Returns the carrier of sockets.
    ///
    /// # Errors
    /// In simulated time, where the model carries all sockets without the option.
    pub(crate) fn network(self, pace: Pace) -> anyhow::Result<SocketNetwork> {
        match self.network {
            NetworkName::Machine => Ok(SocketNetwork::Machine),
            NetworkName::Modelled if pace == Pace::Wall => Ok(SocketNetwork::Modelled),
            NetworkName::Modelled => bail!(
                "--network modelled has no effect in simulated time, where sockets use the modelled interfaces anyway\n  help: leave it out, or \
                 say --pace wall"
            ),
        }
    }

    /// Returns the options for another start of this command.
    pub(crate) fn words(self) -> Option<[&'static str; 2]> {
        (self.network == NetworkName::Modelled).then_some(["--network", "modelled"])
    }
}

/// As the user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PaceName {
    /// Simulated time: results are those of the modelled hardware
    Virtual,
    /// The machine's clock: as fast as the machine allows
    Wall,
}

impl From<PaceName> for Pace {
    fn from(name: PaceName) -> Self {
        match name {
            PaceName::Virtual => Self::Virtual,
            PaceName::Wall => Self::Wall,
        }
    }
}

/// Refuses options without meaning at wall pace. Ignores environment variables, because they are
/// not specific to this run.
pub(crate) fn check_pace(arguments: &RunArguments, given: Option<&ArgMatches>) -> anyhow::Result<()> {
    if arguments.pace != PaceName::Wall {
        return Ok(());
    }
    let is_given = |id| given.is_some_and(|given| given.value_source(id) == Some(ValueSource::CommandLine));
    if is_given("processors") {
        bail!(
            "--processors has no effect with --pace wall, where programs use the machine as it is\n  help: leave it out, or say \
             taskset -c 0 softband run ... to keep a run to some processors"
        );
    }
    if is_given("start_date") {
        bail!(
            "--start-date has no effect with --pace wall, where programs read the machine's clock\n  help: leave it out, or leave out \
             --pace wall for a run in simulated time"
        );
    }
    if is_given("counters") {
        check_pace_of_counters(arguments.pace)?;
    }
    if is_given("seed") {
        check_pace_of_seed(arguments.pace)?;
    }
    Ok(())
}

/// Refuses `--seed` at wall pace.
pub(crate) fn check_pace_of_seed(pace: PaceName) -> anyhow::Result<()> {
    if pace == PaceName::Wall {
        bail!(
            "--seed has no effect with --pace wall, where no two runs are the same\n  help: leave it out, or leave out --pace wall for a run in \
             simulated time, which the seed repeats"
        );
    }
    Ok(())
}

/// Refuses `--counters` at wall pace.
pub(crate) fn check_pace_of_counters(pace: PaceName) -> anyhow::Result<()> {
    if pace == PaceName::Wall {
        bail!(
            "--counters has no effect with --pace wall, where programs carry most transfers out without the model\n  help: leave it out, or \
             leave out --pace wall for a run in simulated time"
        );
    }
    Ok(())
}

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<i32> {
    let interrupt = signals::interrupt_on_signals();
    programs::check(arguments)?;
    let limits = arguments.limits.limits(arguments.pace == PaceName::Virtual)?;
    let network = arguments.network.network(arguments.pace.into())?;
    let (path, mut loaded) = load(arguments)?;
    arguments.faults.add_to(&mut loaded)?;
    loaded.start_date = arguments.start_date.unwrap_or(loaded.start_date);
    loaded.seed = arguments.seed.unwrap_or(loaded.seed);
    let wanted = programs::wanted(arguments, &loaded)?;
    let main = programs::main(&arguments.main, &wanted, &loaded)?;
    let folder = arguments.out.as_deref().map(RunFolder::make).transpose()?;
    let capture = arguments.capture.prepare(&loaded.spec, arguments.pace.into())?;
    let compute = arguments.compute.prepare(arguments.pace == PaceName::Virtual)?;
    let mut programs = wanted.iter().enumerate().map(|(index, _)| program(&wanted, index, folder.as_ref())).collect::<anyhow::Result<Vec<_>>>()?;
    programs.iter_mut().for_each(|program| program.environment.extend_from_slice(compute.environment()));
    let libraries = home::libraries()?;
    let (by_preload, pace) = (!arguments.no_preload, arguments.pace.into());
    let epoch_seconds = loaded.start_date.unix_seconds();
    let options = Options { by_preload, processors: arguments.processors, pace, network, epoch_seconds, limits };
    let mut engine = Engine::new(&loaded.spec, loaded.seed, &libraries, options, interrupt)?;
    if arguments.packets.packet_by_packet {
        engine.go_packet_by_packet();
    }
    if let Some(main) = main {
        engine.end_with(main);
    }
    if let Some(capture) = capture {
        capture.start(&mut engine, pace, options.epoch_seconds);
    }
    let report = engine.run(programs);
    engine.end_capture();
    tell(&report);
    let evidence = evidence(&loaded, &engine, arguments.pace);
    let bottlenecks = why::bottlenecks(&evidence);
    if arguments.counters {
        eprint!("{}", counter_table::text(&evidence));
    }
    if !arguments.quiet && report.failure != Some(Failure::Interrupted) {
        bottlenecks.iter().for_each(|found| eprintln!("softband: {}", found.text));
    }
    if let Some(folder) = &folder {
        folder.leave((&path, arguments.pace), &loaded, report.worst_status(), (&report, &evidence, &bottlenecks))?;
    }
    if let Some(loss) = crate::output::take_loss() {
        bail!(loss);
    }
    Ok(if report.failure == Some(Failure::Interrupted) { 130 } else { report.worst_status() })
}

fn load(arguments: &RunArguments) -> anyhow::Result<(PathBuf, LoadedFabric)> {
    match (&arguments.fabric, arguments.count) {
        (Some(fabric), _) => home::load_fabric(fabric, arguments.allow_out_of_spec),
        (None, Some(count)) => home::load_default(count as usize),
        (None, None) => home::load_fabric(Path::new(home::DEFAULT_FABRIC), arguments.allow_out_of_spec),
    }
}

fn program(wanted: &[Wanted], index: usize, folder: Option<&RunFolder>) -> anyhow::Result<Program> {
    let this = &wanted[index];
    let shared_host = wanted.iter().filter(|other| other.host == this.host).count() > 1;
    let prefix = match wanted.len() {
        1 => String::new(),
        _ if shared_host => format!("{}-{}: ", this.name, this.number),
        _ => format!("{}: ", this.name),
    };
    let copy = |stream: Stream, ending: &str| -> anyhow::Result<softband_engine::ProgramOutput> {
        let file = folder.map(|folder| folder.file(&format!("{}-{}.{ending}", this.name, this.number))).transpose()?;
        Ok(Box::new(Copy { stream, prefix: prefix.clone(), file, line: Vec::new() }))
    };
    Ok(Program {
        host: this.host,
        command: this.command.clone(),
        arguments: this.arguments.clone(),
        environment: programs::environment(&wanted.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), index),
        stdout: Some(copy(Stream::Out, "out")?),
        stderr: Some(copy(Stream::Error, "err")?),
    })
}

pub(crate) fn tell(report: &RunReport) {
    for warning in &report.warnings {
        eprintln!("softband: {warning}");
    }
    match &report.failure {
        Some(failure @ (Failure::Stuck { .. } | Failure::TimedOut { .. })) => crate::limits::tell(failure),
        Some(Failure::Deadlock { waits }) => {
            eprintln!("softband: deadlock in the fabric: {waits}; every program was ended");
            eprintln!("softband: help: a fabric without credit loops cannot deadlock (softband fabric check names them); with");
            eprintln!("softband: head_of_queue_lifetime = 18 in [subnet] switches discard packets that wait longer, as with OpenSM's default");
        }
        Some(Failure::Interrupted) => eprintln!("softband: interrupted; every program was ended"),
        Some(Failure::MemoryDenied { reason }) => eprintln!(
            "softband: the host does not let the engine read the programs' memory ({reason}): in a container allow the system call \
             process_vm_readv (docker run --cap-add SYS_PTRACE, or a seccomp profile that has it); on a host with Yama set \
             kernel.yama.ptrace_scope to 0 or 1"
        ),
        None => {}
    }
}

/// Returns the counters at the end of a run. At wall pace, most transfers bypass the model, so
/// there is no transfer time.
pub(crate) fn evidence(loaded: &LoadedFabric, engine: &Engine, pace: PaceName) -> Evidence {
    let world = engine.world();
    Evidence {
        ports: world.counters(),
        hcas: world.hca_counters(),
        repeats: world.repeats(),
        work: engine.thread_work(),
        whole_picos: if pace == PaceName::Virtual { world.transfer_picos() } else { 0 },
        ..Evidence::of_fabric(&loaded.spec)
    }
}
