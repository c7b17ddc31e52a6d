//! A node as its maker and its cables describe it.

use crate::link::ArbitrationTables;
use softband_types::{Guid, LinkSpeed, LinkWidth, Mtu, OperationalVls};

/// Kind of a node (NodeType of NodeInfo, IBTA 14.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Host channel adapter.
    Hca,
    /// Switch.
    Switch,
}

/// Properties of a node that management cannot change.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Kind of the node.
    pub kind: NodeKind,
    /// Name of the node: the first 64 bytes are its NodeDescription.
    pub description: String,
    /// GUID of the node. Port n of an HCA has this GUID plus n; a switch has a single GUID.
    pub guid: Guid,
    /// Number of external ports, from 1 to 254.
    pub ports: u8,
    /// VendorID, 24 bits.
    pub vendor_id: u32,
    /// DeviceID.
    pub device_id: u16,
    /// Revision.
    pub revision: u32,
    /// Largest MTU of each port (MTUCap).
    pub mtu_max: Mtu,
    /// Data lanes that each port can operate (VLCap).
    pub vl_cap: OperationalVls,
    /// Receive buffer of each port in bytes. A port states it as MaxCreditHint.
    pub port_buffer_bytes: u32,
    /// Link widths that each port can train to.
    pub widths: Vec<LinkWidth>,
    /// Link speeds that each port can train to.
    pub speeds: Vec<LinkSpeed>,
    /// Limit of the stay in a switch, as a code (LifeTimeValue).
    pub packet_lifetime: u8,
    /// Limits of the wait at the head of a queue of each port from 1 on, as codes (HOQLife).
    pub head_lifetimes: Vec<u8>,
    /// Arbitration tables of each port from 1 on; `None` if its lanes take turns.
    pub weights: Vec<Option<ArbitrationTables>>,
}

impl NodeFacts {
    /// Returns the GUID of a port.
    pub fn port_guid(&self, port: u8) -> Guid {
        match self.kind {
            NodeKind::Hca => Guid(self.guid.0.wrapping_add(u64::from(port))),
            NodeKind::Switch => self.guid,
        }
    }

    /// Checks whether the node forwards packets.
    pub fn is_switch(&self) -> bool {
        self.kind == NodeKind::Switch
    }
}
