//! Switches on a circle, each with its hosts outside of it; without switches the hosts are on the circle.

use super::nodes::{Drawing, HOST_HEIGHT, Point, box_width, edge, homes, host_node, size, switch_node};
use super::{MARGIN, TOP, WIDTH_MIN};
use softband_fabric::spec::{FabricSpec, PortRef};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// From the circle of switches to that of hosts.
const SPOKE: f64 = 120.0;
/// Between cables of the same two nodes.
const PARALLEL: f64 = 16.0;

pub(super) fn place(spec: &FabricSpec) -> Drawing {
    let switches = spec.switches.len();
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); switches];
    homes(spec).into_iter().enumerate().for_each(|(host, home)| home.into_iter().for_each(|home| members[home].push(host)));
    let most = members.iter().map(Vec::len).max().unwrap_or(0);
    let (inner, outer) = radii(spec, most);
    let mut hosts: Vec<(f64, f64)> = (0..spec.hosts.len()).map(|host| on(outer, host as f64, spec.hosts.len())).collect();
    for (switch, members) in members.iter().enumerate() {
        for (index, host) in members.iter().enumerate() {
            // Each switch has a sector of its own for its hosts.
            let aside = (index as f64 + 0.5 - members.len() as f64 / 2.0) / most as f64;
            hosts[*host] = on(outer, switch as f64 + aside, switches);
        }
    }
    let switches: Vec<(f64, f64)> = (0..switches).map(|switch| on(inner, switch as f64, switches)).collect();
    drawing(spec, &hosts, &switches)
}

/// Of the circle of switches and that of hosts: all names have room.
fn radii(spec: &FabricSpec, most: usize) -> (f64, f64) {
    let switch_room = spec.switches.iter().map(|switch| box_width(&switch.name)).max().unwrap_or(0) + 40;
    let host_room = spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0) + 12;
    let switches = spec.switches.len();
    let inner = if switches == 0 { 0.0 } else { (switches as f64 * switch_room as f64 / TAU).max(110.0) };
    let places = if switches == 0 { spec.hosts.len() } else { switches * most };
    (inner, (places as f64 * host_room as f64 / TAU).max(inner + SPOKE))
}

/// What stands on a circle: the one that is `number` of `count`, the first on top; two of them stand side by side.
fn on(radius: f64, number: f64, count: usize) -> (f64, f64) {
    let first = if count == 2 { 0.5 } else { -0.25 };
    let angle = TAU * (number / count.max(1) as f64 + first);
    (radius * angle.cos(), radius * angle.sin())
}

fn drawing(spec: &FabricSpec, hosts: &[(f64, f64)], switches: &[(f64, f64)]) -> Drawing {
    let all = || hosts.iter().chain(switches);
    let widest = all().map(|(x, _)| x.abs()).fold(0.0, f64::max) as i64;
    let (top, bottom) = all().fold((0.0_f64, 0.0_f64), |(top, bottom), (_, y)| (top.min(*y), bottom.max(*y)));
    let room = spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0);
    let width = (2 * (widest + MARGIN) + room).max(WIDTH_MIN);
    let put = |(x, y): &(f64, f64)| (width / 2 + x.round() as i64, TOP + HOST_HEIGHT + (y - top).round() as i64);
    let (hosts, switches): (Vec<Point>, Vec<Point>) = (hosts.iter().map(put).collect(), switches.iter().map(put).collect());
    let height = TOP + 2 * HOST_HEIGHT + (bottom - top) as i64 + 24;
    let mut drawing = Drawing { width, height, ..Drawing::default() };
    drawing.nodes.extend(spec.hosts.iter().zip(&hosts).map(|(host, at)| host_node(*at, &host.name)));
    drawing.nodes.extend(spec.switches.iter().zip(&switches).map(|(switch, at)| switch_node(*at, &switch.name)));
    let of = |end: PortRef| match end {
        PortRef::Hca { host, .. } => hosts[host],
        PortRef::Switch { switch, .. } => switches[switch],
    };
    parallel_cables(&mut drawing, spec, of);
    drawing
}

/// Cables of the same two nodes lie beside each other.
fn parallel_cables(drawing: &mut Drawing, spec: &FabricSpec, of: impl Fn(PortRef) -> Point) {
    let key = |ends: [PortRef; 2]| {
        let [a, b] = ends.map(&of);
        (a.min(b), a.max(b))
    };
    let mut counts: BTreeMap<(Point, Point), usize> = BTreeMap::new();
    spec.cables.iter().for_each(|cable| *counts.entry(key(cable.ends)).or_default() += 1);
    let mut seen: BTreeMap<(Point, Point), usize> = BTreeMap::new();
    for cable in &spec.cables {
        let pair = key(cable.ends);
        let number = seen.entry(pair).or_default();
        let aside = (*number as f64 - (counts[&pair] - 1) as f64 / 2.0) * PARALLEL;
        *number += 1;
        let ((ax, ay), (bx, by)) = pair;
        let (dx, dy) = ((bx - ax) as f64, (by - ay) as f64);
        let length = dx.hypot(dy).max(1.0);
        let shift = |(x, y): Point| (x + (-dy / length * aside).round() as i64, y + (dx / length * aside).round() as i64);
        let [one, other] = cable.ends;
        let (a, b) = (edge(of(one), size(spec, one), of(other)), edge(of(other), size(spec, other), of(one)));
        drawing.cable(cable.ends, [shift(a), shift(b)]);
    }
}
