//! Workloads in the place of programs: who sends what to whom and after what, and a runner that drives a World by it.
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
