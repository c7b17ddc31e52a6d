//! `softband run`: programs on the hosts of a fabric, in virtual time.

use crate::output::{Copy, Stream};
use crate::{home, signals};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use softband_catalog::LoadedFabric;
use softband_engine::{Engine, Failure, Options, Program, RunReport};
use std::fs::File;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The fabric file, or the name of one in the installation (cables/sdr-cx4)
    fabric: PathBuf,
    /// A program on a host; several may be given, servers first
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], required = true, action = clap::ArgAction::Append)]
    on: Vec<String>,
    /// Leave output, resolved fabric, durations and counters in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of everything random (default: the fabric file's)
    #[arg(long)]
    seed: Option<u64>,
    /// Run cables beyond their length limit
    #[arg(long)]
    allow_out_of_spec: bool,
    /// Give programs the library by LD_LIBRARY_PATH only, for those that cannot be preloaded into
    #[arg(long)]
    no_preload: bool,
    /// Use 1 or 2 of the machine's processors (default: 2 where there are two): results are the same, one leaves room for other runs
    #[arg(long, value_name = "N", env = "SOFTBAND_PROCESSORS", value_parser = clap::value_parser!(u32).range(1..=2))]
    processors: Option<u32>,
}

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<i32> {
    let interrupt = signals::interrupt_on_signals();
    let (path, loaded) = home::load_fabric(&arguments.fabric, arguments.allow_out_of_spec)?;
    let seed = arguments.seed.unwrap_or(loaded.seed);
    let wanted = wanted_programs(arguments, &loaded)?;
    if let Some(out) = &arguments.out {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make the run folder {}", out.display()))?;
        clear_former_run(out).with_context(|| format!("cannot clear the former run in {}", out.display()))?;
    }
    let programs =
        wanted.iter().enumerate().map(|(index, _)| program(&wanted, index, arguments.out.as_deref())).collect::<anyhow::Result<Vec<_>>>()?;
    let libraries = home::libraries()?;
    let options = Options { by_preload: !arguments.no_preload, processors: arguments.processors };
    let mut engine = Engine::new(&loaded.spec, seed, &libraries, options, interrupt)?;
    let report = engine.run(programs);
    tell(&report);
    if let Some(out) = &arguments.out {
        leave(out, &path, &loaded, seed, &report, &engine).with_context(|| format!("cannot write the run folder {}", out.display()))?;
    }
    if let Some(loss) = crate::output::take_loss() {
        bail!(loss);
    }
    Ok(if report.failure == Some(Failure::Interrupted) { 130 } else { report.worst_status() })
}

/// A program as the user asked for it.
struct Wanted {
    host: usize,
    name: String,
    /// Which program of its host it is.
    number: usize,
    command: String,
    arguments: Vec<String>,
}

fn wanted_programs(arguments: &RunArguments, loaded: &LoadedFabric) -> anyhow::Result<Vec<Wanted>> {
    let mut wanted: Vec<Wanted> = Vec::new();
    for pair in arguments.on.chunks_exact(2) {
        let (name, command) = (&pair[0], &pair[1]);
        let Some(host) = loaded.spec.hosts.iter().position(|host| host.name == *name) else {
            let known: Vec<&str> = loaded.spec.hosts.iter().map(|host| host.name.as_str()).collect();
            bail!("--on {name}: the fabric has no host of this name; its hosts are {}", known.join(", "));
        };
        let words = softband_engine::arguments_of(command).map_err(|what| anyhow::anyhow!("--on {name} '{command}': {what}"))?;
        if let Some(why) = why_not_to_run(&words[0]) {
            bail!("--on {name} '{command}': {why}");
        }
        let number = wanted.iter().filter(|other| other.host == host).count();
        wanted.push(Wanted { host, name: name.clone(), number, command: command.clone(), arguments: words });
    }
    Ok(wanted)
}

fn why_not_to_run(program: &str) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    if !program.contains('/') {
        let found = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| runs(&folder.join(program))));
        return (!found).then(|| format!("there is no program '{program}' on the PATH"));
    }
    match Path::new(program).metadata() {
        Err(_) => Some(format!("there is no program '{program}'")),
        Ok(data) if data.is_dir() => Some(format!("'{program}' is a folder, not a program")),
        Ok(_) if !runs(Path::new(program)) => Some(format!("'{program}' is not executable: chmod +x it, or name its interpreter")),
        Ok(_) => None,
    }
}

fn program(wanted: &[Wanted], index: usize, out: Option<&Path>) -> anyhow::Result<Program> {
    let this = &wanted[index];
    let shared_host = wanted.iter().filter(|other| other.host == this.host).count() > 1;
    let prefix = match wanted.len() {
        1 => String::new(),
        _ if shared_host => format!("{}-{}: ", this.name, this.number),
        _ => format!("{}: ", this.name),
    };
    let copy = |stream: Stream, ending: &str| -> anyhow::Result<softband_engine::ProgramOutput> {
        let file = out.map(|out| out.join(format!("{}-{}.{ending}", this.name, this.number)));
        let file = file.map(|file| File::create(&file).with_context(|| format!("cannot write {}", file.display()))).transpose()?;
        Ok(Box::new(Copy { stream, prefix: prefix.clone(), file, line: Vec::new() }))
    };
    Ok(Program {
        host: this.host,
        command: this.command.clone(),
        arguments: this.arguments.clone(),
        stdout: Some(copy(Stream::Out, "out")?),
        stderr: Some(copy(Stream::Error, "err")?),
    })
}

fn tell(report: &RunReport) {
    for warning in &report.warnings {
        eprintln!("softband: {warning}");
    }
    match &report.failure {
        Some(Failure::Stuck { waiting }) => {
            eprintln!("softband: nothing can happen any more, but programs still wait; they were ended:");
            waiting.iter().for_each(|line| eprintln!("softband:   {line}"));
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

/// What an earlier run left in the folder must not be taken for part of this one. Other files are not touched.
fn clear_former_run(out: &Path) -> std::io::Result<()> {
    if !out.join("run.json").is_file() {
        return Ok(());
    }
    let is_output = |name: &str| {
        let stem = name.strip_suffix(".out").or_else(|| name.strip_suffix(".err"));
        stem.and_then(|stem| stem.rsplit_once('-')).is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for entry in std::fs::read_dir(out)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if is_output(&name) || name == "run.json" || name == "counters.json" {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn leave(out: &Path, fabric: &Path, loaded: &LoadedFabric, seed: u64, report: &RunReport, engine: &Engine) -> anyhow::Result<()> {
    let run = json!({
        "softband_version": env!("CARGO_PKG_VERSION"),
        "versions": { "softband": env!("CARGO_PKG_VERSION"), "kernel": kernel_release() },
        "fabric": fabric.display().to_string(),
        "seed": seed,
        "pace": "virtual",
        "virtual_seconds": report.virtual_seconds,
        "wall_seconds": report.wall_seconds,
        "exit_status": report.worst_status(),
        "programs": report.programs,
        "turns": report.turns,
        "fabric_events": report.fabric_events,
        "warnings": report.warnings,
        "failure": report.failure,
    });
    write_json(&out.join("run.json"), &run)?;
    let counters: Vec<_> = engine
        .world()
        .counters()
        .into_iter()
        .map(|port| {
            json!({
                "node": port.node,
                "port": port.port.0,
                "port_xmit_data": port.port_xmit_data,
                "port_rcv_data": port.port_rcv_data,
                "port_xmit_pkts": port.port_xmit_pkts,
                "port_rcv_pkts": port.port_rcv_pkts,
                "unicast_xmit_pkts": port.unicast_xmit_pkts,
                "unicast_rcv_pkts": port.unicast_rcv_pkts,
                "port_xmit_wait": port.port_xmit_wait,
                "credit_stall_picos": port.credit_stall_picos,
            })
        })
        .collect();
    write_json(&out.join("counters.json"), &json!({ "unit_of_data": "4 bytes", "ports": counters }))?;
    std::fs::write(out.join("fabric.toml"), loaded.resolved_toml())?;
    Ok(())
}

fn write_json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    // Beside its place first: a reader never sees half of it.
    let part = path.with_extension("json.part");
    std::fs::write(&part, format!("{value:#}\n"))?;
    std::fs::rename(&part, path)?;
    Ok(())
}

fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
