//! Rates of computation by kind of work: those of this machine, and those of a host part. Their ratio
//! turns the time of the recording machine into that of the modelled host.

use super::folder::Folder;
use crate::home;
use anyhow::{Context, bail};
use clap::Args;
use softband_catalog::{PartKind, PartSheet, suggest};
use std::collections::BTreeMap;
use std::process::Command;

/// Options of the compiler for the program that measures this machine.
const OPTIONS: [&str; 4] = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512"];

/// Kind of work that a program's time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Double-precision arithmetic in registers and caches
    FloatingPoint,
    /// Products of matrices by a library
    MatrixProduct,
    /// Memory beyond the caches
    Memory,
    /// Operations that wait for each other, which follow the clock of the processor
    Integer,
}

const KINDS: [Kind; 4] = [Kind::FloatingPoint, Kind::MatrixProduct, Kind::Memory, Kind::Integer];
/// Parameter of a host part: its memory's rate for all cores together.
const NODE_MEMORY: &str = "compute_memory_node";

impl Kind {
    /// Name in a recording and on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::FloatingPoint => "floating-point",
            Self::MatrixProduct => "matrix-product",
            Self::Memory => "memory",
            Self::Integer => "integer",
        }
    }

    /// Parameter of a host part, with its unit and the size of that.
    const fn parameter(self) -> (&'static str, &'static str, f64) {
        match self {
            Self::FloatingPoint => ("compute_floating_point", "Gflop/s", 1e9),
            Self::MatrixProduct => ("compute_matrix_product", "Gflop/s", 1e9),
            Self::Memory => ("compute_memory", "MB/s", 1e6),
            Self::Integer => ("compute_integer", "Gop/s", 1e9),
        }
    }

    /// Returns whether a recording measures the rate of its machine. The library of matrix products
    /// belongs to the program.
    const fn is_measured(self) -> bool {
        !matches!(self, Self::MatrixProduct)
    }

    fn parse(text: &str) -> Result<Self, String> {
        KINDS
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("`{text}` is no kind of work\n  help: write {}", KINDS.map(Kind::name).join(", ")))
    }
}

/// Work of a computation: amounts of operations or bytes by kind. Only their ratio counts.
#[derive(Clone, Debug, PartialEq)]
struct Mix(BTreeMap<Kind, f64>);

impl Mix {
    /// Reads `memory`, or `floating-point=2,memory=12`.
    fn parse(text: &str) -> Result<Self, String> {
        if !text.contains(['=', ',']) {
            return Ok(Self(BTreeMap::from([(Kind::parse(text)?, 1.0)])));
        }
        pairs(text, "an amount above 0").map(Self)
    }
}

/// Rates of a core of the recording machine that the user gives.
#[derive(Clone, Debug, PartialEq)]
enum Rates {
    /// Of the only kind.
    One(f64),
    Of(BTreeMap<Kind, f64>),
}

impl Rates {
    /// Reads `2.6`, or `floating-point=40,memory=12000`.
    fn parse(text: &str) -> Result<Self, String> {
        if text.contains('=') { pairs(text, "a rate above 0").map(Self::Of) } else { positive(text, "a rate above 0").map(Self::One) }
    }

    fn of(&self, kind: Kind) -> Option<f64> {
        match self {
            Self::One(rate) => Some(*rate),
            Self::Of(rates) => rates.get(&kind).copied(),
        }
    }
}

fn pairs(text: &str, wanted: &str) -> Result<BTreeMap<Kind, f64>, String> {
    let mut found = BTreeMap::new();
    for pair in text.split(',') {
        let (kind, number) = pair.split_once('=').ok_or_else(|| format!("write KIND={wanted}, such as memory=12"))?;
        if found.insert(Kind::parse(kind)?, positive(number, wanted)?).is_some() {
            return Err(format!("`{kind}` appears twice"));
        }
    }
    Ok(found)
}

fn positive(text: &str, wanted: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite()).ok_or_else(|| format!("write {wanted}, such as 2.6"))
}

/// Options that turn the time of one machine into that of another.
#[derive(Args, Clone, Debug)]
pub(crate) struct RateArguments {
    /// Work of the computation: floating-point, matrix-product, memory or integer, or amounts of several, such as
    /// floating-point=2,memory=12. The rates of both machines turn the recording machine's time into that of --compute-host
    #[arg(long, value_parser = Mix::parse, value_name = "KIND", requires = "compute_host")]
    compute_kind: Option<Mix>,
    /// Host part of the catalogue whose processor computes
    #[arg(long, value_name = "PART", requires = "compute_kind")]
    compute_host: Option<String>,
    /// Rate of a core of the recording machine: Gflop/s of floating-point and matrix-product, MB/s of memory, Gop/s of integer. With several
    /// kinds KIND=RATE,... (default: measured at the recording)
    #[arg(long, value_name = "RATE", requires = "compute_kind", value_parser = Rates::parse)]
    compute_rate: Option<Rates>,
    /// Processes of a host that compute at the same time and share its memory (default: 1; mpirun: the ranks of a host)
    #[arg(long, value_name = "N", requires = "compute_kind", value_parser = clap::value_parser!(u32).range(1..=4096))]
    compute_ranks: Option<u32>,
}

impl RateArguments {
    pub(crate) fn is_empty(&self) -> bool {
        self.compute_kind.is_none()
    }

    /// Sets the number of processes that share the memory of a host, unless the user gave it.
    pub(crate) fn share(&mut self, ranks: u32) {
        self.compute_ranks.get_or_insert(ranks);
    }

    /// Returns the factor of the recording machine's time. `recorded` has the rates of that machine.
    pub(crate) fn factor(&self, recorded: &BTreeMap<String, u64>) -> anyhow::Result<f64> {
        let (Some(mix), Some(host)) = (&self.compute_kind, &self.compute_host) else { return Ok(1.0) };
        self.check(mix)?;
        let sheet = host_sheet(host)?;
        let (mut here, mut there) = (0.0, 0.0);
        for (kind, amount) in &mix.0 {
            here += amount / self.own_rate(*kind, recorded)?;
            there += amount / rate_of_host(&sheet, host, *kind, self.compute_ranks.unwrap_or(1))?;
        }
        Ok(there / here)
    }

    /// Refuses rates of kinds that the computation lacks, which would have no effect.
    fn check(&self, mix: &Mix) -> anyhow::Result<()> {
        match &self.compute_rate {
            Some(Rates::One(_)) if mix.0.len() > 1 => {
                bail!("--compute-rate: several kinds of work need a rate for each\n  help: write KIND=RATE,...")
            }
            Some(Rates::Of(rates)) => match rates.keys().find(|kind| !mix.0.contains_key(kind)) {
                Some(kind) => bail!("--compute-rate: --compute-kind has no {} work\n  help: leave this rate out", kind.name()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn own_rate(&self, kind: Kind, recorded: &BTreeMap<String, u64>) -> anyhow::Result<f64> {
        let (_, unit, size) = kind.parameter();
        match (self.compute_rate.as_ref().and_then(|rates| rates.of(kind)), recorded.get(kind.name())) {
            (Some(rate), _) => Ok(rate * size),
            (None, Some(rate)) => Ok(*rate as f64),
            (None, None) => {
                let again = if kind.is_measured() { ", or record again" } else { "" };
                bail!("the recording has no rate of {} work\n  help: give the recording machine's with --compute-rate, in {unit}{again}", kind.name())
            }
        }
    }
}

fn host_sheet(host: &str) -> anyhow::Result<PartSheet> {
    let catalog = home::catalog(None)?;
    let Some(sheet) = catalog.sheet(PartKind::Host, host) else {
        bail!("--compute-host: no host part is called `{host}`\n  help: {}", suggest(host, "host parts", &catalog.parts(PartKind::Host)));
    };
    Ok(sheet.clone())
}

/// Returns the rate of a host part for each of the processes that compute at the same time, in
/// operations or bytes per second.
fn rate_of_host(sheet: &PartSheet, host: &str, kind: Kind, ranks: u32) -> anyhow::Result<f64> {
    let (name, unit, size) = kind.parameter();
    let Some(alone) = read_rate(sheet, host, name, size)? else {
        bail!(
            "catalog/host/{host}.toml has no `{name}`, the rate of {} work\n  help: add `{name} = {{ value = ..., unit = \"{unit}\", source = \
             \"...\", status = \"...\" }}` for each core, in that file or in a part of your own",
            kind.name()
        );
    };
    let together = if kind == Kind::Memory { read_rate(sheet, host, NODE_MEMORY, size)? } else { None };
    Ok(together.map_or(alone, |together| alone.min(together / f64::from(ranks))))
}

fn read_rate(sheet: &PartSheet, host: &str, name: &str, size: f64) -> anyhow::Result<Option<f64>> {
    let Some(parameter) = sheet.parameters.iter().find(|parameter| parameter.name == name) else { return Ok(None) };
    // Another unit of the same quantity has another size.
    let of_unit = match parameter.unit.as_str() {
        "B/s" => 1.0,
        "MiB/s" => f64::from(1u32 << 20),
        "GB/s" => 1e9,
        "Gb/s" => 125e6,
        _ => size,
    };
    let value: f64 = parameter.value.parse().with_context(|| format!("`{name}` of {host} is no number"))?;
    Ok(Some(value * of_unit))
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
    if rates.len() != KINDS.iter().filter(|kind| kind.is_measured()).count() {
        bail!("the measurement of this machine failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim_end());
    }
    Ok(rates)
}
