//! Hosts and switches as boxes, and each cable as two halves.

use super::style::escape_xml;
use softband_spec::{FabricSpec, PortRef};
use std::collections::BTreeMap;
use std::fmt::Write;

/// x and y, in pixels.
pub type Point = (i64, i64);

/// A host or switch: a box with its name.
pub struct Node {
    /// Centre of the box, in pixels.
    pub centre: Point,
    /// Width in pixels.
    pub width: i64,
    /// Height in pixels.
    pub height: i64,
    /// Name in the fabric file.
    pub name: String,
    /// True for a switch, false for a host.
    pub is_switch: bool,
}

/// Half of a cable: from one port to the middle of the cable.
pub struct Half {
    /// The port at `from`.
    pub port: PortRef,
    /// Start at the port's box, in pixels.
    pub from: Point,
    /// Middle of the cable, in pixels.
    pub to: Point,
    /// Control point of the curve, or `None` for a straight line.
    pub bend: Option<Point>,
}

#[derive(Default)]
/// Positions of all nodes and cables. Halves `2 i` and `2 i + 1` belong to the first and the second
/// end of cable `i`.
pub struct Drawing {
    /// Width of the whole picture, in pixels.
    pub width: i64,
    /// Height down to the lowest node plus some room, in pixels.
    pub height: i64,
    /// All hosts and switches.
    pub nodes: Vec<Node>,
    /// Two halves for each cable.
    pub halves: Vec<Half>,
}

pub(super) const HOST_HEIGHT: i64 = 22;
pub(super) const SWITCH_HEIGHT: i64 = 30;
/// Longer names lose their middle.
const NAME_MAX: usize = 26;
/// Distance between cables of the same two nodes, in pixels.
const PARALLEL: f64 = 16.0;

/// Returns the width of a box that holds the name, in pixels.
pub(super) fn box_width(name: &str) -> i64 {
    (name.chars().count().min(NAME_MAX) as i64 * 8 + 14).max(30)
}

/// Returns the middle between two points.
pub fn middle((ax, ay): Point, (bx, by): Point) -> Point {
    ((ax + bx) / 2, (ay + by) / 2)
}

pub(super) fn switch_node(centre: Point, name: &str) -> Node {
    Node { centre, width: switch_width(name), height: SWITCH_HEIGHT, name: name.to_owned(), is_switch: true }
}
pub(super) fn host_node(centre: Point, name: &str) -> Node {
    Node { centre, width: box_width(name), height: HOST_HEIGHT, name: name.to_owned(), is_switch: false }
}

/// Returns the width of a switch's box, in pixels. Names of switches are bold, hence wider.
pub(super) fn switch_width(name: &str) -> i64 {
    box_width(name) + 6 + name.chars().count().min(NAME_MAX) as i64
}

/// Returns the size of the box at an end of a cable, in pixels.
pub(super) fn size(spec: &FabricSpec, end: PortRef) -> (i64, i64) {
    match end {
        PortRef::Hca { host, .. } => (box_width(&spec.hosts[host].name), HOST_HEIGHT),
        PortRef::Switch { switch, .. } => (switch_width(&spec.switches[switch].name), SWITCH_HEIGHT),
    }
}

/// Returns the first switch that each host is cabled to.
pub(super) fn homes(spec: &FabricSpec) -> Vec<Option<usize>> {
    let mut homes = vec![None; spec.hosts.len()];
    for (own, other) in both_ways(spec) {
        if let (PortRef::Hca { host, .. }, PortRef::Switch { switch, .. }) = (own, other) {
            homes[host].get_or_insert(switch);
        }
    }
    homes
}

/// Returns each cable from its first to its second end, and back.
pub(super) fn both_ways(spec: &FabricSpec) -> impl Iterator<Item = (PortRef, PortRef)> {
    spec.cables.iter().flat_map(|cable| [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])])
}

/// Returns the point where the line from a box's centre to another point leaves the box.
pub(super) fn edge((x, y): Point, (width, height): (i64, i64), (to_x, to_y): Point) -> Point {
    let (dx, dy) = ((to_x - x) as f64, (to_y - y) as f64);
    let reach = (width as f64 / 2.0 / dx.abs().max(1e-9)).min(height as f64 / 2.0 / dy.abs().max(1e-9)).min(1.0);
    (x + (dx * reach).round() as i64, y + (dy * reach).round() as i64)
}

/// Returns the node index of a port. Switches follow all hosts.
fn node_of(spec: &FabricSpec, end: PortRef) -> usize {
    match end {
        PortRef::Hca { host, .. } => host,
        PortRef::Switch { switch, .. } => spec.hosts.len() + switch,
    }
}

/// Returns the sideways offset of each cable, in pixels. Cables of the same two nodes lie beside
/// each other.
pub(super) fn asides(spec: &FabricSpec) -> Vec<f64> {
    let pair = |ends: [PortRef; 2]| {
        let [a, b] = ends.map(|end| node_of(spec, end));
        (a.min(b), a.max(b))
    };
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    spec.cables.iter().for_each(|cable| *counts.entry(pair(cable.ends)).or_default() += 1);
    let mut seen: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let aside = |ends: [PortRef; 2]| {
        let number = seen.entry(pair(ends)).or_default();
        *number += 1;
        let aside = ((*number - 1) as f64 - (counts[&pair(ends)] - 1) as f64 / 2.0) * PARALLEL;
        // The offset refers to the direction from the lower to the higher node.
        if node_of(spec, ends[0]) > node_of(spec, ends[1]) { -aside } else { aside }
    };
    spec.cables.iter().map(|cable| cable.ends).map(aside).collect()
}

/// Moves both points sideways, relative to the direction from the first to the second.
pub(super) fn moved_aside([a, b]: [Point; 2], aside: f64) -> [Point; 2] {
    let (dx, dy) = ((b.0 - a.0) as f64, (b.1 - a.1) as f64);
    let length = dx.hypot(dy).max(1.0);
    [a, b].map(|(x, y)| (x + (-dy / length * aside).round() as i64, y + (dx / length * aside).round() as i64))
}

impl Drawing {
    /// Adds a straight cable.
    pub(super) fn cable(&mut self, ends: [PortRef; 2], [a, b]: [Point; 2]) {
        let middle = middle(a, b);
        self.halves.push(Half { port: ends[0], from: a, to: middle, bend: None });
        self.halves.push(Half { port: ends[1], from: b, to: middle, bend: None });
    }

    /// Adds a cable that bends towards a point.
    pub(super) fn bent_cable(&mut self, ends: [PortRef; 2], [a, b]: [Point; 2], bend: Point) {
        let (near_a, near_b) = (middle(a, bend), middle(b, bend));
        let to = middle(near_a, near_b);
        self.halves.push(Half { port: ends[0], from: a, to, bend: Some(near_a) });
        self.halves.push(Half { port: ends[1], from: b, to, bend: Some(near_b) });
    }
}

impl Half {
    /// Returns the line as the data of an SVG path.
    pub fn path(&self) -> String {
        let ((ax, ay), (bx, by)) = (self.from, self.to);
        match self.bend {
            None => format!("M{ax} {ay}L{bx} {by}"),
            Some((x, y)) => format!("M{ax} {ay}Q{x} {y} {bx} {by}"),
        }
    }

    /// Returns a point of the line at a share of the way from the port.
    pub fn at(&self, share: f64) -> Point {
        let between = |a: f64, b: f64| a + (b - a) * share;
        let (from, to) = ((self.from.0 as f64, self.from.1 as f64), (self.to.0 as f64, self.to.1 as f64));
        let (x, y) = match self.bend {
            None => (between(from.0, to.0), between(from.1, to.1)),
            Some((x, y)) => {
                let (x, y) = (x as f64, y as f64);
                (between(between(from.0, x), between(x, to.0)), between(between(from.1, y), between(y, to.1)))
            }
        };
        (x.round() as i64, y.round() as i64)
    }
}

impl Node {
    /// Writes the box and its name as SVG.
    pub fn write(&self, out: &mut String) {
        let ((x, y), (width, height)) = (self.centre, (self.width, self.height));
        let (class, head) = if self.is_switch { ("switch", "head ") } else { ("host", "") };
        let (left, top) = (x - width / 2, y - height / 2);
        let _ = writeln!(out, "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"5\" class=\"{class}\"/>");
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" class=\"{head}middle\">{}</text>", y + 5, escape_xml(&shortened(&self.name)));
    }
}

/// Shortens a long name to `first-letters…last-letters`.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME_MAX {
        return name.to_owned();
    }
    let (first, last) = (&letters[..NAME_MAX / 2], &letters[letters.len() + 1 - NAME_MAX / 2..]);
    first.iter().chain(&['…']).chain(last).collect()
}
