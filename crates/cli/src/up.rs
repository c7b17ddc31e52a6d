//! `softband up`: a fabric that stays, for programs from any terminal.

use crate::capture::CaptureArguments;
use crate::fault_plan::FaultPlanArguments;
use crate::metrics::MetricsArguments;
use crate::record::{self, Claim, Record};
use crate::run::NetworkArguments;
use crate::{home, output, own_parts, signals};
use anyhow::{Context, bail};
use clap::Args;
use softband_engine::{Engine, Limits, Options, Pace};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Args)]
pub(crate) struct UpArguments {
    /// Fabric file, or name of an installed fabric; default: two hosts with current HCAs on one switch
    fabric: Option<PathBuf>,
    /// Continue in the background until `softband down`
    #[arg(long)]
    detach: bool,
    /// Name of the fabric, which keeps several running fabrics apart. A folder shares the fabric with
    /// all who may enter it
    #[arg(long, env = record::NAME_VARIABLE, default_value = record::NAME_DEFAULT)]
    name: String,
    /// Run cables beyond their length limit
    #[arg(long)]
    allow_out_of_spec: bool,
    /// Load the library by LD_LIBRARY_PATH only, for programs that LD_PRELOAD breaks
    #[arg(long)]
    no_preload: bool,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    faults: FaultPlanArguments,
    #[command(flatten)]
    capture: CaptureArguments,
    #[command(flatten)]
    metrics: MetricsArguments,
    /// This process is the one in the background
    #[arg(long, hide = true)]
    in_background: bool,
}

/// Line that the background process prints once the fabric is ready.
const READY: &str = "ready";

pub(crate) fn run(arguments: &UpArguments) -> anyhow::Result<i32> {
    record::check_name(&arguments.name)?;
    let fabric = home::fabric_path(arguments.fabric.as_deref().unwrap_or(Path::new(home::DEFAULT_FABRIC)))?;
    if arguments.detach { start_in_background(arguments, &fabric) } else { serve(arguments, &fabric) }
}

/// Starts this program again in a session of its own, and waits until the fabric is ready.
fn start_in_background(arguments: &UpArguments, fabric: &Path) -> anyhow::Result<i32> {
    let name = record::full_name(&arguments.name)?;
    let binary = std::env::current_exe().context("cannot find the path of this binary")?;
    let mut command = Command::new(binary);
    let fabric = std::path::absolute(fabric)?;
    command.arg("up").arg(&fabric).args(["--in-background", "--name", &name]).env("SOFTBAND_HOME", std::path::absolute(home::home()?)?);
    own_parts::hand_over(&mut command, None)?;
    command.args(arguments.allow_out_of_spec.then_some("--allow-out-of-spec")).args(arguments.no_preload.then_some("--no-preload"));
    command.args(arguments.faults.words()?);
    command.args(arguments.network.words().into_iter().flatten());
    command.args(arguments.capture.words()?).args(arguments.metrics.words());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start the engine")?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let mut errors = String::new();
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut errors)?;
    }
    eprint!("{errors}");
    if line.trim() == READY {
        output::say(format_args!(
            "fabric '{name}' is up: softband exec HOST --name {name} -- COMMAND runs a program on it, softband down --name {name} ends it\n"
        ))?;
        return Ok(0);
    }
    let status = child.wait()?;
    if errors.is_empty() {
        bail!("the engine in the background did not start ({status})");
    }
    Ok(status.code().unwrap_or(2))
}

fn serve(arguments: &UpArguments, fabric: &Path) -> anyhow::Result<i32> {
    if arguments.in_background {
        rustix::process::setsid().context("cannot make a session")?;
    }
    let interrupt = signals::interrupt_on_signals();
    let name = record::full_name(&arguments.name)?;
    let mut claim = Claim::take(&name)?;
    let metrics = arguments.metrics.prepare()?;
    let (path, mut loaded) = home::load_fabric(fabric, arguments.allow_out_of_spec)?;
    arguments.faults.add_to(&mut loaded)?;
    allow_many_programs();
    let (by_preload, network) = (!arguments.no_preload, arguments.network.network(Pace::Wall)?);
    let options = Options { by_preload, processors: None, pace: Pace::Wall, network, epoch_seconds: 0, limits: Limits::default() };
    let capture = arguments.capture.prepare(&loaded.spec, options.pace)?;
    let mut engine = match record::shared_folder(&name) {
        None => Engine::new(&loaded.spec, loaded.seed, &home::libraries()?, options, interrupt)?,
        Some(folder) => {
            // Programs of other users read the files of their hosts.
            rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
            Engine::new_shared(folder, (&loaded.spec, loaded.seed), &home::libraries()?, options, interrupt)?
        }
    };
    if let Some(capture) = capture {
        capture.start(&mut engine, options.pace, options.epoch_seconds);
    }
    crate::capture::live::offer(&mut engine);
    let metrics = metrics.map(|server| crate::metrics::start(server, engine.name())).transpose()?;
    claim.publish(&Record {
        name: name.clone(),
        engine: engine.name().to_owned(),
        pid: std::process::id(),
        fabric: path.display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    if arguments.in_background {
        output::say(format_args!("{READY}\n"))?;
        leave_terminal()?;
    } else {
        let hosts: Vec<&str> = loaded.spec.hosts.iter().map(|host| host.name.as_str()).collect();
        output::say(format_args!(
            "fabric '{name}' is up: {}; hosts: {}\nin another terminal: softband exec {} -- COMMAND; Ctrl-C ends the fabric\n",
            loaded.spec.title,
            hosts.join(", "),
            hosts[0]
        ))?;
        if let Some(place) = metrics {
            output::say(format_args!("metrics: {place}\n"))?;
        }
    }
    let report = engine.stay();
    engine.end_capture();
    for warning in &report.warnings {
        eprintln!("softband: {warning}");
    }
    Ok(0)
}

/// Detaches the process from its terminal and from its working folder.
fn leave_terminal() -> anyhow::Result<()> {
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    std::env::set_current_dir("/")?;
    Ok(())
}

/// Raises the limit on open files. Each program costs the engine some descriptors.
fn allow_many_programs() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // The usual limit is 1024. A failure here only means fewer programs.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
