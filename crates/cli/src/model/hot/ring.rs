//! Switches side by side: those of a torus or mesh in a grid, others on a circle with their hosts outside. Without switches the hosts are
//! on the circle.

use super::nodes::{Drawing, HOST_HEIGHT, Half, Node, Point, SWITCH_HEIGHT, box_width};
use super::{MARGIN, TOP};
use softband_fabric::spec::{FabricSpec, PortRef};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

const WIDTH_MIN: i64 = 820;
/// Between neighbours of a grid.
const COLUMN: i64 = 150;
const ROW: i64 = 96;
/// What is seen of a cable that leads round to the other side.
const STUB: i64 = 52;
/// From the circle of switches to that of hosts.
const SPOKE: f64 = 120.0;
/// Between cables of the same two nodes.
const PARALLEL: f64 = 16.0;

pub(super) fn place(spec: &FabricSpec) -> Drawing {
    let homes = homes(spec);
    match grid(spec) {
        Some(grid) => on_grid(spec, &homes, &grid),
        None => on_circle(spec, &homes),
    }
}

/// The first switch that each host is cabled to.
fn homes(spec: &FabricSpec) -> Vec<Option<usize>> {
    let mut homes = vec![None; spec.hosts.len()];
    for cable in &spec.cables {
        for (own, other) in [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])] {
            if let (PortRef::Hca { host, .. }, PortRef::Switch { switch, .. }) = (own, other) {
                homes[host].get_or_insert(switch);
            }
        }
    }
    homes
}

struct Grid {
    columns: usize,
    rows: usize,
    at: Vec<(usize, usize)>,
}

/// Switches whose first two ports lead along one dimension and the next two along another, as generated tori have it.
fn grid(spec: &FabricSpec) -> Option<Grid> {
    let mut next: BTreeMap<(usize, u8), usize> = BTreeMap::new();
    for cable in &spec.cables {
        for (own, other) in [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])] {
            if let (PortRef::Switch { switch, port }, PortRef::Switch { switch: to, .. }) = (own, other) {
                next.insert((switch, port.0), to);
            }
        }
    }
    if next.keys().any(|(_, port)| *port > 4) {
        return None;
    }
    let line = |from: usize, port: u8| {
        let mut line = vec![from];
        while let Some(to) = next.get(&(line[line.len() - 1], port)).filter(|to| !line.contains(to)) {
            line.push(*to);
        }
        line
    };
    let mut at = vec![None; spec.switches.len()];
    let first = line(0, 1);
    let columns: Vec<Vec<usize>> = first.iter().map(|top| line(*top, 3)).collect();
    let rows = columns[0].len();
    for (x, column) in columns.iter().enumerate() {
        for (y, switch) in column.iter().enumerate() {
            if at[*switch].replace((x, y)).is_some() || column.len() != rows {
                return None;
            }
        }
    }
    let at = at.into_iter().collect::<Option<Vec<_>>>()?;
    (columns.len() > 1 && rows > 1).then_some(Grid { columns: columns.len(), rows, at })
}

/// A host hangs below its switch, to the right.
fn on_grid(spec: &FabricSpec, homes: &[Option<usize>], grid: &Grid) -> Drawing {
    let mut hanging = vec![0_i64; spec.switches.len()];
    let place_of = |host: usize, hanging: &mut Vec<i64>| {
        let home = homes[host].unwrap_or(0);
        hanging[home] += 1;
        (home, hanging[home] - 1)
    };
    let places: Vec<(usize, i64)> = (0..spec.hosts.len()).map(|host| place_of(host, &mut hanging)).collect();
    let most = hanging.iter().copied().max().unwrap_or(0);
    let row = ROW + (most - 1).max(0) * (HOST_HEIGHT + 8);
    let widest = spec.switches.iter().map(|switch| box_width(&switch.name)).max().unwrap_or(0);
    let host_widest = spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0);
    let column = COLUMN.max(widest + host_widest + 50);
    let (left, top) = (MARGIN + STUB + widest / 2, TOP + STUB);
    let at = |switch: usize| (left + grid.at[switch].0 as i64 * column, top + grid.at[switch].1 as i64 * row);
    let width = left + (grid.columns as i64 - 1) * column + widest / 2 + STUB.max(host_widest + 50) + MARGIN;
    let height = top + (grid.rows as i64 - 1) * row + STUB.max(most * (HOST_HEIGHT + 8) + 40) + 24;
    let mut drawing = Drawing { width: width.max(WIDTH_MIN), height, ..Drawing::default() };
    for (switch, index) in spec.switches.iter().zip(0..) {
        drawing.nodes.push(switch_node(at(index), &switch.name));
    }
    let mut hosts = Vec::new();
    for (host, (home, number)) in spec.hosts.iter().zip(places) {
        let (x, y) = at(home);
        let centre = (x + widest / 2 + 24 + host_widest / 2, y + 42 + number * (HOST_HEIGHT + 8));
        hosts.push(centre);
        drawing.nodes.push(host_node(centre, &host.name));
    }
    let centre = |end: PortRef| match end {
        PortRef::Hca { host, .. } => hosts[host],
        PortRef::Switch { switch, .. } => at(switch),
    };
    for cable in &spec.cables {
        let [a, b] = cable.ends.map(centre);
        match cable.ends {
            [PortRef::Switch { switch: one, .. }, PortRef::Switch { switch: other, .. }] if !are_neighbours(grid.at[one], grid.at[other]) => {
                let away = |own: Point, far: Point| (own.0 + (widest / 2 + STUB) * (own.0 - far.0).signum(), own.1 + STUB * (own.1 - far.1).signum());
                drawing.halves.push(Half { port: cable.ends[0], from: a, to: away(a, b) });
                drawing.halves.push(Half { port: cable.ends[1], from: b, to: away(b, a) });
            }
            _ => drawing.cable(cable.ends, [a, b]),
        }
    }
    drawing
}

fn are_neighbours(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0.abs_diff(b.0) + a.1.abs_diff(b.1) == 1
}

fn switch_node(centre: Point, name: &str) -> Node {
    Node { centre, width: box_width(name) + 6, height: SWITCH_HEIGHT, name: name.to_owned(), is_switch: true }
}
fn host_node(centre: Point, name: &str) -> Node {
    Node { centre, width: box_width(name), height: HOST_HEIGHT, name: name.to_owned(), is_switch: false }
}

/// What stands on a circle: the one that is `number` of `count`, the first on top.
fn on(radius: f64, number: f64, count: usize) -> (f64, f64) {
    let angle = TAU * (number / count.max(1) as f64 - 0.25);
    (radius * angle.cos(), radius * angle.sin())
}

fn on_circle(spec: &FabricSpec, homes: &[Option<usize>]) -> Drawing {
    let switches = spec.switches.len();
    let widest = |names: &mut dyn Iterator<Item = &String>| names.map(|name| box_width(name)).max().unwrap_or(0) as f64;
    let host_room = widest(&mut spec.hosts.iter().map(|host| &host.name)) + 12.0;
    let switch_room = widest(&mut spec.switches.iter().map(|switch| &switch.name)) + 40.0;
    let inner = if switches == 0 { 0.0 } else { (switches as f64 * switch_room / TAU).max(110.0) };
    let most = (0..switches).map(|switch| homes.iter().filter(|home| **home == Some(switch)).count()).max().unwrap_or(0);
    // Each switch has a sector of its own for its hosts.
    let outer = ((switches.max(1) * most.max(usize::from(switches == 0) * spec.hosts.len())) as f64 * host_room / TAU).max(inner + SPOKE);
    let mut seen = vec![0_usize; switches];
    let host_at = |host: usize, seen: &mut Vec<usize>| match homes[host] {
        Some(home) => {
            seen[home] += 1;
            let number = home as f64 + (seen[home] as f64 - 0.5) / most as f64 - 0.5;
            on(outer, number + (most - homes.iter().filter(|of| **of == Some(home)).count()) as f64 / (2 * most) as f64, switches)
        }
        None if switches == 0 => on(outer, host as f64 + 0.25 * spec.hosts.len() as f64, spec.hosts.len()),
        None => (outer, outer),
    };
    let hosts: Vec<(f64, f64)> = (0..spec.hosts.len()).map(|host| host_at(host, &mut seen)).collect();
    let half = outer as i64 + host_room as i64 / 2 + MARGIN;
    let width = (2 * half).max(WIDTH_MIN);
    let centre = (width / 2, TOP + outer as i64 + HOST_HEIGHT);
    let put = |(x, y): (f64, f64)| (centre.0 + x.round() as i64, centre.1 + y.round() as i64);
    let mut drawing = Drawing { width, height: centre.1 + outer as i64 + HOST_HEIGHT + 24, ..Drawing::default() };
    let hosts: Vec<Point> = hosts.into_iter().map(put).collect();
    let places: Vec<Point> = (0..switches).map(|switch| put(on(inner, switch as f64, switches))).collect();
    drawing.nodes.extend(spec.hosts.iter().zip(&hosts).map(|(host, at)| host_node(*at, &host.name)));
    drawing.nodes.extend(spec.switches.iter().zip(&places).map(|(switch, at)| switch_node(*at, &switch.name)));
    let of = |end: PortRef| match end {
        PortRef::Hca { host, .. } => hosts[host],
        PortRef::Switch { switch, .. } => places[switch],
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
        let [a, b] = cable.ends.map(|end| shift(of(end)));
        drawing.cable(cable.ends, [a, b]);
    }
}
