//! `softband fabric import` and `export`: topologies of `ibnetdiscover` and ibsim.

use crate::{files, home, output};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use softband_catalog::TopologyFormat;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct ImportArguments {
    /// Output of ibnetdiscover, or net file of ibsim; `-` for standard input
    file: PathBuf,
    /// Format of the file (default: as its content shows)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write into this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    /// Fabric file, or name of an installed fabric
    fabric: PathBuf,
    /// Format of the topology
    #[arg(long, value_enum)]
    format: Format,
    /// Write into this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Accept cables beyond their length limit, with a warning
    #[arg(long)]
    allow_out_of_spec: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Output of ibnetdiscover (infiniband-diags)
    Ibnetdiscover,
    /// Net file of ibsim
    Ibsim,
}

impl From<Format> for TopologyFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Ibnetdiscover => Self::Ibnetdiscover,
            Format::Ibsim => Self::Ibsim,
        }
    }
}

/// Largest topology. The largest subnet, with 48 Ki nodes, needs some 30 MiB.
const BYTES_MAX: u64 = 1 << 30;

pub(crate) fn import(arguments: &ImportArguments) -> anyhow::Result<()> {
    let bytes = read(&arguments.file)?;
    let catalog = home::catalog(arguments.out.as_deref())?;
    let name = if arguments.file == Path::new("-") { String::from("stdin") } else { arguments.file.display().to_string() };
    let imported = softband_catalog::import_topology(&name, &bytes, arguments.format.map(Into::into), &catalog).map_err(output::diagnostic)?;
    for note in &imported.notes {
        eprintln!("{}", note.to_text());
    }
    write(arguments.out.as_deref(), &imported.text)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true if std::io::stdin().is_terminal() => {
            bail!("standard input is a terminal\n  help: name a file, or write `ibnetdiscover | softband fabric import -`")
        }
        true => std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {}", file.display()))
        .map_err(|error| anyhow::anyhow!("{error:#}\n  help: name the output of `ibnetdiscover`, or a net file of ibsim"))?;
    if bytes.len() as u64 > BYTES_MAX {
        bail!("{} is larger than 1 GiB\n  help: name the output of `ibnetdiscover`, or a net file of ibsim", file.display());
    }
    Ok(bytes)
}

pub(crate) fn export(arguments: &ExportArguments) -> anyhow::Result<()> {
    let (path, loaded) = home::load_fabric(&arguments.fabric, arguments.allow_out_of_spec)?;
    let exported = softband_catalog::export_topology(&loaded.spec, arguments.format.into()).map_err(anyhow::Error::msg)?;
    for note in &exported.notes {
        eprintln!("{}: note: {note}", path.display());
    }
    write(arguments.out.as_deref(), &exported.text)
}

fn write(out: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match out {
        Some(out) => files::write(out, text),
        None => output::say(text),
    }
}
