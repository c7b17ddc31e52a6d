//! Routing engines: the output and the virtual lane that lead to each end port, as in OpenSM's
//! engines of similar names.

mod dragonfly;
mod torus;
mod tree;

use super::{Neighbour, hops_to};
use crate::link::{Sl2Vl, lane_of};
use dragonfly::Dragonfly;
use softband_types::{Lmc, OperationalVls, ServiceLevel, VirtualLane};
use torus::Torus;

/// Routing engine: rule by which the subnet manager chooses routes. The default is `MinimumHop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routing {
    /// The fewest hops, the lowest port on a tie.
    #[default]
    MinimumHop,
    /// Up towards one switch in the middle, then down (Autonet: Schroeder and others 1991).
    UpDown,
    /// Up and down between the levels of a fat tree, routes spread by destination (D-mod-K: Zahavi
    /// 2012).
    FatTree,
    /// As minimum hops. Without loops in meshes and hypercubes whose ports are in the order of the
    /// dimensions.
    DimensionOrder,
    /// Dimension by dimension, with a virtual lane for routes across the dateline of a ring (Dally
    /// and Seitz 1987).
    Torus,
    /// To the group of the destination by a global link, then on with another virtual lane (Kim and
    /// others 2008).
    Dragonfly,
}

impl Routing {
    /// All routing engines.
    pub const ALL: [Self; 6] = [Self::MinimumHop, Self::UpDown, Self::FatTree, Self::DimensionOrder, Self::Torus, Self::Dragonfly];

    /// Returns the name that fabric files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinimumHop => "minimum-hop",
            Self::UpDown => "up-down",
            Self::FatTree => "fat-tree",
            Self::DimensionOrder => "dimension-order",
            Self::Torus => "torus",
            Self::Dragonfly => "dragonfly",
        }
    }

    /// Checks whether the lane of a packet follows from its path, not from a map of service levels.
    pub const fn chooses_lanes(self) -> bool {
        matches!(self, Self::Torus | Self::Dragonfly)
    }

    /// Returns the engine of this name, or of OpenSM's name for it (`minhop`, `updn`, `ftree`,
    /// `dor`, `torus-2QoS`). Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "minhop" => Some(Self::MinimumHop),
            "updn" => Some(Self::UpDown),
            "ftree" => Some(Self::FatTree),
            "dor" => Some(Self::DimensionOrder),
            "torus-2QoS" => Some(Self::Torus),
            _ => Self::ALL.into_iter().find(|routing| routing.name() == text),
        }
    }
}

/// Reason why a routing engine cannot work on a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unroutable {
    /// Index of the switch that the engine did not expect.
    pub switch: usize,
    /// Difference from the switch that the engine expects, as a part of a sentence.
    pub why: &'static str,
}

/// Findings of a routing engine about a fabric.
#[derive(Clone, Debug)]
pub struct Routes {
    engine: Engine,
    /// Mapping of all switches' ports, if lanes do not follow from the route.
    sl2vl: Sl2Vl,
    /// Most LIDs of an end port.
    paths: usize,
}

#[derive(Clone, Debug)]
enum Engine {
    MinimumHop,
    DimensionOrder,
    Tree(tree::Tree),
    Torus(Torus),
    Dragonfly(Dragonfly),
}

/// Outputs of every switch towards the end ports of one switch.
#[derive(Clone, Debug)]
pub struct RoutesTo(Vec<Outputs>);

/// Outputs that a switch has for some destinations. Each serves `stride` destinations, then the
/// next has its turn.
#[derive(Clone, Debug, Default)]
struct Outputs {
    ports: Vec<u8>,
    stride: usize,
    /// Outputs of equal length, the first of `ports` first. Further LIDs of a port take them in turn.
    /// Empty if those are all of `ports`.
    alternatives: Vec<u8>,
}

impl RoutesTo {
    /// Returns the port index by which packets for an end port leave a switch. `destination` is its
    /// place among all end ports, in the order of switches and their ports. Returns `None` at the
    /// end port's own switch, and without a route.
    pub fn output(&self, switch: usize, destination: usize) -> Option<u8> {
        let outputs = &self.0[switch];
        (!outputs.ports.is_empty()).then(|| outputs.ports[destination / outputs.stride % outputs.ports.len()])
    }

    /// Returns the port index for a further LID of an end port. `path` is its difference from the
    /// first LID, which takes [`Self::output`].
    pub fn output_of_path(&self, switch: usize, destination: usize, path: usize) -> Option<u8> {
        let outputs = &self.0[switch];
        match outputs.alternatives.len() {
            0 => self.output(switch, destination + path * outputs.stride),
            count => Some(outputs.alternatives[path % count]),
        }
    }

    /// Checks whether the same routes lead to all end ports of the switch.
    pub fn are_one(&self) -> bool {
        self.0.iter().all(|outputs| outputs.ports.len() <= 1)
    }

    fn of_equal_length(ways: Vec<Vec<u8>>) -> Self {
        Self(ways.into_iter().map(|ways| Outputs { ports: ways.first().copied().into_iter().collect(), stride: 1, alternatives: ways }).collect())
    }

    fn single(outputs: impl Iterator<Item = Option<u8>>) -> Self {
        Self(outputs.map(|output| Outputs { ports: output.into_iter().collect(), stride: 1, alternatives: Vec::new() }).collect())
    }
}

impl Routes {
    /// Finds the routes of a fabric.
    ///
    /// # Errors
    /// If the fabric does not suit the engine.
    pub fn new(routing: Routing, neighbours: &[Vec<Neighbour>]) -> Result<Self, Unroutable> {
        let engine = match routing {
            _ if neighbours.is_empty() => Engine::MinimumHop,
            Routing::MinimumHop => Engine::MinimumHop,
            Routing::DimensionOrder => Engine::DimensionOrder,
            Routing::UpDown => Engine::Tree(tree::Tree::around_the_middle(neighbours)),
            Routing::FatTree => Engine::Tree(tree::Tree::of_levels(neighbours)?),
            Routing::Torus => Engine::Torus(Torus::new(neighbours)?),
            Routing::Dragonfly => Engine::Dragonfly(Dragonfly::new(neighbours)?),
        };
        Ok(Self { engine, sl2vl: Sl2Vl::IDENTITY, paths: 1 })
    }

    /// Replaces the mapping of service levels to lanes in switches. Engines that choose lanes by
    /// path keep theirs.
    pub fn with_lanes(self, sl2vl: Sl2Vl) -> Self {
        Self { sl2vl, ..self }
    }

    /// Gives end ports up to `lmc.lids()` LIDs, each with a route of its own where the engine has
    /// several.
    pub fn with_lmc(self, lmc: Lmc) -> Self {
        Self { paths: usize::from(lmc.lids()), ..self }
    }

    /// Returns the largest number of LIDs of an end port.
    pub fn paths(&self) -> usize {
        self.paths
    }

    /// Returns the routes of all switches to the end ports of switch `home`.
    pub fn routes_to(&self, home: usize, neighbours: &[Vec<Neighbour>]) -> RoutesTo {
        match &self.engine {
            Engine::MinimumHop if self.paths > 1 => RoutesTo::of_equal_length(super::ways_by_hops(home, neighbours)),
            Engine::MinimumHop | Engine::DimensionOrder => RoutesTo::single(super::routes_to(home, neighbours).into_iter()),
            Engine::Tree(tree) => tree.routes_to(home, neighbours),
            Engine::Torus(torus) => torus.routes_to(home),
            Engine::Dragonfly(dragonfly) => dragonfly.routes_to(home),
        }
    }

    /// Calls `set` for every end port, as in the forwarding tables, with its switch, its port index
    /// there, and its routes by switch and by the difference from the port's first LID.
    pub fn for_each_end(&self, neighbours: &[Vec<Neighbour>], mut set: impl FnMut(usize, usize, &dyn Fn(usize, usize) -> Option<u8>)) {
        let mut destination = 0;
        for (home, ports) in neighbours.iter().enumerate() {
            if !has_ends(ports) {
                continue;
            }
            let routes = self.routes_to(home, neighbours);
            for port in (0..ports.len()).filter(|port| matches!(ports[*port], Neighbour::End(_))) {
                set(home, port, &|switch, path| routes.output_of_path(switch, destination, path));
                destination += 1;
            }
        }
    }

    /// Checks whether the lane of a packet follows from its route, not from the service level that
    /// its sender would choose.
    pub fn choose_lanes(&self) -> bool {
        matches!(self.engine, Engine::Torus(_) | Engine::Dragonfly(_))
    }

    /// Returns the service level of a path record. Packets from the end ports of switch `from` to
    /// those of `to` must use it. `None` means any.
    pub fn service_level(&self, from: usize, to: usize) -> Option<ServiceLevel> {
        match &self.engine {
            Engine::Torus(torus) => Some(torus.service_level(from, to)),
            Engine::Dragonfly(_) => Some(ServiceLevel(0)),
            Engine::MinimumHop | Engine::DimensionOrder | Engine::Tree(_) => None,
        }
    }

    /// Returns the lane of a switch's SL-to-VL mapping, by input and output (IBTA 7.6.6).
    pub fn lane(&self, input: u8, output: u8, service_level: ServiceLevel, vls: OperationalVls) -> VirtualLane {
        let level = match &self.engine {
            Engine::MinimumHop | Engine::DimensionOrder | Engine::Tree(_) => return self.sl2vl.lane(service_level, vls),
            Engine::Torus(torus) => torus.level_at(output, service_level),
            Engine::Dragonfly(dragonfly) => dragonfly.level_at(input, output),
        };
        lane_of(level, vls)
    }
}

fn has_ends(ports: &[Neighbour]) -> bool {
    ports.iter().any(|port| matches!(port, Neighbour::End(_)))
}

#[cfg(test)]
mod tests;
