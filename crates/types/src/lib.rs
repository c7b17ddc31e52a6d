//! The vocabulary of Softband: checked InfiniBand types without behaviour beyond their own
//! arithmetic.
//!
//! Each type is a plain value that is cheap to copy. Its documentation gives unit, range and
//! default. Types with a restricted range check it once, in their constructor. Types with a public
//! field are names for numbers of any value.
//!
//! | topic | types |
//! |---|---|
//! | addresses | [`Lid`], [`Lmc`], [`PortLids`], [`Guid`], [`Gid`], [`PortNumber`], [`Qpn`] |
//! | keys | [`PKey`], [`QKey`], [`LKey`], [`RKey`] |
//! | links | [`LinkWidth`], [`LinkSpeed`], [`LinkRate`], [`EthernetRate`], [`Mtu`], [`CreditBlocks`] |
//! | lanes | [`ServiceLevel`], [`VirtualLane`], [`OperationalVls`] |
//! | queue pairs | [`QpType`], [`QpState`], [`Access`], [`Psn`], [`WcStatus`], [`WcOpcode`] |
//! | handles | [`PdHandle`], [`CqHandle`], [`MrHandle`] and others: objects of a World |
//!
//! # Example
//!
//! ```
//! use softband_types::{CreditBlocks, LinkRate, LinkSpeed, LinkWidth, Mtu, Psn};
//!
//! // A packet of 2,048 bytes of data takes 0.64 ns for each 8 bytes of a 4X EDR link.
//! let rate = LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Edr };
//! assert_eq!(rate.to_string(), "4X EDR");
//! assert_eq!(rate.picos_of_bytes(Mtu::B2048.bytes()), 163_840);
//!
//! // With 26 bytes of headers it takes 33 blocks of the receive buffer.
//! assert_eq!(CreditBlocks::for_packet(2_048 + 26), CreditBlocks(33));
//!
//! // Packet sequence numbers are circular: the largest precedes 0.
//! let last = Psn::new(0xFF_FFFF);
//! assert!(last.is_before(last.plus(1)));
//! assert_eq!(last.plus(1).value(), 0);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod counting;
mod ethernet;
mod ids;
mod link;
mod link_layer;
mod queue_pair;

pub use address::{Gid, Guid, Lid, Lmc, PKey, PortLids, QKey};
pub use counting::counted;
pub use ethernet::EthernetRate;
pub use ids::{
    AhHandle, CqHandle, HcaId, HostId, LKey, MrHandle, MwHandle, NodeId, PdHandle, PortNumber, ProcessId, Psn, Qpn, RKey, SrqHandle, XrcdHandle,
};
pub use link::{CreditBlocks, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls, VirtualLane};
pub use link_layer::LinkLayer;
pub use queue_pair::{Access, QpState, QpType, ServiceLevel, WcOpcode, WcStatus};

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
