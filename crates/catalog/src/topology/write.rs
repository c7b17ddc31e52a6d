//! The fabric file of a topology.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::choose::{Parts, slot_distance};
use super::hosts::{Host, Plan, is_renamed};
use super::links::{End, Graph};
use super::read::{Dump, Kind};
use super::{NOTES_MAX, TopologyFormat};
use crate::catalog::Catalog;
use crate::fabric_file::resolved::{quoted, write_sheet};

/// Everything that the file depends on.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) format: TopologyFormat,
    pub(super) dump: &'a Dump,
    pub(super) graph: &'a Graph,
    pub(super) plan: &'a Plan,
    pub(super) parts: &'a Parts,
    pub(super) catalog: &'a Catalog,
}

/// Returns the text of the fabric file.
pub(super) fn fabric_file(source: &Source<'_>) -> String {
    let mut text = String::new();
    write_file(&mut text, source).expect("writing to a String does not fail");
    text
}

fn write_file(out: &mut String, source: &Source<'_>) -> std::fmt::Result {
    let Source { file, format, graph, plan, parts, .. } = source;
    writeln!(out, "# Imported from {} ({format}). The topology names no parts: check the guesses.", comment(file))?;
    for choice in parts.choices.iter().take(NOTES_MAX) {
        writeln!(out, "# - {}", comment(&choice.sentence()))?;
    }
    for cable in parts.cables.values().take(NOTES_MAX) {
        writeln!(out, "# - {}", comment(&cable.why))?;
    }
    writeln!(out, "\n[fabric]\ntitle = {}", quoted(&format!("Imported from {}", comment(file))))?;
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    for host in &plan.hosts {
        write_host(out, source, host, &mut names)?;
    }
    for (node, name) in graph.switches.iter().copied().zip(&plan.switches) {
        writeln!(out, "\n[switches.{name}]")?;
        write_description(out, source, node, name)?;
        writeln!(out, "part = {}", quoted(&parts.choices[parts.of_node[&node]].part))?;
        write_guid(out, graph, node)?;
        names.insert(node, name.clone());
    }
    for link in &graph.links {
        let is_between_switches = link.ends.iter().all(|(node, _)| source.dump.nodes[*node].kind == Kind::Switch);
        let cable = &parts.cables[&(link.rate, is_between_switches)];
        let [from, to] = link.ends.map(|(node, port): End| format!("{}/{port}", names[&node]));
        writeln!(out, "\n[[cables]]\npart = {}\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{}\"", quoted(&cable.part), link.rate.speed)?;
        if let Some(length) = cable.length {
            writeln!(out, "length = \"{length}\"")?;
        }
    }
    parts.own.iter().try_for_each(|sheet| write_sheet(out, sheet))
}

fn write_host(out: &mut String, source: &Source<'_>, host: &Host, names: &mut BTreeMap<usize, String>) -> std::fmt::Result {
    let Source { graph, parts, catalog, .. } = source;
    let choice = |node: &usize| &parts.choices[parts.of_node[node]];
    let Some(first) = host.hcas.first().map(|hca| choice(&hca.node)) else { return Ok(()) };
    writeln!(out, "\n[hosts.{}]\npart = {}", host.name, quoted(&first.host))?;
    let mut taken: BTreeSet<String> = host.hcas.iter().filter_map(|hca| hca.device.clone()).collect();
    for hca in &host.hcas {
        let choice = choice(&hca.node);
        let free = || (0..).map(|number| format!("{}{number}", choice.driver)).find(|name| !taken.contains(name));
        let device = hca.device.clone().or_else(free).unwrap_or_default();
        writeln!(out, "[[hosts.{}.hcas]]", host.name)?;
        write_description(out, source, hca.node, &host.name)?;
        writeln!(out, "device = \"{device}\"\npart = {}", quoted(&choice.part))?;
        if let Some(slot) = choice.interface.zip(first.interface).and_then(|(card, slot)| other_slot(card, slot, catalog)) {
            writeln!(out, "slot = {}", quoted(slot))?;
        }
        write_guid(out, graph, hca.node)?;
        names.insert(hca.node, format!("{}/{device}", host.name));
        taken.insert(device);
    }
    Ok(())
}

/// Returns a slot for a card that is no kind of the host's slots.
fn other_slot(card: softband_model::parts::CardInterface, slot: softband_model::parts::CardInterface, catalog: &Catalog) -> Option<&str> {
    if !slot_distance(card, slot).0 {
        return None;
    }
    let distance = |name: &&str| catalog.bus(name).map(|bus| (slot_distance(card, bus.slot.interface()), bus.bridge.is_some()));
    catalog.parts(crate::parts::PartKind::Bus).into_iter().min_by_key(distance)
}

fn write_description(out: &mut String, source: &Source<'_>, node: usize, name: &str) -> std::fmt::Result {
    let description = &source.dump.nodes[node].description;
    if is_renamed(description, name) { writeln!(out, "# {}", comment(description)) } else { Ok(()) }
}

fn write_guid(out: &mut String, graph: &Graph, node: usize) -> std::fmt::Result {
    graph.guids[node].map_or(Ok(()), |guid| writeln!(out, "node_guid = \"{guid:#018x}\""))
}

/// Returns text for a comment: without control characters, which would end it.
fn comment(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
