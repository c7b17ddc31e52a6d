//! Path records and lane mappings.

use super::Subnet;
use softband_model::link::Sl2Vl;
use softband_model::management::Routes;
use softband_model::verbs::api::AddressVector;
use softband_types::{Lid, OperationalVls, ServiceLevel, VirtualLane};

impl Subnet {
    /// Takes over the paths that a manager has written by packets: its LID, its routes, and the
    /// switch of each end port.
    pub(crate) fn adopt(&mut self, manager_lid: Lid, routes: Routes, leaves: &[(Lid, usize)]) {
        (self.manager_lid, self.routes) = (manager_lid, routes);
        let count = leaves.iter().map(|(lid, _)| usize::from(lid.0) + 1).max().unwrap_or(0);
        self.leaf_of_lid = vec![None; count];
        for (lid, switch) in leaves {
            self.leaf_of_lid[usize::from(lid.0)] = Some(*switch as u32);
        }
    }

    /// Returns the service level of packets to an address vector's destination. The routing
    /// engine's level for the path overrides the vector's.
    pub(crate) fn level_of_path(&self, from: Lid, vector: &AddressVector) -> ServiceLevel {
        let leaf = |lid: Lid| self.leaf_of_lid.get(usize::from(lid.0)).copied().flatten();
        let level = match (leaf(from), leaf(vector.dlid)) {
            (Some(from), Some(to)) => self.routes.service_level(from as usize, to as usize),
            _ => None,
        };
        level.unwrap_or(vector.service_level)
    }

    /// Returns the lane on which a packet leaves a switch, by input and output.
    #[inline]
    pub(crate) fn lane(&self, (switch, input, output): (u32, u8, u8), service_level: ServiceLevel, vls: OperationalVls) -> VirtualLane {
        if let Some(map) = self.written_lanes.as_ref().and_then(|written| written.get(&(switch, input, output))) {
            return map.lane(service_level, vls);
        }
        self.routes.lane(input, output, service_level, vls)
    }

    /// Sets the lanes of a switch's packets, by input and output.
    pub(crate) fn set_lanes(&mut self, place: (u32, u8, u8), lanes: Sl2Vl) {
        self.written_lanes.get_or_insert_default().insert(place, lanes);
    }
}
