//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

/// Value of the header `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

/// A text in the making. A metric has one heading, and its samples follow.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric. `help` is a line.
    pub fn begin(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", help.replace('\\', "\\\\").replace('\n', "\\n"));
    }

    /// Adds a sample of the metric that was begun last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.0
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.begin("up", "a \\ b\nc", Kind::Gauge);
        text.sample("up", &[], 1);
        text.sample("up", &[("host", "a\"b\\c\nd"), ("port", "1")], u64::MAX);
        assert_eq!(text.finish(), "# HELP up a \\\\ b\\nc\n# TYPE up gauge\nup 1\nup{host=\"a\\\"b\\\\c\\nd\",port=\"1\"} 18446744073709551615\n");
    }
}
