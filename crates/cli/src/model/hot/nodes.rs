//! Hosts and switches as boxes, each cable as two halves.

use super::{Loads, class, mark};
use softband_catalog::escape_xml;
use softband_fabric::spec::{FabricSpec, PortRef};
use std::fmt::Write;

pub(super) type Point = (i64, i64);

pub(super) struct Node {
    pub centre: Point,
    pub width: i64,
    pub height: i64,
    pub name: String,
    pub is_switch: bool,
}

/// What a port sends: from the port to the middle of the cable.
pub(super) struct Half {
    pub port: PortRef,
    pub from: Point,
    pub to: Point,
}

#[derive(Default)]
pub(super) struct Drawing {
    pub width: i64,
    pub height: i64,
    pub nodes: Vec<Node>,
    pub halves: Vec<Half>,
}

pub(super) const HOST_HEIGHT: i64 = 22;
pub(super) const SWITCH_HEIGHT: i64 = 30;

/// Of a box that holds the name.
pub(super) fn box_width(name: &str) -> i64 {
    (name.chars().count() as i64 * 8 + 14).max(30)
}

pub(super) fn middle((ax, ay): Point, (bx, by): Point) -> Point {
    ((ax + bx) / 2, (ay + by) / 2)
}

pub(super) fn stroke_width(stalled: f64) -> f64 {
    2.5 + 9.5 * stalled.clamp(0.0, 1.0)
}

pub(super) fn switch_node(centre: Point, name: &str) -> Node {
    Node { centre, width: box_width(name) + 6, height: SWITCH_HEIGHT, name: name.to_owned(), is_switch: true }
}
pub(super) fn host_node(centre: Point, name: &str) -> Node {
    Node { centre, width: box_width(name), height: HOST_HEIGHT, name: name.to_owned(), is_switch: false }
}

/// Of the box at a cable's end.
pub(super) fn size(spec: &FabricSpec, end: PortRef) -> (i64, i64) {
    let node = match end {
        PortRef::Hca { host, .. } => host_node((0, 0), &spec.hosts[host].name),
        PortRef::Switch { switch, .. } => switch_node((0, 0), &spec.switches[switch].name),
    };
    (node.width, node.height)
}

/// The first switch that each host is cabled to.
pub(super) fn homes(spec: &FabricSpec) -> Vec<Option<usize>> {
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

/// Where the line from a box's centre to another point leaves it.
pub(super) fn edge((x, y): Point, (width, height): (i64, i64), (to_x, to_y): Point) -> Point {
    let (dx, dy) = ((to_x - x) as f64, (to_y - y) as f64);
    let reach = (width as f64 / 2.0 / dx.abs().max(1e-9)).min(height as f64 / 2.0 / dy.abs().max(1e-9)).min(1.0);
    (x + (dx * reach).round() as i64, y + (dy * reach).round() as i64)
}

impl Drawing {
    pub(super) fn cable(&mut self, ends: [PortRef; 2], [a, b]: [Point; 2]) {
        let middle = middle(a, b);
        self.halves.push(Half { port: ends[0], from: a, to: middle });
        self.halves.push(Half { port: ends[1], from: b, to: middle });
    }

    pub(super) fn write(&self, out: &mut String, loads: &Loads<'_>) {
        // The hottest last, over the others.
        let mut halves: Vec<_> = self.halves.iter().filter_map(|half| Some((half, *loads.ports.get(&half.port)?))).collect();
        halves.sort_by_key(|(half, report)| (class(report.xmit_utilisation), class(report.stalled), half.port));
        for (half, report) in &halves {
            let ((ax, ay), (bx, by)) = (half.from, half.to);
            let (width, busy, stalled) = (stroke_width(report.stalled), report.xmit_utilisation * 100.0, report.stalled * 100.0);
            let told = format!("{} to {}: sends {busy:.1} % of the time, {stalled:.1} % without credits", report.name, report.peer_name);
            let _ = writeln!(
                out,
                "<path class=\"b{}\" stroke-width=\"{width:.1}\" d=\"M{ax} {ay}L{bx} {by}\"><title>{}</title></path>",
                class(report.xmit_utilisation),
                escape_xml(&told)
            );
        }
        for node in &self.nodes {
            self.write_node(out, node);
        }
        for (half, report) in halves {
            if let Some(number) = loads.numbers.get(&report.port) {
                let ((ax, ay), (bx, by)) = (half.from, half.to);
                mark(out, middle((ax, ay), (bx, by)), *number);
            }
        }
    }

    fn write_node(&self, out: &mut String, node: &Node) {
        let (x, y) = (node.centre.0 - node.width / 2, node.centre.1 - node.height / 2);
        let (fill, head) = if node.is_switch { ("#f0fdf4", "head ") } else { ("#eff6ff", "") };
        let (width, height) = (node.width, node.height);
        let _ = writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"5\" fill=\"{fill}\" stroke=\"#64748b\"/>");
        let (x, y) = (node.centre.0, node.centre.1 + 5);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" class=\"{head}middle\">{}</text>", escape_xml(&node.name));
    }
}
