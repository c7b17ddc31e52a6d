//! Converts a part's raw parameters to typed values and reports the faults of each.

use std::ops::Range;

use softband_sim::SimDuration;
use softband_types::{EthernetRate, LinkLayer, LinkSpeed, LinkWidth, Mtu, OperationalVls};

use crate::diagnostic::{Findings, suggest};
use crate::document::{Node, Value};
use crate::parts::raw::{RawParameter, RawPart};
use crate::parts::{Parameter, PartSheet, Status};
use crate::units::{Dimension, Number, or_list};

/// Takes parameters one by one. A fault yields a placeholder, so that one load finds all faults of a file.
pub(crate) struct PartReader<'a> {
    part: &'a RawPart,
    findings: &'a mut Findings,
    known: Vec<String>,
    sheet: Vec<Parameter>,
    /// Parameters with a reported fault. Their placeholders raise no further faults.
    failed: Vec<String>,
}

impl<'a> PartReader<'a> {
    pub(crate) fn new(part: &'a RawPart, findings: &'a mut Findings) -> Self {
        Self { part, findings, known: Vec::new(), sheet: Vec::new(), failed: Vec::new() }
    }

    pub(crate) fn name(&self) -> String {
        self.part.name.clone()
    }
    pub(crate) fn text(&mut self, name: &str) -> String {
        self.text_as(name, Dimension::Name).map_or(String::new(), |(text, _)| text)
    }
    /// Reads the name of another part, with its place if it stands in this file.
    pub(crate) fn part(&mut self, name: &str) -> (String, Range<usize>) {
        self.text_as(name, Dimension::Part).unwrap_or_default()
    }
    pub(crate) fn optional_part(&mut self, name: &str) -> Option<(String, Range<usize>)> {
        if self.peek(name) { self.text_as(name, Dimension::Part) } else { None }
    }
    pub(crate) fn bytes(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Bytes)
    }
    pub(crate) fn optional_bytes(&mut self, name: &str) -> Option<u32> {
        self.peek(name).then(|| self.bytes(name))
    }
    pub(crate) fn count(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Count)
    }
    pub(crate) fn optional_count(&mut self, name: &str) -> Option<u32> {
        self.peek(name).then(|| self.count(name))
    }
    pub(crate) fn code(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Code)
    }
    pub(crate) fn id(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Id)
    }
    /// Reads a number of at most `bits` bits, fewer than 32; 0 if the part has none.
    pub(crate) fn optional_id(&mut self, name: &str, bits: u32) -> u32 {
        let id = if self.peek(name) { self.id(name) } else { 0 };
        let most = (1 << bits) - 1;
        if id > most {
            self.refuse(name, format!("{id} is too large: it has {bits} bits"), Some(format!("write 0 to {most}")));
        }
        id.min(most)
    }
    pub(crate) fn share_ppm(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Share)
    }
    pub(crate) fn megahertz(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Frequency)
    }
    pub(crate) fn bits(&mut self, name: &str) -> u32 {
        self.small(name, Dimension::Bits)
    }
    pub(crate) fn duration(&mut self, name: &str) -> SimDuration {
        SimDuration::from_picos(self.number(name, Dimension::Duration).unwrap_or(0))
    }
    pub(crate) fn optional_duration(&mut self, name: &str) -> Option<SimDuration> {
        self.peek(name).then(|| self.duration(name))
    }
    /// Returns whether the part's own file has `name`. Makes `name` a known key that is not on the sheet.
    pub(crate) fn writes(&mut self, name: &str) -> bool {
        self.know(name);
        self.part.parameters.iter().any(|parameter| parameter.name == name && !parameter.inherited)
    }
    pub(crate) fn rate(&mut self, name: &str) -> u64 {
        let rate = self.number(name, Dimension::Rate).unwrap_or(1);
        if rate == 0 {
            self.refuse(name, "a rate must be positive".into(), None);
        }
        rate
    }
    pub(crate) fn optional_rate(&mut self, name: &str) -> Option<u64> {
        self.peek(name).then(|| self.rate(name))
    }
    /// Reads a rate of computation. Another processor has another one, so a part does not inherit it.
    pub(crate) fn own_compute_rate(&mut self, name: &str, dimension: Dimension) {
        if self.writes(name) && self.number(name, dimension) == Some(0) {
            self.refuse(name, "a rate must be positive".into(), None);
        }
    }
    pub(crate) fn picos_per_metre(&mut self, name: &str) -> u64 {
        self.number(name, Dimension::DelayPerLength).unwrap_or(0)
    }
    pub(crate) fn optional_millimetres(&mut self, name: &str) -> Option<u64> {
        if self.peek(name) { self.number(name, Dimension::Length) } else { None }
    }
    /// Reads a number of ports: 1 to 254, the range of port numbers.
    pub(crate) fn ports(&mut self) -> u8 {
        let ports = self.count("ports");
        match u8::try_from(ports) {
            Ok(ports @ 1..=254) => ports,
            _ => {
                self.refuse("ports", format!("{ports} ports are not possible"), Some("write 1 to 254".into()));
                1
            }
        }
    }
    pub(crate) fn mtu(&mut self, name: &str) -> Mtu {
        let bytes = self.bytes(name);
        Mtu::from_bytes(bytes).unwrap_or_else(|| {
            self.refuse(name, format!("{bytes} B is not an MTU"), Some("write 256, 512, 1024, 2048 or 4096".into()));
            Mtu::B256
        })
    }
    pub(crate) fn vls(&mut self, name: &str) -> OperationalVls {
        let code = self.small(name, Dimension::Code);
        let vls = u8::try_from(code).ok().and_then(OperationalVls::from_code);
        vls.unwrap_or_else(|| {
            let help = "write 1 (VL0), 2 (VL0-1), 3 (VL0-3), 4 (VL0-7) or 5 (VL0-14)";
            self.refuse(name, format!("{code} is not a code of VLCap"), Some(help.into()));
            OperationalVls::from_code(1).expect("code 1 is VL0")
        })
    }
    /// Reads one of several words.
    pub(crate) fn choice<T: Copy>(&mut self, name: &str, dimension: Dimension, choices: &[(&str, T)]) -> T {
        let text = self.text_as(name, dimension).map(|(text, _)| text);
        let found = choices.iter().find(|(word, _)| Some(*word) == text.as_deref());
        if let (Some(text), None) = (&text, found) {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.refuse(name, format!("unknown value `{text}`"), Some(suggest(text, "values", &words)));
        }
        found.unwrap_or(&choices[0]).1
    }
    /// Reads `yes` or `no`. An absent flag means `no`.
    pub(crate) fn optional_flag(&mut self, name: &str) -> bool {
        self.peek(name) && self.choice(name, Dimension::Name, &[("no", false), ("yes", true)])
    }
    pub(crate) fn width(&mut self, name: &str) -> LinkWidth {
        self.one_of(name, Dimension::LinkWidth, &LinkWidth::ALL)
    }
    pub(crate) fn speed(&mut self, name: &str) -> LinkSpeed {
        self.one_of(name, Dimension::LinkSpeed, &LinkSpeed::ALL)
    }
    pub(crate) fn widths(&mut self) -> Vec<LinkWidth> {
        self.list("widths", Dimension::LinkWidth, &by_word(LinkWidth::ALL))
    }
    pub(crate) fn speeds(&mut self) -> Vec<LinkSpeed> {
        self.list("speeds", Dimension::LinkSpeed, &by_word(LinkSpeed::ALL))
    }
    pub(crate) fn ethernet_rate(&mut self, name: &str) -> EthernetRate {
        self.one_of(name, Dimension::EthernetRate, &EthernetRate::ALL)
    }
    pub(crate) fn ethernet_rates(&mut self) -> Vec<EthernetRate> {
        self.list("ethernet_rates", Dimension::EthernetRate, &by_word(EthernetRate::ALL))
    }
    /// Reads the link layers. The default is InfiniBand alone.
    pub(crate) fn optional_link_layers(&mut self) -> Vec<LinkLayer> {
        if !self.peek("link_layers") {
            return vec![LinkLayer::Infiniband];
        }
        let layers = self.list("link_layers", Dimension::Name, &LinkLayer::ALL.map(|layer| (layer.name().to_owned(), layer)));
        if !layers.is_empty() && !layers.contains(&LinkLayer::Infiniband) {
            let help = "add \"infiniband\": what the part has there (widths, speeds, buffers) it must have in any case";
            self.refuse("link_layers", "an HCA of Ethernet alone cannot be described".into(), Some(help.into()));
        }
        if self.failed.iter().any(|failed| failed == "link_layers") {
            // The Ethernet parameters may be present or absent.
            ["ethernet_rates", "ethernet_buffer", "pause_response"].into_iter().for_each(|name| self.know(name));
            return vec![LinkLayer::Infiniband];
        }
        layers
    }
    pub(crate) fn optional_link_layer(&mut self) -> LinkLayer {
        let choices = LinkLayer::ALL.map(|layer| (layer.name(), layer));
        if self.peek("link_layer") { self.choice("link_layer", Dimension::Name, &choices) } else { LinkLayer::Infiniband }
    }
    /// Reads values for link speeds or rates, such as `forward_latency_sdr`. The part may give
    /// values for the rates that it `runs` and must give those that it `needs`.
    /// `mend` returns the remedy for a value at a rate that the part does not run.
    pub(crate) fn durations_by<T: Copy + ToString>(
        &mut self,
        (prefix, all): (&str, &[T]),
        runs: impl Fn(T) -> bool,
        needs: impl Fn(T) -> bool,
        mend: impl Fn(T) -> String,
    ) -> Vec<(T, SimDuration)> {
        let mut found = Vec::new();
        for speed in all.iter().copied() {
            let name = format!("{prefix}_{}", speed.to_string().to_lowercase());
            if runs(speed) && (needs(speed) || self.peek(&name)) {
                found.push((speed, self.duration(&name)));
            } else if self.writes(&name) {
                let help = format!("{} or remove `{name}`", mend(speed));
                self.refuse(&name, format!("the {} does not run at {}", self.part.kind, speed.to_string()), Some(help));
            }
        }
        found
    }

    fn one_of<T: Copy + ToString>(&mut self, name: &str, dimension: Dimension, all: &[T]) -> T {
        let words: Vec<String> = all.iter().map(T::to_string).collect();
        let choices: Vec<(&str, T)> = words.iter().map(String::as_str).zip(all.iter().copied()).collect();
        self.choice(name, dimension, &choices)
    }

    /// Returns whether the part has `name`. Makes `name` a known key.
    fn peek(&mut self, name: &str) -> bool {
        self.know(name);
        self.part.parameters.iter().any(|parameter| parameter.name == name)
    }

    /// Reports unknown parameters. Returns the sheet unless there was a fault.
    pub(crate) fn finish(self) -> Option<PartSheet> {
        let Self { part, findings, known, sheet, failed } = self;
        for parameter in part.parameters.iter().filter(|parameter| !parameter.inherited) {
            if !known.contains(&parameter.name) {
                let label = vec![(parameter.key_span.clone(), "unknown parameter".to_owned())];
                let names: Vec<&str> = known.iter().map(String::as_str).collect();
                let help = suggest(&parameter.name, "parameters", &names);
                findings.error(format!("a {} part has no `{}`", part.kind, parameter.name), label, Some(help));
            }
        }
        let sheet = PartSheet { kind: part.kind, name: part.name.clone(), summary: part.summary.clone(), parameters: sheet };
        (failed.is_empty() && findings.errors.is_empty()).then_some(sheet)
    }

    /// Reports an invalid value of this part, in the file that contains it.
    pub(crate) fn refuse(&mut self, name: &str, message: String, help: Option<String>) {
        let place = self.part.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| &parameter.value);
        self.refuse_at(name, place, message, help);
    }

    /// Reports the same for a piece of the value.
    fn refuse_at(&mut self, name: &str, place: Option<&Node>, message: String, help: Option<String>) {
        if self.failed.iter().any(|failed| failed == name) {
            return;
        }
        self.failed.push(name.to_owned());
        let inherited = self.part.parameters.iter().any(|parameter| parameter.name == name && parameter.inherited);
        let span = place.filter(|_| !inherited).map_or(0..0, |place| place.span.clone());
        self.findings.error(format!("`{name}`: {message}"), vec![(span, "this value".to_owned())], help);
    }

    fn take(&mut self, name: &str, dimension: Dimension) -> Option<&'a RawParameter> {
        self.know(name);
        let part: &'a RawPart = self.part;
        let Some(parameter) = part.parameters.iter().find(|parameter| parameter.name == name) else {
            self.failed.push(name.to_owned());
            if part.broken.iter().any(|broken| broken == name) {
                return None;
            }
            let unit = dimension.units()[0].0;
            let help = format!("write `{name} = {{ value = ..., unit = \"{unit}\", source = \"...\", status = \"...\" }}`");
            self.findings.error(format!("{} part `{}` has no `{name}`", part.kind, part.name), vec![(0..0, "in this file".into())], Some(help));
            return None;
        };
        if dimension.multiplier(&parameter.unit).is_none() {
            self.failed.push(name.to_owned());
            if !parameter.inherited {
                self.wrong_unit(parameter, dimension);
            }
            return None;
        }
        self.sheet.push(sheet_row(parameter));
        Some(parameter)
    }

    /// Makes `name` a known key.
    pub(crate) fn know(&mut self, name: &str) {
        if !self.known.iter().any(|known| known == name) {
            self.known.push(name.to_owned());
        }
    }

    /// Returns the items of a list parameter.
    pub(crate) fn items(&self, name: &str) -> Option<&'a [Node]> {
        let part: &'a RawPart = self.part;
        match &part.parameters.iter().find(|parameter| parameter.name == name)?.value.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    fn wrong_unit(&mut self, parameter: &RawParameter, dimension: Dimension) {
        let (name, accepted) = (&parameter.name, dimension.accepted());
        let (message, label, help) = if parameter.unit.is_empty() {
            let units: Vec<String> = dimension.units().iter().map(|(unit, _)| format!("`unit = \"{unit}\"`")).collect();
            (format!("`{name}` needs `unit`"), "`unit` is missing", format!("write {}", or_list(&units)))
        } else {
            (format!("`{name}` cannot be in `{}`", parameter.unit), "not a unit of this parameter", format!("accepted here: {accepted}"))
        };
        self.findings.error(message, vec![(parameter.unit_span.clone(), label.to_owned())], Some(help));
    }

    fn wrong_value(&mut self, parameter: &RawParameter, wanted: &str) {
        self.failed.push(parameter.name.clone());
        if !parameter.inherited {
            let label = vec![(parameter.value.span.clone(), format!("this is {}", parameter.value.value.kind()))];
            self.findings.error(format!("`{}` must be {wanted}", parameter.name), label, None);
        }
    }

    fn text_as(&mut self, name: &str, dimension: Dimension) -> Option<(String, Range<usize>)> {
        let parameter = self.take(name, dimension)?;
        if let Value::Text(text) = &parameter.value.value {
            let span = if parameter.inherited { 0..0 } else { parameter.value.span.clone() };
            return Some((text.clone(), span));
        }
        self.wrong_value(parameter, "a text in double quotes");
        None
    }

    fn number(&mut self, name: &str, dimension: Dimension) -> Option<u64> {
        let parameter = self.take(name, dimension)?;
        let Value::Number(number) = parameter.value.value else {
            self.wrong_value(parameter, "a number");
            return None;
        };
        let multiplier = dimension.multiplier(&parameter.unit)?;
        if let Number::Decimal(value) = number
            && !value.is_finite()
        {
            self.refuse(name, format!("`{value}` is not a number"), Some("write a number with digits".into()));
            return None;
        }
        match number.scaled(multiplier) {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(name, format!("{} {} is {}", show_number(number), parameter.unit, error.reason()), None);
                None
            }
        }
    }

    fn small(&mut self, name: &str, dimension: Dimension) -> u32 {
        let Some(value) = self.number(name, dimension) else { return 0 };
        u32::try_from(value).unwrap_or_else(|_| {
            self.refuse(name, "the value is too large".into(), None);
            0
        })
    }

    fn list<T: Copy>(&mut self, name: &str, dimension: Dimension, all: &[(String, T)]) -> Vec<T> {
        let Some(parameter) = self.take(name, dimension) else { return Vec::new() };
        let Value::Array(items) = &parameter.value.value else {
            self.wrong_value(parameter, "a list of texts");
            return Vec::new();
        };
        let index_of = |item: &Node| all.iter().position(|(word, _)| text_in(item).is_some_and(|text| word.eq_ignore_ascii_case(text)));
        let may_hold = || {
            let words: Vec<&str> = all.iter().map(|(word, _)| word.as_str()).collect();
            Some(format!("the list may hold {}", words.join(", ")))
        };
        if let Some(unknown) = items.iter().find(|item| index_of(item).is_none()) {
            let message =
                text_in(unknown).map_or_else(|| format!("{} is in the list", unknown.value.kind()), |text| format!("`{text}` is not known"));
            self.refuse_at(name, Some(unknown), message, may_hold());
        } else if items.is_empty() {
            self.refuse(name, "the list is empty".into(), may_hold());
        }
        let mut indices: Vec<usize> = items.iter().filter_map(index_of).collect();
        let parsed = indices.iter().map(|index| all[*index].1).collect();
        indices.sort_unstable();
        if let Some(twice) = indices.windows(2).find(|pair| pair[0] == pair[1]) {
            self.refuse(name, format!("`{}` stands in the list twice", all[twice[0]].0), Some("write each value once".into()));
        }
        parsed
    }
}

/// Returns values by the words that represent them in files.
fn by_word<T: Copy + ToString, const N: usize>(all: [T; N]) -> [(String, T); N] {
    all.map(|value| (value.to_string(), value))
}

fn text_in(node: &Node) -> Option<&str> {
    if let Value::Text(text) = &node.value { Some(text) } else { None }
}

fn show_number(number: Number) -> String {
    match number {
        Number::Integer(value) => value.to_string(),
        // Written out, 1e300 would fill lines.
        Number::Decimal(value) if value.abs() >= 1e15 => format!("{value:e}"),
        Number::Decimal(value) => value.to_string(),
    }
}

fn sheet_row(parameter: &RawParameter) -> Parameter {
    let (value, quoted) = show(&parameter.value);
    Parameter {
        name: parameter.name.clone(),
        value,
        quoted,
        listed: matches!(parameter.value.value, Value::Array(_)),
        unit: parameter.unit.clone(),
        source: parameter.source.clone(),
        status: parameter.status,
        on: if parameter.status == Status::Calibrated { parameter.on.clone() } else { Vec::new() },
    }
}

fn show(node: &Node) -> (String, bool) {
    match &node.value {
        Value::Text(text) => (text.clone(), true),
        Value::Number(number) => (show_number(*number), false),
        Value::Bool(flag) => (flag.to_string(), false),
        Value::Array(items) => (items.iter().map(|item| show(item).0).collect::<Vec<_>>().join(", "), true),
        Value::Date | Value::Table(_) => (String::new(), true),
    }
}
