//! What a run leaves: `model.json`, `flows.csv`, `ports.csv`, `hot.svg`. The same run gives the same bytes, so nothing of wall time is in them.

use super::hot::{self, LevelLoad};
use super::text;
use serde_json::{Value, json};
use softband_fabric::spec::FabricSpec;
use softband_parallel::Crew;
use softband_sim::SimTime;
use softband_workload::{Feeder, FlowReport, HotPort, Measurements, PortReport, hot_ports};
use std::fmt::Write;
use std::path::Path;

pub(super) struct Results {
    pub fabric: String,
    pub title: String,
    pub hosts: usize,
    pub switches: usize,
    pub workload: String,
    pub seed: u64,
    pub measured: Measurements,
    pub ports: Vec<PortReport>,
    pub hot: Vec<HotPort>,
    pub levels: Vec<LevelLoad>,
    picture: String,
}

const FILES: [&str; 4] = ["model.json", "flows.csv", "ports.csv", "hot.svg"];

/// That the folder is there and can be written to, before a long run.
pub(super) fn check_folder(out: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(out)?;
    let probe = out.join("model.json.part");
    std::fs::write(&probe, "{}\n")?;
    std::fs::remove_file(probe)
}

impl Results {
    pub(super) fn new(fabric: &Path, workload: &str, seed: u64, spec: &FabricSpec, crew: &Crew) -> Self {
        let measured = crew.measurements();
        let ports = crew.port_reports();
        let hot = hot_ports(&ports);
        let what = format!("{workload}, seed {seed}, done in {}", text::time(measured.completion.as_secs_f64()));
        let (levels, picture) = (hot::level_loads(spec, &ports), hot::draw(spec, &ports, &hot, &what));
        Self {
            fabric: fabric.display().to_string(),
            title: spec.title.clone(),
            hosts: spec.hosts.len(),
            switches: spec.switches.len(),
            workload: workload.to_owned(),
            seed,
            measured,
            ports,
            hot,
            levels,
            picture,
        }
    }

    /// All files, or none: each beside its place first, and moved there when all are whole.
    pub(super) fn leave(&self, out: &Path) -> std::io::Result<()> {
        let texts = [format!("{:#}\n", self.json()), self.flows_csv(), self.ports_csv(), self.picture.clone()];
        let parts = FILES.map(|name| out.join(format!("{name}.part")));
        let written = parts.iter().zip(&texts).try_for_each(|(part, text)| std::fs::write(part, text));
        let moved = written.and_then(|()| FILES.iter().zip(&parts).try_for_each(|(name, part)| std::fs::rename(part, out.join(name))));
        if moved.is_err() {
            parts.iter().for_each(|part| drop(std::fs::remove_file(part)));
        }
        moved
    }

    fn json(&self) -> Value {
        let measured = &self.measured;
        let rates = measured.rates();
        let phase = |phase: &softband_workload::PhaseReport| {
            let begun = phase.begun.unwrap_or(SimTime::ZERO);
            json!({ "name": phase.name, "begun_picos": begun.as_picos(), "ended_picos": phase.ended.as_picos() })
        };
        json!({
            "softband_version": env!("CARGO_PKG_VERSION"),
            "fabric": { "file": self.fabric, "title": self.title, "hosts": self.hosts, "switches": self.switches },
            "workload": self.workload,
            "seed": self.seed,
            "completion_picos": measured.completion.as_picos(),
            "phases": measured.phases.iter().filter(|phase| phase.begun.is_some()).map(phase).collect::<Vec<_>>(),
            "connections": measured.connections,
            "packet_hops": measured.packet_hops,
            "flow_bytes_per_second": { "min": rates.min, "median": rates.median, "max": rates.max, "mean": rates.mean },
            "flows": measured.flows.iter().map(flow).collect::<Vec<_>>(),
            "unit_of_port_data": "4 bytes",
            "ports": self.ports.iter().map(port).collect::<Vec<_>>(),
            "hot_ports": self.hot.iter().map(hot).collect::<Vec<_>>(),
        })
    }

    fn flows_csv(&self) -> String {
        let mut text = String::from("from_rank,to_rank,from_host,to_host,messages,bytes,begun_ps,ended_ps,bytes_per_second\n");
        for flow in &self.measured.flows {
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{:.0}",
                flow.from_rank,
                flow.to_rank,
                flow.from_host,
                flow.to_host,
                flow.messages,
                flow.bytes,
                flow.begun.as_picos(),
                flow.ended.as_picos(),
                flow.bytes_per_second()
            );
        }
        text
    }

    /// Lanes that a port has not are empty.
    fn ports_csv(&self) -> String {
        let lanes = self.ports.iter().map(|port| port.counters.credit_stall_picos.len()).max().unwrap_or(0);
        let mut text = String::from(
            "port,peer,rate,link_bytes_per_second,xmit_utilisation,rcv_utilisation,port_xmit_data,port_rcv_data,port_xmit_pkts,port_rcv_pkts,\
             port_xmit_discards,port_xmit_wait",
        );
        for lane in 0..lanes {
            let _ = write!(text, ",credit_stall_vl{lane}_ps");
        }
        text.push('\n');
        for port in &self.ports {
            let counters = &port.counters;
            let _ = write!(
                text,
                "{},{},{},{:.0},{:.6},{:.6},{},{},{},{},{},{}",
                port.name,
                port.peer_name,
                port.rate_name,
                port.link_bytes_per_second,
                port.xmit_utilisation,
                port.rcv_utilisation,
                counters.port_xmit_data,
                counters.port_rcv_data,
                counters.port_xmit_pkts,
                counters.port_rcv_pkts,
                counters.port_xmit_discards,
                counters.port_xmit_wait
            );
            for lane in 0..lanes {
                let stall = counters.credit_stall_picos.get(lane).map(u64::to_string).unwrap_or_default();
                let _ = write!(text, ",{stall}");
            }
            text.push('\n');
        }
        text
    }
}

fn flow(flow: &FlowReport) -> Value {
    json!({
        "from_rank": flow.from_rank,
        "to_rank": flow.to_rank,
        "from_host": flow.from_host,
        "to_host": flow.to_host,
        "messages": flow.messages,
        "bytes": flow.bytes,
        "begun_picos": flow.begun.as_picos(),
        "ended_picos": flow.ended.as_picos(),
        "bytes_per_second": flow.bytes_per_second(),
    })
}

fn port(port: &PortReport) -> Value {
    let counters = &port.counters;
    let mut value = json!({
        "port": port.name,
        "peer": port.peer_name,
        "rate": port.rate_name,
        "link_bytes_per_second": port.link_bytes_per_second,
        "xmit_utilisation": port.xmit_utilisation,
        "rcv_utilisation": port.rcv_utilisation,
        "port_xmit_data": counters.port_xmit_data,
        "port_rcv_data": counters.port_rcv_data,
        "port_xmit_pkts": counters.port_xmit_pkts,
        "port_rcv_pkts": counters.port_rcv_pkts,
        "port_xmit_discards": counters.port_xmit_discards,
        "port_xmit_wait": counters.port_xmit_wait,
        "credit_stall_picos": counters.credit_stall_picos,
    });
    if let Some(ethernet) = counters.ethernet {
        value["pause_frames_sent"] = json!(ethernet.xmit_pauses);
        value["pause_frames_received"] = json!(ethernet.rcv_pauses);
        value["buffer_discards"] = json!(ethernet.rcv_discards);
    }
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
