//! Attributes of subnet management: which exist, and those of the whole node (IBTA 14.2.5).

use super::tables::{linear_block, multicast_block, set_linear_block, set_multicast_block};
use super::{Agent, Hardware, NodeKind, Refusal};
use crate::switch::LifetimeCode;
use softband_types::{Lid, PortNumber};
use softband_wire::mad::{AttributeId, Layout, NodeDescription, NodeInfo, NodeType, SMP_DATA_BYTES, Status, SwitchInfo};

/// Entries of a P_Key table.
pub(super) const PKEYS: u16 = 128;
/// Entries of the P_Key table of a switch's port. Assumed: no maker publishes a number.
pub(super) const ENFORCED_PKEYS: u16 = 32;
/// Unicast LIDs of a linear forwarding table.
pub(super) const LINEAR_ENTRIES: u16 = 0xC000;
/// Multicast LIDs of a multicast forwarding table.
pub(super) const MULTICAST_ENTRIES: u16 = 0x1000;

pub(super) type Data = [u8; SMP_DATA_BYTES];

/// A request for an attribute.
pub(super) struct Request {
    pub(super) attribute: AttributeId,
    pub(super) modifier: u32,
    /// Number of the port by which the request came.
    pub(super) port: u8,
    pub(super) m_key: u64,
    /// The answer is for a requester that has changed the attribute.
    pub(super) is_set: bool,
    pub(super) data: Data,
}

impl Request {
    /// Returns the port that the modifier names. Number 0 stands for the port of the request in an
    /// HCA, and for a switch's own port.
    pub(super) fn named_port(&self, agent: &Agent, number: u32) -> Result<u8, Refusal> {
        let number = u8::try_from(number).map_err(|_| Status::INVALID_FIELD)?;
        if number == 0 && !agent.facts.is_switch() {
            return Ok(self.port);
        }
        if number > agent.facts.ports { Err(Status::INVALID_FIELD.into()) } else { Ok(number) }
    }
}

/// Returns the bytes of an attribute.
pub(super) fn data_of(attribute: &impl Layout) -> Data {
    let mut data = [0; SMP_DATA_BYTES];
    attribute.emit(&mut data);
    data
}

impl Agent {
    /// Returns an attribute as the response to a request at a port states it. `None` if the agent
    /// refuses the request.
    pub fn attribute(&self, port: PortNumber, attribute: AttributeId, modifier: u32, hardware: &dyn Hardware) -> Option<[u8; SMP_DATA_BYTES]> {
        let request = Request { attribute, modifier, port: port.0, m_key: 0, is_set: false, data: [0; SMP_DATA_BYTES] };
        self.get_attribute(&request, hardware).ok()
    }

    pub(super) fn get_attribute(&self, request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let is_switch = self.facts.is_switch();
        match request.attribute {
            AttributeId::NODE_DESCRIPTION => Ok(data_of(&NodeDescription::new(&self.facts.description))),
            AttributeId::NODE_INFO => Ok(data_of(&self.node_info(request.port))),
            AttributeId::SWITCH_INFO if is_switch => Ok(data_of(&self.switch_info(hardware))),
            AttributeId::GUID_INFO => self.guid_info(request),
            AttributeId::PORT_INFO => self.port_info(request, hardware).map(|info| data_of(&info)),
            AttributeId::P_KEY_TABLE => self.pkey_table(request, hardware),
            AttributeId::SL_TO_VL_MAPPING_TABLE => self.sl_to_vl(request, hardware),
            AttributeId::VL_ARBITRATION_TABLE => self.vl_arbitration(request),
            AttributeId::LINEAR_FORWARDING_TABLE if is_switch => linear_block(request, hardware),
            AttributeId::MULTICAST_FORWARDING_TABLE if is_switch => multicast_block(request, hardware),
            AttributeId::SM_INFO => self.manager.map(|info| data_of(&info)).ok_or(Refusal::Silent),
            _ => Err(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED.into()),
        }
    }

    pub(super) fn set_attribute(&mut self, request: &Request, hardware: &mut dyn Hardware) -> Result<Data, Refusal> {
        match request.attribute {
            AttributeId::PORT_INFO => self.set_port_info(request, hardware)?,
            AttributeId::SWITCH_INFO if self.facts.is_switch() => self.set_switch_info(request, hardware)?,
            AttributeId::LINEAR_FORWARDING_TABLE if self.facts.is_switch() => set_linear_block(request, self.facts.ports, hardware)?,
            AttributeId::MULTICAST_FORWARDING_TABLE if self.facts.is_switch() => set_multicast_block(request, hardware)?,
            AttributeId::P_KEY_TABLE => self.set_pkey_table(request, hardware)?,
            AttributeId::SL_TO_VL_MAPPING_TABLE => self.set_sl_to_vl(request, hardware)?,
            AttributeId::VL_ARBITRATION_TABLE => self.set_vl_arbitration(request, hardware)?,
            // The single GUID is the maker's. The response states it.
            AttributeId::GUID_INFO => {}
            _ => return Err(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED.into()),
        }
        self.get_attribute(request, hardware)
    }

    fn node_info(&self, port: u8) -> NodeInfo {
        let facts = &self.facts;
        NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: match facts.kind {
                NodeKind::Hca => NodeType::CHANNEL_ADAPTER,
                NodeKind::Switch => NodeType::SWITCH,
            },
            num_ports: facts.ports,
            system_image_guid: facts.guid,
            node_guid: facts.guid,
            port_guid: facts.port_guid(port),
            partition_cap: PKEYS,
            device_id: facts.device_id,
            revision: facts.revision,
            local_port_num: PortNumber(port),
            vendor_id: facts.vendor_id,
        }
    }

    fn switch_info(&self, hardware: &dyn Hardware) -> SwitchInfo {
        SwitchInfo {
            linear_fdb_cap: LINEAR_ENTRIES,
            multicast_fdb_cap: MULTICAST_ENTRIES,
            linear_fdb_top: self.switch.linear_fdb_top.0,
            life_time_value: hardware.packet_lifetime().code(),
            port_state_change: self.switch.port_state_change,
            partition_enforcement_cap: ENFORCED_PKEYS,
            inbound_enforcement_cap: true,
            outbound_enforcement_cap: true,
            ..SwitchInfo::default()
        }
    }

    fn set_switch_info(&mut self, request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
        let info = SwitchInfo::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
        if info.linear_fdb_top >= LINEAR_ENTRIES {
            return Err(Status::INVALID_FIELD.into());
        }
        self.switch.linear_fdb_top = Lid(info.linear_fdb_top);
        hardware.set_packet_lifetime(LifetimeCode::of_wire(info.life_time_value));
        // Writing 1 clears the flag (IBTA 14.2.5.4).
        self.switch.port_state_change &= !info.port_state_change;
        Ok(())
    }
}
