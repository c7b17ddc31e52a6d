//! Management datagrams: software on a host sends them, and agents answer them.

use super::World;
use super::traps::is_trap;
use crate::event::Event;
use crate::link::Leg;
use crate::management::{Agents, Job, NodeHardware};
use crate::notice::Notice;
use crate::numbering::Owner;
use softband_model::management::ManagementPacket;
use softband_model::management::administration::MANAGER_KEY;
use softband_model::management::agent::{Agent, Onward, PortEvent};
use softband_sim::SimTime;
use softband_spec::SubnetManager;
use softband_types::{Guid, HcaId, Lid, PortNumber};
use softband_wire::mad::{DirectedSmp, Layout, SmInfo, SmState};

/// Priority of the built-in subnet manager, the default of OpenSM.
const MANAGER_PRIORITY: u8 = 0;
impl World {
    /// Sends a MAD from a port at `at`. The answer, if any, arrives as
    /// [`Notice::ManagementArrived`].
    ///
    /// An HCA's own agent answers a MAD to this port without the link. A MAD is lost if the HCA has
    /// no such port, if no Active link leads on, or if too many packets wait for an agent. Only for a World
    /// without partitions.
    pub fn send_management(&mut self, hca: HcaId, port: PortNumber, packet: Box<ManagementPacket>, at: SimTime) {
        let Some(port) = self.hcas.port_index(hca, port) else { return };
        if self.agents.is_first_use() {
            self.prepare_management();
        }
        let packet = self.links.keep_management(port, packet);
        self.timeline.push(at, hca.0, Event::ManagementPosted { packet });
    }

    /// Names the ports on whose hosts a subnet manager runs: they set IsSM (IBTA 14.2.5.6).
    pub fn announce_managers(&mut self, ports: impl Iterator<Item = (HcaId, PortNumber)>) {
        let now = self.timeline.now();
        for node in self.agents.announce_managers(&ports.collect(), now) {
            self.schedule_traps(node, now);
        }
    }

    /// Completes what runs without management do not need: routes to the switches themselves, and
    /// the description of the subnet manager.
    fn prepare_management(&mut self) {
        let lid = self.subnet.manager_lid();
        if self.spec.subnet.manager != SubnetManager::Builtin || lid == Lid::NONE {
            return;
        }
        self.links.route_to_switches(&self.subnet);
        self.agents.set_linear_top(self.subnet.lid_largest());
        if let Some(port) = self.subnet.port_with_lid(lid) {
            self.describe_manager(port);
        }
    }

    /// Lets the agent of a port's node describe the model's own manager.
    pub(super) fn describe_manager(&mut self, port: u32) {
        let number = self.links.number(port);
        let guid = match self.numbering.owners()[port as usize] {
            Owner::Hca { hca, .. } => Guid(self.node_guid(HcaId(hca)).0 + u64::from(number.0)),
            Owner::Switch { switch, .. } => self.spec.switches[switch as usize].node_guid,
        };
        let manager = SmInfo { guid, priority: MANAGER_PRIORITY, sm_key: MANAGER_KEY, sm_state: SmState::MASTER, ..SmInfo::default() };
        self.agents.set_manager(self.links.node(port), Some(manager));
    }

    /// Sends a packet of an HCA's own host on its way.
    pub(super) fn on_management_posted(&mut self, packet: u32, notices: &mut Vec<Notice>, now: SimTime) {
        let (port, packet) = self.links.take_management(packet);
        let is_for_port = self.subnet.lids(port).contains(packet.dlid) || packet.dlid == Lid::PERMISSIVE;
        if !packet.is_subnet_management() {
            return if is_for_port { self.receive_for_node(port, packet, notices, now) } else { self.send_general(port, packet, now) };
        }
        if Agent::is_directed(&packet) && !Agent::begins_elsewhere(&packet) || is_for_port {
            return self.hand_to_agent(port, packet, true, notices, now);
        }
        self.hop().send_on_lane15(port, packet, Leg::First, now);
    }

    /// Takes in a packet that has reached a node's port.
    pub(super) fn on_management_arrival(&mut self, packet: u32, notices: &mut Vec<Notice>, now: SimTime) {
        let (port, packet) = self.links.take_management(packet);
        if !packet.is_subnet_management() || !self.is_switch(port) {
            return self.receive_for_node(port, packet, notices, now);
        }
        if packet.dlid == Lid::PERMISSIVE || packet.dlid == self.lid_of_node(port) {
            return self.hand_to_agent(port, packet, false, notices, now);
        }
        let Some(output) = self.links.output_for(port, packet.dlid).filter(|output| *output != port) else { return };
        let at = now + self.links.through(output);
        self.hop().send_on_lane15(output, packet, Leg::Later, at);
    }

    /// Hands a packet that has reached its node to the node's agent, or to the host.
    fn receive_for_node(&mut self, port: u32, packet: Box<ManagementPacket>, notices: &mut Vec<Notice>, now: SimTime) {
        // A switch has no software: its agent refuses all that it does not know.
        let is_for_agent = self.is_switch(port) || Agent::wants(&packet) || Agent::is_directed(&packet);
        if is_for_agent || self.administers(port, &packet) {
            return self.hand_to_agent(port, packet, false, notices, now);
        }
        self.pass_to_host(port, packet, notices);
    }

    pub(super) fn hand_to_agent(&mut self, port: u32, packet: Box<ManagementPacket>, is_own: bool, notices: &mut Vec<Notice>, now: SimTime) {
        // An HCA passes packets of its host on at once.
        let is_of_host =
            is_own && Agent::leaves_node(&packet) || !is_own && !self.is_switch(port) && Agent::is_directed(&packet) && !Agent::wants(&packet);
        if is_of_host {
            return self.carry_out(Job { port, is_own, packet }, notices, now);
        }
        let (node, number) = (self.links.node(port), self.links.number(port).0);
        self.agents.enqueue(&mut self.timeline, node, (number, Job { port, is_own, packet }), now);
    }

    fn pass_to_host(&mut self, port: u32, packet: Box<ManagementPacket>, notices: &mut Vec<Notice>) {
        let now = self.timeline.now();
        if self.is_for_manager(port, &packet) {
            if is_trap(&packet) {
                self.forward_trap(&packet, now);
            }
            return;
        }
        if self.take_trap(port, &packet, notices, now) {
            return;
        }
        if let Owner::Hca { hca, .. } = self.numbering.owners()[port as usize] {
            notices.push(Notice::ManagementArrived { hca: HcaId(hca), port: self.links.number(port), packet });
        }
    }

    /// Carries out the packet that a node's agent has handled.
    pub(super) fn on_agent_done(&mut self, node: u32, notices: &mut Vec<Notice>, now: SimTime) {
        if let Some(job) = self.agents.done(&mut self.timeline, node, now) {
            self.carry_out(job, notices, now);
        }
    }

    fn carry_out(&mut self, Job { port, is_own, mut packet }: Job, notices: &mut Vec<Notice>, now: SimTime) {
        if self.administers(port, &packet) {
            for answer in self.administer(*packet, now) {
                self.send_by_lid(port, Box::new(answer), notices, now);
            }
            return;
        }
        let (number, node) = (self.links.number(port), self.links.node(port));
        let (mut hardware, agents) = self.hardware(port);
        let agent = agents.agent_mut(node);
        let was_returning = DirectedSmp::view(&packet.mad[..]).returning();
        let onward =
            if is_own { agent.send(&mut packet, number, now, &mut hardware) } else { agent.receive(&mut packet, number, now, &mut hardware) };
        self.hop().watch_new_limits(now);
        self.schedule_traps(node, now);
        self.report_events(port, node, notices);
        self.restart_links(port, node, now);
        self.switch_links(port, node, now);
        // An agent answers in place, and turns the direction.
        let passes = !is_own && DirectedSmp::view(&packet.mad[..]).returning() == was_returning;
        let leg = if passes { Leg::Later } else { Leg::First };
        match onward {
            Onward::Nowhere => {}
            Onward::Host => self.pass_to_host(port, packet, notices),
            Onward::Port(number) => {
                if let Some(output) = self.links.sibling(port, number.0) {
                    self.hop().send_on_lane15(output, packet, leg, now);
                }
            }
            Onward::Lid => self.send_by_lid(port, packet, notices, now),
        }
    }

    /// Returns the hardware of a port's node, and the agents.
    pub(super) fn hardware(&mut self, port: u32) -> (NodeHardware<'_>, &mut Agents) {
        let hardware = NodeHardware {
            first_port: self.first_port(port),
            spec: &self.spec,
            numbering: &self.numbering,
            ports: self.agents.agent(self.links.node(port)).ports(),
            owner: self.numbering.owners()[port as usize],
            links: &mut self.links,
            subnet: &mut self.subnet,
            hcas: &mut self.hcas,
            faults: &self.faults,
            timeline: &self.timeline,
        };
        (hardware, &mut self.agents)
    }

    /// Lets a node's agent know that a port's link went down or came up.
    pub(super) fn report_link_change(&mut self, port: u32, now: SimTime) {
        let (node, number) = (self.links.node(port), self.links.number(port));
        if !self.agents.agent(node).waits_for_manager() {
            return;
        }
        self.links.let_data_pass(port, false);
        self.tell_manager(port, now);
        self.agents.agent_mut(node).restart_port(number, now);
        self.schedule_traps(node, now);
    }

    /// Reports changes of an HCA's ports to its host.
    fn report_events(&mut self, port: u32, node: u32, notices: &mut Vec<Notice>) {
        let Owner::Hca { hca, .. } = self.numbering.owners()[port as usize] else { return };
        for (port, event) in self.agents.agent_mut(node).take_events() {
            notices.push(Notice::PortEvent { hca: HcaId(hca), port, event: number_of(event) });
        }
    }

    /// Sends a packet of a node's agent by its destination LID.
    pub(super) fn send_by_lid(&mut self, port: u32, packet: Box<ManagementPacket>, notices: &mut Vec<Notice>, now: SimTime) {
        let is_own = if self.is_switch(port) { packet.dlid == self.lid_of_node(port) } else { self.subnet.lids(port).contains(packet.dlid) };
        if is_own {
            return self.pass_to_host(port, packet, notices);
        }
        let output = if self.is_switch(port) { self.links.output_for(port, packet.dlid) } else { Some(port) };
        let Some(output) = output else { return };
        if packet.is_subnet_management() {
            self.hop().send_on_lane15(output, packet, Leg::First, now);
        } else {
            self.send_general(output, packet, now);
        }
    }

    /// Sends a packet between QPs 1 by a port, on the lane of its service level.
    fn send_general(&mut self, output: u32, packet: Box<ManagementPacket>, now: SimTime) {
        let Some(cabling) = self.links.cabling(output) else { return };
        let lane = match self.numbering.owners()[output as usize] {
            Owner::Hca { .. } => self.hcas.lane_at(&self.links, output, packet.service_level),
            Owner::Switch { switch, index } => self.subnet.lane((switch, index, index), packet.service_level, cabling.vls),
        };
        if self.links.can_send(output, lane) {
            self.hop().send_general(output, lane, &packet, now);
        }
    }

    /// Returns the LID of an HCA's port, or of a switch.
    pub(super) fn lid_of_node(&self, port: u32) -> Lid {
        match self.numbering.owners()[port as usize] {
            Owner::Hca { .. } => self.subnet.lid(port),
            Owner::Switch { .. } => self.subnet.lid(self.first_port(port)),
        }
    }

    /// Returns the first port of a port's node.
    fn first_port(&self, port: u32) -> u32 {
        port + 1 - u32::from(self.links.number(port).0)
    }

    pub(super) fn is_switch(&self, port: u32) -> bool {
        matches!(self.numbering.owners()[port as usize], Owner::Switch { .. })
    }
}

/// Returns the number of an event in `ibv_event_type`.
fn number_of(event: PortEvent) -> u32 {
    match event {
        PortEvent::Active => 9,
        PortEvent::Inactive => 10,
        PortEvent::LidChange => 11,
        PortEvent::PKeyChange => 12,
        PortEvent::SmChange => 13,
        PortEvent::ClientReregister => 17,
        PortEvent::GidChange => 18,
    }
}
