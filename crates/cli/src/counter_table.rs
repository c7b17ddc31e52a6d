//! `softband run --counters`: all counters of a run as tables for people.

use crate::counters::{hca_counters, port_counters};
use crate::why::Evidence;
use serde_json::{Value, json};
use std::fmt::Write;

/// Suffix of the name of a counter that is a time.
const TIME: &str = "_picos";

/// A table of counters: a row for each part, a column for each counter.
struct Table {
    title: &'static str,
    rows: Vec<(String, Vec<(String, Value)>)>,
}

/// Returns all counters as text. Lists columns of zeros by name only.
pub(crate) fn text(evidence: &Evidence) -> String {
    let mut text = format!("softband: counters of the run; transfers were under way for {}\n", time(evidence.whole_picos));
    let port = |port: &softband_fabric::PortCounters| {
        let mut counters = port_counters(port);
        counters["xmit_busy_picos"] = json!(port.xmit_busy_picos);
        let name = format!("{}/{}", port.node, port.port.0);
        let peer = evidence.peers.get(&name).map_or_else(String::new, |peer| format!(" to {peer}"));
        (format!("{name}{peer}"), columns(&counters))
    };
    let repeats = |qp: &softband_fabric::QueuePairRepeats| {
        let repeats = qp.repeats;
        let counters = json!({
            "retransmissions": repeats.retransmissions,
            "timeouts": repeats.timeouts,
            "timeout_waits_picos": repeats.timeout_waits.as_picos(),
            "rnr_naks": repeats.rnr_naks,
            "rnr_waits_picos": repeats.rnr_waits.as_picos(),
        });
        (format!("queue pair {:#x} of {}", qp.qpn.0, qp.node), columns(&counters))
    };
    let thread = |thread: &softband_engine::ThreadWork| (thread.name.clone(), columns(&json!({ "busy_picos": thread.busy_picos })));
    let tables = [
        Table { title: "ports (data in words of 4 bytes)", rows: evidence.ports.iter().map(port).collect() },
        Table { title: "HCAs", rows: evidence.hcas.iter().map(|hca| (hca.node.clone(), columns(&hca_counters(hca)))).collect() },
        Table { title: "queue pairs that sent again or waited for a receiver", rows: evidence.repeats.iter().map(repeats).collect() },
        Table { title: "threads, while something was sent", rows: evidence.work.iter().map(thread).collect() },
    ];
    tables.iter().filter(|table| !table.rows.is_empty()).for_each(|table| table.write(evidence, &mut text));
    text
}

/// Returns the counters of an object by name, each lane apart. The object's own name is not a counter.
fn columns(counters: &Value) -> Vec<(String, Value)> {
    let mut columns = Vec::new();
    for (name, value) in counters.as_object().into_iter().flatten() {
        match value {
            Value::Array(lanes) => {
                let of_lane = |(lane, value): (usize, &Value)| (format!("{}_vl{lane}{TIME}", name.trim_end_matches(TIME)), value.clone());
                columns.extend(lanes.iter().enumerate().map(of_lane));
            }
            Value::Number(_) => columns.push((name.clone(), value.clone())),
            _ => {}
        }
    }
    columns
}

impl Table {
    fn write(&self, evidence: &Evidence, text: &mut String) {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.rows.iter().flat_map(|(_, counters)| counters) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        let number =
            |row: &(String, Vec<(String, Value)>), name: &str| row.1.iter().find(|(own, _)| own == name).and_then(|(_, value)| value.as_u64());
        let (shown, zero): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| self.rows.iter().any(|row| number(row, name).unwrap_or(0) > 0));
        let mut lines = vec![vec![self.title.to_owned()]];
        lines[0].extend(shown.iter().map(|name| name.trim_end_matches(TIME).to_owned()));
        for row in &self.rows {
            let cell = |name: &&str| match number(row, name) {
                None => "-".to_owned(),
                Some(picos) if name.ends_with(TIME) => format!("{} ({} %)", time(picos), evidence.percent(picos)),
                Some(count) => count.to_string(),
            };
            lines.push(std::iter::once(row.0.clone()).chain(shown.iter().map(cell)).collect());
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..=shown.len()).map(width).collect();
        for line in &lines {
            let first = format!("  {:<room$}", line[0], room = widths[0]);
            let rest: String = line.iter().zip(&widths).skip(1).map(|(cell, room)| format!("  {cell:>room$}")).collect();
            let _ = writeln!(text, "{}", format!("{first}{rest}").trim_end());
        }
        if !zero.is_empty() {
            let _ = writeln!(text, "    0 everywhere: {}", zero.iter().map(|name| name.trim_end_matches(TIME)).collect::<Vec<_>>().join(", "));
        }
    }
}

/// Formats a time in the largest unit that gives at least one, truncated to three decimals.
fn time(picos: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)];
    if picos == 0 {
        return "0".into();
    }
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| picos >= *unit).unwrap_or(("ns", 1_000));
    format!("{}.{:03} {name}", picos / unit, picos % unit / (unit / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_fabric::{HcaCounters, PortCounters};
    use softband_types::PortNumber;

    #[test]
    fn times_have_their_unit() {
        let shown = [0, 1, 999, 1_000, 999_999_999, 1_000_000_000, 1_234_567_890_123].map(time);
        assert_eq!(shown, ["0", "0.001 ns", "0.999 ns", "1.000 ns", "999.999 us", "1.000 ms", "1.234 s"]);
    }

    #[test]
    fn each_counter_has_a_column_or_is_named_as_zero() {
        let stalled = PortCounters {
            node: "a/h".into(),
            port: PortNumber(1),
            port_xmit_data: 4_711,
            credit_stall_picos: vec![0, 2_500_000],
            xmit_busy_picos: 7_500_000,
            ..PortCounters::default()
        };
        let quiet = PortCounters { node: "sw".into(), port: PortNumber(12), credit_stall_picos: vec![0], ..PortCounters::default() };
        let evidence = Evidence {
            ports: vec![stalled, quiet],
            hcas: vec![HcaCounters { node: "a/h".into(), message_gap_picos: 1_000, ..HcaCounters::default() }],
            whole_picos: 10_000_000,
            peers: [("a/h/1".to_owned(), "sw/1".to_owned())].into(),
            ..Evidence::default()
        };
        let wanted = "\
softband: counters of the run; transfers were under way for 10.000 us
  ports (data in words of 4 bytes)  credit_stall_vl1  port_xmit_data        xmit_busy
  a/h/1 to sw/1                      2.500 us (25 %)            4711  7.500 us (75 %)
  sw/12                                            -               0          0 (0 %)
    0 everywhere: credit_stall_vl0, multicast_rcv_pkts, multicast_xmit_pkts, port_pkt_rcv_becn, port_pkt_rcv_fecn, port_rcv_data, port_rcv_pkts, port_xmit_discards, port_xmit_pkts, \
port_xmit_time_cong, port_xmit_wait, unicast_rcv_pkts, unicast_xmit_pkts
  HCAs     message_gap
  a/h   1.000 ns (0 %)
    0 everywhere: memory, read_wait, shared_bus, slot_read, slot_write
";
        assert_eq!(text(&evidence), wanted);
    }
}
