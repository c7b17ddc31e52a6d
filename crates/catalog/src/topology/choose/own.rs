//! Parts of the imported fabric alone: catalogue parts with other ports, widths and speeds.

use std::collections::BTreeMap;

use softband_types::{LinkSpeed, LinkWidth};

use super::Need;
use crate::catalog::Catalog;
use crate::parts::{Parameter, PartKind, PartSheet, Status};

/// The parts, each with the name of the file in which it stands.
#[derive(Default)]
pub(super) struct OwnParts {
    pub(super) sheets: Vec<PartSheet>,
    by_values: BTreeMap<(PartKind, String, Vec<String>), String>,
}

const SOURCE: &str = "the imported topology";

impl OwnParts {
    /// Returns the name of a part like `base` with the ports and rates of `need`. That is `base`
    /// itself if it has them.
    pub(super) fn fitted(
        &mut self,
        kind: PartKind,
        base: &str,
        (ports, widths, speeds): (u8, &[LinkWidth], &[LinkSpeed]),
        need: &Need,
        catalog: &Catalog,
    ) -> Option<String> {
        let mut changes = Vec::new();
        if ports != need.ports {
            changes.push(("ports", need.ports.to_string()));
        }
        if need.widths.iter().any(|width| !widths.contains(width)) {
            changes.push(("widths", list(LinkWidth::ALL.iter().filter(|width| widths.contains(width) || need.widths.contains(width)))));
        }
        if need.speeds.iter().any(|speed| !speeds.contains(speed)) {
            changes.push(("speeds", list(LinkSpeed::ALL.iter().filter(|speed| speeds.contains(speed) || need.speeds.contains(speed)))));
        }
        let suffix = if ports == need.ports { "with-other-rates".to_owned() } else { format!("with-{}-ports", need.ports) };
        self.changed(kind, base, &changes, &suffix, catalog)
    }

    /// Returns the name of a part like `base` with some other values.
    pub(super) fn changed(&mut self, kind: PartKind, base: &str, changes: &[(&str, String)], suffix: &str, catalog: &Catalog) -> Option<String> {
        let sheet = catalog.sheet(kind, base)?;
        if changes.is_empty() {
            return Some(base.to_owned());
        }
        let key = (kind, base.to_owned(), changes.iter().map(|(_, value)| value.clone()).collect());
        if let Some(name) = self.by_values.get(&key) {
            return Some(name.clone());
        }
        let is_taken = |name: &str| catalog.sheet(kind, name).is_some() || self.sheets.iter().any(|sheet| sheet.kind == kind && sheet.name == name);
        let numbered = |number: usize| if number == 1 { format!("{base}-{suffix}") } else { format!("{base}-{suffix}-{number}") };
        let name = (1..).map(numbered).find(|name| !is_taken(name))?;
        let mut parameters: Vec<Parameter> = sheet.parameters.iter().map(|parameter| changed(parameter, changes)).collect();
        add_latencies(&mut parameters, changes);
        let summary = format!("{}, changed by an import", sheet.summary);
        self.sheets.push(PartSheet { kind, name: name.clone(), summary, parameters });
        self.by_values.insert(key, name.clone());
        Some(name)
    }
}

fn changed(parameter: &Parameter, changes: &[(&str, String)]) -> Parameter {
    match changes.iter().find(|(name, _)| *name == parameter.name) {
        Some((_, value)) => Parameter { value: value.clone(), source: SOURCE.into(), status: Status::Derived, on: Vec::new(), ..parameter.clone() },
        None => parameter.clone(),
    }
}

/// Adds the latency of each new speed of a switch: that of the nearest speed.
fn add_latencies(parameters: &mut Vec<Parameter>, changes: &[(&str, String)]) {
    let speeds = changes.iter().find(|(name, _)| *name == "speeds").map_or("", |(_, speeds)| speeds);
    for speed in speeds.split(", ").filter_map(LinkSpeed::parse) {
        let rows = parameters.iter().enumerate().filter_map(|(at, row)| Some((at, LinkSpeed::parse(row.name.strip_prefix(LATENCY)?)?)));
        let distance = |of: LinkSpeed| LinkSpeed::ALL.iter().filter(|between| (of.min(speed)..of.max(speed)).contains(between)).count();
        let Some((at, nearest)) = rows.min_by_key(|(_, of)| distance(*of)).filter(|(_, nearest)| *nearest != speed) else { continue };
        let source = format!("as {nearest}, the nearest speed of the part");
        let name = format!("{LATENCY}{}", speed.to_string().to_lowercase());
        let row = Parameter { name, source, status: Status::Assumed, on: Vec::new(), ..parameters[at].clone() };
        parameters.insert(at + 1, row);
    }
}

/// Beginning of the names of latencies by speed.
const LATENCY: &str = "forward_latency_";

fn list<T: ToString>(values: impl Iterator<Item = T>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}
