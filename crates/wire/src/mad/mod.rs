//! Management datagrams, MADs (IBTA volume 1, chapters 12 to 16): their bytes and their meaning.
//!
//! Each header, attribute and message is a [`Layout`]: a table of fields with two views.
//!
//! - The **repr** is a plain struct with typed fields, for example [`PortInfo`]. [`Layout::parse`]
//!   reads it, and [`Layout::emit`] writes it.
//! - The **view** reads or writes single fields of any bytes: [`Layout::view`] and
//!   [`Layout::view_mut`]. It never panics. Fields after the last byte are 0.
//!
//! Codes with reserved values, for example [`PortState`], are numbers with named constants. So each
//! pattern of bits has a repr, and only too few bytes are an error. An agent checks the values that
//! it does not accept.
//!
//! | topic | datagram | data |
//! |---|---|---|
//! | any | [`Header`] | |
//! | subnet management | [`Smp`], [`DirectedSmp`] | [`NodeInfo`], [`PortInfo`], [`SwitchInfo`], [`Notice`] and tables |
//! | performance | [`PerformanceMad`] | [`ClassPortInfo`], [`PortCounters`], [`PortCountersExtended`], samples |
//! | subnet administration | [`SaMad`] | [`PathRecord`], [`McMemberRecord`] and other records, [`InformInfo`] |
//! | communication management | [`CmMad`] | [`Req`], [`Rep`], [`Rtu`] and other messages |
//!
//! # Example
//!
//! ```
//! use softband_types::Lid;
//! use softband_wire::mad::{AttributeId, DirectedSmp, Header, Layout, ManagementClass, Method, PortInfo, PortState};
//!
//! // A manager asks for a port, one hop away.
//! let request = DirectedSmp {
//!     base_version: Header::BASE_VERSION,
//!     mgmt_class: ManagementClass::SUBNET_DIRECTED_ROUTE,
//!     class_version: 1,
//!     method: Method::GET,
//!     hop_count: 1,
//!     attribute_id: AttributeId::PORT_INFO,
//!     dr_slid: Lid::PERMISSIVE,
//!     dr_dlid: Lid::PERMISSIVE,
//!     ..DirectedSmp::default()
//! };
//! let mut bytes = request.to_bytes();
//!
//! // The agent answers in place.
//! let port = PortInfo { lid: Lid(4), port_state: PortState::ACTIVE, ..PortInfo::default() };
//! let mut response = DirectedSmp::view_mut(&mut bytes);
//! response.method(Method::GET_RESP).returning(true).data(port.to_bytes());
//!
//! // The manager reads only the fields that it needs.
//! assert_eq!(Header::view(&bytes).method(), Method::GET_RESP);
//! assert_eq!(PortInfo::view(&DirectedSmp::view(&bytes).data()).lid(), Lid(4));
//! assert_eq!(PortInfo::parse(&bytes[64..128]), Ok(port));
//! ```

pub(crate) mod bits;
mod class_port_info;
mod cm;
pub(crate) mod codes;
mod header;
pub(crate) mod layout;
mod performance;
mod sa;
mod smp;
mod subnet;
#[cfg(test)]
mod tests;

pub use class_port_info::ClassPortInfo;
pub use cm::*;
pub use header::{AttributeId, Header, ManagementClass, Method, Status};
pub use layout::{Description, Error, Field, Layout, View, ViewMut};
pub use performance::{
    CounterSelect, CounterSelect2, ExtendedCounterSelect, PerformanceCapabilities, PerformanceMad, PortCounters, PortCountersExtended,
    PortRcvConCtrl, PortRcvErrorDetails, PortSamplesControl, PortSamplesResult, PortVlXmitWaitCounters, PortXmitConCtrl, PortXmitDiscardDetails,
    SampleStatus,
};
pub use sa::*;
pub use smp::{DirectedSmp, Smp};
pub use subnet::*;

/// Length of a datagram in bytes. Shorter ones end with zeros (IBTA 13.4.3).
pub const MAD_BYTES: usize = 256;
/// Offset of an SMP's attribute in bytes.
pub const SMP_DATA_OFFSET: usize = 64;
/// Length of the room for an SMP's attribute in bytes.
pub const SMP_DATA_BYTES: usize = 64;
/// Offset of an attribute of performance management in bytes.
pub const PERFORMANCE_DATA_OFFSET: usize = 64;
/// Offset of the SA's records in bytes.
pub const SA_DATA_OFFSET: usize = 56;
/// Length of the room for records in one datagram of the SA, in bytes.
pub const SA_DATA_BYTES: usize = 200;
/// Offset of a message of communication management in bytes.
pub const CM_DATA_OFFSET: usize = 24;

/// All layouts.
pub const LAYOUTS: &[Description] = &[
    Description::of::<Header>(),
    Description::of::<Smp>(),
    Description::of::<DirectedSmp>(),
    Description::of::<NodeDescription>(),
    Description::of::<NodeInfo>(),
    Description::of::<SwitchInfo>(),
    Description::of::<GuidInfo>(),
    Description::of::<PortInfo>(),
    Description::of::<PKeyTable>(),
    Description::of::<SlToVlMappingTable>(),
    Description::of::<VlWeight>(),
    Description::of::<VlArbitrationTable>(),
    Description::of::<LinearForwardingTable>(),
    Description::of::<MulticastForwardingTable>(),
    Description::of::<SmInfo>(),
    Description::of::<LedInfo>(),
    Description::of::<Notice>(),
    Description::of::<GmpNotice>(),
    Description::of::<GidDetails>(),
    Description::of::<LinkStateDetails>(),
    Description::of::<PortThresholdDetails>(),
    Description::of::<LocalChangesDetails>(),
    Description::of::<SystemImageGuidDetails>(),
    Description::of::<MKeyViolationDetails>(),
    Description::of::<KeyViolationDetails>(),
    Description::of::<SwitchPKeyViolationDetails>(),
    Description::of::<ClassPortInfo>(),
    Description::of::<PerformanceMad>(),
    Description::of::<PortCounters>(),
    Description::of::<PortCountersExtended>(),
    Description::of::<PortRcvErrorDetails>(),
    Description::of::<PortXmitDiscardDetails>(),
    Description::of::<PortVlXmitWaitCounters>(),
    Description::of::<PortRcvConCtrl>(),
    Description::of::<PortXmitConCtrl>(),
    Description::of::<PortSamplesControl>(),
    Description::of::<PortSamplesResult>(),
    Description::of::<SaMad>(),
    Description::of::<RmppHeader>(),
    Description::of::<NodeRecord>(),
    Description::of::<PortInfoRecord>(),
    Description::of::<SlToVlMappingTableRecord>(),
    Description::of::<SwitchInfoRecord>(),
    Description::of::<LinearForwardingTableRecord>(),
    Description::of::<MulticastForwardingTableRecord>(),
    Description::of::<VlArbitrationTableRecord>(),
    Description::of::<SmInfoRecord>(),
    Description::of::<PKeyTableRecord>(),
    Description::of::<LinkRecord>(),
    Description::of::<GuidInfoRecord>(),
    Description::of::<ServiceRecord>(),
    Description::of::<PathRecord>(),
    Description::of::<MultiPathRecord>(),
    Description::of::<McMemberRecord>(),
    Description::of::<InformInfo>(),
    Description::of::<InformInfoRecord>(),
    Description::of::<CmMad>(),
    Description::of::<Req>(),
    Description::of::<CmPath>(),
    Description::of::<Mra>(),
    Description::of::<Rej>(),
    Description::of::<Rep>(),
    Description::of::<Rtu>(),
    Description::of::<Dreq>(),
    Description::of::<Drep>(),
    Description::of::<SidrReq>(),
    Description::of::<SidrRep>(),
    Description::of::<Lap>(),
    Description::of::<Apr>(),
];
