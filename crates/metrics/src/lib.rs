//! Port counters of a fabric for Prometheus: a small HTTP server, and the names of common exporters.
//!
//! - [`ports`]: the counters of ports, and their metrics;
//! - [`exposition`]: the text format;
//! - [`request`]: requests of HTTP clients;
//! - [`server`]: the server, on threads of its own.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)] // outside the model: threads and time limits of clients

pub mod exposition;
pub mod ports;
pub mod request;
pub mod server;
