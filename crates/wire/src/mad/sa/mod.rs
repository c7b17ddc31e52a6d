//! Subnet administration (IBTA chapter 15) and RMPP, its protocol of long messages (IBTA 13.6).

mod components;
mod inform;
mod mad;
mod multicast;
mod path;
mod records;
mod service;

pub use components::ComponentMask;
pub use inform::{InformInfo, InformInfoRecord};
pub use mad::{RmppFlags, RmppHeader, RmppStatus, RmppType, SaMad, records, room_of_record};
pub use multicast::{JoinState, McMemberRecord};
pub use path::{MultiPathRecord, PathRecord, RateCode, Selector};
pub use records::{
    GuidInfoRecord, LinearForwardingTableRecord, LinkRecord, MulticastForwardingTableRecord, NodeRecord, PKeyTableRecord, PortInfoRecord,
    SlToVlMappingTableRecord, SmInfoRecord, SwitchInfoRecord, VlArbitrationTableRecord,
};
pub use service::ServiceRecord;
