//! A large fabric as two matrices for each level: the sending times of its ports, and the waits of
//! packets without credits.
//! Switches stand along one side, their ports along the other. If there are too many, a cell shows
//! the worst of several.

use super::levels::grouped;
use super::{CLASSES, LINE, Loads, MARGIN, class, legend_of_colours, mark};
use crate::output::count;
use softband_catalog::drawing::Levels;
use softband_catalog::escape_xml;
use softband_spec::{FabricSpec, PortRef};
use softband_workload::PortReport;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: i64 = 1320;
/// Room for names and port numbers left of the cells, in pixels.
const LABELS: i64 = 92;
const CELLS: i64 = WIDTH - 2 * MARGIN - LABELS;
/// Most cells along each side, and the largest cell in pixels.
const COLUMNS_MAX: usize = 360;
const ROWS_MAX: usize = 64;
const CELL_MAX: i64 = 24;
const MATRIX_HEIGHT: i64 = 84;
/// Least size of cells with lines between them, in pixels.
const LINED: f64 = 5.0;

/// The cells of a matrix.
struct Cells<'a> {
    /// Names of the switches. A column or row stands for one switch or for several.
    names: Vec<&'a str>,
    /// Port numbers of the switches.
    ports: Vec<u8>,
    by_place: BTreeMap<(usize, usize), &'a PortReport>,
    /// Whether the switches lie along the width.
    is_wide: bool,
}

/// Writes the matrices. Returns the end of the picture.
pub(super) fn write(out: &mut String, spec: &FabricSpec, levels: &Levels, loads: &Loads<'_>, top: i64) -> (i64, i64) {
    let ports: Vec<&PortReport> = spec.cables.iter().flat_map(|cable| cable.ends).filter_map(|end| loads.ports.get(&end).copied()).collect();
    let first = legend_of_colours(out, (MARGIN, top), "Sends, share of the run's time:", 'b');
    let second = legend_of_colours(out, (MARGIN, top + LINE), "Waits without credits:", 's');
    let mut y = top + 3 * LINE;
    for ((from, to), reports) in grouped(levels, &ports) {
        let cells = Cells::new(spec, &reports);
        y = heading(out, (levels.names(spec, from), levels.names(spec, to)), &reports, &cells, y);
        y = cells.write(out, loads, y, 'b', |report| report.xmit_utilisation);
        y = cells.write(out, loads, y + 14, 's', |report| report.stalled) + 2 * LINE;
    }
    (WIDTH.max(first).max(second), y)
}

fn heading(out: &mut String, (from, to): (String, String), reports: &[&PortReport], cells: &Cells<'_>, y: i64) -> i64 {
    let mean = reports.iter().map(|report| report.xmit_utilisation).sum::<f64>() / reports.len() as f64;
    let full = reports.iter().filter(|report| class(report.xmit_utilisation) == CLASSES.len()).count();
    let stalled = reports.iter().map(|report| report.stalled).sum::<f64>() / reports.len() as f64;
    let most = reports.iter().map(|report| report.stalled).fold(0.0, f64::max);
    let what = format!(
        "{}: {:.1} % of the time on average, {full} of them more than 80 %; without credits {:.1} %, most {:.1} %",
        count(reports.len(), "port", "ports"),
        mean * 100.0,
        stalled * 100.0,
        most * 100.0
    );
    let merged = match (cells.columns_in_one(), cells.rows_in_one()) {
        (1, 1) => String::new(),
        (columns, rows) => format!("; a cell is the worst of {}", columns * rows),
    };
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{y}\"><tspan class=\"head\">{} to {}</tspan><tspan class=\"small\" dx=\"14\">{what}{merged}</tspan></text>",
        escape_xml(&from),
        escape_xml(&to)
    );
    y + 10
}

/// Returns the switch of a port's column and the port number there. A host's port stands at the
/// switch port of its cable.
fn place(report: &PortReport) -> Option<(usize, u8)> {
    [report.port, report.peer].into_iter().find_map(|end| match end {
        PortRef::Switch { switch, port } => Some((switch, port.0)),
        PortRef::Hca { .. } => None,
    })
}

impl<'a> Cells<'a> {
    fn new(spec: &'a FabricSpec, reports: &[&'a PortReport]) -> Self {
        // Between hosts, hosts take the place of switches.
        let place = |report: &PortReport| match (place(report), report.port) {
            (Some(place), _) => place,
            (None, PortRef::Hca { host, port, .. }) => (host, port.0),
            (None, PortRef::Switch { .. }) => (0, 0),
        };
        let has_switch = reports.iter().any(|report| self::place(report).is_some());
        let mut switches: BTreeMap<usize, usize> = BTreeMap::new();
        let mut ports: BTreeMap<u8, usize> = BTreeMap::new();
        for (switch, port) in reports.iter().map(|report| place(report)) {
            switches.insert(switch, 0);
            ports.insert(port, 0);
        }
        switches.values_mut().enumerate().for_each(|(index, column)| *column = index);
        ports.values_mut().enumerate().for_each(|(index, row)| *row = index);
        let by_place = reports.iter().map(|report| {
            let (switch, port) = place(report);
            ((switches[&switch], ports[&port]), *report)
        });
        let name = |index: &usize| if has_switch { spec.switches[*index].name.as_str() } else { spec.hosts[*index].name.as_str() };
        Self {
            by_place: by_place.collect(),
            names: switches.keys().map(name).collect(),
            is_wide: switches.len() >= ports.len(),
            ports: ports.into_keys().collect(),
        }
    }

    /// Returns the numbers of places along the width and the height.
    fn places(&self) -> (usize, usize) {
        if self.is_wide { (self.names.len(), self.ports.len()) } else { (self.ports.len(), self.names.len()) }
    }
    fn columns_in_one(&self) -> usize {
        self.places().0.div_ceil(COLUMNS_MAX)
    }
    fn rows_in_one(&self) -> usize {
        self.places().1.div_ceil(ROWS_MAX)
    }
    fn counts(&self) -> (usize, usize) {
        (self.places().0.div_ceil(self.columns_in_one()), self.places().1.div_ceil(self.rows_in_one()))
    }
    fn size(&self) -> (f64, f64) {
        let (columns, rows) = self.counts();
        let width = (CELLS as f64 / columns as f64).min(CELL_MAX as f64);
        (width, (MATRIX_HEIGHT as f64 / rows as f64).clamp(4.0, 14.0))
    }
    fn cell(&self, (switch, port): (usize, usize)) -> (usize, usize) {
        let (column, row) = if self.is_wide { (switch, port) } else { (port, switch) };
        (column / self.columns_in_one(), row / self.rows_in_one())
    }

    fn write(&self, out: &mut String, loads: &Loads<'_>, y: i64, letter: char, share: fn(&PortReport) -> f64) -> i64 {
        let mut worst: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (place, report) in &self.by_place {
            let class_of_cell = worst.entry(self.cell(*place)).or_default();
            *class_of_cell = (*class_of_cell).max(class(share(report)));
        }
        let ((columns, rows), (width, height)) = (self.counts(), self.size());
        let left = MARGIN + LABELS;
        let _ = writeln!(out, "<g transform=\"translate({left} {y}) scale({width:.3} {height:.3})\" shape-rendering=\"crispEdges\">");
        for class in 0..=CLASSES.len() {
            let path = runs(worst.iter().filter(|(_, of)| **of == class).map(|(cell, _)| *cell));
            if !path.is_empty() {
                let _ = writeln!(out, "<path class=\"{letter}{class}\" d=\"{path}\"/>");
            }
        }
        let _ = writeln!(out, "</g>");
        let bottom = y + (rows as f64 * height).round() as i64;
        if width >= LINED && height >= LINED {
            self.lines(out, y);
        }
        self.labels(out, y, bottom, letter == 's');
        if letter == 'b' {
            for (place, report) in &self.by_place {
                if let Some(number) = loads.numbers.get(&report.port) {
                    let (column, row) = self.cell(*place);
                    // The mark stands beside the cell, which must stay visible.
                    let (x, middle) = ((column + 1) as f64 * width, (row as f64 + 0.5) * height);
                    mark(out, (left + x.round() as i64 + 9, y + middle.round() as i64), *number);
                }
            }
        }
        debug_assert!(worst.len() <= columns * rows);
        bottom
    }

    fn lines(&self, out: &mut String, y: i64) {
        let ((columns, rows), (width, height)) = (self.counts(), self.size());
        let left = MARGIN + LABELS;
        let mut path = String::new();
        for column in 1..columns {
            let _ = write!(path, "M{:.1} {y}v{:.0}", left as f64 + column as f64 * width, rows as f64 * height);
        }
        for row in 1..rows {
            let _ = write!(path, "M{left} {:.1}h{:.0}", y as f64 + row as f64 * height, columns as f64 * width);
        }
        let _ = writeln!(out, "<path class=\"gap\" d=\"{path}\"/>");
    }

    /// Writes the labels of the rows, and those of the columns below the second matrix.
    fn labels(&self, out: &mut String, y: i64, bottom: i64, with_columns: bool) {
        let port_names: Vec<String> = self.ports.iter().map(|port| format!("port {port}")).collect();
        let port_names: Vec<&str> = port_names.iter().map(String::as_str).collect();
        let (across, down) = if self.is_wide { (&self.names, &port_names) } else { (&port_names, &self.names) };
        let x = MARGIN + LABELS - 8;
        let (_, height) = self.size();
        let named = |row: usize| (y as f64 + (row / self.rows_in_one()) as f64 * height + height / 2.0).round() as i64 + 4;
        let ends = if bottom - y < 24 { vec![0] } else { vec![0, down.len() - 1] };
        for row in ends {
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" class=\"small end\">{}</text>", named(row), escape_xml(down[row]));
        }
        if with_columns {
            let (width, _) = self.size();
            let longest = across.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64 * 7.0 + 26.0;
            let each = (longest / width * self.columns_in_one() as f64).ceil().max(1.0) as usize;
            for (index, name) in across.iter().enumerate().step_by(each) {
                let x = (MARGIN + LABELS) as f64 + ((index / self.columns_in_one()) as f64 + 0.5) * width;
                let (x, y) = (x.round() as i64, bottom + 15);
                if x + longest as i64 > WIDTH {
                    break;
                }
                let _ = writeln!(
                    out,
                    "<path class=\"tick\" d=\"M{x} {}v4\"/><text x=\"{x}\" y=\"{y}\" class=\"small\">{}</text>",
                    bottom + 1,
                    escape_xml(name)
                );
            }
        }
    }
}

/// Returns the cells of one colour as downward strokes, each a unit wide.
fn runs(cells: impl Iterator<Item = (usize, usize)>) -> String {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (column, row) in cells {
        match runs.last_mut() {
            Some((of, first, count)) if *of == column && *first + *count == row => *count += 1,
            _ => runs.push((column, row, 1)),
        }
    }
    let mut path = String::new();
    // Each stroke starts relative to the end of the last. Only the first writes the half unit of
    // the column's middle.
    let mut at: Option<(i64, i64)> = None;
    for (column, row, count) in runs {
        let (column, row) = (column as i64, row as i64);
        let _ = match at {
            None => write!(path, "M{column}.5 {row}v{count}"),
            Some((x, y)) => write!(path, "m{} {}v{count}", column - x, row - y),
        };
        at = Some((column, row + count as i64));
    }
    path
}
