//! Workloads in place of programs: steps of ranks with their messages and dependencies, and a
//! runner that drives a World with them.
//!
//! A [`Schedule`] holds the steps. It comes from a named [`Pattern`] ([`build`]), from a GOAL trace
//! ([`goal::parse`]), or from calls of [`Schedule::push`]. A [`Runner`] gives each rank a thread
//! that posts and polls at the costs of its host. The run gives [`Measurements`] and the load of
//! each port ([`port_reports`], [`hot_ports`]).
//!
//! The same fabric, seed and schedule give the same events and results, on each machine.
//!
//! # Example
//!
//! ```
//! use softband_fabric::World;
//! use softband_model::parts::{CablePart, HcaPart, HostPart, SwitchPart};
//! use softband_spec::FabricBuilder;
//! use softband_types::{LinkSpeed, LinkWidth};
//! use softband_workload::{Pattern, Runner, Settings, build, hot_ports, port_reports};
//! use std::sync::Arc;
//!
//! // Four hosts with 4X EDR HCAs (100 Gb/s) on a switch.
//! let hca = HcaPart { widths: vec![LinkWidth::X4], speeds: vec![LinkSpeed::Edr], ..HcaPart::ideal() };
//! let mut fabric = FabricBuilder::new("star");
//! let switch = fabric.switch("sw", SwitchPart::ideal(4));
//! for name in ["a", "b", "c", "d"] {
//!     let host = fabric.host(name, HostPart::ideal());
//!     let hca = fabric.hca(host, hca.clone());
//!     fabric.cable(hca, switch, CablePart::ideal(3_000));
//! }
//! let spec = fabric.build()?;
//!
//! // Hosts b, c and d send 4 messages of 1 MiB each to host a, one rank per host.
//! let settings = Settings { bytes: Some(1 << 20), messages: Some(4), ..Settings::default() };
//! let schedule = build(Pattern::Incast, 4, &settings)?;
//! let mut runner = Runner::new(World::new(&spec, 1), Arc::new(schedule), 1)?;
//! while !runner.run(100_000)? {}
//!
//! // Three flows share the link to a, so the run takes 12 MiB over 12.5 GB/s: about 1 ms.
//! let measured = runner.measurements();
//! assert_eq!(measured.flows.len(), 3);
//! assert_eq!(measured.completion.as_nanos() / 10_000, 101);
//!
//! // The counters show the cause: the port that leads to a is full.
//! let world = runner.world();
//! let ports = port_reports(world.spec(), world.counters().into_iter(), measured.completion);
//! let hot = &hot_ports(&ports)[0];
//! assert_eq!((hot.name.as_str(), hot.to.as_str()), ("sw/1", "a/ideal0/1"));
//! assert!(hot.utilisation > 0.99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod goal;
pub mod recording;

mod connections;
mod flows;
mod measure;
mod memory;
mod pattern;
mod ports;
mod progress;
mod protocol;
mod runner;
mod schedule;
mod sizes;

pub use measure::{FlowReport, Measurements, PhaseReport, RateSummary};
pub use pattern::{Operation, Pattern, PatternError, Settings, build, parse_mtu, parse_service_level};
pub use ports::{Feeder, HotPort, PortReport, hot_ports, port_reports};
pub use protocol::Protocol;
pub use runner::{Failure, RunError, Runner, Waiting};
pub use schedule::{Action, Cause, Schedule, ScheduleError, Step, Wait};
pub use sizes::{SizeError, parse_bytes};

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
