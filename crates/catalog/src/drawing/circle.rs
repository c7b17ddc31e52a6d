//! Layout with the switches on a circle and their hosts outside it. Without switches, the hosts
//! stand on the circle.

use super::nodes::{Drawing, HOST_HEIGHT, Point, asides, box_width, edge, homes, host_node, middle, moved_aside, size, switch_node, switch_width};
use super::{Frame, MARGIN};
use softband_spec::{FabricSpec, PortRef};
use std::f64::consts::TAU;

/// Least distance from the circle of switches to the circle of hosts, in pixels.
const SPOKE: f64 = 120.0;
/// Clearance of a cable inside the switches that it passes, in pixels, and the extra for each
/// further switch.
const CLEAR: f64 = 62.0;
const CLEAR_MORE: f64 = 16.0;

pub(super) fn place(spec: &FabricSpec, frame: Frame) -> Drawing {
    let switches = spec.switches.len();
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); switches];
    homes(spec).into_iter().enumerate().for_each(|(host, home)| home.into_iter().for_each(|home| members[home].push(host)));
    let most = members.iter().map(Vec::len).max().unwrap_or(0);
    let (inner, outer) = radii(spec, most);
    let mut hosts: Vec<(f64, f64)> = (0..spec.hosts.len()).map(|host| on(outer, host as f64, spec.hosts.len())).collect();
    for (switch, members) in members.iter().enumerate() {
        for (index, host) in members.iter().enumerate() {
            // Each switch has its own sector for its hosts.
            let aside = (index as f64 + 0.5 - members.len() as f64 / 2.0) / most as f64;
            hosts[*host] = on(outer, switch as f64 + aside, switches);
        }
    }
    let switches: Vec<(f64, f64)> = (0..switches).map(|switch| on(inner, switch as f64, switches)).collect();
    drawing(spec, [&hosts, &switches], frame)
}

/// Returns the radii of the circles of switches and hosts, which leave room for all names.
fn radii(spec: &FabricSpec, most: usize) -> (f64, f64) {
    let switch_room = spec.switches.iter().map(|switch| switch_width(&switch.name)).max().unwrap_or(0) + 40;
    let host_room = spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0) + 12;
    let switches = spec.switches.len();
    let inner = if switches == 0 { 0.0 } else { (switches as f64 * switch_room as f64 / TAU).max(110.0) };
    let places = if switches == 0 { spec.hosts.len() } else { switches * most };
    (inner, (places as f64 * host_room as f64 / TAU).max(inner + SPOKE.max(host_room as f64 / 2.0 + switch_room as f64 / 2.0)))
}

/// Returns position `number` of `count` on a circle. The first is on top; two stand side by side.
fn on(radius: f64, number: f64, count: usize) -> (f64, f64) {
    let first = if count == 2 { 0.5 } else { -0.25 };
    let angle = TAU * (number / count.max(1) as f64 + first);
    (radius * angle.cos(), radius * angle.sin())
}

fn drawing(spec: &FabricSpec, [hosts, switches]: [&[(f64, f64)]; 2], frame: Frame) -> Drawing {
    let all = || hosts.iter().chain(switches);
    let widest = all().map(|(x, _)| x.abs()).fold(0.0, f64::max) as i64;
    let (top, bottom) = all().fold((0.0_f64, 0.0_f64), |(top, bottom), (_, y)| (top.min(*y), bottom.max(*y)));
    let host_room = spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0);
    let room = spec.switches.iter().map(|switch| switch_width(&switch.name)).fold(host_room, i64::max);
    let width = (2 * (widest + MARGIN) + room).max(frame.width_min);
    let put = |(x, y): &(f64, f64)| (width / 2 + x.round() as i64, frame.top + HOST_HEIGHT + (y - top).round() as i64);
    let centre = put(&(0.0, 0.0));
    let (hosts, switches): (Vec<Point>, Vec<Point>) = (hosts.iter().map(put).collect(), switches.iter().map(put).collect());
    let height = frame.top + 2 * HOST_HEIGHT + (bottom - top) as i64 + 24;
    let mut drawing = Drawing { width, height, ..Drawing::default() };
    drawing.nodes.extend(spec.hosts.iter().zip(&hosts).map(|(host, at)| host_node(*at, &host.name)));
    drawing.nodes.extend(spec.switches.iter().zip(&switches).map(|(switch, at)| switch_node(*at, &switch.name)));
    for (cable, aside) in spec.cables.iter().zip(asides(spec)) {
        let [one, other] = cable.ends;
        let [a, b] = cable.ends.map(|end| match end {
            PortRef::Hca { host, .. } => hosts[host],
            PortRef::Switch { switch, .. } => switches[switch],
        });
        match bend(spec, [one, other], [a, b], centre) {
            None => drawing.cable(cable.ends, moved_aside([edge(a, size(spec, one), b), edge(b, size(spec, other), a)], aside)),
            Some(to) => {
                let ends = moved_aside([edge(a, size(spec, one), to), edge(b, size(spec, other), to)], aside);
                drawing.bent_cable(cable.ends, ends, moved_aside([to, b], aside)[0]);
            }
        }
    }
    drawing
}

/// Returns the bend of a cable between switches that are not neighbours on the circle. The bend
/// towards the centre avoids the switches between them.
fn bend(spec: &FabricSpec, ends: [PortRef; 2], [a, b]: [Point; 2], centre: Point) -> Option<Point> {
    let [PortRef::Switch { switch: first, .. }, PortRef::Switch { switch: second, .. }] = ends else { return None };
    let count = spec.switches.len();
    let around = first.abs_diff(second);
    let apart = around.min(count - around);
    if apart < 2 {
        return None;
    }
    let (x, y) = middle(a, b);
    let (dx, dy) = ((centre.0 - x) as f64, (centre.1 - y) as f64);
    let to_centre = dx.hypot(dy);
    let radius = ((a.0 - centre.0) as f64).hypot((a.1 - centre.1) as f64);
    let missing = CLEAR + CLEAR_MORE * (apart - 2) as f64 - (radius - to_centre);
    // The middle of the curve moves half as far as its control point.
    let pull = (2.0 * missing.max(0.0)).min(to_centre);
    (pull >= 1.0).then(|| (x + (dx / to_centre * pull).round() as i64, y + (dy / to_centre * pull).round() as i64))
}
