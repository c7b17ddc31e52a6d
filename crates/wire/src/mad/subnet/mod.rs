//! Attributes of subnet management (IBTA 14.2.5).

mod node;
mod notice;
mod port;
mod port_codes;
mod tables;
mod traps;

pub use node::{LedInfo, NodeDescription, NodeInfo, NodeType, SmInfo, SmState, SwitchInfo};
pub use notice::{GmpNotice, Notice, NoticeType, TrapNumber};
pub use port::PortInfo;
pub use port_codes::{
    CapabilityMask, CapabilityMask2, LinkSpeedCode, LinkSpeedExtCode, LinkWidthCode, MKeyProtection, MtuCode, OperationalVlsCode, PhysicalState,
    PortState,
};
pub use tables::{GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, SlToVlMappingTable, VlArbitrationTable, VlWeight};
pub use traps::{
    GidDetails, KeyViolationDetails, LinkStateDetails, LocalChangeFlags, LocalChangesDetails, MKeyViolationDetails, PortThresholdDetails,
    SwitchPKeyViolationDetails, SystemImageGuidDetails,
};
