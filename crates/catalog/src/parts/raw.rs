//! Part files before typing: parameters with unit, source and status.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::diagnostic::{Findings, suggest};
use crate::document::{self, Entry, Fields, Node, Value, wrong_kind};
use crate::parts::{PartKind, Status, variants};
use crate::units::or_list;

/// A syntactically valid part file.
#[derive(Clone, Debug)]
pub(crate) struct RawPart {
    pub(crate) kind: PartKind,
    pub(crate) name: String,
    pub(crate) summary: String,
    /// Part of the same kind that supplies the missing values.
    like: Option<(String, Range<usize>)>,
    pub(crate) parameters: Vec<RawParameter>,
    /// Names of unreadable parameters; errors already report them.
    pub(crate) broken: Vec<String>,
    /// Layer of its catalogue. Later layers take precedence.
    pub(crate) layer: usize,
    /// Whether its file is unreadable; an error already reports this. Other parts can still name it.
    unreadable: bool,
}

impl RawPart {
    fn empty((layer, kind): (usize, PartKind), name: &str) -> Self {
        let (name, summary) = (name.to_owned(), String::new());
        Self { kind, name, summary, like: None, parameters: Vec::new(), broken: Vec::new(), layer, unreadable: true }
    }
}

/// A parameter from its inline table.
#[derive(Clone, Debug)]
pub(crate) struct RawParameter {
    pub(crate) name: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Node,
    pub(crate) unit: String,
    pub(crate) unit_span: Range<usize>,
    pub(crate) source: String,
    pub(crate) status: Status,
    pub(crate) on: Vec<String>,
    /// Whether another part's file contains it. Faults are reported there.
    pub(crate) inherited: bool,
}

/// Reads one part file. Faults go to `findings`.
pub(crate) fn read((layer, kind): (usize, PartKind), name: &str, text: &str, findings: &mut Findings) -> RawPart {
    let mut part = RawPart::empty((layer, kind), name);
    let Some(entries) = document::parse(text, findings) else { return part };
    fill(&mut part, entries, findings);
    part
}

/// Reads the table `[parts]` of a fabric file: parts by kind and name. Only resolved fabrics have
/// it, so each part has all its values.
pub(crate) fn parts_of_table(table: &Entry, findings: &mut Findings) -> Vec<RawPart> {
    let mut parts = Vec::new();
    for (kind, named) in kinds_of(table, findings) {
        let Value::Table(entries) = &named.node.value else {
            wrong_kind(named, "a table of parts by name", findings);
            continue;
        };
        for entry in entries {
            let Value::Table(values) = &entry.node.value else {
                wrong_kind(entry, "a table of parameters", findings);
                continue;
            };
            let mut part = RawPart::empty((0, kind), &entry.key);
            fill(&mut part, values.clone(), findings);
            if let Some((_, span)) = part.like.take() {
                let help = "write all values of the part here, or put it into a file of its own in catalog/ beside the fabric file";
                findings.error("a part in a fabric file is like no other".into(), vec![(span, "not here".into())], Some(help.into()));
            }
            parts.push(part);
        }
    }
    parts
}

fn kinds_of<'a>(table: &'a Entry, findings: &mut Findings) -> Vec<(PartKind, &'a Entry)> {
    let Value::Table(entries) = &table.node.value else {
        wrong_kind(table, "a table, as in the `fabric.toml` of a run", findings);
        return Vec::new();
    };
    let known = |entry: &'a Entry| PartKind::parse(&entry.key).map(|kind| (kind, entry));
    for entry in entries.iter().filter(|entry| known(entry).is_none()) {
        let help = suggest(&entry.key, "kinds of parts", &PartKind::ALL.map(PartKind::folder));
        findings.error(format!("no kind of part is called `{}`", entry.key), vec![(entry.key_span.clone(), "unknown kind".into())], Some(help));
    }
    entries.iter().filter_map(known).collect()
}

/// Fills a part with the entries of its file or table.
fn fill(part: &mut RawPart, entries: Vec<Entry>, findings: &mut Findings) {
    let (heads, rest): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| !matches!(entry.node.value, Value::Table(_)));
    let mut fields = Fields::new("a part file", 0..0, &heads);
    let summary = fields.required_text("summary", "\"what this part is\"", findings);
    let like = fields.optional_text("like", "\"...\", a part of the same kind", findings);
    part.unreadable = fields.has("like") && like.is_none();
    part.summary = summary.map_or(String::new(), |(text, _)| text.to_owned());
    part.like = like.map(|(text, span)| (text.to_owned(), span));
    for entry in heads.iter().filter(|entry| entry.key != "summary" && entry.key != "like") {
        part.broken.push(entry.key.clone());
        let example = "{ value = 512, unit = \"B\", source = \"...\", status = \"datasheet\" }";
        let label = vec![(entry.node.span.clone(), format!("this is {}", entry.node.value.kind()))];
        let help = format!("write `{} = {example}`: every value carries its unit and its source", entry.key);
        findings.error(format!("`{}` must be a table with unit and source", entry.key), label, Some(help));
    }
    for entry in &rest {
        match parameter(entry, findings) {
            Some(parameter) => part.parameters.push(parameter),
            None => part.broken.push(entry.key.clone()),
        }
    }
}

fn parameter(entry: &Entry, findings: &mut Findings) -> Option<RawParameter> {
    let mut fields = Fields::of(format!("`{}`", entry.key), &entry.node, entry.key_span.clone(), findings)?;
    let value = fields.required("value", "512", findings).map(|entry| entry.node.clone());
    // The reader of the typed parameter reports a missing unit, because it knows the possible units.
    let has_unit = fields.has("unit");
    let unit = fields.optional_text("unit", "\"B\"", findings);
    let unit = if has_unit { unit } else { Some(("", entry.key_span.clone())) };
    let source = fields.required_text("source", "\"the paper, datasheet or reason that gives the value\"", findings);
    let status = fields.required_text("status", "\"datasheet\"", findings);
    let on = fields.optional("on");
    fields.finish(findings);
    let status = status.and_then(|(text, span)| status_of(text, &span, findings));
    let on = on.and_then(|on| figures(on, findings)).unwrap_or_default();
    let (value, (unit, unit_span), (source, source_span), status) = (value?, unit?, source?, status?);
    if source.trim().is_empty() {
        let label = vec![(source_span, "empty".to_owned())];
        findings.error(format!("`{}` has no source", entry.key), label, Some("say where the value comes from".into()));
    }
    check_figures(entry, status, &on, findings);
    Some(RawParameter {
        name: entry.key.clone(),
        key_span: entry.key_span.clone(),
        value,
        unit: unit.to_owned(),
        unit_span,
        source: source.to_owned(),
        status,
        on,
        inherited: false,
    })
}

fn status_of(text: &str, span: &Range<usize>, findings: &mut Findings) -> Option<Status> {
    let found = Status::ALL.into_iter().find(|status| status.name() == text);
    if found.is_none() {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
        let label = vec![(span.clone(), "not a status".to_owned())];
        findings.error(format!("unknown status `{text}`"), label, Some(format!("write {}", or_list(&names))));
    }
    found
}

fn figures(entry: &Entry, findings: &mut Findings) -> Option<Vec<String>> {
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, "a list of rows of published figures", findings);
        return None;
    };
    let texts = items.iter().filter_map(|item| match &item.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    });
    let texts: Vec<String> = texts.collect();
    if texts.len() != items.len() {
        wrong_kind(entry, "a list of texts", findings);
    }
    Some(texts)
}

/// Checks that a calibrated value names the figures that it was fitted to, and that no other value does.
fn check_figures(entry: &Entry, status: Status, on: &[String], findings: &mut Findings) {
    let label = vec![(entry.key_span.clone(), format!("status is {status}"))];
    match (status, on.is_empty()) {
        (Status::Calibrated, true) => {
            let help = "add `on = [\"A040\"]`, so that the error table can tell a fit from a prediction";
            findings.error(format!("`{}` is calibrated, on which published figures?", entry.key), label, Some(help.into()));
        }
        (Status::Calibrated, false) | (_, true) => {}
        (_, false) => {
            let help = "remove `on`, or write `status = \"calibrated\"`";
            findings.error(format!("`{}` names figures but is not calibrated", entry.key), label, Some(help.into()));
        }
    }
}

/// Returns a parameter that a part inherits from `base`. A measured value becomes assumed, because
/// the measurement was made on `base`.
fn inherited(parameter: &RawParameter, base: &str) -> RawParameter {
    let mut parameter = RawParameter { inherited: true, ..parameter.clone() };
    if parameter.status == Status::Measured {
        parameter.status = Status::Assumed;
        parameter.source = format!("as {base}, on which it was measured: {}", parameter.source);
    }
    parameter
}

/// Reason why a part's `like` has no result.
enum Lost {
    /// Names along the cycle.
    Cycle(Vec<String>),
    /// The part of this index names an unknown part.
    Unknown(usize),
    /// The file of that name is unreadable; an error already reports this.
    Unreadable,
}

/// Returns `parts[index]` completed with the values of its chain of `like` parts. Returns `None` if
/// a part of the chain is unknown, and reports that fault once.
pub(crate) fn inherit(parts: &[RawPart], index: usize, findings: &mut Findings) -> Option<RawPart> {
    let lost = match full(parts, index, &mut Vec::new()) {
        Ok(part) => return Some(part),
        Err(lost) => lost,
    };
    let part = &parts[index];
    let (name, span) = part.like.clone()?;
    let label = |what: &str| vec![(span.clone(), what.to_owned())];
    match lost {
        Lost::Cycle(names) => {
            let message = format!("what `{}` is like goes round in a cycle: {}", part.name, names.join(", "));
            findings.error(message, label("here"), Some("name a part that does not lead back here".into()));
        }
        Lost::Unknown(of) if of == index => {
            let names = names_for(parts, index);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let help = suggest(&name, &format!("{} parts", part.kind), &names);
            findings.error(format!("no {} part `{name}`", part.kind), label("unknown part"), Some(help));
        }
        // The file of the base reports faults in its names.
        Lost::Unknown(_) | Lost::Unreadable => {}
    }
    None
}

fn full(parts: &[RawPart], index: usize, lineage: &mut Vec<usize>) -> Result<RawPart, Lost> {
    let mut part = parts[index].clone();
    if part.unreadable {
        return Err(Lost::Unreadable);
    }
    let Some((name, _)) = &part.like else { return Ok(part) };
    lineage.push(index);
    let base = base(parts, name, lineage)?;
    lineage.pop();
    part.broken.extend(base.broken);
    for parameter in &base.parameters {
        if !part.parameters.iter().any(|own| own.name == parameter.name) {
            part.parameters.push(inherited(parameter, name));
        }
    }
    Ok(part)
}

/// Returns the part called `name` as the last part of `lineage` sees it. Its own layer comes first,
/// then earlier layers. A part never finds itself.
fn base(parts: &[RawPart], name: &str, lineage: &mut Vec<usize>) -> Result<RawPart, Lost> {
    let index = *lineage.last().expect("a part asks");
    let mut cycle = false;
    for layer in (0..=parts[index].layer).rev() {
        let of_layer = |other: &&RawPart| other.kind == parts[index].kind && other.layer == layer;
        let named = parts.iter().position(|other| of_layer(&other) && other.name == name);
        match named {
            // A part may be like the part that it replaces.
            Some(named) if lineage.contains(&named) => cycle = true,
            Some(named) => return full(parts, named, lineage),
            None => {
                let family = |other: &RawPart| name.strip_prefix(&other.name).is_some_and(|rest| rest.starts_with("-x"));
                let families = (0..parts.len()).filter(|at| of_layer(&&parts[*at]) && family(&parts[*at]) && !lineage.contains(at));
                for at in families.collect::<Vec<_>>() {
                    if let Some(found) = variants(full(parts, at, lineage)?).into_iter().find(|variant| variant.name == name) {
                        return Ok(found);
                    }
                }
            }
        }
    }
    if cycle {
        let names = lineage.iter().map(|at| parts[*at].name.clone()).chain([name.to_owned()]);
        return Err(Lost::Cycle(names.collect()));
    }
    Err(Lost::Unknown(index))
}

/// Returns the parts that a part could be like, as `softband parts list` prints them.
fn names_for(parts: &[RawPart], index: usize) -> Vec<String> {
    let others = (0..parts.len()).filter(|at| *at != index && parts[*at].kind == parts[index].kind && parts[*at].layer <= parts[index].layer);
    let names: BTreeSet<String> =
        others.flat_map(|at| full(parts, at, &mut Vec::new()).map_or_else(|_| Vec::new(), variants)).map(|part| part.name).collect();
    names.into_iter().collect()
}
