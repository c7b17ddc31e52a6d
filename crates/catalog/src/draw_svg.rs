//! A fabric drawn as SVG: hosts to the left and right, switches between them, cables with what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use softband_fabric::spec::{CableSpec, FabricSpec, PortRef};
use softband_model::parts::Medium;
use softband_types::PortNumber;

use crate::draw::{lanes, mtu_bytes, summary};
use crate::fabric_file::train::metres;

const MARGIN: i64 = 24;
const TOP: i64 = 84;
const BOX_WIDTH: i64 = 196;
/// Straight piece of cable at a host's port: the label stands on it.
const STUB: i64 = 190;
/// Slanted piece of cable between the straight ones.
const SLANT: i64 = 70;
const HEAD: i64 = 46;
const HCA_HEAD: i64 = 34;
/// Two lines of label have to fit.
const PORT_ROW: i64 = 40;
const GAP: i64 = 22;
const LEGEND: i64 = 40;

const COPPER: &str = "#b45309";
const OPTICAL: &str = "#0e7490";

/// Where a cable leaves its port, and to which side.
#[derive(Clone, Copy)]
struct Anchor {
    x: i64,
    y: i64,
    /// 1 to the right, -1 to the left.
    outward: i64,
}

/// A line of text within a box.
struct Line {
    x: i64,
    y: i64,
    class: &'static str,
    end: bool,
    text: String,
}

#[derive(Default)]
struct Picture {
    boxes: Vec<(i64, i64, i64, &'static str)>,
    lines: Vec<Line>,
    anchors: BTreeMap<PortRef, Anchor>,
    bottom: i64,
}

/// A drawing of the fabric as a stand-alone SVG file; the same fabric gives the same bytes.
pub fn draw_svg(spec: &FabricSpec) -> String {
    let mut text = String::new();
    write_svg(&mut text, spec).expect("writing to a String does not fail");
    text
}

fn write_svg(out: &mut String, spec: &FabricSpec) -> std::fmt::Result {
    let middle = if spec.switches.is_empty() { SLANT } else { 2 * SLANT + BOX_WIDTH };
    let right = MARGIN + BOX_WIDTH + STUB + middle + STUB;
    let width = right + BOX_WIDTH + MARGIN;
    let mut picture = Picture { bottom: TOP, ..Picture::default() };
    picture.place_hosts(spec, right);
    picture.place_switches(spec, MARGIN + BOX_WIDTH + STUB + SLANT);
    let height = picture.bottom + LEGEND;
    writeln!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">")?;
    writeln!(out, "<title>{}</title>", escape_xml(&spec.title))?;
    out.push_str(STYLE);
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>")?;
    writeln!(out, "<text x=\"{MARGIN}\" y=\"34\" class=\"title\">{}</text>", escape_xml(&spec.title))?;
    writeln!(out, "<text x=\"{MARGIN}\" y=\"56\" class=\"small\">{}</text>", escape_xml(&summary(spec)))?;
    (0..spec.cables.len()).try_for_each(|index| picture.write_cable(out, spec, index))?;
    picture.write_boxes(out)?;
    spec.cables.iter().try_for_each(|cable| picture.write_label(out, spec, cable))?;
    write_legend(out, height)?;
    out.push_str("</svg>\n");
    Ok(())
}

const STYLE: &str = "<style>
text { font-family: 'Helvetica Neue', Arial, sans-serif; fill: #1f2937; }
.title { font-size: 18px; font-weight: 600; }
.name { font-size: 15px; font-weight: 600; }
.port { font-size: 12px; }
.small { font-size: 11px; fill: #4b5563; }
.cable { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
</style>
";

fn is_left(host: usize) -> bool {
    host.is_multiple_of(2)
}

impl Picture {
    /// Hosts go left and right by turns, in the order of the file.
    fn place_hosts(&mut self, spec: &FabricSpec, right: i64) {
        let cabled: BTreeSet<PortRef> = spec.cables.iter().flat_map(|cable| cable.ends).collect();
        let mut next = [TOP, TOP];
        for (host_index, host) in spec.hosts.iter().enumerate() {
            let left = is_left(host_index);
            let (x, y) = if left { (MARGIN, next[0]) } else { (right, next[1]) };
            self.line(x + 12, y + 22, "name", false, host.name.clone());
            self.line(x + 12, y + 38, "small", false, host.part.name.clone());
            let mut at = y + HEAD;
            for (hca_index, hca) in host.hcas.iter().enumerate() {
                let tuned = if hca.tune_pci { ", tune_pci" } else { "" };
                self.line(x + 12, at + 14, "port", false, hca.device.clone());
                self.line(x + 12, at + 28, "small", false, format!("{}{tuned}", hca.part.name));
                at += HCA_HEAD;
                for number in 1..=hca.part.ports {
                    let port = PortRef::Hca { host: host_index, hca: hca_index, port: PortNumber(number) };
                    if cabled.contains(&port) {
                        let anchor = Anchor { x: if left { x + BOX_WIDTH } else { x }, y: at + PORT_ROW / 2, outward: if left { 1 } else { -1 } };
                        self.port(port, anchor, format!("port {number}"));
                        at += PORT_ROW;
                    }
                }
            }
            self.finish_box(x, y, at + 8, "#eff6ff");
            next[usize::from(!left)] = at + 8 + GAP;
        }
    }

    /// Switches stand below each other; a port is on the side of what it is cabled to, those to other switches come last.
    fn place_switches(&mut self, spec: &FabricSpec, x: i64) {
        let mut next = TOP;
        for (index, switch) in spec.switches.iter().enumerate() {
            self.line(x + 12, next + 22, "name", false, switch.name.clone());
            self.line(x + 12, next + 38, "small", false, switch.part.name.clone());
            let [left, right, onward] = switch_ports(spec, index);
            let top = next + HEAD;
            let below = self.column(&left, x, top, -1).max(self.column(&right, x + BOX_WIDTH, top, 1));
            let bottom = self.column(&onward, x + BOX_WIDTH, below, 1) + 8;
            self.finish_box(x, next, bottom, "#f0fdf4");
            next = bottom + GAP;
        }
    }

    /// Ports below each other on one side of a switch; where the next row begins.
    fn column(&mut self, ports: &[PortRef], x: i64, top: i64, outward: i64) -> i64 {
        let mut at = top;
        for port in ports {
            let PortRef::Switch { port: number, .. } = port else { continue };
            self.port(*port, Anchor { x, y: at + PORT_ROW / 2, outward }, format!("port {}", number.0));
            at += PORT_ROW;
        }
        at
    }

    fn line(&mut self, x: i64, y: i64, class: &'static str, end: bool, text: String) {
        self.lines.push(Line { x, y, class, end, text });
    }

    fn port(&mut self, port: PortRef, anchor: Anchor, text: String) {
        self.line(anchor.x - anchor.outward * 12, anchor.y + 4, "port", anchor.outward > 0, text);
        self.anchors.insert(port, anchor);
    }

    fn finish_box(&mut self, x: i64, top: i64, bottom: i64, fill: &'static str) {
        self.boxes.push((x, top, bottom - top, fill));
        self.bottom = self.bottom.max(bottom);
    }

    fn write_boxes(&self, out: &mut String) -> std::fmt::Result {
        for (x, y, height, fill) in &self.boxes {
            writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"{fill}\" stroke=\"#64748b\"/>")?;
        }
        for anchor in self.anchors.values() {
            writeln!(out, "<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"12\" fill=\"#334155\"/>", anchor.x - 4, anchor.y - 6)?;
        }
        for line in &self.lines {
            let end = if line.end { " text-anchor=\"end\"" } else { "" };
            writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"{}\"{end}>{}</text>", line.x, line.y, line.class, escape_xml(&line.text))?;
        }
        Ok(())
    }

    /// Both ends of a cable, the one that its label stands at first: a host's straight piece has the room.
    fn ends(&self, cable: &CableSpec) -> Option<[(PortRef, Anchor); 2]> {
        let [a, b] = cable.ends.map(|end| self.anchors.get(&end).map(|anchor| (end, *anchor)));
        let (a, b) = (a?, b?);
        Some(if is_hca(a.0) { [a, b] } else { [b, a] })
    }

    fn write_cable(&self, out: &mut String, spec: &FabricSpec, index: usize) -> std::fmt::Result {
        let cable = &spec.cables[index];
        let Some([(first, a), (second, b)]) = self.ends(cable) else { return Ok(()) };
        let reach = |end: PortRef| match (is_hca(end), is_hca(first)) {
            (true, _) => STUB,
            (false, true) => SLANT / 4,
            // Between switches: side by side, as far as there is room.
            (false, false) => 8 + index as i64 % 5 * 10,
        };
        let (bend_a, bend_b) = (a.x + a.outward * reach(first), b.x + b.outward * reach(second));
        let color = if cable.part.medium == Medium::Copper { COPPER } else { OPTICAL };
        let path = format!("M{} {} L{bend_a} {} L{bend_b} {} L{} {}", a.x, a.y, a.y, b.y, b.x, b.y);
        writeln!(out, "<path class=\"cable\" stroke=\"{color}\" d=\"{path}\"/>")
    }

    fn write_label(&self, out: &mut String, spec: &FabricSpec, cable: &CableSpec) -> std::fmt::Result {
        let Some([(first, at), _]) = self.ends(cable) else { return Ok(()) };
        // Between switches the label stands in the box, in the port's own row.
        let x = if is_hca(first) { at.x + at.outward * 12 } else { at.x - BOX_WIDTH + 12 };
        let end = if at.outward < 0 { " text-anchor=\"end\"" } else { "" };
        let what = format!("{}, {}", cable.part.name, metres(cable.part.length_millimetres));
        let how = format!("{}, {}, MTU {}", cable.rate_name(), lanes(spec, cable), mtu_bytes(spec, cable));
        writeln!(out, "<text x=\"{x}\" y=\"{}\" class=\"small\"{end}>{}</text>", at.y - 6, escape_xml(&what))?;
        writeln!(out, "<text x=\"{x}\" y=\"{}\" class=\"small\"{end}>{}</text>", at.y + 15, escape_xml(&how))
    }
}

fn is_hca(end: PortRef) -> bool {
    matches!(end, PortRef::Hca { .. })
}

/// The cabled ports of a switch: to hosts on the left, to hosts on the right, to switches.
fn switch_ports(spec: &FabricSpec, index: usize) -> [Vec<PortRef>; 3] {
    let mut sides = [const { Vec::new() }; 3];
    for cable in &spec.cables {
        let [a, b] = cable.ends;
        for (own, other) in [(a, b), (b, a)] {
            if matches!(own, PortRef::Switch { switch, .. } if switch == index) {
                let side = match other {
                    PortRef::Hca { host, .. } => usize::from(!is_left(host)),
                    PortRef::Switch { .. } => 2,
                };
                // By the place of the other end, so that few cables cross.
                sides[side].push((other, own));
            }
        }
    }
    sides.map(|mut side| {
        side.sort_unstable();
        side.into_iter().map(|(_, own)| own).collect()
    })
}

fn write_legend(out: &mut String, height: i64) -> std::fmt::Result {
    for (x, color, text) in [(MARGIN, COPPER, "copper"), (MARGIN + 110, OPTICAL, "optical")] {
        let y = height - 18;
        writeln!(out, "<path class=\"cable\" stroke=\"{color}\" d=\"M{x} {y} L{} {y}\"/>", x + 28)?;
        writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"small\">{text}</text>", x + 36, y + 4)?;
    }
    Ok(())
}

/// Text for XML: its special characters escaped, those that it cannot hold left out.
pub fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            character if character.is_control() => {}
            character => escaped.push(character),
        }
    }
    escaped
}
