//! Parts as data: the content of a part file, with the source of every value.

mod bus;
mod convert;
mod host_defaults;
mod kernel;
mod nic;
mod raw;
mod reader;

pub(crate) use bus::least_read_request;
pub(crate) use bus::{bus, variants};
pub(crate) use convert::{cable, hca, host, length_limits, switch};
pub(crate) use host_defaults::with_defaults;
pub(crate) use kernel::kernel;
pub(crate) use nic::nic;
pub(crate) use raw::{RawPart, inherit, parts_of_table, read};
pub(crate) use reader::PartReader;

use std::fmt;

use softband_model::parts::CablePart;
use softband_types::{LinkLayer, LinkRate};

/// A folder of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    Bus,
    Cable,
    Hca,
    Host,
    /// Kernel of a host's operating system.
    Kernel,
    /// Length limits of cables.
    Limit,
    /// NIC: an Ethernet card without RDMA.
    Nic,
    Switch,
}

impl PartKind {
    pub const ALL: [Self; 8] = [Self::Bus, Self::Cable, Self::Hca, Self::Host, Self::Kernel, Self::Limit, Self::Nic, Self::Switch];

    /// Returns the name of the folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Bus => "bus",
            Self::Cable => "cable",
            Self::Hca => "hca",
            Self::Host => "host",
            Self::Kernel => "kernel",
            Self::Limit => "limit",
            Self::Nic => "nic",
            Self::Switch => "switch",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.folder() == text)
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The maker, the standard or the driver states it.
    Datasheet,
    /// A publication reports the measurement.
    Measured,
    /// It follows from other known values.
    Derived,
    /// Fitted to the published figures in `on`; it does not predict them.
    Calibrated,
    /// Unpublished; the source gives the reason for the value.
    Assumed,
}

impl Status {
    pub const ALL: [Self; 5] = [Self::Datasheet, Self::Measured, Self::Derived, Self::Calibrated, Self::Assumed];

    pub fn name(self) -> &'static str {
        match self {
            Self::Datasheet => "datasheet",
            Self::Measured => "measured",
            Self::Derived => "derived",
            Self::Calibrated => "calibrated",
            Self::Assumed => "assumed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value of a part with its unit and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// The value as written in the part file.
    pub value: String,
    /// Whether the file writes the value in quotes, as text.
    pub quoted: bool,
    /// Whether the value is a list of texts, which `value` separates with commas.
    pub listed: bool,
    pub unit: String,
    pub source: String,
    pub status: Status,
    /// Published figures that a calibrated value was fitted to.
    pub on: Vec<String>,
}

/// All content of the catalogue on one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSheet {
    pub kind: PartKind,
    pub name: String,
    pub summary: String,
    /// Parameters in the order of the part's Rust type.
    pub parameters: Vec<Parameter>,
}

/// A cable part before the fabric file has given its length.
#[derive(Clone, Debug)]
pub(crate) struct CableTemplate {
    /// The part, with length zero while `adjustable`.
    pub(crate) part: CablePart,
    /// Whether the fabric file gives the length.
    pub(crate) adjustable: bool,
    /// Name of its length limits.
    pub(crate) limits: Option<String>,
}

/// Longest passive cable of a link rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LengthLimit {
    /// Link layer and trained rate.
    pub(crate) rate: (LinkLayer, LinkRate),
    pub(crate) millimetres: u64,
    pub(crate) source: String,
    pub(crate) status: Status,
}
