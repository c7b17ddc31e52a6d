//! Each cable as two halves. The half at a port shows the traffic that the port sends.

use super::{Loads, class, mark};
use softband_catalog::drawing::{Drawing, Places};
use softband_catalog::escape_xml;
use std::fmt::Write;

pub(super) fn stroke_width(stalled: f64) -> f64 {
    2.5 + 9.5 * stalled.clamp(0.0, 1.0)
}

pub(super) fn write(drawing: &Drawing, out: &mut String, loads: &Loads<'_>) {
    // The hottest halves come last, above the others.
    let mut halves: Vec<_> = drawing.halves.iter().filter_map(|half| Some((half, *loads.ports.get(&half.port)?))).collect();
    halves.sort_by_key(|(half, report)| (class(report.xmit_utilisation), class(report.stalled), half.port));
    for (half, report) in &halves {
        let (width, busy, stalled) = (stroke_width(report.stalled), report.xmit_utilisation * 100.0, report.stalled * 100.0);
        let told = format!("{} to {}: sends {busy:.1} % of the time, {stalled:.1} % without credits", report.name, report.peer_name);
        let _ = writeln!(
            out,
            "<path class=\"b{}\" stroke-width=\"{width:.1}\" d=\"{}\"><title>{}</title></path>",
            class(report.xmit_utilisation),
            half.path(),
            escape_xml(&told)
        );
    }
    drawing.nodes.iter().for_each(|node| node.write(out));
    let mut places = Places::new(&drawing.nodes);
    for (half, report) in halves {
        if let Some(number) = loads.numbers.get(&report.port) {
            mark(out, places.mark(half), *number);
        }
    }
}
