//! The description of a fabric: hosts, switches, cables and settings, checked and with every part
//! resolved. The crate `softband-fabric` builds a World from it.
//!
//! [`FabricBuilder`] makes a description in code. Its parts are values of [`softband_model::parts`]:
//! the parameters of your hardware, or ideal parts without delays.
//!
//! Properties that follow from the description alone are computed here, without a World: the
//! settings of trained links ([`settings_of`]), routes ([`unroutable`]), path MTUs ([`path_mtu`],
//! [`path_mtu_limit`]), hosts without a path ([`hosts_apart`]), and credit loops
//! ([`credit_loops`]). [`faults`] has the plan of faults.
//!
//! # Example
//!
//! ```
//! use softband_model::parts::{CablePart, HcaPart, HostPart, SwitchPart};
//! use softband_sim::SimDuration;
//! use softband_spec::{FabricBuilder, SubnetSpec, path_mtu, settings_of};
//! use softband_types::{LinkSpeed, LinkWidth, Mtu, OperationalVls};
//!
//! // An HCA of the DDR generation: other parameters remain ideal.
//! let hca = HcaPart {
//!     widths: vec![LinkWidth::X1, LinkWidth::X4],
//!     speeds: vec![LinkSpeed::Sdr, LinkSpeed::Ddr],
//!     mtu_max: Mtu::B2048,
//!     port_buffer_bytes: 33_792,
//!     send_wqe_fetch: SimDuration::from_nanos(1_250),
//!     ..HcaPart::ideal()
//! };
//!
//! // Two hosts and a switch, with cables of 10 m and 100 m.
//! let mut fabric = FabricBuilder::new("two hosts and a switch");
//! let switch = fabric.switch("sw", SwitchPart::ideal(8));
//! let [a, b] = ["a", "b"].map(|name| {
//!     let host = fabric.host(name, HostPart::ideal());
//!     fabric.hca(host, hca.clone())
//! });
//! fabric.cable(a, switch, CablePart::ideal(10_000));
//! fabric.cable(b, switch, CablePart::ideal(100_000));
//! // Up to eight data lanes (code 4).
//! let max_op_vls = OperationalVls::from_code(4).unwrap();
//! fabric.subnet(SubnetSpec { max_op_vls, ..SubnetSpec::default() });
//! let spec = fabric.build()?;
//!
//! // The links train to 4X DDR. Each lane of an HCA has 66 blocks: room for two packets of 2 KiB.
//! assert_eq!(spec.cables[0].rate.to_string(), "4X DDR");
//! let settings = settings_of(&spec, &spec.cables[0]);
//! assert_eq!((settings.vls.data_lanes(), settings.mtu), (8, Mtu::B2048));
//! assert_eq!(path_mtu(&spec, a.port(1), b.port(1)), Some(Mtu::B2048));
//! # Ok::<(), softband_spec::BuildError>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod analysis;
mod builder;
mod fabric;
pub mod faults;
mod interfaces;
mod link_settings;
mod manager;
mod routes;

pub use analysis::connected_components::hosts_apart;
pub use analysis::credit_loops::{CreditLoop, LoopRemedy, credit_loops, loop_remedy};
pub use analysis::ethernet_loop::ethernet_loop;
pub use analysis::path_mtu::{PathMtuLimit, path_mtu, path_mtu_limit};
pub use builder::{BuildError, FabricBuilder, Node};
pub use fabric::{
    CableSpec, CongestionControl, ETHERNET_LIDS, EthernetFlowControl, EthernetSpec, FabricSpec, HcaSpec, HostSpec, LIDS, PortClasses, PortRef,
    QualityOfService, SubnetManager, SubnetSpec, SwitchSpec,
};
pub use interfaces::{
    INTERFACE_NAME_MAX, InterfaceAddress, InterfaceKind, InterfaceSpec, IpoibMode, MANAGEMENT_FIRST, MANAGEMENT_MTU_BYTES, MANAGEMENT_NAME,
    MANAGEMENT_PREFIX, RouteSpec,
};
pub use link_settings::{
    EndSettings, capabilities, end_settings, ethernet_part, framing_of, lane_and_loop, largest_packet, lossy_ends, settings_of, weights_of,
};
pub use manager::{manager_configuration, without_manager};
pub use routes::{lanes_of_switches, neighbours, unroutable};

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
