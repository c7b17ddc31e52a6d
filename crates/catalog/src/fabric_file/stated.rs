//! Derived values that a resolved fabric repeats. The loader checks them, so that an edited file
//! cannot contradict itself.

use std::ops::Range;

use softband_spec::CableSpec;
use softband_types::LinkLayer;

use super::nodes::HcaDraft;
use crate::diagnostic::Findings;
use crate::document::Fields;

/// A stated value with its place.
pub(super) type Stated<T> = (T, Range<usize>);

/// Reads the text of `key`. Messages do not list this key, so the code asks for it only if it is present.
pub(super) fn text(fields: &mut Fields<'_>, key: &'static str, example: &str, findings: &mut Findings) -> Option<Stated<String>> {
    let found = fields.has(key).then(|| fields.optional_text(key, example, findings)).flatten();
    found.map(|(text, span)| (text.to_owned(), span))
}

/// The derived values of a cable in a resolved fabric.
pub(super) struct OfCable {
    width: Option<Stated<String>>,
    delay_ps: Option<Stated<i64>>,
}

pub(super) fn of_cable(fields: &mut Fields<'_>, findings: &mut Findings) -> OfCable {
    let width = text(fields, "width", "\"4X\"", findings);
    let delay_ps = fields.has("delay_ps").then(|| fields.optional_integer("delay_ps", findings)).flatten();
    OfCable { width, delay_ps }
}

impl OfCable {
    /// Compares the values with the cable between `ends`.
    pub(super) fn check(&self, cable: &CableSpec, [from, to]: [&str; 2], findings: &mut Findings) {
        let link = format!("the link from `{from}` to `{to}`");
        if let Some((width, span)) = &self.width {
            let trained = match cable.part.link_layer() {
                LinkLayer::Infiniband => cable.rate.width.to_string(),
                LinkLayer::Ethernet => "no width of its own".to_owned(),
            };
            if *width != trained {
                differs(&link, "width", (width, &trained), span, findings);
            }
        }
        if let Some((picos, span)) = &self.delay_ps {
            let delay = cable.part.delay(cable.rate).as_picos();
            if u64::try_from(*picos) != Ok(delay) {
                differs(&link, "delay_ps", (&picos.to_string(), &delay.to_string()), span, findings);
            }
        }
    }
}

/// Compares the stated slot of an HCA with the training result of card and slot.
pub(super) fn check_slot(host: &str, hca: &HcaDraft, findings: &mut Findings) {
    let (Some((stated, span)), Some(bus)) = (&hca.slot_trained, &hca.bus) else { return };
    let trained = bus.slot.interface().to_string();
    if *stated != trained {
        differs(&format!("`{host}/{}`", hca.device), "slot_trained", (stated, &trained), span, findings);
    }
}

fn differs(what: &str, key: &str, (stated, is): (&str, &str), span: &Range<usize>, findings: &mut Findings) {
    let message = format!("{what} has `{key}` {is} by its parts, and the file states {stated}");
    let help = format!("remove `{key}`: it follows from the parts");
    findings.error(message, vec![(span.clone(), "this value".to_owned())], Some(help));
}
