//! The vocabulary: checked InfiniBand types without behaviour beyond their own arithmetic.
#![forbid(unsafe_code)]

mod address;
mod counting;
mod ethernet;
mod ids;
mod link;
mod queue_pair;

pub use address::{Gid, Guid, Lid, PKey, QKey};
pub use counting::counted;
pub use ethernet::{EthernetRate, LinkLayer};
pub use ids::{
    AhHandle, CqHandle, HcaId, HostId, LKey, MrHandle, MwHandle, NodeId, PdHandle, PortNumber, ProcessId, Psn, Qpn, RKey, SrqHandle, XrcdHandle,
};
pub use link::{CreditBlocks, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls, VirtualLane};
pub use queue_pair::{Access, QpState, QpType, ServiceLevel, WcOpcode, WcStatus};
