//! Builds the agents of a fabric's nodes.

use super::{AgentNode, Agents};
use crate::numbering::Numbering;
use softband_model::management::administration::Administration;
use softband_model::management::agent::{Agent, NodeFacts, NodeKind};
use softband_model::switch::LifetimeCode;
use softband_spec::{FabricSpec, HcaSpec, PortRef, SwitchSpec, end_settings, settings_of, weights_of};
use softband_types::{Lid, LinkLayer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Agents {
    /// Builds an agent for each node. With `configured_by`, the subnet manager with this LID has
    /// already configured all links.
    pub(crate) fn new(spec: &FabricSpec, numbering: &Numbering, configured_by: Option<Lid>) -> Self {
        let hcas = spec.hosts.iter().flat_map(|host| host.hcas.iter().map(move |hca| (of_hca(&host.name, hca), hca.part.management_processing)));
        let switches = spec.switches.iter().map(|switch| (of_switch(switch), switch.part.management_processing));
        let mut nodes: Vec<(NodeFacts, _)> = hcas.chain(switches).collect();
        let mut weights = BTreeMap::new();
        note_lifetimes(spec, numbering, nodes.iter_mut().map(|(facts, _)| facts));
        for end in spec.cables.iter().flat_map(|cable| cable.ends) {
            if let Some(tables) = weights_of(spec, end) {
                weights.insert((node_of(numbering, end), port_of(end)), tables.clone());
            }
        }
        for ((node, port), tables) in weights {
            nodes[node].0.weights[usize::from(port) - 1] = Some(tables);
        }
        let node = |(facts, processing)| AgentNode { agent: Agent::new(facts, configured_by), processing, waiting: VecDeque::new(), traps_at: None };
        Self {
            nodes: nodes.into_iter().map(node).collect(),
            is_used: false,
            administration: Administration::default(),
            managers: BTreeSet::new(),
            resident: None,
        }
    }
}

/// Notes the lifetimes in switches and at their ports: those of the description are in force.
fn note_lifetimes<'a>(spec: &FabricSpec, numbering: &Numbering, facts: impl Iterator<Item = &'a mut NodeFacts>) {
    let mut facts: Vec<&mut NodeFacts> = facts.collect();
    for of in facts.iter_mut().filter(|of| of.is_switch()) {
        of.packet_lifetime = spec.subnet.lifetimes.packet_life_time.code();
    }
    for cable in spec.cables.iter().filter(|cable| spec.link_layer(cable.ends[0]) == LinkLayer::Infiniband) {
        for (side, end) in cable.ends.into_iter().enumerate().filter(|(_, end)| matches!(end, PortRef::Switch { .. })) {
            let of = &mut facts[node_of(numbering, end)];
            of.head_lifetimes.resize(usize::from(of.ports), LifetimeCode::INFINITE.code());
            of.head_lifetimes[usize::from(port_of(end)) - 1] = end_settings(spec, cable, side, settings_of(spec, cable)).head_lifetime.code();
        }
    }
}

fn node_of(numbering: &Numbering, end: PortRef) -> usize {
    numbering.node_of(numbering.owners()[numbering.port_of(end) as usize])
}

fn port_of(end: PortRef) -> u8 {
    let (PortRef::Hca { port, .. } | PortRef::Switch { port, .. }) = end;
    port.0
}

fn of_hca(host: &str, hca: &HcaSpec) -> NodeFacts {
    let part = &hca.part;
    NodeFacts {
        kind: NodeKind::Hca,
        description: format!("{host} {}", hca.device),
        guid: hca.node_guid,
        ports: part.ports,
        vendor_id: part.vendor_id,
        device_id: part.vendor_part_id as u16,
        revision: part.hardware_version,
        mtu_max: part.mtu_max,
        vl_cap: part.vl_cap,
        port_buffer_bytes: part.port_buffer_bytes,
        widths: part.widths.clone(),
        speeds: part.speeds.clone(),
        packet_lifetime: LifetimeCode::INFINITE.code(),
        head_lifetimes: Vec::new(),
        weights: vec![None; usize::from(part.ports)],
    }
}

fn of_switch(switch: &SwitchSpec) -> NodeFacts {
    let part = &switch.part;
    NodeFacts {
        kind: NodeKind::Switch,
        description: switch.name.clone(),
        guid: switch.node_guid,
        ports: part.ports,
        vendor_id: part.vendor_id,
        device_id: part.device_id,
        revision: 0,
        mtu_max: part.mtu_max,
        vl_cap: part.vl_cap,
        port_buffer_bytes: part.port_buffer_bytes,
        widths: part.widths.clone(),
        speeds: part.speeds.clone(),
        packet_lifetime: LifetimeCode::INFINITE.code(),
        head_lifetimes: Vec::new(),
        weights: vec![None; usize::from(part.ports)],
    }
}
