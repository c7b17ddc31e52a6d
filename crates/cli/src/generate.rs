//! `softband fabric generate`: a fabric file from a kind and its measures.

use crate::{files, home, output};
use anyhow::Context;
use clap::Args;
use softband_catalog::{LoadOptions, UsualParts};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// back-to-back, star, fat-tree, torus, hypercube or dragonfly
    kind: String,
    /// Number of hosts (star and fat tree: default is as many as fit)
    #[arg(long)]
    hosts: Option<u32>,
    /// Ports of each switch that a star or fat tree uses (default: all)
    #[arg(long)]
    ports: Option<u32>,
    /// Levels of a fat tree, 2 or 3
    #[arg(long)]
    levels: Option<u32>,
    /// Largest ratio of host ports to spine ports of a leaf, such as 2 or 1.5
    #[arg(long)]
    oversubscription: Option<f64>,
    /// Lengths of a torus, such as 4,4 or 4,4,4
    #[arg(long, value_delimiter = ',')]
    dimensions: Vec<u32>,
    /// Dimension of a hypercube
    #[arg(long)]
    dimension: Option<u32>,
    /// Hosts at each switch of a torus, hypercube or dragonfly
    #[arg(long)]
    hosts_per_switch: Option<u32>,
    /// Groups of a dragonfly
    #[arg(long)]
    groups: Option<u32>,
    /// Switches in each group of a dragonfly
    #[arg(long)]
    switches_per_group: Option<u32>,
    /// Links of each switch of a dragonfly to other groups
    #[arg(long)]
    global_links: Option<u32>,
    #[command(flatten)]
    parts: PartArguments,
    /// Write out all hosts, switches and cables, for editing
    #[arg(long)]
    expand: bool,
    /// Write into this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Missing options are as in the default fabric.
#[derive(Args)]
struct PartArguments {
    /// Host part (default for all parts: those of the default fabric)
    #[arg(long, value_name = "PART")]
    host: Option<String>,
    /// HCA part
    #[arg(long, value_name = "PART")]
    hca: Option<String>,
    /// Device name of the HCAs
    #[arg(long)]
    device: Option<String>,
    /// Switch part
    #[arg(long, value_name = "PART")]
    switch: Option<String>,
    /// Cable part between hosts and switches
    #[arg(long, value_name = "PART")]
    host_cable: Option<String>,
    /// Length of these cables, such as "2 m", for parts without a fixed length
    #[arg(long, value_name = "LENGTH")]
    host_cable_length: Option<String>,
    /// Cable part between switches (default: the host cable)
    #[arg(long, value_name = "PART")]
    switch_cable: Option<String>,
    /// Length of these cables
    #[arg(long, value_name = "LENGTH")]
    switch_cable_length: Option<String>,
}

pub(crate) fn run(arguments: &GenerateArguments) -> anyhow::Result<()> {
    let head = format!("[fabric]\ntitle = \"Generated: {}\"\n\n", arguments.kind.replace(['"', '\\'], "'"));
    let table = table(arguments)?;
    let catalog = home::catalog(arguments.out.as_deref())?;
    let described = format!("{head}{table}");
    let by_options = |error: softband_catalog::FabricError| anyhow::anyhow!("{}", by_options(&error.to_text(), &described));
    let loaded = softband_catalog::parse_fabric(NAME, &described, &catalog, &LoadOptions::default()).map_err(by_options)?;
    for warning in &loaded.warnings {
        eprintln!("{}", warning.to_text());
    }
    let text =
        if arguments.expand { format!("{head}{}", softband_catalog::expand(NAME, &described, &catalog).map_err(by_options)?) } else { described };
    match &arguments.out {
        Some(to) => files::write(to, &text)?,
        None => output::say(text)?,
    }
    Ok(())
}

/// Name of the file in errors, until they name the options.
const NAME: &str = "generated";

/// Converts errors of the generated file to errors of the options that its lines come from.
fn by_options(errors: &str, described: &str) -> String {
    let named = |line: &str| {
        let (number, rest) = line.trim_start().strip_prefix(NAME)?.strip_prefix(':')?.split_once(':')?;
        let (_, message) = rest.split_once(": ")?;
        let line = described.lines().nth(number.parse::<usize>().ok()?.checked_sub(1)?)?;
        let message = message.strip_prefix("error: ")?;
        let option = |key: &str, message: &str| format!("softband: error: --{}: {message}", key.replace('_', "-"));
        // An error at the table concerns a missing option, or none.
        let missing = message.strip_prefix("`[generate]` needs `").and_then(|rest| rest.strip_suffix('`'));
        Some(match line.split_once(" =") {
            Some((key, _)) if key != "kind" => option(key, message),
            _ => missing.map_or_else(|| format!("softband: error: {message}"), |key| option(key, "this kind needs it")),
        })
    };
    errors.lines().map(|line| named(line).unwrap_or_else(|| keys_as_options(line))).collect::<Vec<_>>().join("\n")
}

/// Converts a remedy from keys to options: `dimensions = [4, 4]` becomes `--dimensions 4,4`.
fn keys_as_options(line: &str) -> String {
    let as_option = |quoted: &str| {
        let (key, value) = quoted.split_once(" = ")?;
        let value: String = value.chars().filter(|letter| !['[', ']', '"', ' '].contains(letter)).collect();
        Some(if key == "kind" { value } else { format!("--{} {value}", key.replace('_', "-")) })
    };
    let piece = |(index, piece): (usize, &str)| as_option(piece).filter(|_| index % 2 == 1).unwrap_or_else(|| piece.to_owned());
    line.split('`').enumerate().map(piece).collect::<Vec<_>>().join("`")
}

/// Returns the `[generate]` table.
fn table(arguments: &GenerateArguments) -> anyhow::Result<String> {
    let mut text = format!("[generate]\nkind = {:?}\n", arguments.kind);
    let numbers = [
        ("hosts", arguments.hosts),
        ("ports", arguments.ports),
        ("levels", arguments.levels),
        ("dimension", arguments.dimension),
        ("hosts_per_switch", arguments.hosts_per_switch),
        ("groups", arguments.groups),
        ("switches_per_group", arguments.switches_per_group),
        ("global_links", arguments.global_links),
    ];
    for (key, number) in numbers {
        number.map_or(Ok(()), |number| writeln!(text, "{key} = {number}"))?;
    }
    if let Some(ratio) = arguments.oversubscription {
        writeln!(text, "oversubscription = {}", ratio_text(ratio))?;
    }
    if !arguments.dimensions.is_empty() {
        writeln!(text, "dimensions = {:?}", arguments.dimensions)?;
    }
    for (key, value) in part_texts(&arguments.parts, &arguments.kind)? {
        value.map_or(Ok(()), |value| writeln!(text, "{key} = {value:?}"))?;
    }
    Ok(text)
}

/// Returns keys and values of the parts, from the command line or else from the default fabric.
fn part_texts(parts: &PartArguments, kind: &str) -> anyhow::Result<Vec<(&'static str, Option<String>)>> {
    let (_, default) = home::load_fabric(Path::new(home::DEFAULT_FABRIC), false)?;
    let usual = UsualParts::of(&default.spec).context("the default fabric lacks a host with an HCA, or a cable")?;
    let or = |said: &Option<String>, usual: String| Some(said.clone().unwrap_or(usual));
    let has_switch = kind != "back-to-back";
    let usual_device = parts.hca.is_none().then_some(usual.device);
    let usual_length = parts.host_cable.is_none().then_some(usual.cable_length);
    Ok(vec![
        ("host", or(&parts.host, usual.host)),
        ("hca", or(&parts.hca, usual.hca)),
        ("device", parts.device.clone().or(usual_device)),
        ("switch", parts.switch.clone().or(usual.switch.filter(|_| has_switch))),
        ("host_cable", or(&parts.host_cable, usual.cable)),
        ("host_cable_length", parts.host_cable_length.clone().or(usual_length)),
        ("switch_cable", parts.switch_cable.clone()),
        ("switch_cable_length", parts.switch_cable_length.clone()),
    ])
}

/// Formats a ratio for TOML. Whole numbers stay whole.
fn ratio_text(ratio: f64) -> String {
    if ratio.fract() == 0.0 && ratio.abs() < 1e9 { format!("{ratio:.0}") } else { format!("{ratio:?}").to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::by_options;

    #[test]
    fn errors_name_options_and_no_line_that_nobody_has_written() {
        let described = "[fabric]\ntitle = \"Generated: torus\"\n\n[generate]\nkind = \"torus\"\nhosts_per_switch = 40\n";
        let of = |error: &str| by_options(&format!("generated:{error}"), described);
        assert_eq!(of("6:20: error: too many\n  help: fewer"), "softband: error: --hosts-per-switch: too many\n  help: fewer");
        assert_eq!(of("5:8: error: no kind"), "softband: error: no kind");
        assert_eq!(of("4:2: error: it does not fit"), "softband: error: it does not fit");
        let needs = of("4:2: error: `[generate]` needs `switch_cable`\n  help: write it");
        let remedy = of("6:20: error: too many\n  help: write `dimensions = [4, 4]` or take `kind = \"star\"` with `sw/1`");
        assert!(remedy.ends_with("\n  help: write `--dimensions 4,4` or take `star` with `sw/1`"), "{remedy}");
        assert_eq!(needs, "softband: error: --switch-cable: this kind needs it\n  help: write it");
    }
}
