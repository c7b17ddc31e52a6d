//! The management agents of a node: they answer requests about its hardware, and change it.
//!
//! A node has two agents. The subnet management agent, SMA, answers packets to QP 0 (IBTA 14). The
//! performance management agent, PMA, answers packets to QP 1 (IBTA 16.1). Both see the node by
//! [`Hardware`], and keep only the registers that the hardware itself does not need.

mod directed_route;
mod hardware;
mod node;
mod performance;
mod port_info;
mod registers;
mod subnet;
mod tables;
mod training;
mod traps;

pub use hardware::{Hardware, LinkView, Tally};
pub use node::{NodeFacts, NodeKind};
pub use registers::LinkState;
pub use training::{Trainable, trained_rate};
pub use traps::{KeyViolation, ViolatedKey};

use super::ManagementPacket;
use directed_route::Step;
use registers::{PortRegisters, SwitchRegisters};
use softband_sim::SimTime;
use softband_types::{Lid, PortNumber};
use softband_wire::mad::{AttributeId, DirectedSmp, Header, Layout, ManagementClass, Method, SmInfo, Smp, Status};
use traps::Traps;

/// The agents of a node, with their registers.
pub struct Agent {
    facts: NodeFacts,
    /// Registers by port number. Number 0 is a switch's own port; HCAs do not use it.
    ports: Vec<PortRegisters>,
    switch: SwitchRegisters,
    /// The subnet manager on this node, as it describes itself.
    manager: Option<SmInfo>,
    /// Whether links that come up are Active at once, because a manager has done its work unseen.
    is_configured: bool,
    events: Vec<(PortNumber, PortEvent)>,
    /// Ports whose links start again.
    restarts: Vec<PortNumber>,
    /// Ports that a manager has disabled, enabled or reset.
    switched: Vec<PortNumber>,
    traps: Traps,
}

/// Change of an HCA's port that its programs may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The port has become Active.
    Active,
    /// The port is no longer Active.
    Inactive,
    /// The port has another LID.
    LidChange,
    /// The port has another table of partition keys.
    PKeyChange,
    /// Another subnet manager is responsible for the port.
    SmChange,
    /// The manager asks programs to register again with it.
    ClientReregister,
    /// The port has another subnet prefix.
    GidChange,
}

/// The way of a packet after its node's agent has handled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The node discards the packet.
    Nowhere,
    /// The node's host receives it. A switch has none.
    Host,
    /// It leaves by this port, from 1.
    Port(PortNumber),
    /// It leaves by the way to its destination LID.
    Lid,
}

impl Agent {
    /// Creates the agents of a node. With `configured_by`, the subnet manager with this LID has
    /// already configured all ports. Otherwise they wait for one.
    pub fn new(facts: NodeFacts, configured_by: Option<Lid>) -> Self {
        let ports = (0..=facts.ports).map(|port| PortRegisters::new(&facts, port, configured_by)).collect();
        let switch = SwitchRegisters::new(&facts);
        Self {
            ports,
            switch,
            manager: None,
            is_configured: configured_by.is_some(),
            events: Vec::new(),
            restarts: Vec::new(),
            switched: Vec::new(),
            traps: Traps::default(),
            facts,
        }
    }

    /// Checks whether a packet has a directed route.
    pub fn is_directed(packet: &ManagementPacket) -> bool {
        packet.is_subnet_management() && Header::view(&packet.mad[..]).mgmt_class() == ManagementClass::SUBNET_DIRECTED_ROUTE
    }

    /// Checks whether LIDs lead a directed-route packet of a host to the start of its directed part.
    pub fn begins_elsewhere(packet: &ManagementPacket) -> bool {
        let smp = DirectedSmp::view(&packet.mad[..]);
        Self::is_directed(packet) && !smp.returning() && smp.dr_slid() != Lid::PERMISSIVE && packet.dlid != Lid::PERMISSIVE
    }

    /// Checks whether a packet of the node's own host leaves the node by a directed route.
    pub fn leaves_node(packet: &ManagementPacket) -> bool {
        Self::is_directed(packet) && (DirectedSmp::view(&packet.mad[..]).hop_count() > 0 || !Self::wants(packet))
    }

    /// Checks whether a packet that has reached its node is a request for an agent. All others are
    /// for the host's software.
    pub fn wants(packet: &ManagementPacket) -> bool {
        let method = Header::view(&packet.mad[..]).method();
        let is_for_software = matches!(method, Method::SEND | Method::TRAP | Method::REPORT);
        is_of_agent(packet) && !method.is_response() && !is_for_software
    }

    /// Handles a packet that reached the node by a port. On a switch, a packet to the switch itself
    /// has the port by which it came.
    pub fn receive(&mut self, packet: &mut ManagementPacket, port: PortNumber, now: SimTime, hardware: &mut dyn Hardware) -> Onward {
        if !Self::is_directed(packet) {
            return self.answer_by_lid(packet, port, now, hardware);
        }
        let step = directed_route::receive(&mut packet.mad, self.as_hop(), port.0);
        self.follow(step, packet, (port, now), hardware)
    }

    /// Handles a packet that the node's own host sends from a port.
    pub fn send(&mut self, packet: &mut ManagementPacket, port: PortNumber, now: SimTime, hardware: &mut dyn Hardware) -> Onward {
        if !Self::is_directed(packet) {
            // The answer stays at its node, also if the request has changed the LID.
            let onward = self.answer_by_lid(packet, port, now, hardware);
            return if onward == Onward::Lid { Onward::Host } else { onward };
        }
        let step = directed_route::send(&mut packet.mad, self.as_hop());
        match step {
            // An HCA's ports are apart: a path begins at the port that sends.
            Step::Forward(output) if output != port.0 && !self.facts.is_switch() => Onward::Nowhere,
            step => self.follow(step, packet, (port, now), hardware),
        }
    }

    /// Counts a packet of lane 15 for which the node had no room.
    pub fn count_dropped(&mut self, port: u8) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.vl15_dropped = port.vl15_dropped.saturating_add(1);
        }
    }

    /// Notes whether a subnet manager runs on the host of a port. It answers for itself.
    pub fn set_software_manager(&mut self, port: PortNumber, is_here: bool, now: SimTime) {
        let Some(registers) = self.ports.get_mut(usize::from(port.0)) else { return };
        if std::mem::replace(&mut registers.has_manager, is_here) != is_here {
            self.note_abilities(port.0, now);
        }
    }

    /// Returns the number of external ports.
    pub fn ports(&self) -> u8 {
        self.facts.ports
    }

    /// Sets the largest LID that the forwarding table of a switch lists.
    pub fn set_linear_top(&mut self, lid: Lid) {
        self.switch.linear_fdb_top = lid;
    }

    /// Describes the subnet manager on this node; `None` if it has none.
    pub fn set_manager(&mut self, manager: Option<SmInfo>) {
        self.manager = manager;
    }

    fn note_event(&mut self, port: u8, event: PortEvent) {
        if !self.facts.is_switch() {
            self.events.push((PortNumber(port), event));
        }
    }

    /// Returns the changes of ports since the last call.
    pub fn take_events(&mut self) -> Vec<(PortNumber, PortEvent)> {
        std::mem::take(&mut self.events)
    }

    /// Returns the ports that a manager has set to Down since the last call.
    pub fn take_restarts(&mut self) -> Vec<PortNumber> {
        std::mem::take(&mut self.restarts)
    }

    /// Returns the LID of the subnet manager that is responsible for a port.
    pub fn manager_lid(&self, port: PortNumber) -> Lid {
        self.ports.get(usize::from(port.0)).map_or(Lid::NONE, |port| port.master_sm_lid)
    }

    /// Returns the state of a port whose link is up.
    pub fn link_state(&self, port: PortNumber) -> LinkState {
        self.ports.get(usize::from(port.0)).map_or(LinkState::Init, |port| port.state)
    }

    fn as_hop(&self) -> directed_route::Node {
        directed_route::Node { ports: self.facts.ports, is_switch: self.facts.is_switch() }
    }

    fn follow(&mut self, step: Step, packet: &mut ManagementPacket, at: (PortNumber, SimTime), hardware: &mut dyn Hardware) -> Onward {
        match step {
            Step::Discard => Onward::Nowhere,
            Step::Forward(output) => {
                (packet.slid, packet.dlid) = (Lid::PERMISSIVE, Lid::PERMISSIVE);
                Onward::Port(PortNumber(output))
            }
            Step::ForwardByLid(lid) => {
                (packet.slid, packet.dlid) = (hardware.lid(0), lid);
                Onward::Lid
            }
            Step::Deliver if !Self::wants(packet) => Onward::Host,
            Step::Deliver => match self.answer_subnet(packet, at, hardware) {
                Answer::Response => {
                    let back = directed_route::send(&mut packet.mad, self.as_hop());
                    self.follow(back, packet, at, hardware)
                }
                unanswered => self.without_response(unanswered),
            },
        }
    }

    /// Answers a packet without a directed route.
    fn answer_by_lid(&mut self, packet: &mut ManagementPacket, port: PortNumber, now: SimTime, hardware: &mut dyn Hardware) -> Onward {
        let answer = match Self::wants(packet) {
            true if packet.is_subnet_management() => self.answer_subnet(packet, (port, now), hardware),
            true => self.answer_performance(&mut packet.mad[..], hardware),
            false if self.facts.is_switch() => refuse_class(packet),
            false => Answer::Host,
        };
        if answer != Answer::Response {
            return self.without_response(answer);
        }
        // The answer comes from the LID of the question, also if that has changed the LID.
        let own = if self.facts.is_switch() { hardware.lid(0) } else { hardware.lid(port.0) };
        let asked = if packet.dlid == Lid::PERMISSIVE { own } else { packet.dlid };
        (packet.dlid, packet.slid) = (packet.slid, asked);
        std::mem::swap(&mut packet.source, &mut packet.destination);
        Onward::Lid
    }

    /// Returns the way of a packet that no agent answers. No software runs on a switch.
    fn without_response(&self, answer: Answer) -> Onward {
        if answer == Answer::Host && !self.facts.is_switch() { Onward::Host } else { Onward::Nowhere }
    }

    /// Turns a request to the SMA into its response.
    fn answer_subnet(&mut self, packet: &mut ManagementPacket, (port, now): (PortNumber, SimTime), hardware: &mut dyn Hardware) -> Answer {
        let header = Header::view(&packet.mad[..]);
        let (attribute, method) = (header.attribute_id(), header.method());
        // The subnet manager's own software answers the rest about it.
        if attribute == AttributeId::SM_INFO && (self.manager.is_none() || method != Method::GET) {
            return Answer::Host;
        }
        // The manager that received a trap needs no M_Key to answer it. Anybody can guess a transaction.
        let registers = if self.facts.is_switch() { PortNumber(0) } else { port };
        let is_of_manager = packet.slid == self.manager_lid(registers);
        let is_answer = method == Method::TRAP_REPRESS && is_of_manager && self.repress(header.transaction_id());
        if is_answer || !self.check_m_key(packet, port, now) || method == Method::TRAP_REPRESS {
            return Answer::None;
        }
        let mad = &mut packet.mad[..];
        let header = Header::view(mad);
        let is_directed = header.mgmt_class() == ManagementClass::SUBNET_DIRECTED_ROUTE;
        let status = if header.base_version() != Header::BASE_VERSION || header.class_version() != 1 {
            Status::BAD_VERSION
        } else if !matches!(method, Method::GET | Method::SET) {
            Status::METHOD_NOT_SUPPORTED
        } else {
            match self.answer_attribute(mad, port, hardware) {
                Ok(()) => Status::SUCCESS,
                Err(Refusal::Silent) => return Answer::None,
                Err(Refusal::Status(status)) => status,
            }
        };
        let direction = if is_directed { Status::DIRECTION } else { 0 };
        Header::view_mut(mad).method(response_to(method)).status(Status(status.0 | direction));
        Answer::Response
    }

    fn answer_attribute(&mut self, mad: &mut [u8], port: PortNumber, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
        let header = Header::view(mad);
        let (attribute, modifier, is_set) = (header.attribute_id(), header.attribute_modifier(), header.method() == Method::SET);
        let smp = Smp::view(mad);
        let request = subnet::Request { attribute, modifier, port: port.0, m_key: smp.m_key(), is_set, data: smp.data() };
        let data = if is_set { self.set_attribute(&request, hardware)? } else { self.get_attribute(&request, hardware)? };
        Smp::view_mut(mad).data(data);
        Ok(())
    }
}

/// Checks whether a packet is of a class that agents of nodes serve.
fn is_of_agent(packet: &ManagementPacket) -> bool {
    let class = Header::view(&packet.mad[..]).mgmt_class();
    if packet.is_subnet_management() { class.is_subnet_management() } else { class == ManagementClass::PERFORMANCE }
}

/// Returns the method of the response to a request. An unknown method has its response bit set.
fn response_to(method: Method) -> Method {
    method.response().unwrap_or(Method(method.0 | Method::RESPONSE))
}

/// Turns a request of a class that a switch does not serve into its response. Only methods with a
/// response have one.
fn refuse_class(packet: &mut ManagementPacket) -> Answer {
    let Some(method) = Header::view(&packet.mad[..]).method().response().filter(|_| !is_of_agent(packet)) else { return Answer::None };
    Header::view_mut(&mut packet.mad[..]).method(method).status(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED);
    Answer::Response
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The packet has become the response.
    Response,
    /// The host's software answers.
    Host,
    /// There is no response.
    None,
}

/// The reason why an agent does not do as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The agent sends no response.
    Silent,
    /// The response carries this status.
    Status(Status),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}
