//! Reads the catalogue of parts and fabric files into checked values. Errors point into the file.
//!
//! A part file gives every value with its unit, source and status. A fabric file names parts and
//! describes their cabling.
//! The result is a [`FabricSpec`](softband_spec::FabricSpec) that needs no further checks.
#![forbid(unsafe_code)]

mod catalog;
mod diagnostic;
mod document;
mod draw;
pub mod drawing;
mod fabric_file;
mod format;
mod grow;
mod load;
mod parts;
mod spelling;
mod start_date;
mod suited;
mod topology;
mod units;

pub use catalog::{Catalog, PartFile, UsualParts};
pub use diagnostic::{CatalogError, FabricError, Fault, Severity, Warning};
pub use draw::{draw_text, summary};
pub use drawing::{draw_svg, escape_xml};
pub use fabric_file::{LoadOptions, LoadedFabric, expand, parse_fabric};
pub use format::format_fabric;
pub use grow::{host_name, with_hosts};
pub use load::{digest_of_parts, load_fabric};
pub use parts::{Parameter, PartKind, PartSheet, Status};
pub use spelling::{closest, suggest};
pub use start_date::StartDate;
pub use suited::SuitedParts;
pub use topology::{ExportedTopology, ImportedTopology, TopologyFormat, export_topology, import_topology};
pub use units::{ConvertError, Dimension, Number};
