//! Packets in a pcap file: `--capture` of a run, and `softband capture`.

pub(crate) mod live;
mod pcap;

use anyhow::{anyhow, bail};
use clap::Args;
use pcap::Pcap;
use softband_engine::{Engine, Pace};
use softband_spec::faults::Unknown;
use softband_spec::{FabricSpec, PortRef};
use softband_types::{LinkLayer, PortNumber};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct CaptureArguments {
    /// Write the packets of the fabric to this file in pcap format, for Wireshark and tshark
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Capture only what passes these ports, in both directions: HOST, HOST/HCA, HOST/HCA/PORT, SWITCH or SWITCH/PORT, with commas between
    /// several (a/mlx5_0/1,sw/2)
    #[arg(long, value_name = "PORTS", value_delimiter = ',', requires = "capture")]
    capture_at: Vec<String>,
}

/// A capture that is ready to start: its file exists.
pub(crate) struct Capture {
    /// `None`: each packet once, at the port that sends it.
    ports: Option<Vec<PortRef>>,
    file: Pcap<BufWriter<File>>,
}

impl CaptureArguments {
    /// Returns the same options as words, for the process in the background.
    pub(crate) fn words(&self) -> anyhow::Result<Vec<OsString>> {
        let mut words = Vec::new();
        if let Some(path) = &self.capture {
            words.extend(["--capture".into(), std::path::absolute(path)?.into_os_string()]);
        }
        words.extend(self.capture_at.iter().flat_map(|port| ["--capture-at".into(), port.into()]));
        Ok(words)
    }

    /// Creates the file of the capture, if one is wanted.
    ///
    /// # Errors
    /// If a name is no port, if the ports have different link layers, or if the file cannot be
    /// written.
    pub(crate) fn prepare(&self, spec: &FabricSpec, pace: Pace) -> anyhow::Result<Option<Capture>> {
        let Some(path) = &self.capture else { return Ok(None) };
        let ports = (!self.capture_at.is_empty()).then(|| ports_of_all(spec, &self.capture_at)).transpose()?;
        let link_layer = link_layer(spec, ports.as_deref())?;
        let refuse = |error| anyhow!("cannot write the capture {}: {error}\n  help: name another file with --capture", path.display());
        let file = private_file(path).map_err(refuse)?;
        let mut file = Pcap::begin(BufWriter::with_capacity(1 << 20, file), path, link_layer).map_err(refuse)?;
        if pace == Pace::Wall {
            file.flush_each();
            eprintln!(
                "softband: at wall pace programs move most data through shared memory, without packets: {} holds management packets and \
                 the transfers that the engine carries out",
                path.display()
            );
        }
        Ok(Some(Capture { ports, file }))
    }
}

impl Capture {
    /// Starts the capture on a fabric. `epoch_seconds` is the date of simulated time zero.
    pub(crate) fn start(self, engine: &mut Engine, pace: Pace, epoch_seconds: u64) {
        let epoch = match pace {
            Pace::Virtual => std::time::Duration::from_secs(epoch_seconds),
            Pace::Wall => engine.started_at(),
        };
        engine.capture(self.ports.as_deref(), Box::new(self.file.dated_from(epoch)));
    }
}

fn ports_of_all(spec: &FabricSpec, names: &[String]) -> anyhow::Result<Vec<PortRef>> {
    let ports = names.iter().map(|name| ports_of(spec, name)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(ports.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
}

/// Returns the cabled ports that a name stands for: those of a host, HCA or switch, or one port.
fn ports_of(spec: &FabricSpec, name: &str) -> anyhow::Result<Vec<PortRef>> {
    let of_hca = |host: usize, hca: usize| {
        let ports = spec.hosts[host].hcas[hca].part.ports;
        (1..=ports).map(move |port| PortRef::Hca { host, hca, port: PortNumber(port) })
    };
    let words: Vec<&str> = name.split('/').collect();
    let host = spec.find_host(words[0]).ok();
    let ports: Vec<PortRef> = match (host, &words[..]) {
        (Some(host), [_]) => (0..spec.hosts[host].hcas.len()).flat_map(|hca| of_hca(host, hca)).collect(),
        (Some(host), [_, device]) if let Some(hca) = spec.hosts[host].hcas.iter().position(|hca| hca.device == *device) => {
            of_hca(host, hca).collect()
        }
        (None, [_]) if let Ok(switch) = spec.find_switch(name) => {
            (1..=spec.switches[switch].part.ports).map(|port| PortRef::Switch { switch, port: PortNumber(port) }).collect()
        }
        _ => vec![spec.find_port(name).map_err(|unknown| refusal(&unknown))?],
    };
    let has_cable = |port: &PortRef| spec.cables.iter().any(|cable| cable.ends.contains(port));
    let cabled: Vec<PortRef> = ports.into_iter().filter(has_cable).collect();
    if cabled.is_empty() {
        bail!("nothing to capture at {name}: it has no cable\n  help: softband fabric show prints the cables of a fabric");
    }
    Ok(cabled)
}

fn refusal(unknown: &Unknown) -> anyhow::Error {
    let known = if unknown.known.is_empty() { String::new() } else { format!("\n  help: {}: {}", unknown.what, unknown.known.join(", ")) };
    anyhow!("{}{known}", unknown.message)
}

/// Returns the link layer of all ports of a capture. A pcap file has one.
fn link_layer(spec: &FabricSpec, ports: Option<&[PortRef]>) -> anyhow::Result<LinkLayer> {
    let of_port = |port: &PortRef| match *port {
        PortRef::Hca { host, hca, .. } => spec.hosts[host].hcas[hca].link_layer,
        PortRef::Switch { switch, .. } => spec.switches[switch].part.link_layer(),
    };
    let all: Vec<PortRef> = spec.cables.iter().flat_map(|cable| cable.ends).collect();
    let layers: Vec<LinkLayer> = ports.unwrap_or(&all).iter().map(of_port).collect();
    let first = layers.first().copied().unwrap_or(LinkLayer::Infiniband);
    if layers.iter().any(|layer| *layer != first) {
        bail!("a pcap file holds one link layer, and these ports have InfiniBand and Ethernet\n  help: select ports of one with --capture-at");
    }
    Ok(first)
}

/// Creates or empties a file. Only its owner can read a new one, because it holds all that programs
/// send.
fn private_file(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}
