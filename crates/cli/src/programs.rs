//! The programs of a run and their hosts.

use crate::run::RunArguments;
use anyhow::bail;
use softband_catalog::LoadedFabric;
use softband_engine::image;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A program that the user requested.
pub(crate) struct Wanted {
    pub(crate) host: usize,
    pub(crate) name: String,
    /// Number of the program on its host.
    pub(crate) number: usize,
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
}

/// Checks, before loading anything, that the command line names programs.
pub(crate) fn check(arguments: &RunArguments) -> anyhow::Result<()> {
    if arguments.on.is_empty() && arguments.program.is_empty() {
        let missing = if arguments.count.is_some() { "-n has a number of copies, but no program" } else { "no program is named" };
        bail!("{missing}\n  help: write --on HOST 'COMMAND', once for each program, or -n 2 -- PROGRAM for the same on each host");
    }
    if arguments.count.is_some() && !arguments.on.is_empty() {
        bail!("-n and --on exclude each other\n  help: leave -n out: --on already says which programs run, and where");
    }
    Ok(())
}

/// Returns the programs of a run, in order.
pub(crate) fn wanted(arguments: &RunArguments, loaded: &LoadedFabric) -> anyhow::Result<Vec<Wanted>> {
    if arguments.program.is_empty() { on_hosts(arguments, loaded) } else { same_on_all(arguments, loaded) }
}

/// Runs program i on host i. After the last host, starts again at the first.
fn same_on_all(arguments: &RunArguments, loaded: &LoadedFabric) -> anyhow::Result<Vec<Wanted>> {
    if let Some((why, _)) = why_not_to_run(&arguments.program[0]) {
        bail!("{why}");
    }
    warn_unless_preload(arguments, &arguments.program[0]);
    let hosts = &loaded.spec.hosts;
    let count = arguments.count.map_or(hosts.len(), |count| count as usize);
    let one = |index: usize| {
        let host = index % hosts.len();
        let (command, arguments) = (arguments.program.join(" "), arguments.program.clone());
        Wanted { host, name: hosts[host].name.clone(), number: index / hosts.len(), command, arguments }
    };
    Ok((0..count).map(one).collect())
}

/// Returns the variables that describe a program and the others to it. Hosts are in the order of
/// the programs.
pub(crate) fn environment(hosts: &[&str], index: usize) -> Vec<(String, String)> {
    let variable = |name: &str, value: String| (format!("SOFTBAND_{name}"), value);
    vec![
        variable("RANK", index.to_string()),
        variable("SIZE", hosts.len().to_string()),
        variable("HOST", hosts[index].to_owned()),
        variable("HOSTS", hosts.join(",")),
    ]
}

/// Returns the position of the host of this name. The option `--OPTION` has named it.
fn host_of(option: &str, name: &str, loaded: &LoadedFabric) -> anyhow::Result<usize> {
    let hosts = &loaded.spec.hosts;
    let Some(host) = hosts.iter().position(|host| host.name == *name) else {
        let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        bail!("--{option} {name}: the fabric has no host of this name\n  help: {}", softband_catalog::suggest(name, "hosts", &known));
    };
    Ok(host)
}

/// Returns the numbers of the programs with whose ends the run ends, or `None` without `--main`.
pub(crate) fn main(names: &[String], wanted: &[Wanted], loaded: &LoadedFabric) -> anyhow::Result<Option<Vec<usize>>> {
    let mut main = Vec::new();
    for name in names {
        let host = host_of("main", name, loaded)?;
        let before = main.len();
        main.extend(wanted.iter().enumerate().filter(|(_, program)| program.host == host).map(|(number, _)| number));
        if main.len() == before {
            let mut used: Vec<&str> = wanted.iter().map(|program| program.name.as_str()).collect();
            used.dedup();
            bail!("--main {name}: no program runs on this host\n  help: programs run on {}", used.join(", "));
        }
    }
    Ok((!main.is_empty()).then_some(main))
}

fn on_hosts(arguments: &RunArguments, loaded: &LoadedFabric) -> anyhow::Result<Vec<Wanted>> {
    let mut wanted: Vec<Wanted> = Vec::new();
    for pair in arguments.on.chunks_exact(2) {
        let (name, command) = (&pair[0], &pair[1]);
        let host = host_of("on", name, loaded)?;
        let words = softband_engine::arguments_of(command)
            .map_err(|what| anyhow::anyhow!("--on {name} '{command}': {what}\n  help: write the words as a shell takes them"))?;
        if let Some((why, _)) = why_not_to_run(&words[0]) {
            bail!("--on {name} '{command}': {why}");
        }
        warn_unless_preload(arguments, &words[0]);
        let number = wanted.iter().filter(|other| other.host == host).count();
        wanted.push(Wanted { host, name: name.clone(), number, command: command.clone(), arguments: words });
    }
    Ok(wanted)
}

fn warn_unless_preload(arguments: &RunArguments, program: &str) {
    if !arguments.no_preload {
        warn_if_outside(program);
    }
}

/// Warns of a program that cannot load the library. It would run outside the fabric without a word.
pub(crate) fn warn_if_outside(program: &str) {
    let folders = std::env::var_os("PATH").filter(|_| !program.contains('/'));
    let places = folders
        .as_ref()
        .map_or_else(|| vec![PathBuf::from(program)], |path| std::env::split_paths(path).map(|folder| folder.join(program)).collect());
    let start = places.iter().find_map(|place| {
        let mut start = Vec::new();
        std::fs::File::open(place).ok()?.take(image::START_BYTES as u64).read_to_end(&mut start).ok()?;
        Some(start)
    });
    if let Some(why) = start.and_then(|start| image::obstacle(&start)).filter(|_| !image::is_loader(program.as_bytes())) {
        eprintln!("softband: {}", image::warning(program, why));
    }
}

/// Returns the reason why a program cannot run, and the exit status of a shell in that case.
pub(crate) fn why_not_to_run(program: &str) -> Option<(String, i32)> {
    use std::os::unix::fs::PermissionsExt;
    const NOT_EXECUTABLE: i32 = 126;
    const NOT_THERE: i32 = 127;
    let runs = |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    if !program.contains('/') {
        let found = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| runs(&folder.join(program))));
        return (!found).then(|| {
            (format!("there is no program '{program}' on the PATH\n  help: install it, or name it by its path, such as ./{program}"), NOT_THERE)
        });
    }
    match Path::new(program).metadata() {
        Err(_) => {
            Some((format!("there is no program '{program}'\n  help: check the path; it begins in this folder unless it begins with /"), NOT_THERE))
        }
        Ok(data) if data.is_dir() => Some((format!("'{program}' is a folder, not a program\n  help: name a program in it"), NOT_EXECUTABLE)),
        Ok(_) if !runs(Path::new(program)) => {
            Some((format!("'{program}' is not executable\n  help: chmod +x it, or name its interpreter"), NOT_EXECUTABLE))
        }
        Ok(_) => None,
    }
}
