//! The subnet manager's view of a fabric: the neighbours of each switch, and their routes.

use crate::{FabricSpec, PortRef};
use softband_model::link::Sl2Vl;
use softband_model::management::{Neighbour, Routes, Routing, Unroutable};
use softband_types::Lid;

/// Returns the neighbours that the subnet manager's sweep finds at each switch's ports. All end
/// ports get the same LID.
pub fn neighbours(spec: &FabricSpec) -> Vec<Vec<Neighbour>> {
    let ports_of = |switch: usize| usize::from(spec.switches[switch].part.ports);
    let mut neighbours: Vec<Vec<Neighbour>> = (0..spec.switches.len()).map(|switch| vec![Neighbour::None; ports_of(switch)]).collect();
    for cable in &spec.cables {
        for [near, far] in [cable.ends, [cable.ends[1], cable.ends[0]]] {
            let PortRef::Switch { switch, port } = near else { continue };
            neighbours[switch][usize::from(port.0) - 1] = match far {
                PortRef::Switch { switch, .. } => Neighbour::Switch(switch),
                PortRef::Hca { .. } => Neighbour::End(Lid(1)),
            };
        }
    }
    neighbours
}

/// Returns the reason why the configured routing engine cannot route a fabric.
pub fn unroutable(spec: &FabricSpec) -> Option<Unroutable> {
    // Minimum-hop routing works on any fabric.
    (spec.subnet.routing != Routing::MinimumHop).then(|| Routes::new(spec.subnet.routing, &neighbours(spec)).err()).flatten()
}

/// Returns the switches' lanes for service levels, for routing engines that do not set them.
pub fn lanes_of_switches(spec: &FabricSpec) -> Sl2Vl {
    spec.subnet.qos.as_ref().map_or(Sl2Vl::IDENTITY, |qos| qos.switch.sl2vl)
}
