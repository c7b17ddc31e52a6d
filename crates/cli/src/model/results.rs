//! Results of a run: `model.json`, its flows and ports as CSV and as Parquet, and `hot.svg`. The
//! same run gives the same bytes, so they contain no wall time.

use super::hot::{self, LevelLoad};
use super::table::{Column, Table, Values};
use super::text;
use crate::counters::port_counters;
use crate::files::Sink;
use parquet::errors::ParquetError;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use softband_fabric::EthernetCounters;
use softband_fabric::faults::FaultCounters;
use softband_parallel::ParallelRunner;
use softband_sim::SimTime;
use softband_spec::FabricSpec;
use softband_workload::{Feeder, FlowReport, HotPort, Measurements, PortReport, RunError, hot_ports};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

pub(super) struct Results {
    pub fabric: String,
    pub title: String,
    pub hosts: usize,
    pub switches: usize,
    pub workload: String,
    pub seed: u64,
    /// Reason for an early end; `None` for a complete run.
    pub ended_by: Option<String>,
    pub measured: Measurements,
    pub ports: Vec<PortReport>,
    pub hot: Vec<HotPort>,
    pub levels: Vec<LevelLoad>,
    picture: String,
}

impl Results {
    /// Collects the results of a complete run, or of a run until `ended_by`.
    pub(super) fn new(
        fabric: &Path,
        (workload, seed): (String, u64),
        spec: &FabricSpec,
        runner: &ParallelRunner,
        ended_by: Option<&RunError>,
    ) -> Self {
        let measured = runner.measurements();
        let ports = runner.port_reports();
        let hot = hot_ports(&ports);
        let end = if ended_by.is_some() { "NOT done, but ended after" } else { "done in" };
        let what = format!("{workload}, seed {seed}, {end} {}", text::time(measured.completion.as_secs_f64()));
        let (levels, picture) = (hot::level_loads(spec, &ports), hot::draw(spec, &ports, &hot, &what));
        Self {
            fabric: fabric.display().to_string(),
            title: spec.title.clone(),
            hosts: spec.hosts.len(),
            switches: spec.switches.len(),
            workload,
            seed,
            ended_by: ended_by.map(RunError::to_string),
            measured,
            ports,
            hot,
            levels,
            picture,
        }
    }

    /// Returns the tables of flows and of ports.
    pub(super) fn tables(&self) -> [Table; 2] {
        [self.flows(), self.ports()]
    }

    /// Writes the content of a file.
    pub(super) fn write(&self, name: &str, [flows, ports]: &[Table; 2], file: &mut Sink) -> std::io::Result<()> {
        match name {
            "flows.csv" => flows.csv(file),
            "ports.csv" => ports.csv(file),
            "flows.parquet" => flows.parquet(file).map_err(io_error),
            "ports.parquet" => ports.parquet(file).map_err(io_error),
            "hot.svg" => file.write_all(self.picture.as_bytes()),
            _ => Ok(self.json(file)?),
        }
    }

    /// Writes the JSON flow by flow, because there may be a million.
    fn json(&self, file: &mut Sink) -> serde_json::Result<()> {
        let measured = &self.measured;
        let rates = measured.rates();
        let phase = |phase: &softband_workload::PhaseReport| {
            let begun = phase.begun.unwrap_or(SimTime::ZERO);
            json!({ "name": phase.name, "begun_picos": begun.as_picos(), "ended_picos": phase.ended.as_picos() })
        };
        let mut serializer = serde_json::Serializer::pretty(&mut *file);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("softband_version", &env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("fabric", &json!({ "file": self.fabric, "title": self.title, "hosts": self.hosts, "switches": self.switches }))?;
        map.serialize_entry("workload", &self.workload)?;
        map.serialize_entry("seed", &self.seed)?;
        map.serialize_entry("ended_by", &self.ended_by)?;
        map.serialize_entry("completion_picos", &measured.completion.as_picos())?;
        map.serialize_entry("phases", &measured.phases.iter().filter(|phase| phase.begun.is_some()).map(phase).collect::<Vec<_>>())?;
        map.serialize_entry("connections", &measured.connections)?;
        map.serialize_entry("packet_hops", &measured.packet_hops)?;
        map.serialize_entry("flow_bytes_per_second", &json!({ "min": rates.min, "median": rates.median, "max": rates.max, "mean": rates.mean }))?;
        map.serialize_entry("flows", &InTurn(&measured.flows, flow))?;
        map.serialize_entry("unit_of_port_data", "4 bytes")?;
        map.serialize_entry("ports", &InTurn(&self.ports, port))?;
        map.serialize_entry("hot_ports", &InTurn(&self.hot, hot))?;
        map.end()?;
        file.write_all(b"\n").map_err(serde_json::Error::io)
    }

    fn flows(&self) -> Table {
        let flows = &self.measured.flows;
        let text =
            |name: &str, of: fn(&FlowReport) -> &Arc<str>| Column::new(name, Values::Text(flows.iter().map(|flow| Arc::clone(of(flow))).collect()));
        let count = |name: &str, of: fn(&FlowReport) -> u64| Column::new(name, Values::Count(flows.iter().map(of).collect()));
        Table::new(vec![
            count("from_rank", |flow| u64::from(flow.from_rank)),
            count("to_rank", |flow| u64::from(flow.to_rank)),
            text("from_host", |flow| &flow.from_host),
            text("to_host", |flow| &flow.to_host),
            count("messages", |flow| flow.messages),
            count("bytes", |flow| flow.bytes),
            count("begun_ps", |flow| flow.begun.as_picos()),
            count("ended_ps", |flow| flow.ended.as_picos()),
            Column::new("bytes_per_second", Values::Number(flows.iter().map(FlowReport::bytes_per_second).collect(), 0)),
        ])
    }

    /// Returns the table of ports. Values of lanes that a port lacks are empty. Ethernet counters
    /// appear only if the fabric has an Ethernet port.
    fn ports(&self) -> Table {
        let ports = &self.ports;
        let text = |name: &str, of: fn(&PortReport) -> &str| Column::new(name, Values::Text(ports.iter().map(|port| of(port).into()).collect()));
        let count = |name: &str, of: fn(&PortReport) -> u64| Column::new(name, Values::Count(ports.iter().map(of).collect()));
        let number = |name: &str, of: fn(&PortReport) -> f64, decimals| Column::new(name, Values::Number(ports.iter().map(of).collect(), decimals));
        let mut columns = vec![
            text("port", |port| &port.name),
            text("peer", |port| &port.peer_name),
            text("rate", |port| &port.rate_name),
            number("link_bytes_per_second", |port| port.link_bytes_per_second, 0),
            number("xmit_utilisation", |port| port.xmit_utilisation, 6),
            number("rcv_utilisation", |port| port.rcv_utilisation, 6),
            count("port_xmit_data", |port| port.counters.port_xmit_data),
            count("port_rcv_data", |port| port.counters.port_rcv_data),
            count("port_xmit_pkts", |port| port.counters.port_xmit_pkts),
            count("port_rcv_pkts", |port| port.counters.port_rcv_pkts),
            count("port_xmit_discards", |port| port.counters.port_xmit_discards),
            count("port_xmit_wait", |port| port.counters.port_xmit_wait),
        ];
        let lanes = ports.iter().map(|port| port.counters.credit_stall_picos.len()).max().unwrap_or(0);
        for lane in 0..lanes {
            let stalls = ports.iter().map(|port| port.counters.credit_stall_picos.get(lane).copied()).collect();
            columns.push(Column::new(format!("credit_stall_vl{lane}_ps"), Values::Some(stalls)));
        }
        if ports.iter().any(|port| port.counters.ethernet.is_some()) {
            let of_ethernet = |name: &str, of: fn(&EthernetCounters) -> u64| {
                Column::new(name, Values::Some(ports.iter().map(|port| port.counters.ethernet.as_ref().map(of)).collect()))
            };
            columns.push(of_ethernet("pause_frames_sent", |counters| counters.xmit_pauses));
            columns.push(of_ethernet("pause_frames_received", |counters| counters.rcv_pauses));
            columns.push(of_ethernet("buffer_discards", |counters| counters.rcv_discards));
        }
        if ports.iter().any(|port| port.counters.faults.is_some()) {
            let of_faults = |name: &str, of: fn(&FaultCounters) -> u64| {
                Column::new(name, Values::Some(ports.iter().map(|port| port.counters.faults.as_ref().map(of)).collect()))
            };
            columns.push(of_faults("link_downed", |counters| counters.link_downed));
            columns.push(of_faults("link_error_recovery", |counters| counters.link_error_recovery));
            columns.push(of_faults("symbol_error", |counters| counters.symbol_error));
            columns.push(of_faults("port_rcv_errors", |counters| counters.port_rcv_errors));
        }
        Table::new(columns)
    }
}

/// Returns the system's error if it is the cause, so that a full disk is reported as full.
fn io_error(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(source) => source.downcast::<std::io::Error>().map_or_else(std::io::Error::other, |error| *error),
        other => std::io::Error::other(other),
    }
}

/// Items that the serializer describes one after another.
struct InTurn<'a, T>(&'a [T], fn(&T) -> Value);

impl<T> Serialize for InTurn<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

fn flow(flow: &FlowReport) -> Value {
    json!({
        "from_rank": flow.from_rank,
        "to_rank": flow.to_rank,
        "from_host": &*flow.from_host,
        "to_host": &*flow.to_host,
        "messages": flow.messages,
        "bytes": flow.bytes,
        "begun_picos": flow.begun.as_picos(),
        "ended_picos": flow.ended.as_picos(),
        "bytes_per_second": flow.bytes_per_second(),
    })
}

fn port(port: &PortReport) -> Value {
    let mut value = port_counters(&port.counters);
    value["port"] = json!(port.name);
    value["peer"] = json!(port.peer_name);
    value["rate"] = json!(port.rate_name);
    value["link_bytes_per_second"] = json!(port.link_bytes_per_second);
    value["xmit_utilisation"] = json!(port.xmit_utilisation);
    value["rcv_utilisation"] = json!(port.rcv_utilisation);
    value
}

fn hot(port: &HotPort) -> Value {
    json!({
        "port": port.name,
        "to": port.to,
        "utilisation": port.utilisation,
        "stalled": port.stalled,
        "feeders": port.feeders.iter().map(feeder).collect::<Vec<_>>(),
    })
}

fn feeder(port: &Feeder) -> Value {
    json!({
        "port": port.name,
        "utilisation": port.utilisation,
        "stalled": port.stalled,
        "feeders": port.feeders.iter().map(feeder).collect::<Vec<_>>(),
    })
}
