//! The model of InfiniBand and RoCE hardware: pure state machines of links, switches, buses,
//! transports, verbs and management.
//!
//! `now` is an argument; nothing here knows a clock, a file or another module's state.
//! `bus`, `link`, `switch`, `transport` and `management` do not call each other. The crate
//! `softband-fabric` connects them, by value, into a World with events. Use this crate by itself
//! for the arithmetic of links and for routing engines.
//!
//! | module | content |
//! |---|---|
//! | [`parts`] | parameters of HCAs, switches, cables, hosts and buses |
//! | [`link`] | time on the wire, arbitration of virtual lanes, credits and pause frames |
//! | [`switch`] | forwarding tables, lifetimes, FECN marks |
//! | [`bus`] | PCI Express, PCI-X, bridges and memory as DMA finds them |
//! | [`packet`] | packets between queue pairs |
//! | [`transport`] | requester and responder of a queue pair |
//! | [`verbs`] | protection domains, completion queues, memory regions and other objects |
//! | [`management`] | settings of links, routing engines, credit loops |
//!
//! # Example: a link
//!
//! ```
//! use softband_model::link::{Framing, serialisation};
//! use softband_model::management::{PortCapabilities, link_settings};
//! use softband_types::{LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls};
//!
//! // Two ports that divide 16 KiB among up to eight data lanes (code 4).
//! let eight = OperationalVls::from_code(4).unwrap();
//! let port = PortCapabilities { vl_cap: eight, mtu_max: Mtu::B2048, port_buffer_bytes: 16_384 };
//!
//! // A lane of 2 KiB cannot hold a packet with 2 KiB of payload: a single lane can.
//! assert_eq!(link_settings([port, port], eight, Mtu::B4096).mtu, Mtu::B1024);
//! assert_eq!(link_settings([port, port], OperationalVls::VL0, Mtu::B4096).mtu, Mtu::B2048);
//!
//! // A packet of 2,074 bytes takes 1.041 us on a 4X DDR link, with its delimiters.
//! let rate = LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Ddr };
//! assert_eq!(serialisation(rate, Framing::Infiniband, 2_074).as_nanos(), 1_041);
//! ```
//!
//! # Example: a routing engine
//!
//! ```
//! use softband_model::management::{Neighbour, Routes, Routing, credit_loops};
//! use softband_types::{Lid, OperationalVls};
//!
//! // Five switches in a ring. Each has a host at port 0, the next switch at 1, the previous at 2.
//! let ports = |switch: usize| {
//!     let host = Neighbour::End(Lid(switch as u16 + 1));
//!     vec![host, Neighbour::Switch((switch + 1) % 5), Neighbour::Switch((switch + 4) % 5)]
//! };
//! let ring: Vec<_> = (0..5).map(ports).collect();
//!
//! // On the shortest routes, packets can wait for each other in a circle, in both directions.
//! let loops = |routing| {
//!     let routes = Routes::new(routing, &ring).unwrap();
//!     credit_loops(&ring, &routes, |_, _| OperationalVls::VL0).len()
//! };
//! assert_eq!(loops(Routing::MinimumHop), 2);
//! // Routes that go up and then down leave a cable unused, and have no loop.
//! assert_eq!(loops(Routing::UpDown), 0);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bus;
pub mod link;
pub mod management;
pub mod packet;
pub mod parts;
pub mod switch;
pub mod transport;
pub mod verbs;

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
