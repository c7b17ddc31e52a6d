//! The subnet manager's routes: forwarding tables, path records and lane mappings.

use crate::link::port::{Owner, Port};
use crate::world::World;
use softband_model::management::{Neighbour, Routes};
use softband_model::verbs::api::AddressVector;
use softband_spec::lanes_of_switches;
use softband_types::{HcaId, Lid, Mtu, PortNumber, ServiceLevel};

/// Sets all forwarding tables.
pub(crate) fn set_routes(world: &mut World) {
    let neighbour = |port: &Port| match port.cabling.map(|cabling| &world.ports[cabling.peer as usize]) {
        None => Neighbour::None,
        Some(peer) => match peer.owner {
            Owner::Hca { .. } => Neighbour::End(peer.lid),
            Owner::Switch { switch, .. } => Neighbour::Switch(switch as usize),
        },
    };
    let swept: Vec<Vec<Neighbour>> = (world.switches.iter().zip(&world.spec.switches))
        .map(|(node, spec)| {
            let first = node.first_port as usize;
            world.ports[first..first + usize::from(spec.part.ports)].iter().map(neighbour).collect()
        })
        .collect();
    let routes = Routes::new(world.spec.subnet.routing, &swept).expect("a checked fabric suits its routing engine");
    let routes = routes.with_lanes(lanes_of_switches(&world.spec));
    let lids = world.ports.iter().map(|port| usize::from(port.lid.0) + 1).max().unwrap_or(0);
    world.leaf_of_lid = vec![None; lids];
    world.port_of_lid = vec![None; lids];
    for (index, port) in world.ports.iter().enumerate() {
        world.port_of_lid[usize::from(port.lid.0)].get_or_insert(index as u32);
    }
    routes.for_each_end(&swept, |home, port, output| {
        let Neighbour::End(lid) = swept[home][port] else { return };
        world.leaf_of_lid[usize::from(lid.0)] = Some(home as u32);
        for (switch, node) in world.switches.iter_mut().enumerate() {
            let output = if switch == home { Some(port as u8) } else { output(switch) };
            if let Some(output) = output {
                node.switch.set_route(lid, output);
            }
        }
    });
    world.routes = routes;
}

impl World {
    pub(crate) fn port_with_lid(&self, lid: Lid) -> Option<&Port> {
        let index = self.port_of_lid.get(usize::from(lid.0)).copied().flatten()?;
        Some(&self.ports[index as usize])
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

    /// Returns the smallest MTU of all links.
    pub fn mtu_least(&self) -> Option<Mtu> {
        self.ports.iter().filter_map(|port| port.cabling.map(|cabling| cabling.mtu)).min()
    }

    /// Returns the path MTU from a port to another, as a path record states it: the smallest MTU of
    /// the path's links. `None` without a route.
    pub fn path_mtu(&self, from: (HcaId, PortNumber), to: (HcaId, PortNumber)) -> Option<Mtu> {
        let [from, to] = [from, to].map(|(hca, number)| self.port_index(hca, number));
        let dlid = self.ports[to? as usize].lid;
        let mut at = from?;
        let mut least = self.ports[at as usize].cabling?.mtu;
        // No route passes a switch twice.
        for _ in 0..=self.switches.len() {
            let cabling = self.ports[at as usize].cabling?;
            least = least.min(cabling.mtu);
            let peer = &self.ports[cabling.peer as usize];
            let Owner::Switch { switch, .. } = peer.owner else { return (peer.lid == dlid).then_some(least) };
            let node = &self.switches[switch as usize];
            at = node.first_port + node.switch.route(dlid)? as u32;
        }
        None
    }
}
