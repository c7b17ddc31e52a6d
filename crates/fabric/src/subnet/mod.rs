//! The subnet manager's room: addresses, networks, routes and lanes of the ports.
//!
//! The manager sweeps the fabric once. It writes the forwarding tables into the switches and keeps
//! the answers to all later questions about addresses and paths.

mod gids;
mod routes;
mod sweep;

pub(crate) use gids::FLOOD;

use crate::numbering::Owner;
use softband_model::link::{Framing, Sl2Vl};
use softband_model::management::Routes;
use softband_types::{Guid, Lid, PortLids, PortNumber};
use std::collections::BTreeMap;

/// What the subnet manager knows about the ports of a fabric.
pub(crate) struct Subnet {
    /// The LIDs of each port; `Lid::NONE` without any.
    lids: Vec<PortLids>,
    ports: Vec<KnownPort>,
    manager_lid: Lid,
    routes: Routes,
    /// Maps of switches that a subnet manager has written, by switch, input and output.
    written_lanes: Option<Box<WrittenLanes>>,
    /// The first port with each LID.
    port_of_lid: Vec<Option<u32>>,
    /// The InfiniBand port with each GUID: the first with a LID, or the first of all.
    port_of_guid: BTreeMap<Guid, u32>,
    /// The switch that the end port with a LID is cabled to; `None` without a switch.
    leaf_of_lid: Vec<Option<u32>>,
}

type WrittenLanes = BTreeMap<(u32, u8, u8), Sl2Vl>;

/// A port as the sweep found it.
struct KnownPort {
    owner: Owner,
    number: PortNumber,
    node_guid: Guid,
    framing: Framing,
    is_cabled: bool,
    /// Network number. Routes connect the ports with the same number.
    network: u32,
}

impl Subnet {
    /// Returns the first LID of a port; `Lid::NONE` if the port has none.
    #[inline]
    pub(crate) fn lid(&self, port: u32) -> Lid {
        self.lids[port as usize].base
    }

    /// Returns the LIDs of a port.
    #[inline]
    pub(crate) fn lids(&self, port: u32) -> PortLids {
        self.lids[port as usize]
    }

    /// Gives a port LIDs, and takes the former ones from it.
    pub(crate) fn set_lids(&mut self, port: u32, lids: PortLids) {
        let former = std::mem::replace(&mut self.lids[port as usize], lids);
        for lid in former.all() {
            if let Some(known) = self.port_of_lid.get_mut(usize::from(lid.0)).filter(|known| **known == Some(port)) {
                *known = None;
            }
        }
        if lids.base == Lid::NONE {
            return;
        }
        gids::note_guid(&mut self.port_of_guid, &self.lids, (port, &self.ports[port as usize]));
        let last = usize::from(lids.last().0);
        if self.port_of_lid.len() <= last {
            self.port_of_lid.resize(last + 1, None);
        }
        lids.all().for_each(|lid| self.port_of_lid[usize::from(lid.0)] = Some(port));
    }

    /// Returns the largest LID of a port.
    pub(crate) fn lid_largest(&self) -> Lid {
        self.lids.iter().map(|lids| lids.last()).max().unwrap_or_default()
    }

    /// Returns the LID of the subnet manager.
    pub(crate) fn manager_lid(&self) -> Lid {
        self.manager_lid
    }

    /// Returns the number of a port's network. Routes connect the ports with the same number.
    pub(crate) fn network(&self, port: u32) -> u32 {
        self.ports[port as usize].network
    }

    pub(crate) fn port_with_lid(&self, lid: Lid) -> Option<u32> {
        self.port_of_lid.get(usize::from(lid.0)).copied().flatten()
    }

    /// Returns the owner of the port with this LID.
    pub(crate) fn owner_of_lid(&self, lid: Lid) -> Option<Owner> {
        self.port_with_lid(lid).map(|port| self.ports[port as usize].owner)
    }
}
