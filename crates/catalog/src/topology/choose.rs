//! Parts for the nodes and links of a topology, which names none.

mod cables;
mod own;

use std::collections::{BTreeMap, BTreeSet};

use softband_model::parts::{CardInterface, HcaPart};
use softband_types::{LinkRate, LinkSpeed, LinkWidth};

use super::links::Graph;
use super::read::{Dump, Kind, Node};
use super::{Note, Trouble};
use crate::catalog::Catalog;
use crate::parts::{PartKind, PartSheet};
pub(super) use cables::CableChoice;
use own::OwnParts;

/// The chosen parts.
pub(super) struct Parts {
    /// Index of the choice of each node of the dump that is in the fabric.
    pub(super) of_node: BTreeMap<usize, usize>,
    pub(super) choices: Vec<Choice>,
    /// Cables by rate, and by whether both ends are switches.
    pub(super) cables: BTreeMap<(LinkRate, bool), CableChoice>,
    /// Parts that only this fabric has.
    pub(super) own: Vec<PartSheet>,
    pub(super) notes: Vec<Note>,
}

/// A part for all nodes that are alike.
pub(super) struct Choice {
    pub(super) part: String,
    /// Prefix of device names, for HCAs.
    pub(super) driver: String,
    /// Part of the host, for HCAs.
    pub(super) host: String,
    /// Slot for an HCA that does not fit the slot of other parts.
    pub(super) interface: Option<CardInterface>,
    pub(super) why: String,
    pub(super) nodes: usize,
}

/// Everything that a topology says about the part of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    is_switch: bool,
    ports: u8,
    vendor_id: u64,
    device_id: u64,
    widths: BTreeSet<LinkWidth>,
    speeds: BTreeSet<LinkSpeed>,
}

/// A part of the catalogue that could be the part of a node.
struct Candidate<'a> {
    name: &'a str,
    ports: u8,
    widths: &'a [LinkWidth],
    speeds: &'a [LinkSpeed],
    has_device_id: bool,
    has_vendor_id: bool,
}

/// Chooses a part for each node and link.
pub(super) fn choose(dump: &Dump, graph: &Graph, catalog: &Catalog) -> Result<Parts, Trouble> {
    let mut parts = Parts { of_node: BTreeMap::new(), choices: Vec::new(), cables: BTreeMap::new(), own: Vec::new(), notes: Vec::new() };
    let mut own = OwnParts::default();
    let mut known: BTreeMap<Need, usize> = BTreeMap::new();
    // Nodes with other links can have the same part for the same reason.
    let mut alike: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut first_of: Vec<usize> = Vec::new();
    let rates = rates_of_nodes(dump, graph);
    for index in graph.hcas.iter().chain(&graph.switches).copied() {
        let need = need(&dump.nodes[index], &rates[index]);
        let choice = match known.get(&need) {
            Some(choice) => *choice,
            None => {
                let choice = choice(&need, catalog, &mut own).ok_or_else(|| no_part(&dump.nodes[index]))?;
                let at = *alike.entry((choice.part.clone(), choice.why.clone())).or_insert_with(|| {
                    parts.choices.push(choice);
                    first_of.push(index);
                    first_of.len() - 1
                });
                known.insert(need, at);
                at
            }
        };
        parts.choices[choice].nodes += 1;
        parts.of_node.insert(index, choice);
    }
    for (choice, first) in parts.choices.iter().zip(first_of) {
        parts.notes.push((choice.sentence(), dump.nodes[first].span.clone()));
    }
    parts.cables = cables::choose(dump, graph, catalog, &mut own)?;
    for cable in parts.cables.values() {
        parts.notes.push((cable.why.clone(), cable.place.clone()));
    }
    parts.own = own.sheets;
    Ok(parts)
}

fn no_part(node: &Node) -> Trouble {
    Trouble::at(&node.span, "the catalogue has no part for this node", "name a catalogue with HCA, host, switch and cable parts")
}

impl Choice {
    /// Returns the choice and its reason.
    pub(super) fn sentence(&self) -> String {
        let host = if self.host.is_empty() { String::new() } else { format!(" in host part `{}`", self.host) };
        let nodes = softband_types::counted(self.nodes as u64, "node", "nodes");
        format!("guessed part `{}`{host} for {nodes}: {}", self.part, self.why)
    }
}

fn rates_of_nodes(dump: &Dump, graph: &Graph) -> Vec<BTreeSet<LinkRate>> {
    let mut rates = vec![BTreeSet::new(); dump.nodes.len()];
    for link in &graph.links {
        for (node, _) in link.ends {
            rates[node].insert(link.rate);
        }
    }
    rates
}

fn need(node: &Node, rates: &BTreeSet<LinkRate>) -> Need {
    Need {
        is_switch: node.kind == Kind::Switch,
        ports: node.ports,
        vendor_id: node.vendor_id,
        device_id: node.device_id,
        widths: rates.iter().map(|rate| rate.width).collect(),
        speeds: rates.iter().map(|rate| rate.speed).collect(),
    }
}

fn choice(need: &Need, catalog: &Catalog, own: &mut OwnParts) -> Option<Choice> {
    let kind = if need.is_switch { PartKind::Switch } else { PartKind::Hca };
    let candidates = candidates(need, catalog);
    let best = candidates.iter().min_by_key(|candidate| candidate.distance(need))?;
    let name = own.fitted(kind, best.name, (best.ports, best.widths, best.speeds), need, catalog)?;
    let why = why(need, best, &name);
    let hca = catalog.hca(best.name).filter(|_| !need.is_switch);
    let Some(hca) = hca else {
        return Some(Choice { part: name, driver: String::new(), host: String::new(), interface: None, why, nodes: 0 });
    };
    let host = host_for(hca, catalog)?;
    Some(Choice { part: name, driver: hca.driver.clone(), host: host.to_owned(), interface: Some(hca.interface), why, nodes: 0 })
}

fn candidates<'a>(need: &Need, catalog: &'a Catalog) -> Vec<Candidate<'a>> {
    let of_hca = |name: &&'a str| {
        let part = catalog.hca(name)?;
        let (has_device_id, has_vendor_id) = need.has_ids(part.vendor_id, part.vendor_part_id);
        Some(Candidate { name, ports: part.ports, widths: &part.widths, speeds: &part.speeds, has_device_id, has_vendor_id })
    };
    let of_switch = |name: &&'a str| {
        let part = catalog.switch(name).filter(|part| part.ethernet.is_none())?;
        let (has_device_id, has_vendor_id) = need.has_ids(part.vendor_id, part.device_id.into());
        Some(Candidate { name, ports: part.ports, widths: &part.widths, speeds: &part.speeds, has_device_id, has_vendor_id })
    };
    match need.is_switch {
        true => catalog.parts(PartKind::Switch).iter().filter_map(of_switch).collect(),
        false => catalog.parts(PartKind::Hca).iter().filter_map(of_hca).collect(),
    }
}

impl Need {
    /// Checks whether a part has the node's device id, and whether it has its vendor id.
    fn has_ids(&self, vendor: u32, device: u32) -> (bool, bool) {
        (self.device_id != 0 && u64::from(device) == self.device_id, u64::from(vendor) == self.vendor_id)
    }
}

impl Candidate<'_> {
    /// Returns how badly the part suits: device id, missing rates, superfluous speed and width,
    /// ports, name.
    fn distance(&self, need: &Need) -> impl Ord + use<'_> {
        let missing = need.widths.iter().filter(|width| !self.widths.contains(width)).count()
            + need.speeds.iter().filter(|speed| !self.speeds.contains(speed)).count();
        let faster = LinkSpeed::ALL.iter().filter(|speed| Some(*speed) > need.speeds.last() && Some(*speed) <= self.speeds.iter().max()).count();
        let wider = LinkWidth::ALL.iter().filter(|width| Some(*width) > need.widths.last() && Some(*width) <= self.widths.iter().max()).count();
        let ports = (self.ports < need.ports, self.ports.abs_diff(need.ports));
        (!self.has_device_id, missing, self.has_device_id && !self.has_vendor_id, faster, wider, ports, self.name)
    }
}

fn why(need: &Need, best: &Candidate<'_>, name: &str) -> String {
    let ports = |ports: u8| softband_types::counted(ports, "port", "ports");
    let list = |names: Vec<String>| if names.is_empty() { "no links".to_owned() } else { names.join("/") };
    let rates = list(need.speeds.iter().map(ToString::to_string).collect());
    let mut why = match need.device_id {
        id if best.has_device_id && best.has_vendor_id => format!("the part has vendor id {:#x} and device id {id:#06x}", need.vendor_id),
        // Makers of cards have their own vendor ids, and the device id of the chip.
        id if best.has_device_id => format!("the part has device id {id:#06x}, not vendor id {:#x}", need.vendor_id),
        0 => format!("by ports, width and speed ({}, {rates}); the file has no device id", ports(need.ports)),
        id => format!("by ports, width and speed ({}, {rates}); no part is known by device id {id:#06x}", ports(need.ports)),
    };
    if name != best.name {
        let speeds = list(best.speeds.iter().map(ToString::to_string).collect());
        why.push_str(&format!("; it is part `{}` ({}, {speeds}) with the ports, widths and speeds of the file", best.name, ports(best.ports)));
    }
    why
}

/// Returns the host part whose slot is next to the card.
pub(crate) fn host_for<'a>(hca: &HcaPart, catalog: &'a Catalog) -> Option<&'a str> {
    let distance = |name: &&str| catalog.host(name).map(|host| (slot_distance(hca.interface, host.bus.slot.interface()), host.bus.bridge.is_some()));
    catalog.parts(PartKind::Host).into_iter().filter(|name| catalog.host(name).is_some()).min_by_key(distance)
}

/// Returns how badly a slot suits a card: kind, lost speed, superfluous speed.
pub(super) fn slot_distance(card: CardInterface, slot: CardInterface) -> (bool, u64, u64) {
    let speed = |interface| match interface {
        CardInterface::PciExpress { generation, lanes } => (u64::from(lanes)) << generation,
        CardInterface::PciX { clock } => u64::from(clock.mhz()),
    };
    let is_other_kind = std::mem::discriminant(&card) != std::mem::discriminant(&slot);
    (is_other_kind, speed(card).saturating_sub(speed(slot)), speed(slot).saturating_sub(speed(card)))
}
