//! Replies of the manager: to traps, and to other managers that ask for its state.

use super::Manager;
use crate::management::ManagementPacket;
use softband_types::{Guid, Lid};
use softband_wire::mad::{
    AttributeId, DirectedSmp, Header, Layout, ManagementClass, Method, Notice, SMP_DATA_BYTES, SMP_DATA_OFFSET, SmInfo, SmState, Status, TrapNumber,
};

impl Manager {
    /// Returns the reply to a packet that answers no request; `None` if it needs no reply.
    pub(super) fn reply_to(&self, packet: &ManagementPacket) -> Option<Box<ManagementPacket>> {
        if !packet.is_subnet_management() {
            return None;
        }
        let header = Header::view(&packet.mad[..]);
        match (header.method(), header.attribute_id()) {
            // IBTA 13.4.9: the sender repeats a trap until this reply.
            (Method::TRAP, AttributeId::NOTICE) if packet.slid != Lid::NONE => {
                let mut reply = turned(packet);
                Header::view_mut(&mut reply.mad[..]).method(Method::TRAP_REPRESS);
                Some(reply)
            }
            (Method::GET, AttributeId::SM_INFO) => {
                let mut reply = turned(packet);
                let mut header = Header::view_mut(&mut reply.mad[..]);
                header.method(Method::GET_RESP).status(Status::SUCCESS);
                let mut data = [0; SMP_DATA_BYTES];
                self.describe().emit(&mut data);
                reply.mad[SMP_DATA_OFFSET..SMP_DATA_OFFSET + SMP_DATA_BYTES].copy_from_slice(&data);
                if Header::view(&packet.mad[..]).mgmt_class() == ManagementClass::SUBNET_DIRECTED_ROUTE {
                    (reply.slid, reply.dlid) = (Lid::PERMISSIVE, Lid::PERMISSIVE);
                    DirectedSmp::view_mut(&mut reply.mad[..]).returning(true);
                }
                Some(reply)
            }
            _ => None,
        }
    }

    /// Describes the manager as an attribute (IBTA 14.2.5.13).
    fn describe(&self) -> SmInfo {
        let own = self.topology.roots.iter().flatten().next().and_then(|end| self.topology.port(*end));
        SmInfo {
            guid: own.map_or(Guid(0), |port| port.guid),
            sm_key: self.configuration.sm_key,
            act_count: self.sweeps as u32,
            priority: self.configuration.priority,
            sm_state: SmState::MASTER,
        }
    }
}

/// Checks whether a packet is the trap of a switch about a link.
pub(super) fn reports_link(packet: &ManagementPacket) -> bool {
    let is_trap = Header::view(&packet.mad[..]).method() == Method::TRAP;
    is_trap && Notice::view(&packet.mad[SMP_DATA_OFFSET..]).trap_number() == TrapNumber::LINK_STATE_CHANGED
}

/// Returns a packet with source and destination exchanged.
fn turned(packet: &ManagementPacket) -> Box<ManagementPacket> {
    let mut reply = Box::new(packet.clone());
    (reply.slid, reply.dlid) = (packet.dlid, packet.slid);
    (reply.source, reply.destination) = (packet.destination, packet.source);
    reply
}
