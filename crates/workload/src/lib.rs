//! Workloads in place of programs: steps of ranks with their messages and dependencies, and a
//! runner that drives a World with them.
#![forbid(unsafe_code)]

pub mod goal;

mod connections;
mod flows;
mod measure;
mod memory;
mod pattern;
mod ports;
mod progress;
mod runner;
mod schedule;
mod sizes;

pub use measure::{FlowReport, Measurements, PhaseReport, RateSummary};
pub use pattern::{Operation, Pattern, PatternError, Settings, build, parse_mtu, parse_service_level};
pub use ports::{Feeder, HotPort, PortReport, hot_ports, port_reports};
pub use runner::{Failure, RunError, Runner, Waiting};
pub use schedule::{Action, Cause, Schedule, ScheduleError, Step, Wait};
pub use sizes::{SizeError, parse_bytes};
