//! Builds the agents of a fabric's nodes.

use super::{AgentNode, Agents};
use crate::numbering::Numbering;
use softband_model::management::administration::Administration;
use softband_model::management::agent::{Agent, NodeFacts, NodeKind};
use softband_spec::{FabricSpec, HcaSpec, PortRef, SwitchSpec, weights_of};
use softband_types::Lid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Agents {
    /// Builds an agent for each node. With `configured_by`, the subnet manager with this LID has
    /// already configured all links. Links of Ethernet need no manager.
    pub(crate) fn new(spec: &FabricSpec, numbering: &Numbering, configured_by: Option<Lid>) -> Self {
        let hcas = spec.hosts.iter().flat_map(|host| host.hcas.iter().map(move |hca| (of_hca(&host.name, hca), hca.part.management_processing)));
        let switches = spec.switches.iter().map(|switch| (of_switch(switch), switch.part.management_processing));
        let mut nodes: Vec<(NodeFacts, _)> = hcas.chain(switches).collect();
        let mut weights = BTreeMap::new();
        for end in spec.cables.iter().flat_map(|cable| cable.ends) {
            if let Some(tables) = weights_of(spec, end) {
                weights.insert((node_of(numbering, end), port_of(end)), tables.clone());
            }
        }
        for ((node, port), tables) in weights {
            nodes[node].0.weights[usize::from(port) - 1] = Some(tables);
        }
        let configured = |needs_manager| if needs_manager { configured_by } else { Some(configured_by.unwrap_or(Lid::NONE)) };
        let node = |((facts, processing), needs_manager)| {
            let agent = Agent::new(facts, configured(needs_manager));
            AgentNode { agent, processing, waiting: VecDeque::new(), traps_at: None }
        };
        Self {
            nodes: nodes.into_iter().zip(spec.nodes_that_need_manager()).map(node).collect(),
            is_used: false,
            administration: Administration::default(),
            managers: BTreeSet::new(),
            resident: None,
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
        weights: vec![None; usize::from(part.ports)],
    }
}
