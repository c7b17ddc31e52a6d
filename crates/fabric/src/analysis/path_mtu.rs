//! Path MTUs: paths whose links carry smaller packets than the ports at their ends.

use crate::construct::settings_of;
use crate::spec::FabricSpec;
use crate::world::World;
use softband_types::{HcaId, Mtu, PortNumber};

/// Limit on the number of pairs whose path is followed.
const PAIRS_MAX: usize = 1 << 22;

/// Two hosts whose ports have a larger MTU than a link between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuLimit {
    pub hosts: (usize, usize),
    pub of_ports: Mtu,
    /// The path MTU that a path record states.
    pub of_path: Mtu,
}

/// Returns the first pair with a limit: programs that use their port's MTU lose packets between
/// these hosts. Large fabrics check only a sample of the pairs.
pub fn path_mtu_limit(spec: &FabricSpec) -> Option<PathMtuLimit> {
    let mut mtus = spec.cables.iter().map(|cable| settings_of(spec, cable).mtu);
    let first = mtus.next()?;
    if mtus.all(|mtu| mtu == first) {
        return None;
    }
    let world = World::new(spec, 1);
    let ports = cabled_ports(&world);
    let stride = (ports.len() * ports.len() / PAIRS_MAX).max(1);
    let pairs = ports.iter().enumerate().flat_map(|(at, from)| ports[at + 1..].iter().map(move |to| (from, to)));
    pairs.step_by(stride).find_map(|(from, to)| {
        let of_ports = from.mtu.min(to.mtu);
        let of_path = world.path_mtu(from.port, to.port).filter(|mtu| *mtu < of_ports)?;
        Some(PathMtuLimit { hosts: (from.host, to.host), of_ports, of_path })
    })
}

struct EndPort {
    host: usize,
    port: (HcaId, PortNumber),
    mtu: Mtu,
}

fn cabled_ports(world: &World) -> Vec<EndPort> {
    let mut ports = Vec::new();
    for (index, hca) in world.hcas.iter().enumerate() {
        for number in (1..=hca.part.ports).map(PortNumber) {
            let port = (HcaId(index as u32), number);
            let mtu = world.port(port.0, number).filter(|port| port.active).map(|port| port.mtu_active);
            ports.extend(mtu.map(|mtu| EndPort { host: hca.place.0, port, mtu }));
        }
    }
    ports
}
