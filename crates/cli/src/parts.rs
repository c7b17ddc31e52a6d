//! `softband parts list` and `softband parts show`.

use crate::fabric_list::{EXIT_NOTHING_FOUND, Search};
use crate::{home, output};
use anyhow::bail;
use clap::Subcommand;
use serde_json::{Value, json};
use softband_catalog::{Catalog, Parameter, PartKind, PartSheet, closest};

#[derive(Subcommand)]
pub(crate) enum PartsCommand {
    /// List all parts by kind, with a summary of each
    List {
        #[command(flatten)]
        search: Search,
        /// List only parts of this kind: bus, cable, hca, host, limit or switch
        #[arg(long, value_name = "KIND", value_parser = parse_kind)]
        kind: Option<PartKind>,
    },
    /// Show each value of a part, with unit, status and source
    Show {
        /// Names of parts, as in `softband parts list`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Print one JSON object, with each value as its part file writes it
        #[arg(long)]
        json: bool,
    },
}

fn parse_kind(word: &str) -> Result<PartKind, String> {
    PartKind::parse(word).ok_or_else(|| softband_catalog::suggest(word, "kinds", &PartKind::ALL.map(PartKind::folder)))
}

pub(crate) fn run(command: &PartsCommand) -> anyhow::Result<i32> {
    let catalog = home::catalog(None)?;
    match command {
        PartsCommand::List { search, kind } => list(&catalog, search, *kind),
        PartsCommand::Show { names, json } => {
            let sheets = names.iter().map(|name| sheets(&catalog, name)).collect::<Result<Vec<_>, _>>()?.concat();
            if *json {
                output::say(format_args!("{:#}\n", json!({ "parts": sheets.iter().map(|sheet| to_json(sheet)).collect::<Vec<_>>() })))?;
            } else {
                sheets.into_iter().try_for_each(show)?;
            }
            Ok(0)
        }
    }
}

/// Returns the sheets of all parts of a name. Fails if there is none.
fn sheets<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<Vec<&'a PartSheet>> {
    let sheets = catalog.find(name);
    if sheets.is_empty() {
        let meant = closest(name, all(catalog).map(|sheet| sheet.name.as_str()));
        let meant = meant.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        bail!("no part is called `{name}`\n  help: {meant}`softband parts list` names them all");
    }
    Ok(sheets)
}

fn to_json(sheet: &PartSheet) -> Value {
    let row = |parameter: &Parameter| {
        json!({
            "name": parameter.name,
            "value": parameter.value,
            "unit": parameter.unit,
            "status": parameter.status.name(),
            "on": parameter.on,
            "source": parameter.source,
        })
    };
    let parameters: Vec<Value> = sheet.parameters.iter().map(row).collect();
    json!({ "kind": sheet.kind.folder(), "name": sheet.name, "summary": sheet.summary, "parameters": parameters })
}

fn all(catalog: &Catalog) -> impl Iterator<Item = &PartSheet> {
    PartKind::ALL.into_iter().flat_map(move |kind| catalog.parts(kind).into_iter().filter_map(move |name| catalog.sheet(kind, name)))
}

fn list(catalog: &Catalog, search: &Search, kind: Option<PartKind>) -> anyhow::Result<i32> {
    let is_wanted =
        |sheet: &&PartSheet| kind.is_none_or(|kind| sheet.kind == kind) && search.finds(&[&sheet.name, &sheet.summary, sheet.kind.folder()]);
    let found: Vec<&PartSheet> = all(catalog).filter(is_wanted).collect();
    if search.json {
        let part = |sheet: &&PartSheet| json!({ "kind": sheet.kind.folder(), "name": sheet.name, "summary": sheet.summary });
        output::say(format_args!("{:#}\n", json!({ "parts": found.iter().map(part).collect::<Vec<_>>() })))?;
    } else if found.is_empty() {
        return Ok(search.nothing("part", "softband parts list"));
    } else {
        let width = found.iter().map(|sheet| sheet.name.chars().count()).max().unwrap_or(0);
        let line = |sheet: &&PartSheet| format!("{:6}  {:width$}  {}\n", sheet.kind.folder(), sheet.name, sheet.summary);
        output::say(found.iter().map(line).collect::<String>())?;
    }
    Ok(if found.is_empty() { EXIT_NOTHING_FOUND } else { 0 })
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
