//! Hosts: the HCAs of a topology, grouped by the host names in their descriptions.

use std::collections::{BTreeMap, BTreeSet};

use super::links::Graph;
use super::names::{Device, Names, label, of_hca};
use super::read::Dump;
use crate::diagnostic::Findings;

/// Hosts and names of the fabric.
pub(super) struct Plan {
    pub(super) hosts: Vec<Host>,
    /// Names of the switches, in the order of the graph.
    pub(super) switches: Vec<String>,
}

pub(super) struct Host {
    pub(super) name: String,
    pub(super) hcas: Vec<Hca>,
}

pub(super) struct Hca {
    /// Index of the node.
    pub(super) node: usize,
    /// Device name in the file, if there is one.
    pub(super) device: Option<String>,
}

/// The HCAs that belong to a host of a name: its n-th, or those of a system image.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Nth(usize),
    System(u64),
    Node(usize),
}

/// Groups the HCAs. A second HCA with the same host and device name is another host, because many
/// nodes have the description of their maker.
pub(super) fn plan(dump: &Dump, graph: &Graph, findings: &mut Findings) -> Plan {
    let mut hosts: Vec<(String, Vec<Hca>)> = Vec::new();
    let mut by_group: BTreeMap<(String, Group), usize> = BTreeMap::new();
    let mut count: BTreeMap<(String, Device), usize> = BTreeMap::new();
    for node in graph.hcas.iter().copied() {
        let (name, device) = of_hca(&dump.nodes[node].description);
        let key = name.to_ascii_lowercase();
        let system = dump.nodes[node].system_guid;
        let group = match &device {
            Device::Unknown if system != 0 => Group::System(system),
            Device::Unknown => Group::Node(node),
            device => {
                let nth = count.entry((key.clone(), device.clone())).or_insert(0);
                *nth += 1;
                Group::Nth(*nth)
            }
        };
        let host = *by_group.entry((key, group)).or_insert_with(|| {
            hosts.push((name, Vec::new()));
            hosts.len() - 1
        });
        let device = if let Device::Named(device) = device { Some(device) } else { None };
        hosts[host].1.push(Hca { node, device });
    }
    let mut names = Names::default();
    let hosts: Vec<Host> = hosts.into_iter().map(|(name, hcas)| Host { name: names.take(&name), hcas }).collect();
    let switches = graph.switches.iter().map(|node| names.take(&label(&dump.nodes[*node].description))).collect();
    let plan = Plan { hosts, switches };
    note_changes(dump, graph, &plan, findings);
    plan
}

/// Notes the number of names that differ from the descriptions.
fn note_changes(dump: &Dump, graph: &Graph, plan: &Plan, findings: &mut Findings) {
    let of_hosts = plan.hosts.iter().flat_map(|host| host.hcas.iter().map(move |hca| (hca.node, host.name.as_str())));
    let of_switches = graph.switches.iter().copied().zip(plan.switches.iter().map(String::as_str));
    let is_changed = |(node, name): &(usize, &str)| is_renamed(&dump.nodes[*node].description, name);
    let changed: BTreeSet<usize> = of_hosts.chain(of_switches).filter(is_changed).map(|(node, _)| node).collect();
    if let Some(first) = changed.first() {
        let message = format!(
            "{} another name in the fabric, because a name is a label of a host name: comments there have the description",
            if changed.len() == 1 { "1 node has".to_owned() } else { format!("{} nodes have", changed.len()) }
        );
        findings.note(message, vec![(dump.nodes[*first].span.clone(), String::new())], None);
    }
}

/// Checks whether a description does not begin with the name.
pub(super) fn is_renamed(description: &str, name: &str) -> bool {
    description.split_whitespace().next() != Some(name)
}
