//! Traps: an agent reports a change to the subnet manager (IBTA 13.4.8.2, 14.2.5.1).

use super::{Agent, LinkState};
use crate::management::ManagementPacket;
use softband_types::{Lid, PKey, PortNumber, QKey, Qpn};
use softband_wire::mad::{
    AttributeId, Header, Layout, LinkStateDetails, MAD_BYTES, ManagementClass, Method, NodeType, Notice, NoticeType, SMP_DATA_OFFSET, TrapNumber,
};

impl Agent {
    /// Checks whether a manager configures the node's ports by packets, also after each change of a
    /// link.
    pub fn waits_for_manager(&self) -> bool {
        !self.is_configured
    }

    /// Starts a port again whose link went down or came up. `lid` is the LID of the node. Returns
    /// the trap of a switch whose manager is known.
    pub fn restart_port(&mut self, port: PortNumber, lid: Lid) -> Option<Box<ManagementPacket>> {
        self.ports.get_mut(usize::from(port.0))?.state = LinkState::Init;
        self.switch.port_state_change = true;
        let manager = self.ports[0].master_sm_lid;
        (self.facts.is_switch() && manager != Lid::NONE && lid != Lid::NONE).then(|| self.link_state_trap(lid, manager))
    }

    fn link_state_trap(&mut self, lid: Lid, manager: Lid) -> Box<ManagementPacket> {
        self.traps += 1;
        let mut mad = Box::new([0; MAD_BYTES]);
        let header = Header {
            base_version: Header::BASE_VERSION,
            mgmt_class: ManagementClass::SUBNET_LID_ROUTED,
            class_version: 1,
            method: Method::TRAP,
            transaction_id: self.traps,
            attribute_id: AttributeId::NOTICE,
            ..Header::default()
        };
        header.emit(&mut mad[..]);
        let mut notice = Notice {
            is_generic: true,
            notice_type: NoticeType::URGENT,
            producer_type: u32::from(NodeType::SWITCH.0),
            trap_number: TrapNumber::LINK_STATE_CHANGED,
            issuer_lid: lid,
            ..Notice::default()
        };
        LinkStateDetails { lid }.emit(&mut notice.data_details);
        notice.emit(&mut mad[SMP_DATA_OFFSET..]);
        let service_level = self.ports[0].master_sm_sl;
        let packet = ManagementPacket {
            slid: lid,
            dlid: manager,
            service_level,
            source: Qpn(0),
            destination: Qpn(0),
            qkey: QKey(0),
            pkey: PKey::DEFAULT_FULL,
            mad,
        };
        Box::new(packet)
    }
}
