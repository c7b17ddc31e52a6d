//! Problems that a sweep found.

use softband_types::{Guid, PortNumber};
use softband_wire::mad::{AttributeId, Status};
use std::fmt;

/// A port of a node, by the node's GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// GUID of the node.
    pub guid: Guid,
    /// Number of the port. Number 0 is a switch's own port.
    pub port: PortNumber,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} of node {}", self.port.0, self.guid)
    }
}

/// A reason why the subnet differs from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The manager's own port with this index does not answer.
    NoOwnPort(usize),
    /// The link of a port is up, and nobody answers behind it.
    SilentNeighbour(Place),
    /// A node answered before, and does no more. The manager has stopped to configure it.
    Vanished {
        /// Node.
        node: Guid,
        /// Attribute without an answer.
        attribute: AttributeId,
    },
    /// An answer contradicts itself. `place` is the port behind which the node is.
    BadAnswer {
        /// Port that leads to the node, or a port of the node itself.
        place: Place,
        /// Attribute of the answer.
        attribute: AttributeId,
    },
    /// Two nodes have this GUID. The manager leaves the cable at `place` unused.
    DuplicateGuid {
        /// GUID.
        guid: Guid,
        /// Port of the cable.
        place: Place,
    },
    /// The far end of the cable at this port states that its link is down. Either the link has just
    /// changed, or two nodes have the far end's GUID. The manager leaves the cable unused.
    OneSidedCable(Place),
    /// A cable leads from a node to itself. The manager leaves it unused.
    LoopedCable(Place),
    /// Another M_Key protects the node. The manager leaves the node as it is.
    WrongMKey(Guid),
    /// A node does not do as requested.
    Refused {
        /// Port or switch.
        place: Place,
        /// Attribute of the request.
        attribute: AttributeId,
        /// Status of the answer; success if the answer states other values than the request.
        status: Status,
    },
    /// The node is more hops away than a directed route can have, behind this port.
    TooFar(Place),
    /// The subnet has more nodes or ports than LIDs.
    TooManyNodes,
    /// The port has no room for its partition keys.
    TooManyPKeys(Place),
    /// The routing engine does not suit the subnet. The manager used minimum hops.
    Unroutable {
        /// Switch that the engine did not expect.
        switch: Guid,
        /// Difference, as a part of a sentence.
        why: &'static str,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOwnPort(root) => write!(f, "the manager's port {root} does not answer"),
            Self::SilentNeighbour(place) => write!(f, "nobody answers behind {place}, whose link is up"),
            Self::Vanished { node, attribute } => write!(f, "node {node} no longer answers (attribute {:#06x})", attribute.0),
            Self::BadAnswer { place, attribute } => write!(f, "the answer from {place} makes no sense (attribute {:#06x})", attribute.0),
            Self::DuplicateGuid { guid, place } => write!(f, "two nodes have the GUID {guid}: the cable at {place} stays unused"),
            Self::OneSidedCable(place) => write!(f, "the cable at {place} is up at one end only: it stays unused until the next sweep"),
            Self::LoopedCable(place) => write!(f, "the cable at {place} leads to the same node: it stays unused"),
            Self::WrongMKey(node) => write!(f, "node {node} has another M_Key: it stays as it is"),
            Self::Refused { place, attribute, status } => {
                write!(f, "{place} does not do as requested (attribute {:#06x}, status {:#06x})", attribute.0, status.0)
            }
            Self::TooFar(place) => write!(f, "{place} leads farther than 63 hops"),
            Self::TooManyNodes => write!(f, "the subnet has more ports than LIDs"),
            Self::TooManyPKeys(place) => write!(f, "{place} has no room for its partition keys"),
            Self::Unroutable { switch, why } => write!(f, "minimum hops replace the routing engine: switch {switch} {why}"),
        }
    }
}
