//! Ethernet links: `[ethernet]`, the rate that a link trains to, and the ends that match.

use std::ops::Range;

use softband_model::parts::CablePart;
use softband_spec::{EthernetFlowControl, EthernetSpec, FabricSpec};
use softband_types::{EthernetRate, LinkLayer, LinkRate, OperationalVls};
use softband_wire::ethernet::{OVERHEAD_BYTES, mtu_of_port};

use super::Context;
use super::slower::{self, Limits};
use super::train::{self, Cap, End, Laid, Link, PortCan};
use crate::diagnostic::{Findings, suggest};
use crate::document::{Entry, Fields, Value};
use crate::parts::PartKind;

/// Largest MTU that switches commonly support, in bytes.
const MTU_MAX: u32 = 9216;

/// A word of a key and its meaning.
type Word<'a, T> = (&'a str, T);

pub(super) fn read_ethernet(entry: Option<&Entry>, findings: &mut Findings) -> EthernetSpec {
    let mut ethernet = EthernetSpec::default();
    let Some(entry) = entry else { return ethernet };
    let Some(mut fields) = Fields::of("`[ethernet]`", &entry.node, entry.key_span.clone(), findings) else { return ethernet };
    if let Some((bytes, span)) = fields.optional_integer("mtu", findings) {
        match u32::try_from(bytes).ok().filter(|bytes| *bytes <= MTU_MAX && mtu_of_port(*bytes).is_some()) {
            Some(bytes) => ethernet.mtu_bytes = bytes,
            None => {
                let help = format!(
                    "write {} to {MTU_MAX}, as interfaces have it: RDMA packets carry the next lower power of two, {OVERHEAD_BYTES} B of headers \
                     taken off; 1500 is usual, 4200 and more carry 4096",
                    256 + OVERHEAD_BYTES
                );
                findings.error(format!("`mtu` of Ethernet ports cannot be {bytes}"), vec![(span, "not possible".into())], Some(help));
            }
        }
    }
    let words = [("pfc", EthernetFlowControl::Pfc), ("none", EthernetFlowControl::None)];
    word(&mut fields, "flow_control", &words, &mut ethernet.flow_control, findings);
    word(&mut fields, "priority_in", &[("dscp", false), ("vlan-tag", true)], &mut ethernet.tagged, findings);
    if let Some((count, span)) = fields.optional_integer("priorities", findings) {
        let known = (1..=4).filter_map(OperationalVls::from_code).find(|vls| i64::from(vls.data_lanes()) == count);
        match known {
            Some(vls) => ethernet.priorities = vls,
            None => {
                let help = "write 1, 2, 4 or 8: the number of priorities with their own buffers, which share the service levels";
                findings.error(format!("`priorities` cannot be {count}"), vec![(span, "not possible".into())], Some(help.into()));
            }
        }
    }
    fields.finish(findings);
    ethernet
}

fn word<T: Copy>(fields: &mut Fields<'_>, key: &'static str, words: &[Word<'_, T>], to: &mut T, findings: &mut Findings) {
    let Some((text, span)) = fields.optional_text(key, &format!("\"{}\"", words[0].0), findings) else { return };
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, value)) => *to = *value,
        None => {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            findings.error(format!("`{key}` cannot be `{text}`"), vec![(span, "unknown".into())], Some(suggest(text, "values", &known)));
        }
    }
}

/// Reads the `link_layer` of an HCA.
pub(super) fn link_layer(written: Option<(&str, Range<usize>)>, findings: &mut Findings) -> (LinkLayer, Option<Range<usize>>) {
    let Some((text, span)) = written else { return (LinkLayer::Infiniband, None) };
    let layer = LinkLayer::parse(text);
    if layer.is_none() {
        let help = suggest(text, "link layers", &LinkLayer::ALL.map(LinkLayer::name));
        findings.error(format!("unknown link layer `{text}`"), vec![(span.clone(), "this link layer".into())], Some(help));
    }
    (layer.unwrap_or_default(), Some(span))
}

/// Trains the link between both ends of a cable. Fails unless both ends and the cable have the same
/// link layer.
pub(super) fn train(
    cable: Laid<'_>,
    cap: Option<(Cap, Range<usize>)>,
    ends: [End<'_, PortCan<'_>>; 2],
    context: &mut Context<'_>,
) -> Option<(CablePart, LinkRate)> {
    let [(a, a_span, a_can), (b, b_span, b_can)] = ends;
    match (a_can, b_can) {
        (PortCan::Infiniband(a_can), PortCan::Infiniband(b_can)) => {
            check_cable(&cable, LinkLayer::Infiniband, context)?;
            let cap = match cap {
                Some((Cap::Infiniband(speed), span)) => Some((speed, span)),
                Some((Cap::Ethernet(rate), span)) => return wrong_cap(&rate.to_string(), span, LinkLayer::Ethernet, context),
                None => None,
            };
            train::train(&Link { cable, cap, ends: [(a, a_span, a_can), (b, b_span, b_can)] }, context)
        }
        (PortCan::Ethernet(a_can), PortCan::Ethernet(b_can)) => {
            check_cable(&cable, LinkLayer::Ethernet, context)?;
            let cap = match cap {
                Some((Cap::Ethernet(rate), span)) => Some((rate, span)),
                Some((Cap::Infiniband(speed), span)) => return wrong_cap(&speed.to_string(), span, LinkLayer::Infiniband, context),
                None => None,
            };
            train_ethernet(&cable, cap.as_ref(), [(a, a_span, a_can), (b, b_span, b_can)], context)
        }
        _ => {
            refuse_mixture(ends, context);
            None
        }
    }
}

fn train_ethernet(
    cable: &Laid<'_>,
    cap: Option<&(EthernetRate, Range<usize>)>,
    ends: [End<'_, &[EthernetRate]>; 2],
    context: &mut Context<'_>,
) -> Option<(CablePart, LinkRate)> {
    let part = cable.part();
    let rate_max = part.ethernet.as_ref().map_or(EthernetRate::G800, |cable| cable.rate_max);
    let [(.., a), (.., b)] = ends;
    let possible = train::best(a, b, |rate| rate <= rate_max);
    let found = train::best(a, b, |rate| rate <= rate_max && cap.is_none_or(|(cap, _)| rate <= *cap));
    let (Some(rate), Some(possible)) = (found, possible) else {
        let mut help = ends.map(|(name, _, can)| format!("`{name}` does {}", train::list(can))).join(", ");
        help.push_str(&format!(", cable `{}` up to {rate_max}", part.name));
        let mut labels: Vec<_> = ends.iter().map(|(_, span, _)| ((*span).clone(), "one end".to_owned())).collect();
        if let Some((cap, span)) = cap {
            help.push_str(&format!(", `rate` allows up to {cap}"));
            labels.insert(0, (span.clone(), "this rate".to_owned()));
        }
        context.findings.error("the ends of this link have no rate in common".into(), labels, Some(help));
        return None;
    };
    if let Some((cap, span)) = cap.filter(|(cap, _)| *cap > possible) {
        let message = format!("`rate = \"{cap}\"` has no effect: the link trains to {possible}");
        context.findings.warning(message, vec![(span.clone(), "this rate".to_owned())], None);
    }
    let limits = Limits { ends, cable: (&part.name, &cable.part_span, rate_max), cap: cap.map(|(cap, _)| *cap) };
    slower::note(rate, &limits, &mut context.findings);
    let rate_of_lanes = rate.link_rate();
    train::check_limit(cable, (LinkLayer::Ethernet, rate_of_lanes), &rate.to_string(), context).then_some((part, rate_of_lanes))
}

fn check_cable(cable: &Laid<'_>, layer: LinkLayer, context: &mut Context<'_>) -> Option<()> {
    let part = &cable.part.part;
    if part.link_layer() == layer {
        return Some(());
    }
    let catalog = context.catalog;
    let fits = |name: &&str| catalog.cable_template(name).is_some_and(|template| template.part.link_layer() == layer);
    let names: Vec<&str> = catalog.parts(PartKind::Cable).into_iter().filter(fits).collect();
    let message = format!("cable part `{}` is for {} links, and both ends are {layer} ports", part.name, part.link_layer());
    let help = format!("the cable parts for {layer} are: {}", names.join(", "));
    context.findings.error(message, vec![(cable.part_span.clone(), "this cable".into())], Some(help));
    None
}

fn wrong_cap(cap: &str, span: Range<usize>, layer: LinkLayer, context: &mut Context<'_>) -> Option<(CablePart, LinkRate)> {
    let other = if layer == LinkLayer::Ethernet { LinkLayer::Infiniband } else { LinkLayer::Ethernet };
    let help = format!("write one of {other}'s rates, or remove `rate`");
    context.findings.error(format!("{cap} is a rate of {layer}, and both ends are {other} ports"), vec![(span, "this rate".into())], Some(help));
    None
}

fn refuse_mixture(ends: [End<'_, PortCan<'_>>; 2], context: &mut Context<'_>) {
    let layer = |can| if matches!(can, PortCan::Ethernet(_)) { LinkLayer::Ethernet } else { LinkLayer::Infiniband };
    let labels = ends.iter().map(|(_, span, can)| ((*span).clone(), format!("{} port", layer(*can)))).collect();
    let [(a, _, a_can), (b, _, b_can)] = ends;
    let message = format!("`{a}` is a port of {}, `{b}` one of {}", layer(a_can), layer(b_can));
    let help = "give the HCA `link_layer = \"ethernet\"`, where its part can, or remove that; a switch is what its part says: take another part \
                (`softband parts list` shows them)";
    context.findings.error(message, labels, Some(help.into()));
}

/// Warns if `[ethernet]` has no effect because the fabric has no Ethernet. Warns also of priorities
/// without room for their headroom, which lose packets.
pub(super) fn warn((entry, cables): (Option<&Entry>, Option<&Entry>), spec: &FabricSpec, findings: &mut Findings) {
    let place = entry.map_or_else(Vec::new, |entry| vec![(entry.key_span.clone(), "this table".to_owned())]);
    if entry.is_some() && !spec.has_ethernet() {
        let help = "give HCAs `link_layer = \"ethernet\"` and take Ethernet switch parts, or remove the table";
        findings.warning("nothing of this fabric is Ethernet, so `[ethernet]` does nothing".into(), place.clone(), Some(help.into()));
    }
    for (port, has, needs) in softband_spec::lossy_ends(spec) {
        let message = format!(
            "`{}` may lose packets though it pauses priorities: each has {has} B of buffer, and what comes until a pause takes effect needs {needs} B",
            spec.port_name(port)
        );
        let help = "fewer `priorities`, a smaller `mtu` or a shorter cable need less; real ports are set up so that headroom fits";
        let cable = spec.cables.iter().position(|cable| cable.ends.contains(&port));
        let labels = cable.and_then(|index| cable_span(cables, index)).map(|span| (span, "this cable".to_owned()));
        findings.warning(message, labels.into_iter().chain(place.clone()).collect(), Some(help.into()));
    }
}

/// Returns the place in the file of the cable with this index.
fn cable_span(cables: Option<&Entry>, index: usize) -> Option<Range<usize>> {
    match &cables?.node.value {
        Value::Array(nodes) => nodes.get(index).map(|node| node.span.clone()),
        _ => None,
    }
}
