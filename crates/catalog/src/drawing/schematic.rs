//! Schematic of a large fabric: a box for each level, the highest on top, and a line for each kind
//! of cable between two levels.

use super::MARGIN;
use super::kinds::{Kinds, class_of};
use super::levels::Levels;
use super::style::escape_xml;
use softband_spec::FabricSpec;
use softband_types::counted;
use std::fmt::Write;

const BOX: i64 = 44;
/// Distance between boxes with one line of text between them, and the extra for each further line,
/// in pixels.
const GAP: i64 = 70;
const LINE: i64 = 22;

/// Writes the schematic. Returns its lower end, in pixels.
pub(super) fn write(out: &mut String, spec: &FabricSpec, levels: &Levels, kinds: &Kinds, (top, width): (i64, i64)) -> i64 {
    let mut y = top;
    for level in (0..=levels.top()).rev() {
        node_box(out, spec, levels, kinds, level, (y, width));
        y += BOX;
        if level > 0 {
            y = cables(out, kinds, (level - 1, level), (y, width));
        }
    }
    y
}

/// Writes the kinds of cables between two levels, one below another. Returns the start of the next box.
fn cables(out: &mut String, kinds: &Kinds, levels: (usize, usize), (top, width): (i64, i64)) -> i64 {
    let of_levels: Vec<_> = kinds.all.iter().filter_map(|kind| Some((kind, *kind.between.get(&levels)?))).collect();
    let bottom = top + GAP + LINE * (of_levels.len() as i64 - 1).max(0);
    let mut x = width / 3 - 10 * (of_levels.len() as i64 - 1);
    let text_x = width / 3 + 16;
    for (index, (kind, count)) in of_levels.iter().enumerate() {
        let y = top + GAP / 2 + 4 + index as i64 * LINE;
        let letter = if kinds.are_many() { format!(" {}", kind.letter) } else { String::new() };
        let _ = writeln!(out, "<path class=\"cable {}\" d=\"M{x} {top}V{bottom}\"/>", class_of(kind.medium));
        let _ = writeln!(out, "<text x=\"{text_x}\" y=\"{y}\">{}{letter}</text>", counted(*count, "cable", "cables"));
        x += 10;
    }
    bottom
}

fn node_box(out: &mut String, spec: &FabricSpec, levels: &Levels, kinds: &Kinds, level: usize, (y, width): (i64, i64)) {
    let count = match level {
        0 => counted(spec.hosts.len(), "host", "hosts"),
        _ => counted((0..spec.switches.len()).filter(|switch| levels.of_switch(*switch) == level).count(), "switch", "switches"),
    };
    let among = kinds.all.iter().filter_map(|kind| Some((&kind.letter, *kind.between.get(&(level, level))?)));
    let among = among.map(|(letter, count)| {
        let letter = if kinds.are_many() { format!(" {letter}") } else { String::new() };
        format!(", {}{letter} among them", counted(count, "cable", "cables"))
    });
    let class = if level == 0 { "host" } else { "switch" };
    let _ = writeln!(out, "<rect x=\"{MARGIN}\" y=\"{y}\" width=\"{}\" height=\"{BOX}\" rx=\"6\" class=\"{class}\"/>", width - 2 * MARGIN);
    let (middle, names) = (width / 2, escape_xml(&levels.names(spec, level)));
    let _ = writeln!(out, "<text x=\"{middle}\" y=\"{}\" class=\"head middle\">{names}</text>", y + 18);
    let _ = writeln!(out, "<text x=\"{middle}\" y=\"{}\" class=\"middle\">{count}{}</text>", y + 35, among.collect::<String>());
}
