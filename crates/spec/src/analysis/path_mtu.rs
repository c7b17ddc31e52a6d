//! Path MTUs: the smallest MTU of the links on a path, and paths whose links carry smaller packets
//! than the ports at their ends.

use crate::{FabricSpec, PortRef, neighbours, settings_of};
use softband_model::management::Routes;
use softband_types::{Mtu, PortNumber};
use std::collections::BTreeMap;

/// Limit on the number of pairs whose path is followed.
const PAIRS_MAX: usize = 1 << 22;

/// Two hosts whose ports have a larger MTU than a link between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuLimit {
    /// Indices of the hosts in the fabric.
    pub hosts: (usize, usize),
    /// The smaller MTU of the two ports.
    pub of_ports: Mtu,
    /// The path MTU that a path record states.
    pub of_path: Mtu,
}

/// Returns the path MTU between two ports of HCAs, as a path record states it: the smallest MTU of
/// the path's links. Returns `None` without a route. With several LIDs it is that of the first.
pub fn path_mtu(spec: &FabricSpec, from: PortRef, to: PortRef) -> Option<Mtu> {
    Paths::of(spec)?.mtu(from, to, 0)
}

/// Returns the first pair with a limit: programs that use their port's MTU lose packets between
/// these hosts. Each LID of a port has a path of its own. Large fabrics check only a sample of the
/// pairs.
pub fn path_mtu_limit(spec: &FabricSpec) -> Option<PathMtuLimit> {
    let mut mtus = spec.cables.iter().map(|cable| settings_of(spec, cable).mtu);
    let first = mtus.next()?;
    if mtus.all(|mtu| mtu == first) {
        return None;
    }
    let paths = Paths::of(spec)?;
    let ports: Vec<(usize, PortRef, Mtu)> = (paths.cable_of.iter())
        .filter_map(|(port, cable)| if let PortRef::Hca { host, .. } = port { Some((*host, *port, paths.mtus[*cable])) } else { None })
        .collect();
    let stride = (ports.len() * ports.len() / PAIRS_MAX).max(1);
    let pairs = ports.iter().enumerate().flat_map(|(at, from)| ports[at + 1..].iter().map(move |to| (from, to)));
    pairs.step_by(stride).find_map(|((from_host, from, from_mtu), (to_host, to, to_mtu))| {
        let of_ports = *from_mtu.min(to_mtu);
        // Tables may lead back over other switches.
        let there_and_back = [paths.least_mtu(*from, *to), paths.least_mtu(*to, *from)];
        let of_path = there_and_back.into_iter().flatten().min().filter(|mtu| *mtu < of_ports)?;
        Some(PathMtuLimit { hosts: (*from_host, *to_host), of_ports, of_path })
    })
}

/// The links of a fabric, and the forwarding tables that lead over them.
struct Paths<'a> {
    spec: &'a FabricSpec,
    /// MTU of each cable's link.
    mtus: Vec<Mtu>,
    /// The cable on each port, HCAs' ports first, in the order of the fabric.
    cable_of: BTreeMap<PortRef, usize>,
    /// By switch port of an end port's cable: for each of its LIDs, the output index of every switch.
    forwarding: BTreeMap<(usize, usize), Vec<Vec<Option<u8>>>>,
    /// Number of LIDs of an end port.
    lids: usize,
}

impl<'a> Paths<'a> {
    /// Returns `None` if the routing engine does not suit the fabric.
    fn of(spec: &'a FabricSpec) -> Option<Self> {
        let neighbours = neighbours(spec);
        let routes = Routes::new(spec.subnet.routing, &neighbours).ok()?.with_lmc(spec.subnet.lmc);
        let lids = routes.paths();
        let mut forwarding = BTreeMap::new();
        routes.for_each_end(&neighbours, |home, port, output| {
            let towards = |switch: usize, path| if switch == home { Some(port as u8) } else { output(switch, path) };
            let of_lid = |path| (0..spec.switches.len()).map(|switch| towards(switch, path)).collect();
            forwarding.insert((home, port), (0..lids).map(of_lid).collect());
        });
        let mtus = spec.cables.iter().map(|cable| settings_of(spec, cable).mtu).collect();
        let cable_of = spec.cables.iter().enumerate().flat_map(|(index, cable)| cable.ends.map(|end| (end, index))).collect();
        Some(Self { spec, mtus, cable_of, forwarding, lids })
    }

    /// Returns the port at the other end of the cable on `port`, and the MTU of the link.
    fn across(&self, port: PortRef) -> Option<(PortRef, Mtu)> {
        let cable = *self.cable_of.get(&port)?;
        let [one, other] = self.spec.cables[cable].ends;
        Some((if one == port { other } else { one }, self.mtus[cable]))
    }

    /// Returns the least path MTU to all LIDs of `to`. An Ethernet port has a single one.
    fn least_mtu(&self, from: PortRef, to: PortRef) -> Option<Mtu> {
        (0..self.lids.min(self.spec.lids_of(to))).filter_map(|path| self.mtu(from, to, path)).min()
    }

    /// Returns the path MTU to the LID of `to` with this number, from 0.
    fn mtu(&self, from: PortRef, to: PortRef, path: usize) -> Option<Mtu> {
        let (mut at, mut least) = self.across(from)?;
        // A message to its own port crosses no link.
        if from == to {
            return Some(least);
        }
        let outputs = match self.across(to)?.0 {
            PortRef::Switch { switch, port } => self.forwarding.get(&(switch, usize::from(port.0) - 1)),
            PortRef::Hca { .. } => None,
        };
        // No route passes a switch twice.
        for _ in 0..=self.spec.switches.len() {
            let PortRef::Switch { switch, .. } = at else { return (at == to).then_some(least) };
            let output = outputs?.get(path)?[switch]?;
            let (next, mtu) = self.across(PortRef::Switch { switch, port: PortNumber(output + 1) })?;
            (at, least) = (next, least.min(mtu));
        }
        None
    }
}
