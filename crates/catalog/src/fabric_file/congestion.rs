//! Congestion control of the subnet: `[subnet.congestion_control]`, with the names of annex A10 of
//! the specification.

use std::ops::{Range, RangeInclusive};

use softband_model::switch::MarkingSettings;
use softband_model::transport::{CctEntry, Flow, InjectionSettings};
use softband_spec::{CongestionControl, FabricSpec};
use softband_types::{CreditBlocks, counted};

use crate::diagnostic::{Findings, Label};
use crate::document::{Entry, Fields, Value, wrong_kind};
use crate::units::{Dimension, parse_quantity};

/// Most entries of a table: 128 blocks of 64 are more than any HCA has.
const CCT_LEN_MAX: usize = 8_192;

/// Returns the defaults: switches mark as soon as possible, and indices fall every 153.6 us. They
/// come from published experiments with the mechanism in hardware:
/// Gran, Eimot, Reinemo, Skeie, Lysne, Huse, Shainer, "First Experiences with Congestion Control in
/// InfiniBand Hardware", IPDPS 2010.
fn published() -> CongestionControl {
    CongestionControl {
        marking: MarkingSettings { threshold: 15, packet_size: CreditBlocks(8), marking_rate: 0 },
        injection: InjectionSettings { flow: Flow::QueuePair, ccti_increase: 1, ccti_limit: 127, ccti_min: 0, ccti_timer: 150, cct: Vec::new() },
    }
}

/// Reads the table. Faults go to `findings`; the result is usable even then.
pub(super) fn read_congestion_control(entry: &Entry, findings: &mut Findings) -> Option<CongestionControl> {
    let mut fields = Fields::of("`[subnet.congestion_control]`", &entry.node, entry.key_span.clone(), findings)?;
    let mut settings = published();
    let marking = &mut settings.marking;
    number(&mut fields, "threshold", 0..=15, "0 (nothing is marked) or 1 (marks late) to 15 (marks soon)", &mut marking.threshold, findings);
    number(&mut fields, "marking_rate", 0..=65_535, "packets between two marks: 0 to 65535", &mut marking.marking_rate, findings);
    if let Some(blocks) = steps(&mut fields, "packet_size", Dimension::Bytes, (64, "64 B"), 255, findings) {
        marking.packet_size = CreditBlocks(u32::from(blocks));
    }
    let injection = &mut settings.injection;
    if let Some((word, span)) = fields.optional_text("port_control", "\"qp\"", findings) {
        match word {
            "qp" => injection.flow = Flow::QueuePair,
            "sl" => injection.flow = Flow::ServiceLevel,
            _ => {
                let help = "write \"qp\" to slow down each queue pair by itself, or \"sl\" for all of a port's service level together";
                findings.error(format!("`port_control` cannot be `{word}`"), vec![(span, "neither of them".into())], Some(help.into()));
            }
        }
    }
    number(&mut fields, "ccti_increase", 1..=255, "how far a BECN raises the index: 1 to 255", &mut injection.ccti_increase, findings);
    number(&mut fields, "ccti_limit", 1..=8_191, "the last entry of the table in use: 1 to 8191", &mut injection.ccti_limit, findings);
    number(&mut fields, "ccti_min", 0..=255, "the index that flows fall to: 0 to 255", &mut injection.ccti_min, findings);
    if let Some(timer) = steps(&mut fields, "ccti_timer", Dimension::Duration, (1_024_000, "1.024 us"), 65_535, findings) {
        injection.ccti_timer = timer;
    }
    let cct = fields.optional("cct");
    check_order(&fields, entry, injection, findings);
    injection.cct = match cct {
        Some(cct) => table(cct, injection.ccti_limit, findings),
        // Each step of the index adds a quarter of the packet's own time to the pause (assumed). At
        // the limit of 127, a flow has a thirty-third of the link: its share among 33 flows.
        None => (0..=injection.ccti_limit).map(|multiplier| CctEntry { shift: 2, multiplier }).collect(),
    };
    if marking.threshold == 0 {
        findings.warning("`threshold = 0`: no switch marks a packet, so nothing is controlled".into(), vec![(fields.span(), "here".into())], None);
    }
    fields.finish(findings);
    Some(settings)
}

/// Reads a whole number within `range` into `into`.
fn number<T: TryFrom<i64>>(
    fields: &mut Fields<'_>,
    key: &'static str,
    range: RangeInclusive<i64>,
    what: &str,
    into: &mut T,
    findings: &mut Findings,
) {
    let Some((value, span)) = fields.optional_integer(key, findings) else { return };
    match T::try_from(value).ok().filter(|_| range.contains(&value)) {
        Some(value) => *into = value,
        None => findings.error(format!("`{key}` cannot be {value}"), vec![(span, "out of range".into())], Some(format!("write {what}"))),
    }
}

/// Reads a quantity with its unit that the specification counts in steps.
fn steps(
    fields: &mut Fields<'_>,
    key: &'static str,
    dimension: Dimension,
    (step, shown): (u64, &str),
    most: u16,
    findings: &mut Findings,
) -> Option<u16> {
    let (text, span) = fields.optional_text(key, &format!("\"{shown}\""), findings)?;
    let value = match parse_quantity(text, dimension) {
        Ok(value) => value,
        Err(error) => {
            let help = format!("write a number and a unit: \"{shown}\"; accepted units: {}", dimension.accepted());
            findings.error(format!("`{key}` {}", error.reason(text)), vec![(span, "this value".into())], Some(help));
            return None;
        }
    };
    let steps = u16::try_from(value / step).ok().filter(|steps| value % step == 0 && *steps <= most);
    if steps.is_none() {
        let help = format!("write a multiple of {shown}, at most {most} times it: the specification counts it in such steps");
        findings.error(format!("`{key}` cannot be {text}"), vec![(span, "this value".into())], Some(help));
    }
    steps
}

/// Reports an error if the least index exceeds the limit.
fn check_order(fields: &Fields<'_>, entry: &Entry, injection: &mut InjectionSettings, findings: &mut Findings) {
    if u16::from(injection.ccti_min) > injection.ccti_limit {
        let span = if fields.has("ccti_min") { span_of(entry, "ccti_min") } else { span_of(entry, "ccti_limit") };
        let message = format!("`ccti_min` {} is above `ccti_limit` {}", injection.ccti_min, injection.ccti_limit);
        findings.error(message, vec![(span, "here".into())], Some("write a `ccti_min` that is not above `ccti_limit`".into()));
        injection.ccti_min = 0;
    }
}

fn span_of(entry: &Entry, key: &str) -> Range<usize> {
    let Value::Table(entries) = &entry.node.value else { return entry.key_span.clone() };
    entries.iter().find(|entry| entry.key == key).map_or(entry.key_span.clone(), |entry| entry.node.span.clone())
}

/// Reads the congestion control table: `"shift:multiplier"` for each index, as in OpenSM's `cc_cct`.
fn table(entry: &Entry, limit: u16, findings: &mut Findings) -> Vec<CctEntry> {
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, "a list of \"shift:multiplier\", one for each index", findings);
        return vec![CctEntry { shift: 0, multiplier: 0 }; usize::from(limit) + 1];
    };
    let mut table: Vec<CctEntry> = Vec::new();
    for item in items {
        let parsed = if let Value::Text(text) = &item.value { cct_entry(text) } else { None };
        if parsed.is_none() {
            let help = "write \"shift:multiplier\", shift 0 to 3 and multiplier 0 to 16383: a packet's time >> shift x multiplier is the pause";
            findings.error("this is not an entry of the table".into(), vec![(item.span.clone(), "here".into())], Some(help.into()));
        }
        table.push(parsed.unwrap_or(CctEntry { shift: 0, multiplier: 0 }));
    }
    if !(usize::from(limit) + 1..=CCT_LEN_MAX).contains(&table.len()) {
        let message = format!("`cct` has {}, and indices go from 0 to `ccti_limit` {limit}", counted(table.len(), "entry", "entries"));
        let help = format!("write {} entries, or another `ccti_limit`", usize::from(limit) + 1);
        findings.error(message, vec![(entry.node.span.clone(), "this table".into())], Some(help));
    }
    table
}

fn cct_entry(text: &str) -> Option<CctEntry> {
    let (shift, multiplier) = text.split_once(':')?;
    let entry = CctEntry { shift: shift.trim().parse().ok()?, multiplier: multiplier.trim().parse().ok()? };
    (entry.shift <= CctEntry::SHIFT_MAX && entry.multiplier <= CctEntry::MULTIPLIER_MAX).then_some(entry)
}

/// Warns of switches that do not mark and HCAs that do not respond. These nodes forward and send as
/// without congestion control.
pub(super) fn warn_of_bystanders(subnet: Option<&Entry>, spec: &FabricSpec, findings: &mut Findings) {
    let (Some(entry), Some(_)) = (subnet, &spec.subnet.congestion_control) else { return };
    let place = vec![(span_of(entry, "congestion_control"), "configured here".to_owned())];
    let switches = spec.switches.iter().map(|switch| (switch.part.congestion_control, format!("`{}` ({})", switch.name, switch.part.name)));
    let hcas = spec
        .hosts
        .iter()
        .flat_map(|host| host.hcas.iter().map(|hca| (hca.part.congestion_control, format!("`{}/{}` ({})", host.name, hca.device, hca.part.name))));
    warn_of_kind("switch", "mark packets", &switches.collect::<Vec<_>>(), &place, findings);
    warn_of_kind("HCA", "slow down", &hcas.collect::<Vec<_>>(), &place, findings);
}

fn warn_of_kind(kind: &str, does: &str, nodes: &[(bool, String)], place: &[Label], findings: &mut Findings) {
    let without: Vec<&str> = nodes.iter().filter(|(can, _)| !can).map(|(_, name)| name.as_str()).collect();
    if without.len() == nodes.len() {
        let help = format!("take {kind} parts that say `congestion_control`, or leave the table out");
        findings.warning(format!("no {kind} of this fabric can {does}, so congestion control does nothing"), place.to_vec(), Some(help));
    } else if !without.is_empty() {
        findings.note(format!("without congestion control in their parts: {}", without.join(", ")), place.to_vec(), None);
    }
}
