//! Generated fabrics: `[generate]` stands for all hosts, switches and cables.
//!
//! The module turns `[generate]` into the tables of an equivalent file. Each table entry has the
//! place of the value that it comes from. The rest of the loader treats both alike, so the
//! written-out file gives the same fabric.

mod read;
mod shape;
mod write;

use std::ops::Range;

use softband_model::management::Routing;

use super::Context;
use crate::catalog::{Catalog, UsualParts};
use crate::diagnostic::{FabricError, Findings};
use crate::document::{self, Entry, Fields, Node, Value};
use crate::parts::PartKind;
use shape::{End, Shape};

/// A text of the file with its place.
type Text = (String, Range<usize>);

/// The named parts of a generated fabric.
struct Parts {
    host: Text,
    hca: Text,
    /// The device name from the file, if the file gives it.
    device_written: Option<Text>,
    device: String,
    switch: Option<Text>,
    host_cable: Cable,
    switch_cable: Cable,
}

#[derive(Clone)]
struct Cable {
    part: Text,
    length: Option<Text>,
}

/// A generated fabric as tables of a fabric file.
pub(super) struct Generated {
    pub(super) hosts: Entry,
    pub(super) switches: Entry,
    pub(super) cables: Entry,
    pub(super) routing: Routing,
}

/// Reads `[generate]`. Returns `None` after an error.
pub(super) fn generate(entry: &Entry, context: &mut Context<'_>) -> Option<Generated> {
    let (shape, parts) = read_table(entry, context)?;
    Some(tables(&shape, &parts, &entry.key_span))
}

/// Refuses tables beside `[generate]` that it generates itself.
pub(super) fn refuse_beside(entries: [Option<&Entry>; 3], findings: &mut Findings) {
    for entry in entries.into_iter().flatten() {
        let help = "remove one of them; `softband fabric generate ... --expand` writes everything out, to be changed at will";
        let message = format!("`{}` stands beside `[generate]`, which makes all hosts, switches and cables", entry.key);
        findings.error(message, vec![(entry.key_span.clone(), "this table".into())], Some(help.into()));
    }
}

/// Expands `[generate]` in `text`: returns a fabric file with all hosts, switches and cables
/// written out. Other content of `text` is dropped.
///
/// # Errors
/// As [`parse_fabric`](super::parse_fabric), for `[generate]` alone.
pub fn expand(file: &str, text: &str, catalog: &Catalog) -> Result<String, FabricError> {
    let mut context = Context { catalog, options: Default::default(), findings: Findings::new(file, text), sheets: Default::default() };
    let entries = document::parse(text, &mut context.findings).unwrap_or_default();
    let found = Fields::new("the file", 0..0, &entries).required("generate", "...", &mut context.findings);
    let read = found.and_then(|entry| read_table(entry, &mut context));
    match read {
        Some((shape, parts)) if context.findings.errors.is_empty() => Ok(write::toml(&shape, &parts)),
        _ => Err(FabricError::new(context.findings.errors)),
    }
}

fn read_table(entry: &Entry, context: &mut Context<'_>) -> Option<(Shape, Parts)> {
    let mut fields = Fields::of("`[generate]`", &entry.node, entry.key_span.clone(), &mut context.findings)?;
    let kind = fields.required_text("kind", "\"fat-tree\"", &mut context.findings);
    let kind = kind.and_then(|(kind, span)| read::checked_kind(kind, span, &mut context.findings))?;
    let errors = context.findings.errors.len();
    let read = parts(kind, &mut fields, context);
    let shape = read.as_ref().and_then(|(_, ports)| {
        let mut reader = read::Reader { fields: &mut fields, findings: &mut context.findings, ports: *ports };
        reader.shape(kind)
    });
    // After an error, the reader has not reached all keys, so unknown keys cannot be reported.
    if shape.is_some() {
        fields.finish(&mut context.findings);
    }
    (context.findings.errors.len() == errors).then_some(())?;
    shape.zip(read).map(|(shape, (parts, _))| (shape, parts))
}

/// Reads the parts. Returns them with the number of ports of the switch.
fn parts(kind: &str, fields: &mut Fields<'_>, context: &mut Context<'_>) -> Option<(Parts, usize)> {
    let host = named(fields, "host", |usual| Some(&usual.host), context);
    let hca = named(fields, "hca", |usual| Some(&usual.hca), context);
    let device = fields.optional_text("device", "\"mlx5_0\"", &mut context.findings).map(|(text, span)| (text.to_owned(), span));
    // The default device name and length belong to the default parts.
    let usual = context.catalog.usual_parts();
    let device = device.or_else(|| usual.filter(|_| !fields.has("hca") && !fields.has("device")).map(|usual| (usual.device.clone(), fields.span())));
    let has_cable = fields.has("host_cable");
    let host_cable = named(fields, "host_cable", |usual| Some(&usual.cable), context);
    let length = length(fields, "host_cable_length", context);
    let length = length.or_else(|| usual.filter(|_| !has_cable).map(|usual| (usual.cable_length.clone(), fields.span())));
    let host_cable = host_cable.map(|part| Cable { part, length });
    let (switch, switch_cable) = if kind == "back-to-back" {
        (None, None)
    } else {
        let switch = named(fields, "switch", |usual| usual.switch.as_ref(), context);
        let cable = if kind == "star" { None } else { switch_cable(fields, context) };
        (Some(switch?), cable)
    };
    let (host, hca, host_cable) = (host?, hca?, host_cable?);
    let known =
        |context: &mut Context<'_>, kind, (name, span): &Text, is: fn(&Catalog, &str) -> Option<()>| context.part(kind, name, span.clone(), is);
    known(context, PartKind::Host, &host, |all, name| all.host(name).map(drop))?;
    let driver = context.part(PartKind::Hca, &hca.0, hca.1.clone(), |all, name| all.hca(name).map(|part| part.driver.clone()))?;
    known(context, PartKind::Cable, &host_cable.part, |all, name| all.cable_template(name).map(drop))?;
    if let Some(cable) = &switch_cable {
        known(context, PartKind::Cable, &cable.part, |all, name| all.cable_template(name).map(drop))?;
    }
    let ports = match &switch {
        None => 0,
        Some((name, span)) => usize::from(context.part(PartKind::Switch, name, span.clone(), |all, name| all.switch(name).map(|part| part.ports))?),
    };
    // The loader gives this name to the first HCA of a host when the file names no device.
    let name = device.as_ref().map_or_else(|| format!("{driver}0"), |(device, _)| device.clone());
    let switch_cable = switch_cable.unwrap_or_else(|| host_cable.clone());
    Some((Parts { host, hca, device_written: device, device: name, switch, host_cable, switch_cable }, ports))
}

/// Reads a part by its key. Returns the default part if the key is absent.
fn named(fields: &mut Fields<'_>, key: &'static str, usual: fn(&UsualParts) -> Option<&String>, context: &mut Context<'_>) -> Option<Text> {
    match context.catalog.usual_parts().and_then(usual) {
        Some(usual) if !fields.has(key) => {
            fields.optional(key);
            Some((usual.clone(), fields.span()))
        }
        _ => fields.required_text(key, "\"...\", a part of the catalogue", &mut context.findings).map(|(text, span)| (text.to_owned(), span)),
    }
}

fn length(fields: &mut Fields<'_>, key: &'static str, context: &mut Context<'_>) -> Option<Text> {
    fields.optional_text(key, "\"1 m\"", &mut context.findings).map(|(text, span)| (text.to_owned(), span))
}

fn switch_cable(fields: &mut Fields<'_>, context: &mut Context<'_>) -> Option<Cable> {
    let part = fields.optional_text("switch_cable", "\"...\", a cable part", &mut context.findings);
    let length = length(fields, "switch_cable_length", context);
    part.map(|(text, span)| Cable { part: (text.to_owned(), span), length })
}

fn host_name(index: usize) -> String {
    format!("h{index}")
}

impl Parts {
    fn cable_of(&self, ends: &[End; 2]) -> &Cable {
        if matches!(ends, [End::Switch(..), End::Switch(..)]) { &self.switch_cable } else { &self.host_cable }
    }

    /// Returns the name of a port in the table of a cable.
    fn port_name(&self, end: End, shape: &Shape) -> String {
        match end {
            End::Host(host) => format!("{}/{}/1", host_name(host), self.device),
            End::Switch(switch, port) => format!("{}/{port}", shape.switches[switch]),
        }
    }
}

/// Builds the tables of the equivalent file.
fn tables(shape: &Shape, parts: &Parts, place: &Range<usize>) -> Generated {
    let key = |key: &str, value, span: &Range<usize>| Entry { key: key.to_owned(), key_span: span.clone(), node: Node { span: span.clone(), value } };
    let text = |name: &str, (text, span): &Text| key(name, Value::Text(text.clone()), span);
    let table = |entries, span: &Range<usize>| Node { span: span.clone(), value: Value::Table(entries) };
    let host = |index| {
        let hca = std::iter::once(text("part", &parts.hca)).chain(parts.device_written.iter().map(|device| text("device", device)));
        let hcas = key("hcas", Value::Array(vec![table(hca.collect(), &parts.hca.1)]), &parts.hca.1);
        key(&host_name(index), Value::Table(vec![text("part", &parts.host), hcas]), &parts.host.1)
    };
    let switch = |name: &String| {
        let part = parts.switch.iter().map(|part| text("part", part)).collect();
        key(name, Value::Table(part), place)
    };
    let cable = |ends: &[End; 2]| {
        let cable = parts.cable_of(ends);
        let span = &cable.part.1;
        let [from, to] = ends.map(|end| (parts.port_name(end, shape), span.clone()));
        let length = cable.length.iter().map(|length| text("length", length));
        table([text("part", &cable.part), text("from", &from), text("to", &to)].into_iter().chain(length).collect(), span)
    };
    Generated {
        hosts: key("hosts", Value::Table((0..shape.hosts).map(host).collect()), place),
        switches: key("switches", Value::Table(shape.switches.iter().map(switch).collect()), place),
        cables: key("cables", Value::Array(shape.cables.iter().map(cable).collect()), place),
        routing: shape.routing,
    }
}
