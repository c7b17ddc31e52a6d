//! `softband init`: a first fabric file from four answers.

mod answers;
mod text;

use crate::{files, home, output};
use answers::{Answers, Given};
use anyhow::bail;
use clap::Args;
use softband_catalog::{Catalog, LoadOptions, LoadedFabric};
use softband_types::LinkLayer;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct InitArguments {
    /// Number of hosts (default: 2)
    #[arg(long, value_name = "N", value_parser = answers::parse_hosts)]
    hosts: Option<u32>,
    /// HCA part, such as connectx5; `softband parts list --kind hca` names all (default: that of the default fabric)
    #[arg(long, value_name = "PART")]
    hca: Option<String>,
    /// Link layer: infiniband or ethernet (RoCE) (default: infiniband)
    #[arg(long, value_name = "LAYER", value_parser = answers::parse_link_layer)]
    link_layer: Option<LinkLayer>,
    /// Topology: back-to-back, star or fat-tree (default: star, or fat-tree if one switch lacks the ports)
    #[arg(long, value_name = "KIND", value_parser = answers::parse_topology)]
    topology: Option<Topology>,
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "fabric.toml")]
    out: PathBuf,
    /// Ask nothing, and take the default of each option that is not given
    #[arg(long, short)]
    yes: bool,
    /// Overwrite the file
    #[arg(long)]
    force: bool,
}

/// Forms of a first fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    BackToBack,
    Star,
    FatTree,
}

impl Topology {
    const ALL: [Self; 3] = [Self::BackToBack, Self::Star, Self::FatTree];

    /// Returns the name, as `[generate]` has it.
    fn name(self) -> &'static str {
        match self {
            Self::BackToBack => "back-to-back",
            Self::Star => "star",
            Self::FatTree => "fat-tree",
        }
    }
}

pub(crate) fn run(arguments: &InitArguments) -> anyhow::Result<i32> {
    refuse_former(arguments)?;
    let given = Given { hosts: arguments.hosts, hca: arguments.hca.clone(), link_layer: arguments.link_layer, topology: arguments.topology };
    let catalog = home::catalog(Some(&arguments.out))?;
    let usual_hca = usual_hca()?;
    let answers = if arguments.yes || given.has_any() && !std::io::stdin().is_terminal() {
        given.with_defaults(&catalog, &usual_hca)?
    } else if std::io::stdin().is_terminal() {
        answers::ask(given, &catalog, &usual_hca)?
    } else {
        bail!(
            "standard input is no terminal, so nobody can answer the questions\n  \
             help: `softband init --yes` takes all defaults; --hosts, --hca, --link-layer and --topology choose (others keep their defaults)"
        );
    };
    let (text, loaded) = fabric_of(&answers, &catalog)?;
    refuse_former(arguments)?;
    files::write(&arguments.out, &text)?;
    tell(&arguments.out, &answers, &loaded)?;
    Ok(0)
}

/// Refuses to replace a file, even a broken link.
fn refuse_former(arguments: &InitArguments) -> anyhow::Result<()> {
    if !arguments.force && arguments.out.symlink_metadata().is_ok() {
        bail!("{} exists already\n  help: name another file with --out, or overwrite this one with --force", arguments.out.display());
    }
    Ok(())
}

fn usual_hca() -> anyhow::Result<String> {
    let (_, default) = home::load_fabric(Path::new(home::DEFAULT_FABRIC), false)?;
    let hca = default.spec.hosts.first().and_then(|host| host.hcas.first());
    hca.map(|hca| hca.part.name.clone()).ok_or_else(|| anyhow::anyhow!("the default fabric has no HCA\n  help: install Softband again"))
}

/// Returns the text of the fabric file, and the fabric that it describes.
fn fabric_of(answers: &Answers, catalog: &Catalog) -> anyhow::Result<(String, LoadedFabric)> {
    let text = text::of(answers);
    let failed = |error: softband_catalog::FabricError| anyhow::anyhow!("these answers make no fabric\n{}", error.to_text());
    let text = softband_catalog::format_fabric("fabric", &text).map_err(failed)?;
    let loaded = softband_catalog::parse_fabric("fabric", &text, catalog, &LoadOptions::default()).map_err(failed)?;
    Ok((text, loaded))
}

/// Prints what the file holds, and the next commands.
fn tell(out: &Path, answers: &Answers, loaded: &LoadedFabric) -> anyhow::Result<()> {
    let file = quoted(&out.display().to_string());
    let hosts: Vec<&str> = loaded.spec.hosts.iter().map(|host| host.name.as_str()).collect();
    let try_it = match hosts[..] {
        [first, second, ..] => format!("softband run {file} --on {first} ib_send_bw --on {second} 'ib_send_bw {first}'"),
        _ => format!("softband run {file} --on {} ibv_devinfo", hosts[0]),
    };
    output::say(format_args!(
        "wrote {}: {}\nnext:  softband fabric show {file}\n       {try_it}\n       softband doctor\n",
        out.display(),
        text::title(answers)
    ))
}

/// Quotes a word for a shell, if it needs quotes.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./+,:@%".contains(letter);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
