//! `hot.svg`: the fabric with the load of each direction of each cable. A small fabric shows every
//! node. A larger fabric shows a matrix of ports and switches for each level. The same run gives
//! the same bytes.

mod cables;
mod levels;
mod matrix;

pub(super) use levels::{LevelLoad, level_loads};

use softband_catalog::drawing::{self, Frame, Levels, MARGIN, NODES_MAX};
use softband_catalog::escape_xml;
use softband_spec::{FabricSpec, PortRef};
use softband_workload::{HotPort, PortReport};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most hot ports with a number.
const NUMBERED: usize = 10;
const CABLES_EXPLAINED: &str =
    "The half of a cable at a port is what this port sends. Colour: how long it sends; width: how long packets wait without credits.";
const MATRIX_EXPLAINED: &str =
    "One cell for each port that sends. Upper rows: how long it sends; lower rows: how long packets wait there without credits.";
const LINE: i64 = 20;
/// Width of the text before the colours and widths of a legend, in pixels.
const LEGEND_TEXT: i64 = 226;
const WIDTH_MIN: i64 = 860;

/// Shares of the run's time at which a darker colour begins. Below the first, a link counts as idle.
const CLASSES: [f64; 5] = [0.01, 0.2, 0.4, 0.6, 0.8];
const CLASS_NAMES: [&str; 6] = ["under 1 %", "to 20 %", "to 40 %", "to 60 %", "to 80 %", "over 80 %"];
/// Colours of sending links and of time without credits. Each is darker than the previous, also in
/// greyscale.
const BUSY: [&str; 6] = ["#d5dbe3", "#fdcc8a", "#fc9d59", "#ef6548", "#c8232c", "#67000d"];
const STALLED: [&str; 6] = ["#eef1f5", "#bdd7e7", "#7fb8da", "#3182bd", "#08519c", "#08264f"];
/// The same for a dark background. Each is brighter than the previous.
const BUSY_DARK: [&str; 6] = ["#334155", "#7c3a12", "#b8501a", "#ea7a2f", "#fbb36b", "#ffe9cf"];
const STALLED_DARK: [&str; 6] = ["#26324a", "#1f4f78", "#2b77ad", "#52a3d8", "#94ccf0", "#e0f2fe"];

fn class(share: f64) -> usize {
    CLASSES.iter().filter(|from| share >= **from).count()
}

/// Reports by port, and the ranks of the hottest ports, from 1.
struct Loads<'a> {
    ports: BTreeMap<PortRef, &'a PortReport>,
    numbers: BTreeMap<PortRef, usize>,
}

impl<'a> Loads<'a> {
    fn new(ports: &'a [PortReport], hot: &[HotPort]) -> Self {
        let by_name: BTreeMap<&str, PortRef> = ports.iter().map(|report| (report.name.as_str(), report.port)).collect();
        let numbers = hot.iter().take(NUMBERED).enumerate().map(|(index, hot)| (by_name[hot.name.as_str()], index + 1)).collect();
        Self { ports: ports.iter().map(|report| (report.port, report)).collect(), numbers }
    }
}

/// Draws the whole file.
pub(super) fn draw(spec: &FabricSpec, ports: &[PortReport], hot: &[HotPort], what: &str) -> String {
    let loads = Loads::new(ports, hot);
    let levels = Levels::of(spec);
    let is_small = spec.hosts.len() + spec.switches.len() <= NODES_MAX;
    let mut body = String::new();
    let top = drawing::heading(&mut body, WIDTH_MIN, &spec.title, &[what, if is_small { CABLES_EXPLAINED } else { MATRIX_EXPLAINED }]) + LINE;
    let (width, below) = if is_small {
        let drawing = drawing::place(spec, &levels, Frame { top, width_min: WIDTH_MIN });
        cables::write(&drawing, &mut body, &loads);
        (drawing.width, legend_of_cables(&mut body, drawing.height))
    } else {
        matrix::write(&mut body, spec, &levels, &loads, top)
    };
    let height = list_of_hot(&mut body, hot, below) + MARGIN;
    let style = drawing::style(width, &colours(BUSY, STALLED), &colours(BUSY_DARK, STALLED_DARK));
    drawing::opening((width, height), &format!("{}: {what}", spec.title), &described(spec, hot), &style) + &body + "</svg>\n"
}

/// Returns a description for readers who cannot see the picture: the contents and the hottest ports.
fn described(spec: &FabricSpec, hot: &[HotPort]) -> String {
    let hottest: Vec<String> = hot.iter().take(NUMBERED).map(told).collect();
    let hottest = if hottest.is_empty() { NOTHING_HOT.to_owned() } else { format!("Hottest ports: {}.", hottest.join("; ")) };
    format!("The load of each direction of each cable of a fabric: {}. {hottest}", softband_catalog::summary(spec))
}

const NOTHING_HOT: &str = "No port sends for more than 80 % of the time or waits for a host's credits.";

fn told(port: &HotPort) -> String {
    let (busy, stalled) = (port.utilisation * 100.0, port.stalled * 100.0);
    format!("{} to {}: sends {busy:.1} % of the time, {stalled:.1} % without credits", port.name, port.to)
}

fn colours(busy: [&str; 6], stalled: [&str; 6]) -> String {
    let of = |letter, all: [&str; 6]| (0..).zip(all).map(|(index, colour)| format!(".{letter}{index} {{ stroke: {colour}; }}\n")).collect::<String>();
    of('b', busy) + &of('s', stalled)
}

/// Writes the colours of one measure from `x` on. Returns the x of the next element.
fn legend_of_colours(out: &mut String, (x, y): (i64, i64), what: &str, letter: char) -> i64 {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\">{what}</text>", y + 4);
    let mut at = x + LEGEND_TEXT;
    for (index, name) in CLASS_NAMES.iter().enumerate() {
        let _ = writeln!(out, "<path class=\"{letter}{index}\" stroke-width=\"12\" d=\"M{at} {y}h22\"/>");
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"small\">{name}</text>", at + 27, y + 4);
        at += 38 + 7 * name.chars().count() as i64;
    }
    at
}

fn legend_of_cables(out: &mut String, top: i64) -> i64 {
    legend_of_colours(out, (MARGIN, top + 8), "Sends, share of the run's time:", 'b');
    let y = top + 8 + LINE + 6;
    let what = "Waits without credits, share of it:";
    let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{}\">{what}</text>", y + 4);
    let mut at = MARGIN + LEGEND_TEXT;
    for percent in [0, 25, 50, 100] {
        let width = cables::stroke_width(f64::from(percent) / 100.0);
        let _ = writeln!(out, "<path class=\"b3\" stroke-width=\"{width:.1}\" d=\"M{at} {y}h30\"/>");
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"small\">{percent} %</text>", at + 36, y + 4);
        at += 84;
    }
    y + LINE
}

/// Writes the names of the numbered ports. Returns the end of the picture.
fn list_of_hot(out: &mut String, hot: &[HotPort], top: i64) -> i64 {
    let mut y = top + LINE;
    if hot.is_empty() {
        let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{y}\">{NOTHING_HOT}</text>");
        return y;
    }
    let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{y}\" class=\"head\">Hottest ports</text>");
    for (index, port) in hot.iter().take(NUMBERED).enumerate() {
        y += LINE;
        mark(out, (MARGIN + 10, y - 4), index + 1);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{y}\">{}</text>", MARGIN + 28, escape_xml(&told(port)));
    }
    if hot.len() > NUMBERED {
        y += LINE;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{y}\" class=\"small\">and {} more (model.json)</text>", MARGIN + 28, hot.len() - NUMBERED);
    }
    y
}

/// Writes the number of a hot port.
fn mark(out: &mut String, (x, y): (i64, i64), number: usize) {
    let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"8.5\" class=\"badge\"/><text x=\"{x}\" y=\"{}\" class=\"mark\">{number}</text>", y + 4);
}
