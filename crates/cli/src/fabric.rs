//! `softband fabric list`, `check`, `fmt`, `generate`, `import`, `export` and `show`.

use crate::{fabric_format, fabric_list, files, generate, home, output, topology};
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum FabricCommand {
    /// List the installed fabrics by name
    List(fabric_list::Search),
    /// Check a fabric file
    Check {
        /// Fabric file, or name of an installed fabric
        file: PathBuf,
        /// Accept cables beyond their length limit, with a warning
        #[arg(long)]
        allow_out_of_spec: bool,
    },
    /// Format fabric files: spacing, and the order of keys
    Fmt(fabric_format::FormatArguments),
    /// Write a fabric file for a common topology
    Generate(Box<generate::GenerateArguments>),
    /// Make a fabric file from the output of ibnetdiscover, or from a net file of ibsim
    Import(topology::ImportArguments),
    /// Write a fabric as the output of ibnetdiscover, or as a net file of ibsim
    Export(topology::ExportArguments),
    /// Draw a fabric: hosts, cables, switches
    Show {
        /// Fabric file, or name of an installed fabric
        file: PathBuf,
        /// Write the drawing as SVG into this file
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Accept cables beyond their length limit, with a warning
        #[arg(long)]
        allow_out_of_spec: bool,
    },
}

pub(crate) fn run(command: &FabricCommand) -> anyhow::Result<i32> {
    match command {
        FabricCommand::List(search) => return fabric_list::run(search),
        FabricCommand::Fmt(arguments) => return fabric_format::run(arguments),
        FabricCommand::Check { file, allow_out_of_spec } => {
            let (path, loaded, warnings) = home::load_and_count(file, *allow_out_of_spec)?;
            let spec = &loaded.spec;
            let verdict = match warnings {
                0 => "no faults".to_owned(),
                some => format!("no errors, {}", output::count(some as u64, "warning", "warnings")),
            };
            output::say(format_args!(
                "{}: {}, {}, {}: {verdict}\n",
                path.display(),
                output::count(spec.hosts.len() as u64, "host", "hosts"),
                output::count(spec.switches.len() as u64, "switch", "switches"),
                output::count(spec.cables.len() as u64, "cable", "cables")
            ))?;
        }
        FabricCommand::Generate(arguments) => generate::run(arguments)?,
        FabricCommand::Import(arguments) => topology::import(arguments)?,
        FabricCommand::Export(arguments) => topology::export(arguments)?,
        FabricCommand::Show { file, svg, allow_out_of_spec } => {
            let (_, loaded) = home::load_fabric(file, *allow_out_of_spec)?;
            match svg {
                Some(to) => {
                    files::write(to, &softband_catalog::draw_svg(&loaded.spec))?;
                    output::say(format_args!("drawing written to {}\n", to.display()))?;
                }
                None => output::say(softband_catalog::draw_text(&loaded.spec))?,
            }
        }
    }
    Ok(0)
}
