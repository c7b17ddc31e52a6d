//! Switches of a torus or mesh in a grid, each with its hosts below it.

use super::nodes::{Drawing, HOST_HEIGHT, Half, Point, box_width, edge, homes, host_node, size, switch_node};
use super::{MARGIN, TOP, WIDTH_MIN};
use softband_fabric::spec::{FabricSpec, PortRef};
use std::collections::BTreeMap;

/// Between neighbours of a grid.
const COLUMN: i64 = 170;
const ROW: i64 = 116;
/// What is seen of a cable that leads round to the other side.
const STUB: i64 = 52;

pub(super) struct Grid {
    columns: usize,
    rows: usize,
    at: Vec<(usize, usize)>,
}

/// Switches whose first two ports lead along one dimension and the next two along another, as generated tori have it.
pub(super) fn find(spec: &FabricSpec) -> Option<Grid> {
    let mut next: BTreeMap<(usize, u8), usize> = BTreeMap::new();
    for cable in &spec.cables {
        for (own, other) in [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])] {
            if let (PortRef::Switch { switch, port }, PortRef::Switch { switch: to, .. }) = (own, other) {
                next.insert((switch, port.0), to);
            }
        }
    }
    if next.is_empty() || next.keys().any(|(_, port)| *port > 4) {
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
pub(super) fn place(spec: &FabricSpec, grid: &Grid) -> Drawing {
    let homes = homes(spec);
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
    let column = COLUMN.max(widest + host_widest + 66);
    let natural = 2 * MARGIN + STUB + widest + (grid.columns as i64 - 1) * column + STUB.max(host_widest + 66);
    let (left, top) = (MARGIN + STUB + widest / 2 + (WIDTH_MIN - natural).max(0) / 2, TOP + STUB);
    let at = |switch: usize| (left + grid.at[switch].0 as i64 * column, top + grid.at[switch].1 as i64 * row);
    let height = top + (grid.rows as i64 - 1) * row + STUB.max(most * (HOST_HEIGHT + 8) + 56) + 24;
    let mut drawing = Drawing { width: natural.max(WIDTH_MIN), height, ..Drawing::default() };
    for (switch, index) in spec.switches.iter().zip(0..) {
        drawing.nodes.push(switch_node(at(index), &switch.name));
    }
    let mut hosts = Vec::new();
    for (host, (home, number)) in spec.hosts.iter().zip(places) {
        let (x, y) = at(home);
        let centre = (x + widest / 2 + 40 + host_widest / 2, y + 58 + number * (HOST_HEIGHT + 8));
        hosts.push(centre);
        drawing.nodes.push(host_node(centre, &host.name));
    }
    let centre = |end: PortRef| match end {
        PortRef::Hca { host, .. } => hosts[host],
        PortRef::Switch { switch, .. } => at(switch),
    };
    cables(&mut drawing, spec, grid, widest / 2, centre);
    drawing
}

/// Those that lead round to the other side are seen at both sides.
fn cables(drawing: &mut Drawing, spec: &FabricSpec, grid: &Grid, half_box: i64, centre: impl Fn(PortRef) -> Point) {
    let away = |own: Point, far: Point| (own.0 + (half_box + STUB) * (own.0 - far.0).signum(), own.1 + STUB * (own.1 - far.1).signum());
    for cable in &spec.cables {
        let [a, b] = cable.ends.map(&centre);
        match cable.ends {
            [PortRef::Switch { switch: one, .. }, PortRef::Switch { switch: other, .. }] if !are_neighbours(grid.at[one], grid.at[other]) => {
                drawing.halves.push(Half { port: cable.ends[0], from: a, to: away(a, b) });
                drawing.halves.push(Half { port: cable.ends[1], from: b, to: away(b, a) });
            }
            [one, other] => drawing.cable(cable.ends, [edge(a, size(spec, one), b), edge(b, size(spec, other), a)]),
        }
    }
}

fn are_neighbours(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0.abs_diff(b.0) + a.1.abs_diff(b.1) == 1
}
