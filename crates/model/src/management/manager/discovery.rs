//! Discovery: directed routes lead to each node, breadth first, and the node describes itself.

use super::problem::{Place, Problem};
use super::requests::{Answer, Request, Requests, Route};
use super::topology::{End, Port, Topology, is_locked, is_up};
use super::{Ask, note};
use softband_types::PortNumber;
use softband_wire::mad::{AttributeId, Layout, NodeDescription, NodeInfo, NodeType, PortInfo, Status, SwitchInfo};

/// Most nodes of a subnet: each has a unicast LID.
const NODES_MAX: usize = 0xBFFF;

/// The parts of a manager that take part in discovery.
pub(super) struct Discovery<'a> {
    pub(super) topology: &'a mut Topology,
    pub(super) requests: &'a mut Requests<Ask>,
    pub(super) problems: &'a mut Vec<Problem>,
    pub(super) m_key: u64,
}

impl Discovery<'_> {
    /// Asks the nodes of the manager's own ports who they are.
    pub(super) fn begin(&mut self, roots: usize) {
        self.topology.roots = vec![None; roots];
        for root in 0..roots {
            self.ask(Route::start(root), AttributeId::NODE_INFO, 0, Ask::Node { behind: None, root });
        }
    }

    fn ask(&mut self, route: Route, attribute: AttributeId, modifier: u32, purpose: Ask) {
        self.requests.add(Request { route, data: None, attribute, modifier, purpose });
    }

    fn note(&mut self, problem: Problem) {
        note(self.problems, problem);
    }

    fn place(&self, (node, port): End) -> Place {
        Place { guid: self.topology.nodes[node].guid(), port: PortNumber(port) }
    }

    /// Takes in the answer to a request of discovery.
    pub(super) fn take(&mut self, answer: Answer<Ask>) {
        let Answer { request, status, data } = answer;
        if status != Status::SUCCESS {
            return self.give_up(request);
        }
        match request.purpose {
            Ask::Node { behind, root } => match NodeInfo::parse(&data) {
                Ok(info) => self.take_node(info, request.route, behind, root),
                Err(_) => self.give_up(request),
            },
            Ask::Description(node) => {
                let text = NodeDescription::parse(&data).unwrap_or_default();
                self.topology.nodes[node].description = text.as_str().to_owned();
            }
            Ask::Switch(node) => self.topology.nodes[node].switch_info = SwitchInfo::parse(&data).ok(),
            Ask::Port(end) => {
                if let Ok(info) = PortInfo::parse(&data) {
                    self.take_port(end, info);
                }
            }
            Ask::Write(..) => {}
        }
    }

    /// Notes that a request of discovery has no answer.
    pub(super) fn give_up(&mut self, request: Request<Ask>) {
        match request.purpose {
            Ask::Node { behind: Some(end), .. } => self.note(Problem::SilentNeighbour(self.place(end))),
            Ask::Node { behind: None, root } => self.note(Problem::NoOwnPort(root)),
            // The name is of use to people only.
            Ask::Description(_) | Ask::Write(..) => {}
            Ask::Switch(node) | Ask::Port((node, _)) => self.lose(node, request.attribute),
        }
    }

    fn lose(&mut self, node: usize, attribute: AttributeId) {
        self.topology.nodes[node].is_usable = false;
        self.note(Problem::Vanished { node: self.topology.nodes[node].guid(), attribute });
        self.requests.drop_where(|ask| ask.node() == Some(node));
    }

    fn take_node(&mut self, info: NodeInfo, route: Route, behind: Option<End>, root: usize) {
        let local = info.local_port_num.0;
        let is_sound = info.node_guid.0 != 0
            && (1..255).contains(&info.num_ports)
            && (1..=info.num_ports).contains(&local)
            && matches!(info.node_type, NodeType::CHANNEL_ADAPTER | NodeType::SWITCH | NodeType::ROUTER);
        if !is_sound {
            let place = behind.map_or(Place { guid: info.node_guid, port: info.local_port_num }, |end| self.place(end));
            return self.note(Problem::BadAnswer { place, attribute: AttributeId::NODE_INFO });
        }
        let node = match self.topology.with_guid(info.node_guid) {
            Some(known) => {
                let own = &self.topology.nodes[known].info;
                if (own.node_type, own.num_ports) != (info.node_type, info.num_ports) {
                    let place = behind.map_or(Place { guid: info.node_guid, port: info.local_port_num }, |end| self.place(end));
                    return self.note(Problem::DuplicateGuid { guid: info.node_guid, place });
                }
                known
            }
            None if self.topology.nodes.len() >= NODES_MAX => return self.note(Problem::TooManyNodes),
            None => self.add_node(info, &route),
        };
        if info.node_type != NodeType::SWITCH && self.topology.port((node, local)).is_none() {
            self.add_port((node, local), info.port_guid, &route);
        }
        match behind {
            None => self.topology.roots[root] = Some((node, local)),
            Some(end) => self.connect(end, (node, local)),
        }
    }

    fn add_node(&mut self, info: NodeInfo, route: &Route) -> usize {
        let node = self.topology.add(info);
        self.ask(route.clone(), AttributeId::NODE_DESCRIPTION, 0, Ask::Description(node));
        if info.node_type == NodeType::SWITCH {
            self.ask(route.clone(), AttributeId::SWITCH_INFO, 0, Ask::Switch(node));
            for port in 0..=info.num_ports {
                self.add_port((node, port), info.port_guid, route);
            }
        }
        node
    }

    fn add_port(&mut self, end: End, guid: softband_types::Guid, route: &Route) {
        let port = Port { guid, route: route.clone(), info: None, peer: None };
        self.topology.nodes[end.0].ports.insert(end.1, port);
        self.ask(route.clone(), AttributeId::PORT_INFO, u32::from(end.1), Ask::Port(end));
    }

    /// Takes in a port, and asks for the node behind it.
    fn take_port(&mut self, end: End, info: PortInfo) {
        let (node, number) = end;
        if is_locked(&info, self.m_key) && self.topology.nodes[node].is_usable {
            self.topology.nodes[node].is_usable = false;
            self.note(Problem::WrongMKey(self.topology.nodes[node].guid()));
        }
        // An HCA does not pass directed routes on: only the manager's own ports lead out of it.
        let leads_on = self.topology.nodes[node].is_switch() && number > 0 || self.topology.roots.contains(&Some(end));
        let Some(port) = self.topology.port_mut(end) else { return };
        port.info = Some(info);
        let route = port.route.then(number);
        if !leads_on || !is_up(&info) {
            return;
        }
        match route {
            Some(route) => {
                let root = route.root;
                self.ask(route, AttributeId::NODE_INFO, 0, Ask::Node { behind: Some(end), root });
            }
            None => self.note(Problem::TooFar(self.place(end))),
        }
    }

    /// Notes a cable between two ports. Both ends of a cable between switches report it.
    fn connect(&mut self, near: End, far: End) {
        if near.0 == far.0 {
            return self.note(Problem::LoopedCable(self.place(near)));
        }
        for (end, other) in [(far, near), (near, far)] {
            let known = self.topology.port(end).and_then(|port| port.peer);
            if known.is_some_and(|known| known != other) {
                // A port has one cable, so the GUID of its node stands for two nodes.
                let guid = self.topology.nodes[end.0].guid();
                return self.note(Problem::DuplicateGuid { guid, place: self.place(near) });
            }
        }
        for (end, other) in [(far, near), (near, far)] {
            if let Some(port) = self.topology.port_mut(end) {
                port.peer = Some(other);
            }
        }
    }

    /// Takes cables out again that only one end can have.
    pub(super) fn finish(&mut self) {
        let ends: Vec<End> = (self.topology.nodes.iter().enumerate()).flat_map(|(node, of)| of.ports.keys().map(move |port| (node, *port))).collect();
        for end in ends {
            let Some(port) = self.topology.port(end) else { continue };
            let Some(peer) = port.peer else { continue };
            if port.info.as_ref().is_some_and(is_up) {
                continue;
            }
            if port.info.is_some() {
                self.note(Problem::OneSidedCable(self.place(peer)));
            }
            for (end, other) in [(end, peer), (peer, end)] {
                if let Some(port) = self.topology.port_mut(end).filter(|port| port.peer == Some(other)) {
                    port.peer = None;
                }
            }
        }
        for node in 0..self.topology.nodes.len() {
            let of = &self.topology.nodes[node];
            if of.is_usable && of.is_switch() && of.switch_info.is_none() {
                self.lose(node, AttributeId::SWITCH_INFO);
            }
        }
    }
}
