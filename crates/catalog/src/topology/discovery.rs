//! The nodes of a fabric as a discovery finds them: with LIDs, GUIDs, cables and an order.

use std::collections::{BTreeMap, VecDeque};

use softband_spec::{FabricSpec, PortRef};
use softband_types::{LinkLayer, LinkRate};

/// A node of the subnet. Nodes with Ethernet ports are no part of it.
pub(super) struct Node {
    pub(super) is_switch: bool,
    pub(super) name: String,
    pub(super) guid: u64,
    pub(super) ports: u8,
    pub(super) vendor_id: u32,
    pub(super) device_id: u32,
    /// LID of the switch, in any port's place 0; of an HCA by port.
    lids: BTreeMap<u8, u16>,
    pub(super) cables: BTreeMap<u8, Cable>,
}

/// The other end of a port's cable.
#[derive(Clone, Copy)]
pub(super) struct Cable {
    pub(super) node: usize,
    pub(super) port: u8,
    pub(super) rate: LinkRate,
}

impl Node {
    /// Returns the LID of a port. All ports of a switch have the LID of the switch.
    pub(super) fn lid(&self, port: u8) -> u16 {
        self.lids.get(if self.is_switch { &0 } else { &port }).copied().unwrap_or(0)
    }
    /// Returns the GUID of a port.
    pub(super) fn port_guid(&self, port: u8) -> u64 {
        if self.is_switch { self.guid } else { self.guid.wrapping_add(u64::from(port)) }
    }
}

/// Returns the InfiniBand nodes in the order of the file: HCAs, then switches.
pub(super) fn nodes(spec: &FabricSpec) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut by_place: BTreeMap<(bool, usize, usize), usize> = BTreeMap::new();
    for (host, hca, place) in
        spec.hosts.iter().enumerate().flat_map(|(host, of)| of.hcas.iter().enumerate().map(move |(at, hca)| (of, hca, (host, at))))
    {
        if hca.link_layer == LinkLayer::Ethernet {
            continue;
        }
        by_place.insert((false, place.0, place.1), nodes.len());
        nodes.push(Node {
            is_switch: false,
            name: format!("{} {}", host.name, hca.device),
            guid: hca.node_guid.0,
            ports: hca.part.ports,
            vendor_id: hca.part.vendor_id,
            device_id: hca.part.vendor_part_id,
            lids: BTreeMap::new(),
            cables: BTreeMap::new(),
        });
    }
    for (at, switch) in spec.switches.iter().enumerate().filter(|(_, switch)| switch.part.ethernet.is_none()) {
        by_place.insert((true, at, 0), nodes.len());
        nodes.push(Node {
            is_switch: true,
            name: switch.name.clone(),
            guid: switch.node_guid.0,
            ports: switch.part.ports,
            vendor_id: switch.part.vendor_id,
            device_id: switch.part.device_id.into(),
            lids: BTreeMap::new(),
            cables: BTreeMap::new(),
        });
    }
    let place = |end: PortRef| match end {
        PortRef::Hca { host, hca, port } => by_place.get(&(false, host, hca)).map(|node| (*node, port.0)),
        PortRef::Switch { switch, port } => by_place.get(&(true, switch, 0)).map(|node| (*node, port.0)),
    };
    for cable in &spec.cables {
        if let [Some(a), Some(b)] = cable.ends.map(place) {
            for (from, to) in [(a, b), (b, a)] {
                nodes[from.0].cables.insert(from.1, Cable { node: to.0, port: to.1, rate: cable.rate });
            }
        }
    }
    assign_lids(&mut nodes);
    nodes
}

/// Assigns the LIDs of the built-in subnet manager: from 1 on, the cabled ports of HCAs, then the
/// switches.
fn assign_lids(nodes: &mut [Node]) {
    let mut next = 1..=u16::MAX;
    let mut take = || next.next().unwrap_or(0);
    for node in nodes {
        let ports: Vec<u8> = if node.is_switch { vec![0] } else { node.cables.keys().copied().collect() };
        node.lids = ports.into_iter().map(|port| (port, take())).collect();
    }
}

/// Returns the nodes in the order in which `ibnetdiscover` finds them from the first host: breadth
/// first, by ports. Nodes that no cable leads to follow.
pub(super) fn order(nodes: &[Node]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut found = vec![false; nodes.len()];
    let first = nodes.iter().position(|node| !node.cables.is_empty());
    for start in first.into_iter().chain(0..nodes.len()) {
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if std::mem::replace(&mut found[node], true) {
                continue;
            }
            order.push(node);
            // A request that an HCA receives ends there. The first HCA asks through its first port.
            let ports = if nodes[node].is_switch { usize::MAX } else { usize::from(node == start) };
            queue.extend(nodes[node].cables.values().take(ports).map(|cable| cable.node).filter(|node| !found[*node]));
        }
    }
    order
}
