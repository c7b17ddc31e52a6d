//! A strict reader of the text format, version 0.0.4, over the text of ports.

#![allow(clippy::disallowed_methods)]

use softband_metrics::ports::{Counters, Hardware, Node, Port, to_text};
use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// Types of metrics, and samples by name and labels.
#[derive(Default)]
struct Reading {
    types: BTreeMap<String, String>,
    helped: BTreeSet<String>,
    samples: BTreeMap<(String, Labels), f64>,
    present: String,
    ended: BTreeSet<String>,
}

fn is_name(text: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == ':';
    text.starts_with(is_first) && text.chars().all(|letter| is_first(letter) || letter.is_ascii_digit())
}

/// Splits labels off a text that begins after `{`. Returns them and the text after `}`.
fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut found = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label has no value")?;
        if !is_name(name) || name.contains(':') || name.starts_with("__") {
            return Err(format!("bad label {name}"));
        }
        let mut value = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next().ok_or("a value has no end")? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next().ok_or("a value ends in an escape")?.1 {
                    'n' => '\n',
                    letter @ ('"' | '\\') => letter,
                    other => return Err(format!("unknown escape {other}")),
                }),
                (_, letter) => value.push(letter),
            }
        };
        if found.insert(name.to_owned(), value).is_some() {
            return Err(format!("label {name} twice"));
        }
        rest = &after[end + 1..];
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((found, after));
        }
        rest = rest.strip_prefix(',').ok_or("labels are not separated")?;
    }
}

impl Reading {
    fn of(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line does not end".into());
        }
        let mut reading = Self::default();
        text.lines().try_for_each(|line| reading.line(line).map_err(|why| format!("{why}: {line}")))?;
        Ok(reading)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split_once(' ').ok_or("no help")?.0;
            self.turn_to(name)?;
            return if self.helped.insert(name.to_owned()) { Ok(()) } else { Err("a second help".into()) };
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("no type")?;
            self.turn_to(name)?;
            let fits = match kind {
                "counter" => name.ends_with("_total"),
                "gauge" => !name.ends_with("_total"),
                _ => false,
            };
            let is_first = self.types.insert(name.to_owned(), kind.to_owned()).is_none();
            return if fits && is_first { Ok(()) } else { Err("a type that does not fit".into()) };
        }
        let end = line.find(['{', ' ']).ok_or("no value")?;
        let (name, rest) = line.split_at(end);
        if self.present != name || !self.types.contains_key(name) {
            return Err("a sample without a heading".into());
        }
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(inner) => labels(inner)?,
            None => (Labels::new(), rest),
        };
        let value: f64 = rest.strip_prefix(' ').ok_or("no blank before the value")?.parse().map_err(|_| "no number")?;
        let is_new = self.samples.insert((name.to_owned(), labels), value).is_none();
        if is_new && value >= 0.0 { Ok(()) } else { Err("a sample twice, or below zero".into()) }
    }

    /// The lines of a metric stand together.
    fn turn_to(&mut self, name: &str) -> Result<(), String> {
        if self.present == name {
            return Ok(());
        }
        let former = std::mem::replace(&mut self.present, name.to_owned());
        self.ended.insert(former);
        if is_name(name) && !self.ended.contains(name) { Ok(()) } else { Err("a metric in two places, or a bad name".into()) }
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }
}

fn port(node: Node, port: u8, port_xmit_data: u64) -> Port {
    let counters = Counters { port_xmit_data, link_downed: 3, ..Counters::default() };
    Port {
        node,
        port,
        state: 4,
        physical_state: 5,
        bytes_per_second: 5_000_000_000,
        counters,
        hardware: Hardware { out_of_buffer: 4, ..Hardware::default() },
    }
}

fn hca(host: &str) -> Node {
    Node::Hca { host: host.into(), device: "mlx5_0".into() }
}

fn switch(guid: u64) -> Node {
    Node::Switch { name: "sw \"one\"\\".into(), guid, lid: 7 }
}

#[test]
fn ports_become_metrics_of_common_exporters() {
    let ports = [port(hca("a"), 1, 10), port(hca("a"), 2, 0), port(hca("b"), 1, u64::MAX), port(switch(5), 1, 11), port(switch(5), 2, 12)];
    let reading = Reading::of(&to_text(&ports)).unwrap();
    let sent = "node_infiniband_port_data_transmitted_bytes_total";
    assert_eq!(reading.value(sent, &[("device", "mlx5_0"), ("port", "1"), ("host", "a")]), Some(40.0));
    assert_eq!(reading.value(sent, &[("device", "mlx5_0"), ("port", "1"), ("host", "b")]), Some(u64::MAX as f64));
    let guid = ("guid", "0x0000000000000005");
    assert_eq!(reading.value("infiniband_switch_port_transmit_data_bytes_total", &[guid, ("port", "2")]), Some(48.0));
    assert_eq!(reading.value("infiniband_switch_port_link_downed_total", &[guid, ("port", "1")]), Some(3.0));
    assert_eq!(reading.value("infiniband_switch_info", &[guid, ("switch", "sw \"one\"\\"), ("lid", "7")]), Some(1.0));
    assert_eq!(reading.value("node_infiniband_state_id", &[("device", "mlx5_0"), ("port", "2"), ("host", "a")]), Some(4.0));
    assert!(reading.types.len() >= 30 && reading.types.len() == reading.helped.len());
}

#[test]
fn a_fabric_without_ports_gives_headings_only() {
    let reading = Reading::of(&to_text(&[])).unwrap();
    assert!(reading.samples.is_empty());
}

#[test]
fn the_strict_reader_refuses_what_prometheus_would() {
    let good = "# TYPE a_total counter\na_total{x=\"1\"} 1\n";
    assert!(Reading::of(good).is_ok());
    for bad in [
        "a_total 1\n",
        "# TYPE a_total counter\na_total 1",
        "# TYPE a counter\na 1\n",
        "# TYPE a_total counter\na_total{x=1} 1\n",
        "# TYPE a_total counter\na_total{x=\"1\"}1\n",
        "# TYPE a_total counter\na_total{x=\"\\t\"} 1\n",
        "# TYPE a_total counter\na_total 1\na_total 2\n",
        "# TYPE a_total counter\na_total{x=\"1\",x=\"2\"} 1\n",
        "# TYPE a_total counter\na_total 1\n# TYPE b gauge\nb 1\n# HELP a_total x\n",
        "# TYPE 1_total counter\n",
    ] {
        assert!(Reading::of(bad).is_err(), "{bad}");
    }
}
