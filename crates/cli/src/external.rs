//! `softband X` with an unknown X runs `softband-X`, as git and cargo do.

use crate::{home, own_parts};
use anyhow::bail;
use softband_catalog::closest;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commands of the installation that are programs of their own. Most belong to the lab.
const COMPANIONS: [(&str, &str); 13] = [
    ("study", "Run a study: each figure and claim of a paper, on one page"),
    ("what-if", "Vary cable length, lanes and rate, and find the longest cable at full bandwidth"),
    ("compare", "Compare two folders of results, such as those of hardware and of the model"),
    ("model-sweep", "Run `model` for each combination of values; `model --sweep` starts it"),
    ("dask", "Start a scheduler or workers, for campaigns on several machines"),
    ("rsh", "Run a command on a host of a fabric, as rsh and ssh do; for the launchers of MPI"),
    ("multirail", "Measure both ports of an HCA together; runs in `run` and `exec`, and on hardware"),
    ("rfio", "Copy files over InfiniBand from a server; runs in `run` and `exec`, and on hardware"),
    ("tcpplay", "Play a trace of an MPI program over TCP, as a process for each rank; on any hosts"),
    ("mpibench", "Benchmark MPI: messages, message rates and collectives; compiled with your mpicc"),
    ("npb", "Run a kernel of the NAS Parallel Benchmarks over MPI; compiled with your mpicc"),
    ("lattice", "Solve for quarks on a lattice (Wilson fermions) over MPI; compiled with your mpicc"),
    ("weather", "Run a weather model's stencils and halos over MPI; compiled with your mpicc"),
];

pub(crate) fn run(words: &[OsString]) -> anyhow::Result<i32> {
    let typed = words[0].to_string_lossy();
    let name = format!("softband-{typed}");
    let Some(program) = find(&name) else { bail!("{}", unknown(&typed)) };
    let binary = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(&words[1..]).env("SOFTBAND_BIN", binary);
    let fabric = own_parts::fabric_of(words);
    own_parts::hand_over(&mut command, fabric.as_deref())?;
    if fabric.is_some() {
        // This prints the warnings about the parts once, instead of once in each run.
        home::catalog(fabric.as_deref())?;
    }
    let error = command.exec();
    bail!("cannot run {}: {error}", program.display())
}

/// Translates `softband help X` to `softband X --help` if X is a program of its own.
pub(crate) fn help_wanted(words: &[OsString]) -> Option<Vec<OsString>> {
    let [_, help, name] = words else { return None };
    let is_companion = || companions().iter().any(|(known, _)| name == known.as_str());
    (help == "help" && is_companion()).then(|| vec![name.clone(), OsString::from("--help")])
}

/// Returns every command that is a program of its own, with a description. Covers the installation,
/// other programs beside it, and the PATH.
pub(crate) fn companions() -> Vec<(String, String)> {
    let own = COMPANIONS.map(|(name, about)| (name.to_owned(), about.to_owned()));
    let others =
        folders().into_iter().rev().flat_map(|folder| in_folder(&folder)).filter(|(name, _)| COMPANIONS.iter().all(|(known, _)| name != known));
    let others: BTreeMap<String, PathBuf> = others.collect();
    own.into_iter().chain(others.into_iter().map(|(name, path)| (name, format!("Run {}", path.display())))).collect()
}

fn unknown(typed: &str) -> String {
    if COMPANIONS.iter().any(|(name, _)| *name == typed) {
        return format!(
            "`softband {typed}` is a separate program, and no softband-{typed} lies beside this one or on the PATH\n  \
             help: `make build` leaves all of them in target/dist/bin"
        );
    }
    let known: Vec<String> = crate::definition::complete().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let meant = closest(typed, known.iter().map(String::as_str)).map_or_else(String::new, |name| format!("did you mean `softband {name}`? "));
    format!(
        "there is no command `{typed}`, and no softband-{typed} lies beside this one or on the PATH\n  \
         help: {meant}`softband --help` lists all commands"
    )
}

/// Returns the folders of our own programs. The folder of this binary comes first.
fn folders() -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|binary| Some(binary.parent()?.to_path_buf()));
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    beside.into_iter().chain(on_path).collect()
}

fn find(name: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn in_folder(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_prefix("softband-")?.to_owned();
            // Files that cargo leaves beside its binaries (`softband-1f2e.d`) are not programs.
            (entry.path().is_file() && !name.contains('.')).then(|| (name, entry.path()))
        })
        .collect()
}
