//! `softband status` and `softband down`: list running fabrics, and end them.

use crate::output;
use crate::record::{self, Record};
use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use softband_engine::{FallbackReason, Remote};
use std::fmt::Write as _;
use std::time::Duration;

/// Time limit for the system alone, because `down` kills programs instead of asking them.
const DOWN_LIMIT: Duration = Duration::from_secs(10);
/// Exit status of `status` if no fabric is running.
const EXIT_NOTHING_UP: i32 = 1;

#[derive(Args)]
pub(crate) struct StatusArguments {
    /// Name of the fabric (default: all running fabrics)
    #[arg(long, env = record::NAME_VARIABLE)]
    name: Option<String>,
    /// Print one JSON object with a list `fabrics`
    #[arg(long)]
    json: bool,
    /// Also list the requests that programs gave to the engine instead of carrying them out, by reason
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Args)]
pub(crate) struct DownArguments {
    /// Name of the fabric
    #[arg(long, env = record::NAME_VARIABLE, default_value = record::NAME_DEFAULT)]
    name: String,
}

pub(crate) fn status(arguments: &StatusArguments) -> anyhow::Result<i32> {
    let records = match &arguments.name {
        Some(name) if arguments.json => record::find(name)?.into_iter().collect(),
        Some(name) => vec![record::wanted(name)?],
        None => record::all()?,
    };
    let mut fabrics = Vec::new();
    for record in &records {
        // A fabric that ends at this moment is not listed.
        if let Some(remote) = Remote::connect(&record.engine)? {
            fabrics.push(described(record, remote.status()?));
        }
    }
    if arguments.json {
        output::say(format_args!("{:#}\n", json!({ "fabrics": fabrics })))?;
    } else if fabrics.is_empty() {
        output::say("no fabric is up: softband up brings one up\n")?;
    } else {
        output::say(fabrics.iter().map(|fabric| to_text(fabric, arguments.verbose)).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if fabrics.is_empty() { EXIT_NOTHING_UP } else { 0 })
}

fn described(record: &Record, mut status: Value) -> Value {
    status["name"] = json!(record.name);
    status["fabric"] = json!(record.fabric);
    status["softband_version"] = json!(record.version);
    status
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn to_text(fabric: &Value, verbose: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {} (process {}, up {} s)", text(&fabric["name"]), text(&fabric["fabric"]), fabric["pid"], fabric["up_seconds"]);
    for host in list(&fabric["hosts"]) {
        let devices: Vec<String> = list(&host["devices"]).map(device_text).collect();
        let _ = writeln!(out, "  {} {}  {}", text(&host["name"]), text(&host["address"]), devices.join("; "));
        for program in list(&host["programs"]) {
            let qps = list(&program["queue_pairs"]).count();
            let with = if qps == 0 { String::new() } else { format!("  ({qps} QP{})", if qps == 1 { "" } else { "s" }) };
            let _ = writeln!(out, "    {:>7}  {}{with}", program["pid"], text(&program["command"]));
            if verbose {
                out += &fallbacks_text(&program["fallbacks"], 13);
            }
        }
    }
    if verbose {
        let _ = writeln!(out, "  requests that went to the engine instead of the direct path, of all programs so far:");
        out += &fallbacks_text(&fabric["fallbacks"], 4);
    }
    for warning in list(&fabric["warnings"]) {
        let _ = writeln!(out, "  warning: {}", text(warning));
    }
    out
}

/// Returns a line for each reason, with its number and its explanation.
fn fallbacks_text(counts: &Value, indent: usize) -> String {
    let mut out = String::new();
    for reason in FallbackReason::ALL {
        if let Some(count) = counts[reason.name()].as_u64() {
            let _ = writeln!(out, "{:indent$}{count} to the engine: {} ({})", "", reason.text(), reason.name());
        }
    }
    if out.is_empty() {
        let _ = writeln!(out, "{:indent$}none to the engine", "");
    }
    out
}

fn device_text(device: &Value) -> String {
    let ports = list(&device["ports"]).map(|port| match text(&port["state"]) {
        "active" if text(&port["link_layer"]) == "ethernet" => format!("port {} active, Ethernet, {}", port["port"], text(&port["ipv4"])),
        "active" => format!("port {} active, LID {}", port["port"], port["lid"]),
        state => format!("port {} {state}", port["port"]),
    });
    format!("{}: {}", text(&device["name"]), ports.collect::<Vec<_>>().join(", "))
}

pub(crate) fn down(arguments: &DownArguments) -> anyhow::Result<i32> {
    let record = record::wanted(&arguments.name)?;
    let remote = Remote::connect(&record.engine)?;
    if let Some(remote) = &remote {
        remote.down()?;
    }
    if !record::await_end(&record.name, &record.engine, DOWN_LIMIT)? {
        if record::shared_folder(&record.name).is_some() {
            bail!("the engine of '{}' does not end\n  help: end its container, or its process there", record.name);
        }
        bail!("the engine of '{}' does not end\n  help: kill -9 {} ends it and its programs", record.name, record.pid);
    }
    if let Some(remote) = remote {
        remote.await_end(DOWN_LIMIT);
    }
    output::say(format_args!("fabric '{}' is down\n", record.name))?;
    Ok(0)
}
