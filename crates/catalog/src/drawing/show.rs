//! SVG drawings of fabrics: nodes and cables, and a legend below. The same fabric gives the same bytes.

use super::kinds::{Kind, Kinds, class_of, names, of_nodes};
use super::labels::Places;
use super::nodes::{Drawing, Half};
use super::style::{LETTER, escape_xml, heading, letters, opening, style, wrapped};
use super::{Frame, Levels, MARGIN, NODES_MAX, place, schematic};
use crate::draw::summary;
use softband_spec::{CableSpec, FabricSpec, PortRef};
use softband_types::counted;
use std::fmt::Write;

const WIDTH_MIN: i64 = 372;
/// Width of the schematic of a large fabric, in pixels.
const SCHEMATIC_WIDTH: i64 = 520;
const LINE: i64 = 18;
/// Widths of the badge of a kind of cable, and of the piece of cable after it, in pixels.
const BADGE_ROOM: i64 = 26;
const CABLE_ROOM: i64 = 32;
/// Most cables with port numbers in the picture. With more cables, only the cable titles name ports.
const NUMBERED_MAX: usize = 24;

const OWN_STYLE: &str = ".cable { stroke-width: 2.5; }
path.optical { stroke-dasharray: 9 3; }
";

/// Draws the fabric as a stand-alone SVG file.
pub fn draw_svg(spec: &FabricSpec) -> String {
    let levels = Levels::of(spec);
    let kinds = Kinds::of(spec, &levels);
    let is_small = spec.hosts.len() + spec.switches.len() <= NODES_MAX;
    // The title may need several lines. Their number depends on the width that the nodes need.
    let width = if is_small { place(spec, &levels, Frame { top: 0, width_min: WIDTH_MIN }).width } else { SCHEMATIC_WIDTH };
    let mut body = String::new();
    let top = heading(&mut body, width, &spec.title, &[&summary(spec)]) + 24;
    let bottom = if is_small {
        let drawing = place(spec, &levels, Frame { top, width_min: WIDTH_MIN });
        write_cables(&mut body, spec, &kinds, &drawing);
        drawing.nodes.iter().for_each(|node| node.write(&mut body));
        write_labels(&mut body, &kinds, &drawing);
        drawing.height
    } else {
        schematic::write(&mut body, spec, &levels, &kinds, (top, width)) + LINE
    };
    let height = legend(&mut body, spec, &kinds, (width, bottom)) + MARGIN / 2;
    opening((width, height), &spec.title, &described(spec, &kinds), &style(width, OWN_STYLE, "")) + &body + "</svg>\n"
}

/// Returns a description for readers who cannot see the picture.
fn described(spec: &FabricSpec, kinds: &Kinds) -> String {
    let cables: Vec<String> = kinds.all.iter().map(|kind| format!("{} of {}", kind.count, kind.label)).collect();
    let hosts = spec.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>();
    let switches = spec.switches.iter().map(|switch| switch.name.as_str()).collect::<Vec<_>>();
    let switches = if switches.is_empty() { String::new() } else { format!(" Switches: {}.", names(&switches)) };
    format!("{}. Hosts: {}.{switches} Cables: {}.", summary(spec), names(&hosts), cables.join("; "))
}

fn write_cables(out: &mut String, spec: &FabricSpec, kinds: &Kinds, drawing: &Drawing) {
    for (index, (cable, halves)) in spec.cables.iter().zip(drawing.halves.chunks_exact(2)).enumerate() {
        let kind = kinds.of_cable(index);
        let path: String = halves.iter().map(Half::path).collect();
        let title = escape_xml(&title_of(spec, cable, &kind.label));
        let _ = writeln!(out, "<path class=\"cable {}\" d=\"{path}\"><title>{title}</title></path>", class_of(kind.medium));
    }
}

/// Writes ports and kinds of cables where there is room.
fn write_labels(out: &mut String, kinds: &Kinds, drawing: &Drawing) {
    let mut places = Places::new(&drawing.nodes);
    if kinds.are_many() {
        for (index, halves) in drawing.halves.chunks_exact(2).enumerate() {
            if let Some(at) = places.kind(halves) {
                badge(out, at, &kinds.of_cable(index).letter);
            }
        }
    }
    let numbered = if drawing.halves.len() <= 2 * NUMBERED_MAX { drawing.halves.as_slice() } else { &[] };
    for half in numbered {
        let number = port_number(half.port).to_string();
        if let Some((x, y)) = places.port(half, number.len()) {
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" class=\"port\">{number}</text>", y + 4);
        }
    }
}

fn port_number(port: PortRef) -> u8 {
    match port {
        PortRef::Hca { port, .. } | PortRef::Switch { port, .. } => port.0,
    }
}

fn title_of(spec: &FabricSpec, cable: &CableSpec, label: &str) -> String {
    format!("{} to {}: {label}", spec.port_name(cable.ends[0]), spec.port_name(cable.ends[1]))
}

fn badge(out: &mut String, (x, y): (i64, i64), letter: &str) {
    let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"9\" class=\"badge\"/><text x=\"{x}\" y=\"{}\" class=\"mark\">{letter}</text>", y + 4);
}

/// Writes kinds of cables, hosts and switches, each with its count. Returns the lower end.
fn legend(out: &mut String, spec: &FabricSpec, kinds: &Kinds, (width, top): (i64, i64)) -> i64 {
    let mut y = top + LINE;
    let line = |out: &mut String, y: &mut i64, x: i64, text: &str| {
        for part in wrapped(text, letters(width - x - MARGIN / 2, LETTER)) {
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", escape_xml(&part));
            *y += LINE;
        }
    };
    for Kind { label, letter, medium, count, .. } in &kinds.all {
        let mut x = MARGIN;
        if kinds.are_many() {
            badge(out, (x + 9, y - 4), letter);
            x += BADGE_ROOM;
        }
        let _ = writeln!(out, "<path class=\"cable {}\" d=\"M{x} {}h24\"/>", class_of(*medium), y - 4);
        line(out, &mut y, x + CABLE_ROOM, &format!("{}: {label}", counted(*count, "cable", "cables")));
        y += 4;
    }
    y += 4;
    for text in of_nodes(spec) {
        line(out, &mut y, MARGIN, &text);
    }
    y
}
