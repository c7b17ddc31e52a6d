//! The folder of a run (`--out`): the output of programs, the resolved fabric, counters, and a summary.

use crate::counters::{hca_counters, port_counters};
use crate::files;
use crate::run::PaceName;
use crate::why::{Bottleneck, Evidence};
use anyhow::Context;
use serde_json::json;
use softband_catalog::LoadedFabric;
use softband_engine::RunReport;
use softband_fabric::PortCounters;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Folder that belongs to a run.
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, and removes the output of an earlier run.
    pub(crate) fn make(path: &Path) -> anyhow::Result<Self> {
        let other = |error| anyhow::anyhow!("cannot make the run folder {}: {error}\n  help: name another folder with --out", path.display());
        std::fs::create_dir_all(path).map_err(other)?;
        clear_former_run(path).with_context(|| format!("cannot clear the former run in {}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Makes a file for the output of a program. Its name ends with `-NUMBER.out` or `-NUMBER.err`.
    pub(crate) fn file(&self, name: &str) -> anyhow::Result<File> {
        let path = self.path.join(name);
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Leaves the results of a run: the resolved fabric, the counters, and the summary.
    pub(crate) fn leave(
        &self,
        (fabric, pace): (&Path, PaceName),
        loaded: &LoadedFabric,
        status: i32,
        (report, evidence, bottlenecks): (&RunReport, &Evidence, &[Bottleneck]),
    ) -> anyhow::Result<()> {
        let mut run = json!({
            "softband_version": env!("CARGO_PKG_VERSION"),
            "versions": { "softband": env!("CARGO_PKG_VERSION"), "kernel": kernel_release() },
            "fabric": fabric.display().to_string(),
            "seed": loaded.seed,
            "start_date": loaded.start_date.to_string(),
            "pace": match pace {
                PaceName::Virtual => "virtual",
                PaceName::Wall => "wall",
            },
            "virtual_seconds": report.virtual_seconds,
            "wall_seconds": report.wall_seconds,
            "exit_status": status,
            "programs": report.programs,
            "turns": report.turns,
            "fabric_events": report.fabric_events,
            "warnings": report.warnings.iter().chain(&report.told).collect::<Vec<_>>(),
            "failure": report.failure,
            "bottlenecks": bottlenecks.iter().map(Bottleneck::to_json).collect::<Vec<_>>(),
        });
        // In simulated time the engine does all work.
        if let Some(fallbacks) = &report.fallbacks {
            run["fallbacks"] = fallbacks.clone();
        }
        let counters: Vec<_> = evidence.ports.iter().map(of_node).collect();
        let hcas: Vec<_> = evidence.hcas.iter().map(hca_counters).collect();
        let counters = json!({ "unit_of_data": "4 bytes", "ports": counters, "hcas": hcas });
        let json = |value: &serde_json::Value| format!("{value:#}\n");
        // `run.json` appears last, so its presence implies the others.
        files::write_all(&self.path, &[("fabric.toml", loaded.resolved_toml()), ("counters.json", json(&counters)), ("run.json", json(&run))])
    }
}

/// Removes the output of an earlier run, so that nobody takes it for part of this run. Leaves other
/// files alone.
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

fn of_node(port: &PortCounters) -> serde_json::Value {
    let mut counters = port_counters(port);
    counters["node"] = json!(port.node);
    counters["port"] = json!(port.port.0);
    counters["xmit_busy_picos"] = json!(port.xmit_busy_picos);
    counters
}

fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
