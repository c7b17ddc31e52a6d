//! Rates of computation by kind of work: those of this machine, and those of a host part. Their ratio
//! turns the time of the recording machine into that of the modelled host.

use super::folder::Folder;
use crate::home;
use anyhow::{Context, bail};
use clap::Args;
use softband_catalog::{PartKind, suggest};
use std::collections::BTreeMap;
use std::process::Command;

/// Options of the compiler for the program that measures this machine.
const OPTIONS: [&str; 4] = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512"];

/// Kind of work that a program's time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Double-precision arithmetic in registers and caches
    FloatingPoint,
    /// Memory beyond the caches
    Memory,
    /// Operations that wait for each other, which follow the clock of the processor
    Integer,
}

impl Kind {
    /// Name in a recording.
    const fn name(self) -> &'static str {
        match self {
            Self::FloatingPoint => "floating-point",
            Self::Memory => "memory",
            Self::Integer => "integer",
        }
    }

    /// Parameter of a host part, with its unit and the size of that.
    const fn parameter(self) -> (&'static str, &'static str, f64) {
        match self {
            Self::FloatingPoint => ("compute_floating_point", "Gflop/s", 1e9),
            Self::Memory => ("compute_memory", "MB/s", 1e6),
            Self::Integer => ("compute_integer", "Gop/s", 1e9),
        }
    }
}

/// Options that turn the time of one machine into that of another.
#[derive(Args, Clone, Debug)]
pub(crate) struct RateArguments {
    /// Kind of work that the computation is: its rates turn the recording machine's time into that of --compute-host
    #[arg(long, value_enum, value_name = "KIND", requires = "compute_host")]
    compute_kind: Option<Kind>,
    /// Host part of the catalogue whose processor computes
    #[arg(long, value_name = "PART", requires = "compute_kind")]
    compute_host: Option<String>,
    /// Rate of a core of the recording machine: Gflop/s of floating-point, MB/s of memory, Gop/s of integer (default: measured at the
    /// recording)
    #[arg(long, value_name = "RATE", requires = "compute_kind", value_parser = rate)]
    compute_rate: Option<f64>,
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite()).ok_or_else(|| "write a rate above 0, such as 2.6".into())
}

impl RateArguments {
    pub(crate) fn is_empty(&self) -> bool {
        self.compute_kind.is_none()
    }

    /// Returns the factor of the recording machine's time. `recorded` has the rates of that machine.
    pub(crate) fn factor(&self, recorded: &BTreeMap<String, u64>) -> anyhow::Result<f64> {
        let (Some(kind), Some(host)) = (self.compute_kind, &self.compute_host) else { return Ok(1.0) };
        let (_, unit, size) = kind.parameter();
        let own = match (self.compute_rate, recorded.get(kind.name())) {
            (Some(rate), _) => rate * size,
            (None, Some(rate)) => *rate as f64,
            (None, None) => bail!(
                "the recording has no rate of {} work\n  help: give the recording machine's with --compute-rate, in {unit}, or record again",
                kind.name()
            ),
        };
        Ok(own / rate_of_host(host, kind)?)
    }
}

/// Returns the rate of a host part, in operations or bytes per second.
fn rate_of_host(host: &str, kind: Kind) -> anyhow::Result<f64> {
    let catalog = home::catalog(None)?;
    let Some(sheet) = catalog.sheet(PartKind::Host, host) else {
        bail!("--compute-host: no host part is called `{host}`\n  help: {}", suggest(host, "host parts", &catalog.parts(PartKind::Host)));
    };
    let (name, unit, size) = kind.parameter();
    let Some(parameter) = sheet.parameters.iter().find(|parameter| parameter.name == name) else {
        bail!(
            "catalog/host/{host}.toml has no `{name}`, the rate of {} work\n  help: add `{name} = {{ value = ..., unit = \"{unit}\", source = \
             \"...\", status = \"...\" }}` for each core, in that file or in a part of your own",
            kind.name()
        );
    };
    // Another unit of the same quantity has another size.
    let of_unit = match parameter.unit.as_str() {
        "B/s" => 1.0,
        "MiB/s" => f64::from(1u32 << 20),
        "GB/s" => 1e9,
        "Gb/s" => 125e6,
        _ => size,
    };
    let value: f64 = parameter.value.parse().with_context(|| format!("`{name}` of {host} is no number"))?;
    Ok(value * of_unit)
}

/// Measures the rates of a core of this machine.
pub(crate) fn measure() -> anyhow::Result<BTreeMap<String, u64>> {
    let folder = Folder::new()?;
    let program = folder.path().join("rates");
    let source = home::home()?.join("tools/hostrates/rates.c");
    let done = Command::new("cc").args(OPTIONS).arg("-o").arg(&program).arg(&source).output();
    let done =
        done.map_err(|error| anyhow::anyhow!("cannot run cc, which compiles the measurement of this machine: {error}\n  help: install gcc"))?;
    if !done.status.success() {
        bail!("cc cannot compile {}:\n{}", source.display(), String::from_utf8_lossy(&done.stderr).trim_end());
    }
    let done = Command::new(&program).output().with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&done.stdout);
    let rates: BTreeMap<String, u64> =
        text.lines().filter_map(|line| line.split_once(' ')).filter_map(|(kind, rate)| Some((kind.into(), rate.parse().ok()?))).collect();
    if rates.len() != 3 {
        bail!("the measurement of this machine failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim_end());
    }
    Ok(rates)
}
