//! Nodes, ports and cables of a subnet, as answers to the manager describe them.

use super::requests::Route;
use softband_types::{Guid, PortNumber};
use softband_wire::mad::{MKeyProtection, NodeInfo, NodeType, PortInfo, PortState, SwitchInfo};
use std::collections::BTreeMap;

/// Port of a node: the node's index, and the number of the port.
pub(super) type End = (usize, u8);

/// A subnet as a sweep found it.
#[derive(Default)]
pub struct Topology {
    pub(super) nodes: Vec<Node>,
    by_guid: BTreeMap<Guid, usize>,
    /// The manager's own ports, if they answered.
    pub(super) roots: Vec<Option<End>>,
}

/// A node of a subnet.
pub struct Node {
    pub(super) info: NodeInfo,
    pub(super) description: String,
    pub(super) switch_info: Option<SwitchInfo>,
    /// Ports with an answer: all ports of a switch, and the ports of an HCA that cables reach.
    pub(super) ports: BTreeMap<u8, Port>,
    /// False if the manager leaves the node as it is.
    pub(super) is_usable: bool,
}

/// A port of a node.
pub struct Port {
    pub(super) guid: Guid,
    /// Route to the port. It ends at the port by which an HCA is reached, or anywhere at a switch.
    pub(super) route: Route,
    pub(super) info: Option<PortInfo>,
    pub(super) peer: Option<End>,
}

impl Topology {
    /// Returns the nodes, in the order in which the manager found them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the port at the other end of a port's cable: its node's index and its number.
    pub fn peer(&self, node: usize, port: PortNumber) -> Option<(usize, PortNumber)> {
        let (node, port) = self.nodes.get(node)?.ports.get(&port.0)?.peer?;
        Some((node, PortNumber(port)))
    }

    pub(super) fn with_guid(&self, guid: Guid) -> Option<usize> {
        self.by_guid.get(&guid).copied()
    }

    pub(super) fn add(&mut self, info: NodeInfo) -> usize {
        let node = Node { info, description: String::new(), switch_info: None, ports: BTreeMap::new(), is_usable: true };
        self.nodes.push(node);
        self.by_guid.insert(info.node_guid, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub(super) fn port(&self, (node, port): End) -> Option<&Port> {
        self.nodes.get(node)?.ports.get(&port)
    }

    pub(super) fn port_mut(&mut self, (node, port): End) -> Option<&mut Port> {
        self.nodes.get_mut(node)?.ports.get_mut(&port)
    }

    /// Returns the far end of a port's link; `None` unless the manager uses link and both nodes.
    pub(super) fn linked(&self, end: End) -> Option<End> {
        let peer = self.port(end)?.peer?;
        (self.nodes[end.0].is_usable && self.nodes[peer.0].is_usable).then_some(peer)
    }
}

impl Node {
    /// Returns the GUID of the node.
    pub fn guid(&self) -> Guid {
        self.info.node_guid
    }

    /// Checks whether the node forwards packets.
    pub fn is_switch(&self) -> bool {
        self.info.node_type == NodeType::SWITCH
    }

    /// Returns the description of the node; empty without an answer.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the ports of the node that answered, with rate, lanes and MTU as they stated them.
    pub fn ports(&self) -> impl Iterator<Item = (PortNumber, &PortInfo)> {
        self.ports.iter().filter_map(|(number, port)| Some((PortNumber(*number), port.info.as_ref()?)))
    }
}

/// Checks whether a port's link is up.
pub(super) fn is_up(info: &PortInfo) -> bool {
    !matches!(info.port_state, PortState::NO_CHANGE | PortState::DOWN)
}

/// Checks whether the M_Key of a port differs from the manager's. A port may hide its key.
pub(super) fn is_locked(info: &PortInfo, m_key: u64) -> bool {
    info.m_key != m_key && (info.m_key != 0 || info.m_key_protect_bits != MKeyProtection::READ_ALL)
}
