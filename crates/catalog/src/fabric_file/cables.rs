//! Cables: the ports that they join, and faults of those connections.

use std::collections::BTreeMap;
use std::ops::Range;

use softband_model::parts::EthernetPorts;
use softband_spec::{CableSpec, PortRef};
use softband_types::{LinkLayer, LinkSpeed, LinkWidth, PortNumber};

use super::Context;
use super::ethernet;
use super::nodes::{HostDraft, SwitchDraft};
use super::stated;
use super::train::{self, Capabilities, PortCan};

use crate::diagnostic::{Findings, suggest};
use crate::document::{Entry, Fields, Node, Value, wrong_kind};
use crate::parts::PartKind;

/// The nodes of the file, by name.
pub(super) struct Nodes<'a> {
    hosts: &'a [HostDraft],
    switches: &'a [SwitchDraft],
    by_name: BTreeMap<&'a str, NodeIndex>,
}

#[derive(Clone, Copy)]
enum NodeIndex {
    Host(usize),
    Switch(usize),
}

/// An end of a cable, with its port.
struct End<'a> {
    text: &'a str,
    span: Range<usize>,
    port: PortRef,
    /// `None` if the node's part is unknown; an error already reports this.
    capabilities: Option<PortCan<'a>>,
}

/// Reads `[[cables]]`.
pub(super) fn cables(entry: Option<&Entry>, hosts: &[HostDraft], switches: &[SwitchDraft], context: &mut Context<'_>) -> Vec<CableSpec> {
    let Some(entry) = entry else { return Vec::new() };
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, "a list of tables: write `[[cables]]`", &mut context.findings);
        return Vec::new();
    };
    let nodes = Nodes::new(hosts, switches);
    let mut taken: BTreeMap<PortRef, Range<usize>> = BTreeMap::new();
    items.iter().enumerate().filter_map(|(index, item)| cable(index, item, &nodes, &mut taken, context)).collect()
}

fn cable(index: usize, node: &Node, nodes: &Nodes<'_>, taken: &mut BTreeMap<PortRef, Range<usize>>, context: &mut Context<'_>) -> Option<CableSpec> {
    let mut fields = Fields::of(format!("cable {}", index + 1), node, node.span.clone(), &mut context.findings)?;
    let part = fields.required_text("part", "\"...\", a cable part", &mut context.findings);
    let from = fields.required_text("from", "\"host/device/port\" or \"switch/port\"", &mut context.findings);
    let to = fields.required_text("to", "\"host/device/port\" or \"switch/port\"", &mut context.findings);
    let length = fields.optional_text("length", "\"1 m\"", &mut context.findings);
    let rate = fields.optional_text("rate", "\"EDR\"", &mut context.findings);
    let stated = stated::of_cable(&mut fields, &mut context.findings);
    let length_is_wrong = fields.has("length") && length.is_none();
    fields.finish(&mut context.findings);
    let part = part.and_then(|(name, span)| {
        let template = context.part(PartKind::Cable, name, span.clone(), |all, name| all.cable_template(name).cloned())?;
        Some((template, span))
    });
    let ends = [from, to].map(|end| end.and_then(|(text, span)| nodes.end(text, span, &mut context.findings)));
    for end in ends.iter().flatten() {
        claim(end, taken, &mut context.findings);
    }
    let length = if length_is_wrong { None } else { train::cable_length(part.as_ref(), length, &mut context.findings) };
    let rate = train::rate_cap(rate, &mut context.findings);
    let ((template, part_span), [Some(a), Some(b)], length, rate) = (part?, ends, length?, rate.ok()?) else { return None };
    if a.port == b.port {
        return None;
    }
    let laid = train::Laid { part: &template, part_span, length };
    let ends = [(a.text, &a.span, a.capabilities?), (b.text, &b.span, b.capabilities?)];
    let (part, rate) = ethernet::train(laid, rate, ends, context)?;
    let cable = CableSpec { part, ends: [a.port, b.port], rate };
    stated.check(&cable, [a.text, b.text], &mut context.findings);
    Some(cable)
}

/// Claims a port for a cable. A port takes one cable.
fn claim(end: &End<'_>, taken: &mut BTreeMap<PortRef, Range<usize>>, findings: &mut Findings) {
    if let Some(first) = taken.get(&end.port) {
        let labels = vec![(end.span.clone(), "cabled again here".into()), (first.clone(), "first cabled here".into())];
        let help = "a port takes one cable; use another port or remove one of the cables";
        findings.error(format!("two cables end on port `{}`", end.text), labels, Some(help.into()));
        return;
    }
    taken.insert(end.port, end.span.clone());
}

impl<'a> Nodes<'a> {
    fn new(hosts: &'a [HostDraft], switches: &'a [SwitchDraft]) -> Self {
        let by_host = hosts.iter().enumerate().map(|(index, host)| (host.name.as_str(), NodeIndex::Host(index)));
        let by_switch = switches.iter().enumerate().map(|(index, switch)| (switch.name.as_str(), NodeIndex::Switch(index)));
        // An error already reports a switch with the name of a host. The name refers to the host here.
        let by_name = by_switch.chain(by_host).collect();
        Self { hosts, switches, by_name }
    }

    /// Finds the port that `text` names: `host/device/port` or `switch/port`.
    fn end(&self, text: &'a str, span: Range<usize>, findings: &mut Findings) -> Option<End<'a>> {
        let words: Vec<&str> = text.split('/').collect();
        let Some(node) = self.by_name.get(words[0]) else {
            let names: Vec<&str> = self.by_name.keys().copied().collect();
            let message = format!("a cable ends on `{text}`, and there is no host or switch `{}`", words[0]);
            let help = suggest(words[0], "hosts and switches", &names);
            findings.error(message, vec![(span, "unknown node".into())], Some(help));
            return None;
        };
        let (port, capabilities) = match *node {
            NodeIndex::Host(host) => self.hca_port(host, &words, text, &span, findings)?,
            NodeIndex::Switch(switch) => self.switch_port(switch, &words, text, &span, findings)?,
        };
        Some(End { text, span, port, capabilities })
    }

    fn hca_port(
        &self,
        host: usize,
        words: &[&str],
        text: &str,
        span: &Range<usize>,
        findings: &mut Findings,
    ) -> Option<(PortRef, Option<PortCan<'a>>)> {
        let draft = &self.hosts[host];
        let devices: Vec<&str> = draft.hcas.iter().map(|hca| hca.device.as_str()).collect();
        let first = devices.first().copied().unwrap_or("mthca0");
        let [_, device, port] = words else {
            let help = format!("`{0}` is a host; write \"{0}/{first}/1\"", draft.name);
            findings.error(format!("`{text}` does not name an HCA's port"), vec![(span.clone(), "this end".into())], Some(help));
            return None;
        };
        let Some(hca) = draft.hcas.iter().position(|hca| hca.device == *device) else {
            let help = suggest(device, &format!("HCAs of host `{}`", draft.name), &devices);
            let message = format!("a cable ends on `{text}`, and host `{}` has no HCA `{device}`", draft.name);
            findings.error(message, vec![(span.clone(), "unknown HCA".into())], Some(help));
            return None;
        };
        let part = draft.hcas[hca].part.as_ref();
        let ports = part.map_or(u8::MAX, |part| part.ports);
        let owner = part.map_or(String::new(), |part| format!("`{}/{device}` ({})", draft.name, part.name));
        let port = port_number(port, ports, text, &owner, span, findings)?;
        let ethernet = part.and_then(|part| part.ethernet.as_ref()).filter(|_| draft.hcas[hca].link_layer == LinkLayer::Ethernet);
        let can = part.map(|part| port_can(ethernet, &part.widths, &part.speeds));
        Some((PortRef::Hca { host, hca, port }, can))
    }

    fn switch_port(
        &self,
        switch: usize,
        words: &[&str],
        text: &str,
        span: &Range<usize>,
        findings: &mut Findings,
    ) -> Option<(PortRef, Option<PortCan<'a>>)> {
        let draft = &self.switches[switch];
        let [_, port] = words else {
            let help = format!("`{0}` is a switch; write \"{0}/1\"", draft.name);
            findings.error(format!("`{text}` does not name a switch's port"), vec![(span.clone(), "this end".into())], Some(help));
            return None;
        };
        let part = draft.part.as_ref();
        let ports = part.map_or(u8::MAX, |part| part.ports);
        let owner = part.map_or(String::new(), |part| format!("`{}` ({})", draft.name, part.name));
        let port = port_number(port, ports, text, &owner, span, findings)?;
        let can = part.map(|part| port_can(part.ethernet.as_ref(), &part.widths, &part.speeds));
        Some((PortRef::Switch { switch, port }, can))
    }
}

fn port_can<'a>(ethernet: Option<&'a EthernetPorts>, widths: &'a [LinkWidth], speeds: &'a [LinkSpeed]) -> PortCan<'a> {
    ethernet.map_or(PortCan::Infiniband(Capabilities { widths, speeds }), |ports| PortCan::Ethernet(&ports.rates))
}

fn port_number(word: &str, ports: u8, text: &str, owner: &str, span: &Range<usize>, findings: &mut Findings) -> Option<PortNumber> {
    let number = word.parse::<u8>().ok().filter(|number| (1..=ports).contains(number));
    if number.is_none() {
        let range = if ports == 1 { "port 1 only".to_owned() } else { format!("ports 1 to {ports}") };
        let message = format!("a cable ends on `{text}`, and there is no port `{word}`");
        findings.error(message, vec![(span.clone(), "no such port".into())], Some(format!("{owner} has {range}")));
    }
    number.map(PortNumber)
}
