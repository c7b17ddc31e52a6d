//! Choice of the workload: a named workload, a TOML file, or a GOAL trace.

use super::trace::Trace;
use super::{Chosen, ModelArguments};
use anyhow::{Context, bail};
use serde::Deserialize;
use softband_catalog::{LoadedFabric, suggest};
use softband_spec::FabricSpec;
use softband_workload::{Operation, Pattern, Settings, build, goal, parse_bytes, parse_mtu, parse_service_level};
use std::path::Path;

/// As the user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationName {
    Send,
    Write,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of bytes, or a size such as \"64KiB\"")]
enum Size {
    Bytes(u64),
    Text(String),
}

/// A workload file. Options of the command line override it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    workload: String,
    bytes: Option<Size>,
    messages: Option<u32>,
    window: Option<u32>,
    root: Option<String>,
    senders: Option<u32>,
    distance: Option<u32>,
    from: Option<String>,
    to: Option<String>,
    operation: Option<OperationName>,
    mtu: Option<u32>,
    service_level: Option<u32>,
    repeat: Option<u32>,
    ranks_per_host: Option<u32>,
    seed: Option<u64>,
}

/// Parses the MTU of the command line, in bytes.
pub(super) fn parse_mtu_word(word: &str) -> Result<u32, String> {
    let bytes = word.parse::<u32>().unwrap_or_default();
    parse_mtu(bytes).map(|_| bytes).map_err(|_| String::from("an MTU is 256, 512, 1024, 2048 or 4096 bytes"))
}

/// A fabric with its file.
type Fabric<'a> = (&'a Path, &'a LoadedFabric);

pub(super) fn choose(arguments: &ModelArguments, fabric: Fabric<'_>) -> anyhow::Result<Chosen> {
    if let Some(pattern) = Pattern::parse(&arguments.workload) {
        return by_pattern(arguments, fabric, pattern, pattern.name(), WorkloadFile::default());
    }
    let path = Path::new(&arguments.workload);
    if !path.is_file() {
        let names: Vec<&str> = Pattern::ALL.iter().map(|(name, _)| *name).collect();
        let help = suggest(&arguments.workload, "workloads", &names);
        bail!("no workload {}: it is {}\n  help: {help}", arguments.workload, no_file(path));
    }
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    // The message does not show binary data, because a terminal might execute it.
    let Ok(text) = String::from_utf8(bytes) else {
        let (what, help) =
            if is_toml { ("the file is not text: a workload file is TOML", "docs/model.md has its keys") } else { (goal::NO_TEXT, goal::TEXT_FORM) };
        bail!("{}: error: {what}\n  help: {help}", path.display());
    };
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    if is_toml {
        let file: WorkloadFile = toml::from_str(&text).map_err(|error| unreadable(path, &text, &error))?;
        let pattern = Pattern::parse(&file.workload).with_context(|| {
            let names: Vec<&str> = Pattern::ALL.iter().map(|(name, _)| *name).collect();
            let help = suggest(&file.workload, "workloads", &names);
            format!("{}{}: error: no workload `{}`\n  help: {help}", path.display(), line_of(&text, "workload"), file.workload)
        })?;
        let of_whom = if options_given(arguments).is_some() { " with the options of the command line" } else { "" };
        let mtu_place = match file.mtu {
            Some(_) if arguments.mtu.is_none() => format!("{}{}: error: ", path.display(), line_of(&text, "mtu")),
            _ => String::new(),
        };
        let chosen = by_pattern(arguments, fabric, pattern, &stem, file).map_err(|error| {
            let message = format!("{error:#}");
            let mark = if of_whom.is_empty() { ": error" } else { of_whom };
            anyhow::anyhow!("{}{}{mark}: {message}", path.display(), line_of(&text, &message))
        })?;
        return Ok(Chosen { mtu_place, ..chosen });
    }
    by_trace(arguments, fabric.1, &text, &stem)
}

/// Describes the object that stands in place of a workload's file.
fn no_file(path: &Path) -> &'static str {
    if path.is_dir() {
        "a folder, not a file"
    } else if path.extension().is_some() || path.components().count() > 1 {
        "neither the name of a workload nor a file"
    } else {
        "neither a name nor a file"
    }
}

/// Returns the error of a workload file with invalid TOML or unknown keys.
fn unreadable(path: &Path, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let place = error.span().map_or_else(String::new, |span| {
        let before = &text[..span.start.min(text.len())];
        let line_begins = before.rfind('\n').map_or(0, |end| end + 1);
        format!(":{}:{}", before.matches('\n').count() + 1, before[line_begins..].chars().count() + 1)
    });
    let what = error.message().lines().collect::<Vec<_>>().join(": ");
    let is_toml = text.parse::<toml::Table>().is_ok();
    let (what, help) = match is_toml {
        true => (what, "a workload file has `workload = \"NAME\"` and keys named like the options; docs/model.md has all of them"),
        false => (format!("not valid TOML: {what}"), "the file is TOML: `key = value` lines; texts stand in double quotes"),
    };
    anyhow::anyhow!("{}{place}: error: {what}\n  help: {help}", path.display())
}

/// Returns `:3`, the line of the key that a message begins with, if the file has this key.
fn line_of(text: &str, message: &str) -> String {
    let key = message.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
    let has_key = |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    text.lines().position(|line| !key.is_empty() && has_key(line)).map_or_else(String::new, |line| format!(":{}", line + 1))
}

fn by_pattern(arguments: &ModelArguments, (fabric, loaded): Fabric<'_>, pattern: Pattern, name: &str, file: WorkloadFile) -> anyhow::Result<Chosen> {
    let ranks_per_host = arguments.ranks_per_host.or(file.ranks_per_host).unwrap_or(1);
    if !(1..=1024).contains(&ranks_per_host) {
        bail!("ranks_per_host = {ranks_per_host} is out of range: from 1 to 1024");
    }
    let ranks = loaded.spec.hosts.len() as u32 * ranks_per_host;
    if ranks < 2 {
        bail!(
            "a workload needs two ranks at least, and {} has 1 host with 1 rank\n  help: --ranks-per-host 2, or a fabric with more hosts",
            fabric.display()
        );
    }
    let seed = arguments.seed.or(file.seed).unwrap_or(loaded.seed);
    let rank = |key: &str, given: &Option<String>, of_file: &Option<String>| {
        given.as_ref().or(of_file.as_ref()).map(|host| rank_of(&loaded.spec, key, host, ranks_per_host)).transpose()
    };
    let of_file = match file.bytes {
        Some(Size::Text(text)) => Some(parse_bytes(&text).map_err(|error| anyhow::anyhow!("bytes: {error}"))?),
        Some(Size::Bytes(bytes)) => Some(bytes),
        None => None,
    };
    let operation = match arguments.operation.or(file.operation) {
        Some(OperationName::Write) => Operation::Write,
        Some(OperationName::Send) | None => Operation::Send,
    };
    let (from, to) = (rank("from", &arguments.from, &file.from)?, rank("to", &arguments.to, &file.to)?);
    let is_stream = pattern == Pattern::Stream;
    if let Some(host) = from.filter(|_| is_stream && from == to) {
        let name = &loaded.spec.hosts[(host / ranks_per_host) as usize].name;
        // An option of the command line has no line.
        let keys = if arguments.from.is_some() { "to and from" } else { "from and to" };
        bail!("{keys} are both {name}: a stream goes from one host to another\n  help: name two hosts, or leave one of them out");
    }
    // The default is `first`, or `second` if `first` is the other end.
    let other_than = |end: Option<u32>, first, second| Some(if end == Some(first) { second } else { first }).filter(|_| is_stream);
    let settings = Settings {
        bytes: arguments.bytes.or(of_file),
        messages: arguments.messages.or(file.messages),
        window: arguments.window.or(file.window),
        seed,
        root: rank("root", &arguments.root, &file.root)?,
        senders: arguments.senders.or(file.senders),
        distance: arguments.distance.or(file.distance),
        from: from.or_else(|| other_than(to, 0, ranks_per_host)),
        to: to.or_else(|| other_than(from, ranks_per_host, 0)),
        operation,
        repeat: arguments.repeat.or(file.repeat),
        mtu: arguments.mtu.or(file.mtu),
        service_level: arguments.service_level.or(file.service_level),
    };
    refuse_level_beside_routing(&loaded.spec, settings.service_level)?;
    let schedule = build(pattern, ranks, &settings)?;
    Ok(Chosen { name: name.to_owned(), schedule, seed, ranks_per_host, mtu_place: String::new(), trace: None })
}

/// Returns the first given option that configures a named workload.
fn options_given(arguments: &ModelArguments) -> Option<&'static str> {
    let options = [
        ("--bytes", arguments.bytes.is_some()),
        ("--messages", arguments.messages.is_some()),
        ("--window", arguments.window.is_some()),
        ("--root", arguments.root.is_some()),
        ("--senders", arguments.senders.is_some()),
        ("--distance", arguments.distance.is_some()),
        ("--from", arguments.from.is_some()),
        ("--to", arguments.to.is_some()),
        ("--repeat", arguments.repeat.is_some()),
    ];
    options.iter().find(|(_, given)| *given).map(|(key, _)| *key)
}

/// Refuses a service level if the routing engine chooses lanes by path, because that sets the
/// service level of every connection.
fn refuse_level_beside_routing(spec: &FabricSpec, level: Option<u32>) -> anyhow::Result<()> {
    let routing = spec.subnet.routing;
    if level.is_some() && routing.chooses_lanes() {
        bail!("service_level cannot be kept: routing {} sets it by path\n  help: leave it out, or take a fabric with other routing", routing.name());
    }
    Ok(())
}

/// Returns the first rank on a host.
fn rank_of(spec: &FabricSpec, key: &str, host: &str, ranks_per_host: u32) -> anyhow::Result<u32> {
    let names: Vec<&str> = spec.hosts.iter().map(|host| host.name.as_str()).collect();
    match names.iter().position(|name| *name == host) {
        Some(index) => Ok(index as u32 * ranks_per_host),
        None => bail!("{key}: there is no host {host} in the fabric\n  help: {}", suggest(host, "hosts", &names)),
    }
}

/// Reads a trace. A trace fixes its messages; only the places of its ranks, the operation and the
/// MTU are open.
fn by_trace(arguments: &ModelArguments, loaded: &LoadedFabric, text: &str, name: &str) -> anyhow::Result<Chosen> {
    if let Some(key) = options_given(arguments) {
        bail!("{key} has no effect on a trace, which contains its messages\n  help: leave it out");
    }
    let mut schedule = goal::parse(text).map_err(|error| anyhow::anyhow!("{}:{error}", arguments.workload))?;
    schedule.writes = arguments.operation == Some(OperationName::Write);
    schedule.mtu = arguments.mtu.map(parse_mtu).transpose()?;
    refuse_level_beside_routing(&loaded.spec, arguments.service_level)?;
    schedule.service_level = parse_service_level(arguments.service_level.unwrap_or(0))?;
    let (seed, ranks_per_host) = (arguments.seed.unwrap_or(loaded.seed), arguments.ranks_per_host.unwrap_or(1));
    let trace = Some(Trace::new(Path::new(&arguments.workload), text));
    Ok(Chosen { name: name.to_owned(), schedule, seed, ranks_per_host, mtu_place: String::new(), trace })
}
