//! TCP/IP of a host as a state machine on simulated time.
//!
//! A [`Stack`] is one host's network code. It reads no clock and owns no thread: each entry gets
//! `now`. Nothing here knows InfiniBand, Ethernet or programs.
//!
//! | entry | meaning |
//! |---|---|
//! | [`Stack::call`] | a program calls: [`calls`] has a type for each call |
//! | [`Stack::packet_in`] | an interface received a frame |
//! | [`Stack::timer`] | the time of [`Effect::SetTimer`] has come |
//! | [`Stack::tx_done`] | an interface has sent its oldest frame |
//!
//! A lingering `close` ([`Stack::lingers`]) returns at [`Events::LINGERED`]. Links attach the groups
//! of [`Effect::Join`] until [`Effect::Leave`].
//!
//! Each entry leaves effects, which [`Stack::next_effect`] returns in order. Calls never wait:
//! they fail with [`NetError::WouldBlock`], and [`Effect::Ready`] says when to try again.
//!
//! Packets are structures ([`Packet`]). They carry payload as slices of shared buffers, and a
//! super-segment stands for several packets until [`Packet::cut`] cuts it. Sizes on the wire follow
//! from headers and options. [`wire`] writes and reads their bytes.
//!
//! The constants that differ between kernels are parts of the catalogue
//! ([`softband_model::parts::KernelPart`]). TCP has selective acknowledgements, RACK and tail loss
//! probes, PRR, CUBIC, BIC and Reno, timestamps, window scaling and growing buffers. UDP has
//! fragments and multicast groups. IPv6 sockets take IPv4 by mapped addresses. Memory is bounded:
//! half-open connections by the backlog; closed sockets, unread data and fragments by the kernel
//! part. Floods of SYNs meet cookies. A host may forward packets ([`Stack::set_forwarding`]), and
//! sources hear from routers about lost hops and smaller links.
//!
//! The stack has no ECN and no echo (ping). It sends no ICMP error about a datagram whose fragments do
//! not all arrive.
//!
//! # Example
//!
//! ```
//! use softband_net::calls::{Bind, Listen, Open};
//! use softband_net::{Family, Protocol, Stack};
//! use softband_sim::SimTime;
//!
//! let catalog = softband_catalog::Catalog::load("../../catalog".as_ref()).unwrap();
//! let name = catalog.parts(softband_catalog::PartKind::Kernel)[0];
//! let kernel = catalog.kernel(name).unwrap().clone();
//! let mut stack = Stack::new(kernel, 7);
//! let now = SimTime::ZERO;
//! let socket = stack.call(now, Open { family: Family::V4, protocol: Protocol::Stream })?;
//! stack.call(now, Bind { socket, address: "127.0.0.1:80".parse().unwrap() })?;
//! stack.call(now, Listen { socket, backlog: 16 })?;
//! # Ok::<(), softband_net::NetError>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod calls;
mod error;
mod events;
mod frame;
mod interface;
mod neighbour;
mod packet;
mod payload;
mod route;
mod scope;
pub mod sdp;
mod sequence;
mod socket;
mod socket_id;
mod stack;
mod tcp;
mod udp;
pub mod wire;

pub use error::NetError;
pub use events::Events;
pub use frame::{Frame, LinkAddress, LinkDestination, NeighbourMessage};
pub use interface::{InterfaceAddress, InterfaceConfig, InterfaceCounters, InterfaceId};
pub use packet::{
    Body, Datagram, Echo, Flags, Fragment, HOP_LIMIT, ICMP_HEADER_BYTES, IPV4_HEADER_BYTES, IPV6_HEADER_BYTES, IPV6_MTU_MIN, Options, Packet,
    SACK_BLOCKS_MAX, SackBlocks, Segment, TCP_HEADER_BYTES, Timestamps, UDP_HEADER_BYTES, Unreachable, UnreachableReason, ip_header_bytes,
};
pub use payload::Payload;
pub use route::Route;
pub use scope::plain as plain_address;
pub use sequence::SeqNumber;
pub use socket_id::{Family, Protocol, SocketId};
pub use softband_model::parts::KernelPart;
pub use softband_model::verbs::api::PayloadSlice;
pub use stack::{Call, Charge, Effect, ListPlace, Listed, OptionValues, SocketDescription, Stack};
pub use tcp::{ConnectionInfo, State};
pub use udp::Received;
