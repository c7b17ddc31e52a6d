//! Layout of a torus, mesh or cube as a grid of switches with their hosts. A third dimension runs
//! down to the right.

use super::nodes::{
    Drawing, HOST_HEIGHT, Half, Point, asides, both_ways, box_width, edge, homes, host_node, moved_aside, size, switch_node, switch_width,
};
use super::{Frame, MARGIN};
use softband_spec::{FabricSpec, PortRef};
use std::collections::{BTreeMap, BTreeSet};

/// Distances between neighbours of a grid, in pixels.
const COLUMN: i64 = 170;
const ROW: i64 = 116;
/// Visible length of a wrap-around cable, in pixels.
const STUB: i64 = 52;
/// Distances from a switch down to its first host, and between hosts, in pixels.
const HOST_BELOW: i64 = 58;
const HOST_BELOW_IN_SPACE: i64 = 42;
const HOST_STEP: i64 = HOST_HEIGHT + 8;
/// Ports towards the next switch of each dimension: first of generated tori, then of generated hypercubes.
const ONWARD: [[u8; 3]; 2] = [[1, 3, 5], [1, 2, 3]];

/// Coordinates of a switch.
type Place = [usize; 3];

pub(super) struct Grid {
    sides: Place,
    at: Vec<Place>,
}

/// Next switch by switch and port.
type Next = BTreeMap<(usize, u8), usize>;

/// Returns the grid of two or three dimensions that the cables between switches form, if they form one.
pub(super) fn find(spec: &FabricSpec) -> Option<Grid> {
    let mut next = Next::new();
    for (own, other) in both_ways(spec) {
        if let (PortRef::Switch { switch, port }, PortRef::Switch { switch: to, .. }) = (own, other) {
            next.insert((switch, port.0), to);
        }
    }
    let forms = [2, 3].into_iter().flat_map(|dimensions| ONWARD.map(|ports| (dimensions, ports)));
    forms.into_iter().find_map(|(dimensions, ports)| Grid::walk(spec, &next, &ports[..dimensions]))
}

impl Grid {
    /// Walks along the first dimension, then from each switch found along the next dimension, and so on.
    fn walk(spec: &FabricSpec, next: &Next, ports: &[u8]) -> Option<Self> {
        let mut known: BTreeMap<usize, Place> = BTreeMap::from([(0, [0; 3])]);
        let mut sides = [1; 3];
        for (dimension, port) in ports.iter().enumerate() {
            for (first, place) in known.clone() {
                let (mut switch, mut length) = (first, 1);
                while let Some(to) = next.get(&(switch, *port)).filter(|to| **to != first) {
                    let mut at = place;
                    at[dimension] = length;
                    (switch, length) = (*to, length + 1);
                    // In a ring of two, the next step leads back to the first switch and ends the side.
                    if known.contains_key(&switch) {
                        return None;
                    }
                    known.insert(switch, at);
                }
                if first != 0 && length != sides[dimension] {
                    return None;
                }
                sides[dimension] = length;
            }
        }
        let is_full = known.len() == spec.switches.len() && sides[..ports.len()].iter().all(|side| *side > 1);
        let grid = Self { sides, at: known.into_values().collect() };
        (is_full && grid.has_all_cables(spec)).then_some(grid)
    }

    /// Returns whether each cable between switches joins neighbours or wraps around, and no two
    /// cables join the same pair.
    fn has_all_cables(&self, spec: &FabricSpec) -> bool {
        let mut pairs = BTreeSet::new();
        spec.cables.iter().all(|cable| match cable.ends {
            [PortRef::Switch { switch: a, .. }, PortRef::Switch { switch: b, .. }] => self.step(a, b).is_some() && pairs.insert((a.min(b), a.max(b))),
            _ => true,
        })
    }

    /// Returns the dimension in which two switches are neighbours, and whether their cable wraps around.
    fn step(&self, a: usize, b: usize) -> Option<(usize, bool)> {
        let mut apart = (0..3).filter(|dimension| self.at[a][*dimension] != self.at[b][*dimension]);
        let dimension = apart.next()?;
        let far = self.at[a][dimension].abs_diff(self.at[b][dimension]);
        (apart.next().is_none() && (far == 1 || far + 1 == self.sides[dimension])).then_some((dimension, far > 1))
    }
}

/// Distances in pixels.
struct Measures {
    /// From a switch to the next switch of each dimension.
    steps: [Point; 3],
    /// Widths of the widest boxes.
    switch: i64,
    host: i64,
    /// From a switch to its first host.
    to_host: Point,
    /// Largest number of hosts at a switch.
    most: i64,
}

impl Measures {
    fn new(spec: &FabricSpec, grid: &Grid, most: i64) -> Self {
        let switch = spec.switches.iter().map(|switch| switch_width(&switch.name)).max().unwrap_or(0);
        let host = spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0);
        let more = (most - 1).max(0) * HOST_STEP;
        let depth = grid.sides[2] as i64;
        if depth == 1 {
            let steps = [(COLUMN.max(switch + host + 66), 0), (0, ROW + more), (0, 0)];
            return Self { steps, switch, host, to_host: (switch / 2 + 40 + host / 2, HOST_BELOW), most };
        }
        let (dx, dy) = (switch / 2 + host + 38, HOST_BELOW_IN_SPACE + HOST_HEIGHT + 14 + more);
        let column = (depth - 1) * dx + (switch / 2).max(dx / 2) + 34 + switch / 2 + host;
        let steps = [(column, 0), (0, depth * dy + 50), (dx, dy)];
        Self { steps, switch, host, to_host: (-switch / 2 - 14 - host / 2, HOST_BELOW_IN_SPACE), most }
    }

    /// Returns the offset of a switch from the first switch.
    fn way(&self, place: Place) -> Point {
        let along = |of: fn(Point) -> i64| (0..3).map(|dimension| place[dimension] as i64 * of(self.steps[dimension])).sum();
        (along(|step| step.0), along(|step| step.1))
    }

    /// Returns the offset of the visible end of a wrap-around cable.
    fn stub(&self, dimension: usize, sign: i64) -> Point {
        let (x, y) = match dimension {
            0 => (self.switch / 2 + STUB, 0),
            1 => (0, STUB),
            _ => (self.steps[2].0 * 11 / 20, self.steps[2].1 * 11 / 20),
        };
        (sign * x, sign * y)
    }
}

pub(super) fn place(spec: &FabricSpec, grid: &Grid, frame: Frame) -> Drawing {
    let homes = homes(spec);
    let mut hanging = vec![0_i64; spec.switches.len()];
    let mut place_of = |host: usize| {
        let home = homes[host].unwrap_or(0);
        hanging[home] += 1;
        (home, hanging[home] - 1)
    };
    let places: Vec<(usize, i64)> = (0..spec.hosts.len()).map(&mut place_of).collect();
    let most = hanging.iter().copied().max().unwrap_or(0);
    let measures = Measures::new(spec, grid, most);
    let last = measures.way(grid.sides.map(|side| side - 1));
    let right_of = STUB.max(measures.to_host.0 + measures.host / 2 - measures.switch / 2);
    let left_of = (measures.switch / 2 + STUB).max(measures.host / 2 - measures.to_host.0);
    let natural = 2 * MARGIN + left_of + last.0 + measures.switch / 2 + right_of;
    let left = MARGIN + left_of + (frame.width_min - natural).max(0) / 2;
    let top = frame.top + STUB;
    let at = |switch: usize| {
        let (x, y) = measures.way(grid.at[switch]);
        (left + x, top + y)
    };
    let height = top + last.1 + STUB.max(measures.to_host.1 + measures.most * HOST_STEP) + 24;
    let mut drawing = Drawing { width: natural.max(frame.width_min), height, ..Drawing::default() };
    drawing.nodes.extend(spec.switches.iter().zip(0..).map(|(switch, index)| switch_node(at(index), &switch.name)));
    let host_at = |(home, number): &(usize, i64)| {
        let (x, y) = at(*home);
        (x + measures.to_host.0, y + measures.to_host.1 + number * HOST_STEP)
    };
    let hosts: Vec<Point> = places.iter().map(host_at).collect();
    drawing.nodes.extend(spec.hosts.iter().zip(&hosts).map(|(host, centre)| host_node(*centre, &host.name)));
    cables(&mut drawing, spec, grid, &measures, |end| match end {
        PortRef::Hca { host, .. } => hosts[host],
        PortRef::Switch { switch, .. } => at(switch),
    });
    drawing
}

/// Adds the cables. A wrap-around cable has a stub at both sides.
fn cables(drawing: &mut Drawing, spec: &FabricSpec, grid: &Grid, measures: &Measures, centre: impl Fn(PortRef) -> Point) {
    for (cable, aside) in spec.cables.iter().zip(asides(spec)) {
        let ([one, other], [a, b]) = (cable.ends, cable.ends.map(&centre));
        let round = match cable.ends {
            [PortRef::Switch { switch: one, .. }, PortRef::Switch { switch: other, .. }] => grid.step(one, other).filter(|(_, is_round)| *is_round),
            _ => None,
        };
        if let Some((dimension, _)) = round {
            let sign = if (a.0, a.1) < (b.0, b.1) { -1 } else { 1 };
            for (port, from, sign) in [(one, a, sign), (other, b, -sign)] {
                let (dx, dy) = measures.stub(dimension, sign);
                let to = (from.0 + dx, from.1 + dy);
                drawing.halves.push(Half { port, from: edge(from, size(spec, port), to), to, bend: None });
            }
        } else {
            drawing.cable(cable.ends, moved_aside([leaving(spec, one, a, b), leaving(spec, other, b, a)], aside));
        }
    }
}

/// Returns the point where a cable leaves its box. A host's cable leaves at the side that faces the
/// other end, to pass the hosts between them.
fn leaving(spec: &FabricSpec, end: PortRef, own: Point, other: Point) -> Point {
    let (width, height) = size(spec, end);
    match end {
        PortRef::Hca { .. } => (own.0 + width / 2 * (other.0 - own.0).signum(), own.1),
        PortRef::Switch { .. } => edge(own, (width, height), other),
    }
}
