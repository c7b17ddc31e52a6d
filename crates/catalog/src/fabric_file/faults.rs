//! Faults of a run: `[[faults]]`.

use std::fmt::Write;
use std::ops::Range;

use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass, Unknown};

use super::resolved::quoted;
use crate::diagnostic::{Findings, suggest};
use crate::document::{Entry, Fields, Node, Value, wrong_kind};
use crate::units::{Dimension, Number, parse_quantity};

/// Reads `[[faults]]`. The parts and cables of the fabric must be known.
pub(super) fn read_faults(entry: Option<&Entry>, spec: &FabricSpec, findings: &mut Findings) -> Vec<FaultSpec> {
    let Some(entry) = entry else { return Vec::new() };
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, "a list of tables: write `[[faults]]`", findings);
        return Vec::new();
    };
    items.iter().enumerate().filter_map(|(index, item)| fault(index, item, spec, findings)).collect()
}

fn fault(index: usize, node: &Node, spec: &FabricSpec, findings: &mut Findings) -> Option<FaultSpec> {
    let mut fields = Fields::of(format!("fault {}", index + 1), node, node.span.clone(), findings)?;
    let (kind, span) = fields.required_text("kind", "\"link_down\"", findings)?;
    if !FaultKind::NAMES.contains(&kind) {
        let help = suggest(kind, "kinds of faults", &FaultKind::NAMES);
        findings.error(format!("no fault `{kind}`"), vec![(span, "unknown kind".into())], Some(help));
        return None;
    }
    // A condition, unlike an incident, holds from the start by default.
    let is_condition = matches!(kind, "bit_errors" | "drop");
    let at = match is_condition && !fields.has("at") {
        true => {
            fields.optional("at");
            Some(0)
        }
        false => time(&mut fields, "at", "\"1 ms\"", findings),
    };
    let kind = kind_of(kind, &mut fields, spec, findings);
    fields.finish(findings);
    Some(FaultSpec { at: SimTime::from_picos(at?), kind: kind? })
}

fn kind_of(kind: &str, fields: &mut Fields<'_>, spec: &FabricSpec, findings: &mut Findings) -> Option<FaultKind> {
    let cable = |fields: &mut Fields<'_>, findings: &mut Findings| {
        named(fields, ("link", "\"host/device/port\" or \"switch/port\""), findings, |name| spec.find_cable(name)).map(|(_, cable)| cable)
    };
    match kind {
        "link_down" => Some(FaultKind::LinkDown { cable: cable(fields, findings)? }),
        "link_up" => Some(FaultKind::LinkUp { cable: cable(fields, findings)? }),
        "link_recovers" => {
            let (lasts, cable) = (time(fields, "lasts", "\"10 us\"", findings), cable(fields, findings));
            Some(FaultKind::LinkRecovers { cable: cable?, lasts: SimDuration::from_picos(lasts?) })
        }
        "bit_errors" => {
            let (rate, cable) = (rate(fields, findings), cable(fields, findings));
            Some(FaultKind::BitErrors { cable: cable?, rate: rate? })
        }
        "drop" => {
            let packet = match fields.has("packet") {
                true => named(fields, ("packet", "\"ack\""), findings, PacketClass::find),
                false => fields.optional("packet").map_or(Some(PacketClass::Any), |_| None),
            };
            let number = number(fields, findings);
            let port = named(fields, ("port", "\"host/device/port\" or \"switch/port\""), findings, |name| spec.find_cable(name));
            Some(FaultKind::Drop { port: port?.0, packet: packet?, number: number? })
        }
        "host_dies" => named(fields, ("host", "\"a\""), findings, |name| spec.find_host(name)).map(|host| FaultKind::HostDies { host }),
        _ => named(fields, ("switch", "\"sw\""), findings, |name| spec.find_switch(name)).map(|switch| FaultKind::SwitchDies { switch }),
    }
}

/// Reads a name that the fabric must contain.
fn named<T>(
    fields: &mut Fields<'_>,
    (key, example): (&'static str, &str),
    findings: &mut Findings,
    find: impl Fn(&str) -> Result<T, Unknown>,
) -> Option<T> {
    let (name, span) = fields.required_text(key, example, findings)?;
    find(name)
        .inspect_err(|unknown| {
            let known: Vec<&str> = unknown.known.iter().map(String::as_str).collect();
            let help = suggest(&unknown.word, &unknown.what, &known);
            findings.error(format!("`{key}`: {}", unknown.message), vec![(span, "this name".into())], Some(help));
        })
        .ok()
}

/// Reads a time of a run, in picoseconds.
fn time(fields: &mut Fields<'_>, key: &'static str, example: &str, findings: &mut Findings) -> Option<u64> {
    let (text, span) = fields.required_text(key, example, findings)?;
    let picos = parse_quantity(text, Dimension::Moment);
    picos
        .inspect_err(|error| {
            let help = format!("write a number and a unit: {example}; accepted units: {}", Dimension::Moment.accepted());
            findings.error(format!("`{key}` {}", error.reason(text)), vec![(span, "this value".into())], Some(help));
        })
        .ok()
}

fn rate(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<BitErrorRate> {
    let entry = fields.required("rate", "1e-12", findings)?;
    let rate = match entry.node.value {
        Value::Number(Number::Decimal(rate)) => rate,
        Value::Number(Number::Integer(rate)) => rate as f64,
        _ => {
            wrong_kind(entry, "a number, such as 1e-12", findings);
            return None;
        }
    };
    let checked = BitErrorRate::new(rate);
    if checked.is_none() {
        let help = "it is the probability that a bit is wrong: 0 or more, and less than 1";
        findings.error(format!("`rate` cannot be {rate}"), vec![(entry.node.span.clone(), "no probability".into())], Some(help.into()));
    }
    checked
}

fn number(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<u64> {
    fields.required("number", "1", findings)?;
    let (number, span): (i64, Range<usize>) = fields.optional_integer("number", findings)?;
    let checked = u64::try_from(number).ok().filter(|number| *number > 0);
    if checked.is_none() {
        let help = "the first packet that leaves has number 1";
        findings.error(format!("`number` cannot be {number}"), vec![(span, "no packet has it".into())], Some(help.into()));
    }
    checked
}

/// Writes a fault as in a fabric file.
pub(super) fn write_fault(out: &mut String, spec: &FabricSpec, fault: &FaultSpec) -> std::fmt::Result {
    writeln!(out, "\n[[faults]]\nat = \"{} ps\"\nkind = \"{}\"", fault.at.as_picos(), fault.kind.name())?;
    let link = |cable: usize| quoted(&spec.port_name(spec.cables[cable].ends[0]));
    match &fault.kind {
        FaultKind::LinkDown { cable } | FaultKind::LinkUp { cable } => writeln!(out, "link = {}", link(*cable)),
        FaultKind::LinkRecovers { cable, lasts } => writeln!(out, "link = {}\nlasts = \"{} ps\"", link(*cable), lasts.as_picos()),
        FaultKind::BitErrors { cable, rate } => writeln!(out, "link = {}\nrate = {:e}", link(*cable), rate.get()),
        FaultKind::Drop { port, packet, number } => {
            writeln!(out, "port = {}\npacket = \"{}\"\nnumber = {number}", quoted(&spec.port_name(*port)), packet.name())
        }
        FaultKind::HostDies { host } => writeln!(out, "host = {}", quoted(&spec.hosts[*host].name)),
        FaultKind::SwitchDies { switch } => writeln!(out, "switch = {}", quoted(&spec.switches[*switch].name)),
    }
}
