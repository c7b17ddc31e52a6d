//! Links: both ends of each cable must name each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use softband_types::{LinkRate, LinkSpeed, LinkWidth};

use super::rates::{self, Stated};
use super::read::{Dump, Kind, Node, PortLine};
use super::{Note, TopologyFormat, Trouble};

/// An end of a link: index of the node, and port.
pub(super) type End = (usize, u8);

pub(super) struct Link {
    pub(super) ends: [End; 2],
    pub(super) rate: LinkRate,
}

/// Nodes and links of the fabric, without nodes that Softband does not model.
pub(super) struct Graph {
    pub(super) hcas: Vec<usize>,
    pub(super) switches: Vec<usize>,
    pub(super) links: Vec<Link>,
    /// GUIDs of the nodes. `None` if the file gives none, or if ports of another node have it.
    pub(super) guids: Vec<Option<u64>>,
    pub(super) notes: Vec<Note>,
}

/// Rate of links without one in the file: the default of ibsim.
const RATE_DEFAULT: LinkRate = LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Sdr };

/// Joins the ports of a dump to links.
pub(super) fn link(dump: &Dump, format: TopologyFormat) -> Result<Graph, Trouble> {
    let mut graph = Graph { hcas: Vec::new(), switches: Vec::new(), links: Vec::new(), guids: Vec::new(), notes: Vec::new() };
    for (index, node) in dump.nodes.iter().enumerate() {
        match omitted(node) {
            Some(why) => graph.notes.push((why.to_owned(), node.span.clone())),
            None if node.kind == Kind::Switch => graph.switches.push(index),
            None => graph.hcas.push(index),
        }
    }
    if graph.hcas.is_empty() {
        let span = dump.nodes.first().map_or(0..0, |node| node.span.clone());
        return Err(Trouble::at(
            &span,
            "the topology has no HCA",
            "a fabric needs at least one: the file may be cut off, or from a subnet without hosts",
        ));
    }
    // `ibnetdiscover` begins with the last node that it found. LIDs restore the order of a fabric.
    let order = |index: &usize| Some(dump.nodes[*index].lid).filter(|lid| *lid > 0).unwrap_or(u32::MAX);
    graph.hcas.sort_by_key(order);
    graph.switches.sort_by_key(order);
    assign_guids(dump, &mut graph)?;
    join(dump, format, &mut graph)?;
    Ok(graph)
}

/// Returns the reason to leave a node out, if there is one.
fn omitted(node: &Node) -> Option<&'static str> {
    if node.kind == Kind::Router {
        return Some("a router is left out with its links: Softband has one subnet");
    }
    let is_in_switch = node.kind == Kind::Hca && node.description.contains("Aggregation Node");
    is_in_switch.then_some("the aggregation node of a switch is left out with its link: it is no host")
}

/// Checks that no two nodes have the same GUID.
fn assign_guids(dump: &Dump, graph: &mut Graph) -> Result<(), Trouble> {
    let mut nodes: BTreeMap<u64, &Range<usize>> = BTreeMap::new();
    // Port GUIDs of Softband: that of the node plus the port number; for a switch that of the node.
    let mut ports: BTreeMap<u64, u64> = BTreeMap::new();
    for node in &dump.nodes {
        let Some(guid) = node.guid else {
            graph.guids.push(None);
            continue;
        };
        if let Some(first) = nodes.insert(guid, &node.span) {
            let help = "a GUID stands for one node: remove one of the records, or correct its GUID";
            return Err(Trouble::at(&node.span, format!("two nodes have the GUID {guid:#018x}"), help).and(first, "first used here"));
        }
        let first = if node.kind == Kind::Switch { guid } else { guid.saturating_add(1) };
        let last = if node.kind == Kind::Switch { guid } else { guid.saturating_add(u64::from(node.ports)) };
        // The last ports would have GUIDs beyond 64 bits.
        let overlaps = last == u64::MAX || ports.range(..=last).next_back().is_some_and(|(_, other)| *other >= first);
        if overlaps {
            let note = format!("the GUID {guid:#018x} is not kept: the port GUIDs that Softband derives from it are not free");
            graph.notes.push((note, node.span.clone()));
        } else {
            ports.insert(first, last);
        }
        graph.guids.push(Some(guid).filter(|_| !overlaps));
    }
    Ok(())
}

fn join(dump: &Dump, format: TopologyFormat, graph: &mut Graph) -> Result<(), Trouble> {
    let mut lines: BTreeMap<End, &PortLine> = BTreeMap::new();
    for (index, node) in dump.nodes.iter().enumerate() {
        for line in &node.lines {
            if let Some(first) = lines.insert((index, line.port), line) {
                let help = "a port takes one cable: remove one of the lines";
                let message = format!("port {} of `{}` is cabled twice", line.port, node.description);
                return Err(Trouble::at(&line.span, message, help).and(&first.span, "first cabled here"));
            }
        }
    }
    let modelled: BTreeSet<usize> = graph.hcas.iter().chain(&graph.switches).copied().collect();
    let mut unrated: Option<Range<usize>> = None;
    for index in graph.hcas.iter().chain(&graph.switches).copied() {
        for line in &dump.nodes[index].lines {
            let end = (index, line.port);
            let (other, back) = other_end(end, line, dump, &lines)?;
            // The loop meets each link at both ends.
            let is_first = rank(dump, end) < rank(dump, other);
            if !modelled.contains(&other.0) || !is_first {
                continue;
            }
            let rate = match common_rate(line, back)? {
                Some(rate) => rate,
                None => {
                    unrated.get_or_insert(line.span.clone());
                    RATE_DEFAULT
                }
            };
            graph.links.push(Link { ends: [end, other], rate });
        }
    }
    if let Some(span) = unrated.filter(|_| format == TopologyFormat::Ibnetdiscover) {
        graph.notes.push(("links without a rate in the file are 4X SDR, as in ibsim".into(), span));
    }
    Ok(())
}

/// Returns the order of ends: HCAs first.
fn rank(dump: &Dump, (index, port): End) -> (bool, u32, usize, u8) {
    let node = &dump.nodes[index];
    (node.kind == Kind::Switch, Some(node.lid).filter(|lid| *lid > 0).unwrap_or(u32::MAX), index, port)
}

/// Finds the port at the other end. Its line must lead back.
fn other_end<'a>(end: End, line: &'a PortLine, dump: &Dump, lines: &BTreeMap<End, &'a PortLine>) -> Result<(End, &'a PortLine), Trouble> {
    let name = |index: usize| &dump.nodes[index].description;
    let Some(remote) = dump.by_id.get(&line.remote).copied() else {
        let help = "add the record of that node, or remove this line; the file may be cut off";
        return Err(Trouble::at(&line.span, format!("a cable leads to `{}`, and the file has no such node", line.remote), help));
    };
    let other = (remote, line.remote_port);
    if line.remote_port > dump.nodes[remote].ports {
        let help = format!("`{}` has ports 1 to {}", name(remote), dump.nodes[remote].ports);
        return Err(Trouble::at(
            &line.span,
            format!("a cable leads to port {} of `{}`, which it does not have", line.remote_port, name(remote)),
            help,
        )
        .and(&dump.nodes[remote].span, "this node"));
    }
    if other == end {
        return Err(Trouble::at(&line.span, "a cable leads from a port to itself", "name another port, or remove the line"));
    }
    let Some(back) = lines.get(&other).copied() else {
        let message = format!("a cable leads to port {} of `{}`, whose record has no such line", line.remote_port, name(remote));
        let help = format!("add `[{}] \"...\"[{}]` there, or remove this line; the file may be cut off", line.remote_port, line.port);
        return Err(Trouble::at(&line.span, message, help).and(&dump.nodes[remote].span, "this node"));
    };
    if (dump.by_id.get(&back.remote).copied(), back.remote_port) != (Some(end.0), end.1) {
        let message = format!("both ends of a cable contradict each other: port {} of `{}` leads elsewhere", line.remote_port, name(remote));
        return Err(Trouble::at(&line.span, message, "correct the line that is wrong").and(&back.span, "the other end"));
    }
    Ok((other, back))
}

/// Returns the rate of a link from both ends. Returns `None` if neither states it.
fn common_rate(line: &PortLine, back: &PortLine) -> Result<Option<LinkRate>, Trouble> {
    match (line.rate, back.rate) {
        (None, None) => Ok(None),
        (Some(Stated::Trained(one)), Some(Stated::Trained(two))) if one != two => {
            let message = format!("both ends of a cable contradict each other: {} and {}", rates::name(one), rates::name(two));
            Err(Trouble::at(&line.span, message, "correct the rate that is wrong").and(&back.span, "the other end"))
        }
        (Some(Stated::Enabled(one)), Some(Stated::Enabled(two))) => match one.common(two) {
            Some(rate) => Ok(Some(rate)),
            None => {
                let help = "enable a common width (w=) and speed (s=, e=) at both ends";
                Err(Trouble::at(&line.span, "both ends of a cable have no width or speed in common", help).and(&back.span, "the other end"))
            }
        },
        (Some(Stated::Trained(rate)), _) | (_, Some(Stated::Trained(rate))) => Ok(Some(rate)),
        (Some(Stated::Enabled(one)), None) | (None, Some(Stated::Enabled(one))) => Ok(one.common(one)),
    }
}
