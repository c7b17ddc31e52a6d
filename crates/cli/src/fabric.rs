//! `softband fabric check`, `generate` and `show`.

use crate::{files, generate, home, output};
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum FabricCommand {
    /// Read a fabric file and say what is wrong with it, or that nothing is
    Check {
        file: PathBuf,
        /// Accept cables beyond their length limit, with a warning
        #[arg(long)]
        allow_out_of_spec: bool,
    },
    /// Write a fabric file for a fabric of one of the usual forms
    Generate(Box<generate::GenerateArguments>),
    /// Draw a fabric: hosts, cables, switches
    Show {
        file: PathBuf,
        /// Write the drawing as SVG into this file
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        #[arg(long)]
        allow_out_of_spec: bool,
    },
}

pub(crate) fn run(command: &FabricCommand) -> anyhow::Result<i32> {
    match command {
        FabricCommand::Check { file, allow_out_of_spec } => {
            let (path, loaded, warnings) = home::load_and_count(file, *allow_out_of_spec)?;
            let spec = &loaded.spec;
            let verdict = match warnings {
                0 => "no faults".to_owned(),
                1 => "no errors, 1 warning".to_owned(),
                more => format!("no errors, {more} warnings"),
            };
            output::say(format_args!(
                "{}: {} hosts, {} switches, {} cables: {verdict}\n",
                path.display(),
                spec.hosts.len(),
                spec.switches.len(),
                spec.cables.len()
            ))?;
        }
        FabricCommand::Generate(arguments) => generate::run(arguments)?,
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
