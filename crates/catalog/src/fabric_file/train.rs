//! Links: the length of a cable, and the rate that both ends and the cable support.

use std::ops::Range;

use softband_model::parts::{CablePart, Medium};
use softband_types::{EthernetRate, LinkLayer, LinkRate, LinkSpeed, LinkWidth};

use super::Context;
use super::slower::{self, Limits};
use crate::diagnostic::Findings;
use crate::parts::{CableTemplate, LengthLimit, Status};
use crate::units::{Dimension, QuantityError, or_list, parse_quantity};

/// Capabilities of a port.
#[derive(Clone, Copy)]
pub(super) enum PortCan<'a> {
    Infiniband(Capabilities<'a>),
    Ethernet(&'a [EthernetRate]),
}

/// Capabilities of an InfiniBand port.
#[derive(Clone, Copy)]
pub(super) struct Capabilities<'a> {
    pub(super) widths: &'a [LinkWidth],
    pub(super) speeds: &'a [LinkSpeed],
}

/// An end of a link: its name in the file, its place, and its capabilities.
pub(super) type End<'a, Can> = (&'a str, &'a Range<usize>, Can);

/// A cable with its length.
pub(super) struct Laid<'a> {
    pub(super) part: &'a CableTemplate,
    pub(super) part_span: Range<usize>,
    pub(super) length: Length,
}

/// Everything that determines the training of a link.
pub(super) struct Link<'a> {
    pub(super) cable: Laid<'a>,
    /// The `rate` of the file.
    pub(super) cap: Option<(LinkSpeed, Range<usize>)>,
    pub(super) ends: [End<'a, Capabilities<'a>>; 2],
}

/// The `rate` of the file: an InfiniBand speed, whose width follows from the parts, or an Ethernet rate.
#[derive(Clone, Copy)]
pub(super) enum Cap {
    Infiniband(LinkSpeed),
    Ethernet(EthernetRate),
}

/// Length of a cable, with its place if the fabric file gives it.
pub(super) struct Length {
    millimetres: u64,
    span: Option<Range<usize>>,
}

/// Returns the length, from the part or from the file. Returns `None` after an error.
pub(super) fn cable_length(
    part: Option<&(CableTemplate, Range<usize>)>,
    written: Option<(&str, Range<usize>)>,
    findings: &mut Findings,
) -> Option<Length> {
    let (template, part_span) = part?;
    let (name, fixed) = (&template.part.name, template.part.length_millimetres);
    match (template.adjustable, written) {
        (false, None) => Some(Length { millimetres: fixed, span: None }),
        (true, Some((text, span))) => parse_length(text, &span, findings).map(|millimetres| Length { millimetres, span: Some(span) }),
        (true, None) => {
            let help = "add `length = \"8 m\"` to the cable";
            findings.error(format!("cable part `{name}` comes in any length"), vec![(part_span.clone(), "no length".into())], Some(help.into()));
            None
        }
        // A resolved fabric repeats the length of the part.
        (false, Some((text, span))) if parse_quantity(text, Dimension::Length) == Ok(fixed) => Some(Length { millimetres: fixed, span: Some(span) }),
        (false, Some((_, span))) => {
            let help = "remove `length`, or name a part of adjustable length";
            let message = format!("cable part `{name}` is {} long, no other length can be given", metres(fixed));
            findings.error(message, vec![(span, "this length".into())], Some(help.into()));
            None
        }
    }
}

fn parse_length(text: &str, span: &Range<usize>, findings: &mut Findings) -> Option<u64> {
    // The circumference of the earth. Delays of longer cables would overflow the times of a run.
    const LENGTH_MAX_MM: u64 = 40_000_000_000;
    let mut refuse = |message: String| {
        let help = format!("write a number and a unit: \"8 m\"; accepted units: {}", Dimension::Length.accepted());
        findings.error(message, vec![(span.clone(), "this length".into())], Some(help));
    };
    match parse_quantity(text, Dimension::Length) {
        Ok(millimetres) if (1..=LENGTH_MAX_MM).contains(&millimetres) => return Some(millimetres),
        Ok(0) => refuse("a cable cannot have no length".to_owned()),
        Ok(_) => refuse(format!("the length `{text}` is too large")),
        Err(QuantityError::NoUnit) => refuse(format!("the length `{text}` has no unit")),
        Err(QuantityError::WrongUnit(unit)) => refuse(format!("a length cannot be in `{unit}`")),
        Err(QuantityError::NoNumber) => refuse(format!("`{text}` is not a length")),
        Err(QuantityError::Convert(error)) => refuse(format!("the length `{text}` is {}", error.reason())),
    }
    None
}

/// Reads the cap on the link's speed from the file. Returns `Err` after an error.
pub(super) fn rate_cap(written: Option<(&str, Range<usize>)>, findings: &mut Findings) -> Result<Option<(Cap, Range<usize>)>, ()> {
    let Some((text, span)) = written else { return Ok(None) };
    let cap = LinkSpeed::parse(text).map(Cap::Infiniband).or_else(|| EthernetRate::parse(text).map(Cap::Ethernet));
    match cap {
        Some(cap) => Ok(Some((cap, span))),
        None => {
            let (names, rates) = (LinkSpeed::ALL.map(|speed| format!("\"{speed}\"")), EthernetRate::ALL.map(|rate| format!("\"{rate}\"")));
            let help = format!("write {}, whose width follows from the parts; for Ethernet {}", or_list(&names), or_list(&rates));
            findings.error(format!("unknown link rate `{text}`"), vec![(span, "this rate".into())], Some(help));
            Err(())
        }
    }
}

/// Returns the cable and the rate that the link trains to. Returns `None` after an error.
pub(super) fn train(link: &Link<'_>, context: &mut Context<'_>) -> Option<(CablePart, LinkRate)> {
    let part = link.cable.part();
    let [a, b] = [link.ends[0].2, link.ends[1].2];
    let width = best(a.widths, b.widths, |width| width <= part.width_max);
    let possible = best(a.speeds, b.speeds, |speed| speed <= part.speed_max);
    let speed = best(a.speeds, b.speeds, |speed| speed <= part.speed_max && link.cap.as_ref().is_none_or(|(cap, _)| speed <= *cap));
    let (Some(width), Some(speed), Some(possible)) = (width, speed, possible) else {
        cannot_train(link, context);
        return None;
    };
    check_cap(link, possible, context);
    let rate = LinkRate { width, speed };
    note_less(link, rate, &mut context.findings);
    check_limit(&link.cable, (LinkLayer::Infiniband, rate), &rate.to_string(), context).then_some((part, rate))
}

impl Laid<'_> {
    pub(super) fn part(&self) -> CablePart {
        CablePart { length_millimetres: self.length.millimetres, ..self.part.part.clone() }
    }
}

pub(super) fn best<T: Copy + Ord>(a: &[T], b: &[T], allowed: impl Fn(T) -> bool) -> Option<T> {
    a.iter().copied().filter(|value| b.contains(value) && allowed(*value)).max()
}

pub(super) fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}

fn cannot_train(link: &Link<'_>, context: &mut Context<'_>) {
    let part = &link.cable.part.part;
    let ends = link.ends.iter().map(|(name, _, can)| format!("`{name}` does {} at {}", list(can.widths), list(can.speeds)));
    let mut help = ends.collect::<Vec<_>>().join(", ");
    help.push_str(&format!(", cable `{}` up to {} {}", part.name, part.width_max, part.speed_max));
    let mut labels: Vec<_> = link.ends.iter().map(|(_, span, _)| ((*span).clone(), "one end".to_owned())).collect();
    if let Some((cap, span)) = &link.cap {
        help.push_str(&format!(", `rate` allows up to {cap}"));
        labels.insert(0, (span.clone(), "this rate".to_owned()));
    }
    context.findings.error("the ends of this link have no rate in common".into(), labels, Some(help));
}

/// Reports a cap without effect. The cap is an error if no port of the link reaches that speed, and
/// otherwise a warning.
fn check_cap(link: &Link<'_>, possible: LinkSpeed, context: &mut Context<'_>) {
    let Some((cap, span)) = &link.cap else { return };
    if *cap <= possible {
        return;
    }
    let fastest = link.ends.iter().flat_map(|(_, _, can)| can.speeds).copied().max();
    let label = vec![(span.clone(), "this rate".to_owned())];
    if fastest.is_some_and(|fastest| *cap > fastest) {
        let help = format!("the link can train to {possible}; write `rate = \"{possible}\"` or remove `rate`");
        context.findings.error(format!("no port of this link does {cap}"), label, Some(help));
    } else {
        context.findings.warning(format!("`rate = \"{cap}\"` has no effect: the link trains to {possible}"), label, None);
    }
}

/// Notes a link that is narrower or slower than one of its ports.
fn note_less(link: &Link<'_>, rate: LinkRate, findings: &mut Findings) {
    let (part, place) = (&link.cable.part.part, &link.cable.part_span);
    let ends = link.ends;
    let widths = ends.map(|(name, span, can)| (name, span, can.widths));
    // A 4X cable at a 4X HCA is a deliberate choice, so a 12X port at the other end needs no note.
    let by_intent = part.width_max == rate.width && widths.iter().any(|(.., can)| can.iter().max() == Some(&rate.width));
    if !by_intent {
        slower::note(rate.width, &Limits { ends: widths, cable: (&part.name, place, part.width_max), cap: None }, findings);
    }
    let speeds = ends.map(|(name, span, can)| (name, span, can.speeds));
    let cap = link.cap.as_ref().map(|(cap, _)| *cap);
    slower::note(rate.speed, &Limits { ends: speeds, cable: (&part.name, place, part.speed_max), cap }, findings);
}

/// Checks the length of the cable against the limit.
pub(super) fn check_limit(cable: &Laid<'_>, of: (LinkLayer, LinkRate), rate: &str, context: &mut Context<'_>) -> bool {
    let part = cable.part();
    let Some(limits_name) = &cable.part.limits else { return true };
    context.use_sheet(crate::parts::PartKind::Limit, limits_name);
    let limits: &[LengthLimit] = context.catalog.limits(limits_name).unwrap_or_default();
    let limit = limits.iter().find(|limit| limit.rate == of);
    if limit.is_some_and(|limit| part.length_millimetres <= limit.millimetres) {
        return true;
    }
    let span = cable.length.span.clone().unwrap_or_else(|| cable.part_span.clone());
    let length = metres(part.length_millimetres);
    let (message, source) = match limit {
        Some(limit) => {
            let longest = metres(limit.millimetres);
            (format!("{} at {rate} may be {longest} long at most, this cable is {length}", part.medium), limit_source(limit))
        }
        None => (format!("no length of {} is known to carry {rate}", part.medium), format!("length limits `{limits_name}` have no row for it")),
    };
    let label = vec![(span, length)];
    if context.options.allow_out_of_spec {
        context.findings.warning(format!("{message}; allowed as asked"), label, Some(source));
        return true;
    }
    let other = if part.medium == Medium::Copper { "a shorter or an optical cable" } else { "a shorter cable" };
    let help = format!("{source}. Use {other} or a lower `rate`; `--allow-out-of-spec` runs it anyway");
    context.findings.error(message, label, Some(help));
    false
}

fn limit_source(limit: &LengthLimit) -> String {
    match limit.status {
        Status::Assumed => format!("assumed limit: {}", limit.source),
        _ => format!("limit: {}", limit.source),
    }
}

/// Formats a length for people: `8 m`, `0.5 m`.
pub(crate) fn metres(millimetres: u64) -> String {
    let (whole, rest) = (millimetres / 1_000, millimetres % 1_000);
    if rest == 0 {
        return format!("{whole} m");
    }
    format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')) + " m"
}
