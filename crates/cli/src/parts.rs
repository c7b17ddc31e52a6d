//! `softband parts list` and `softband parts show`.

use crate::{home, output};
use anyhow::bail;
use clap::Subcommand;
use softband_catalog::{PartKind, PartSheet};

#[derive(Subcommand)]
pub(crate) enum PartsCommand {
    /// Names of all parts, by kind
    List,
    /// Every value of a part, with unit, status and source
    Show { name: String },
}

pub(crate) fn run(command: &PartsCommand) -> anyhow::Result<i32> {
    let catalog = home::catalog(None)?;
    match command {
        PartsCommand::List => {
            for kind in PartKind::ALL {
                output::say(format_args!("{kind}: {}\n", catalog.parts(kind).join(" ")))?;
            }
        }
        PartsCommand::Show { name } => {
            let sheets = catalog.find(name);
            if sheets.is_empty() {
                bail!("no part is called '{name}'; `softband parts list` names them all");
            }
            sheets.into_iter().try_for_each(show)?;
        }
    }
    Ok(0)
}

fn show(sheet: &PartSheet) -> anyhow::Result<()> {
    output::say(format_args!("{} {}: {}\n", sheet.kind, sheet.name, sheet.summary))?;
    let width = sheet.parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or(0);
    for parameter in &sheet.parameters {
        let value = format!("{} {}", parameter.value, parameter.unit);
        let on = if parameter.on.is_empty() { String::new() } else { format!(" on {}", parameter.on.join(", ")) };
        output::say(format_args!("  {:width$}  {value:14}  {}{on}: {}\n", parameter.name, parameter.status, parameter.source))?;
    }
    Ok(())
}
