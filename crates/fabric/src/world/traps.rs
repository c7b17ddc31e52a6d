//! Traps: the agents' reports to the subnet manager, and their causes in the fabric.

use super::World;
use crate::event::Event;
use crate::notice::Notice;
use softband_model::management::ManagementPacket;
use softband_model::management::agent::KeyViolation;
use softband_sim::SimTime;
use softband_spec::SubnetManager;
use softband_types::{Lid, PortNumber};
use softband_wire::mad::{AttributeId, Header, Layout, Method};

impl World {
    /// Schedules the next trap of a node, if it has one.
    pub(super) fn schedule_traps(&mut self, node: u32, now: SimTime) {
        if let Some(due) = self.agents.next_trap_event(node, now) {
            self.timeline.push(due, node, Event::TrapsDue { node });
        }
    }

    pub(super) fn on_traps_due(&mut self, node: u32, notices: &mut Vec<Notice>, now: SimTime) {
        let first = self.numbering.first_port_of_node(node);
        let (hardware, agents) = self.hardware(first);
        for (PortNumber(number), packet) in agents.take_traps(node, now, &hardware) {
            if let Some(port) = self.links.sibling(first, number.max(1)) {
                self.send_by_lid(port, packet, notices, now);
            }
        }
        self.schedule_traps(node, now);
    }

    pub(super) fn on_key_violation(&mut self, violation: u32, now: SimTime) {
        let violation = self.hcas.take_key_violation(violation);
        self.report_violation(violation, now);
    }

    /// Lets a port's agent count a packet with a wrong key, and report it.
    pub(super) fn report_violation(&mut self, (port, violation): (u32, KeyViolation), now: SimTime) {
        let (node, number) = (self.links.node(port), self.links.number(port));
        let agent = self.agents.agent_mut(node);
        agent.count_key_violation(number, violation.key);
        if !self.links.framing(port).has_lane_15() {
            return;
        }
        agent.note_key_violation(number, &violation, now);
        // The nodes of a partitioned World exchange no management packets.
        if !self.timeline.has_windows() {
            self.schedule_traps(node, now);
        }
    }

    /// Takes a trap to the manager that has configured the subnet unseen. It answers the trap, and
    /// forwards it to subscribers.
    pub(super) fn take_trap(&mut self, port: u32, packet: &ManagementPacket, notices: &mut Vec<Notice>, now: SimTime) -> bool {
        let lid = self.subnet.manager_lid();
        let is_here = self.spec.subnet.manager == SubnetManager::Builtin && lid != Lid::NONE && packet.dlid == lid;
        if !is_here || !is_trap(packet) || self.agents.has_software_manager(self.links.node(port)) {
            return false;
        }
        self.forward_trap(packet, now);
        let mut reply = Box::new(packet.clone());
        (reply.slid, reply.dlid) = (packet.dlid, packet.slid);
        Header::view_mut(&mut reply.mad[..]).method(Method::TRAP_REPRESS);
        if reply.dlid == lid {
            self.hand_to_agent(port, reply, false, notices, now);
        } else {
            self.send_by_lid(port, reply, notices, now);
        }
        true
    }
}

/// Checks whether a packet is a trap to a subnet manager.
pub(super) fn is_trap(packet: &ManagementPacket) -> bool {
    let header = Header::view(&packet.mad[..]);
    packet.is_subnet_management() && header.method() == Method::TRAP && header.attribute_id() == AttributeId::NOTICE
}
