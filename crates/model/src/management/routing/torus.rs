//! Dimension-ordered routing in tori and meshes.
//!
//! The first two ports of each switch belong to the first dimension: to the next switch and to the
//! previous one. The other dimensions follow. OpenSM's `dor` requires this order, too. As in its
//! `torus-2QoS`, a bit of the service level for each dimension tells whether the route crosses the
//! dateline. The dateline lies between the last and the first switch of a ring. The mapping to
//! lanes uses the bit of the output's dimension.
//!
//! On the lane of routes that do not cross, the ring is cut at the dateline. The other routes are
//! no longer than half of the ring, so their lane is cut opposite to it. If both directions round
//! are equally long, each serves half of the destinations. So all links of a ring carry the same
//! when all send to all, or nearly so if half of the ring is odd.

use super::{Neighbour, RoutesTo, Unroutable};
use softband_types::ServiceLevel;
use std::cmp::Ordering;

/// Largest number of dimensions: each has a bit of the service level.
const DIMENSIONS_MAX: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Torus {
    /// Length of each dimension, and whether it closes to a ring.
    sides: Vec<(usize, bool)>,
    coordinates: Vec<[usize; DIMENSIONS_MAX]>,
}

/// Part of a route along one ring: the direction, and whether it crosses the dateline.
struct Leg {
    forward: bool,
    crosses: bool,
}

impl Torus {
    pub(super) fn new(neighbours: &[Vec<Neighbour>]) -> Result<Self, Unroutable> {
        let is_switch = |port: &Neighbour| matches!(port, Neighbour::Switch(_));
        let used = neighbours.iter().filter_map(|ports| ports.iter().rposition(is_switch)).max();
        let dimensions = used.map_or(0, |last| last / 2 + 1);
        if dimensions > DIMENSIONS_MAX {
            return Err(Unroutable { switch: 0, why: "has cables to switches beyond its first six ports: a torus has three dimensions at most" });
        }
        let sides: Vec<_> = (0..dimensions).map(|dimension| side(dimension, neighbours)).collect();
        let volume = sides.iter().try_fold(1_usize, |product, (length, _)| product.checked_mul(*length));
        if volume != Some(neighbours.len()) {
            return Err(Unroutable { switch: 0, why: "is not the corner of a torus that has as many switches as the fabric" });
        }
        let torus = Self { coordinates: coordinates(&sides, neighbours)?, sides };
        torus.check(neighbours).map(|()| torus)
    }

    /// Checks whether every cable leads where the coordinates say.
    fn check(&self, neighbours: &[Vec<Neighbour>]) -> Result<(), Unroutable> {
        for (switch, ports) in neighbours.iter().enumerate() {
            for (index, port) in ports.iter().enumerate().take(2 * self.sides.len()) {
                let leads_to = match *port {
                    Neighbour::Switch(next) => Some(self.coordinates[next]),
                    _ => None,
                };
                if leads_to != step(self.coordinates[switch], index, &self.sides) {
                    return Err(Unroutable { switch, why: "is not cabled as in a torus whose dimensions have two ports each, in their order" });
                }
            }
        }
        Ok(())
    }

    /// Returns the shorter route in a dimension. The destination selects between two that are
    /// equally long.
    fn leg(&self, dimension: usize, here: &[usize], there: &[usize]) -> Leg {
        let ((length, is_ring), from, to) = (self.sides[dimension], here[dimension], there[dimension]);
        let crosses = match (2 * from.abs_diff(to)).cmp(&length) {
            Ordering::Equal => (to > from) != there.iter().sum::<usize>().is_multiple_of(2),
            longer => longer == Ordering::Greater,
        };
        let crosses = is_ring && crosses;
        Leg { forward: (to > from) != crosses, crosses }
    }

    pub(super) fn routes_to(&self, home: usize) -> RoutesTo {
        let there = &self.coordinates[home];
        RoutesTo::single(self.coordinates.iter().map(|here| {
            let dimension = (0..self.sides.len()).find(|dimension| here[*dimension] != there[*dimension])?;
            let leg = self.leg(dimension, here, there);
            Some((2 * dimension + usize::from(!leg.forward)) as u8)
        }))
    }

    pub(super) fn service_level(&self, from: usize, to: usize) -> ServiceLevel {
        let (here, there) = (&self.coordinates[from], &self.coordinates[to]);
        let crosses = |dimension: &usize| self.leg(*dimension, here, there).crosses;
        ServiceLevel((0..self.sides.len()).filter(crosses).fold(0, |level, dimension| level | 1 << dimension))
    }

    /// Returns the part of a service level that counts at an output: the bit of its dimension.
    /// Towards end ports, all of it counts.
    pub(super) fn level_at(&self, output: u8, service_level: ServiceLevel) -> ServiceLevel {
        let dimension = usize::from(output / 2);
        if dimension < self.sides.len() { ServiceLevel(service_level.0 >> dimension & 1) } else { service_level }
    }
}

fn next(switch: usize, port: usize, neighbours: &[Vec<Neighbour>]) -> Option<usize> {
    match neighbours[switch].get(port) {
        Some(Neighbour::Switch(next)) => Some(*next),
        _ => None,
    }
}

/// Returns the number of switches in a row in a dimension, from the first switch on, and whether
/// they come back to it.
fn side(dimension: usize, neighbours: &[Vec<Neighbour>]) -> (usize, bool) {
    let (mut at, mut length) = (0, 1);
    while let Some(next) = next(at, 2 * dimension, neighbours) {
        if next == 0 {
            return (length, true);
        }
        (at, length) = (next, length + 1);
        if length > neighbours.len() {
            break;
        }
    }
    (length, false)
}

/// Returns the coordinates that a port leads to, or `None` at the end of a dimension that is no
/// ring.
fn step(mut at: [usize; DIMENSIONS_MAX], port: usize, sides: &[(usize, bool)]) -> Option<[usize; DIMENSIONS_MAX]> {
    let (dimension, forward) = (port / 2, port.is_multiple_of(2));
    let (length, is_ring) = sides[dimension];
    let ends = at[dimension] == if forward { length - 1 } else { 0 };
    if ends && !is_ring {
        return None;
    }
    at[dimension] = (at[dimension] + if forward { 1 } else { length - 1 }) % length;
    Some(at)
}

/// Returns the coordinates of each switch. The first switch is the origin.
fn coordinates(sides: &[(usize, bool)], neighbours: &[Vec<Neighbour>]) -> Result<Vec<[usize; DIMENSIONS_MAX]>, Unroutable> {
    let mut known = vec![None; neighbours.len()];
    known[0] = Some([0; DIMENSIONS_MAX]);
    let mut reached = vec![0];
    while let Some(switch) = reached.pop() {
        let Some(here) = known[switch] else { continue };
        for port in 0..2 * sides.len() {
            let Some(next) = next(switch, port, neighbours).filter(|next| known[*next].is_none()) else { continue };
            known[next] = step(here, port, sides);
            reached.push(next);
        }
    }
    let lost = |switch| Unroutable { switch, why: "is not joined to the torus of the first switch" };
    known.into_iter().enumerate().map(|(switch, at)| at.ok_or(lost(switch))).collect()
}
