//! `softband capture`: the packets of a fabric that stays.

use super::pcap::Pcap;
use super::{link_layer, ports_of_all, private_file};
use crate::{output, record, signals};
use anyhow::{anyhow, bail};
use clap::Args;
use softband_engine::{CaptureOpener, Engine, Remote};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval at which the command looks for Ctrl-C and for the end of the fabric.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Args)]
pub(crate) struct LiveArguments {
    /// File in pcap format, for Wireshark and tshark
    file: PathBuf,
    /// Capture only what passes these ports, in both directions: HOST, HOST/HCA, HOST/HCA/PORT, SWITCH or SWITCH/PORT, with commas between
    /// several (a/mlx5_0/1,sw/2)
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    at: Vec<String>,
    /// Name of the fabric
    #[arg(long, env = record::NAME_VARIABLE, default_value = record::NAME_DEFAULT)]
    name: String,
}

/// Captures until Ctrl-C, or until the fabric ends.
pub(crate) fn run(arguments: &LiveArguments) -> anyhow::Result<i32> {
    let interrupt = signals::interrupt_on_signals();
    let record = record::wanted(&arguments.name)?;
    let connect = || Remote::connect(&record.engine);
    let Some(remote) = connect()? else { bail!("the fabric '{}' has just ended", arguments.name) };
    let path = arguments.file.display();
    let file = private_file(&arguments.file).map_err(|error| anyhow!("cannot write the capture {path}: {error}\n  help: name another file"))?;
    remote.capture(&file, &arguments.at)?;
    output::say(format_args!(
        "capturing management packets of the fabric '{}' to {path}; programs move their data without packets; Ctrl-C ends the capture\n",
        arguments.name
    ))?;
    while !interrupt.is_raised() && !remote.has_ended() {
        std::thread::sleep(LOOK_INTERVAL);
    }
    if let Some(remote) = connect()? {
        remote.end_capture()?;
    }
    Ok(0)
}

/// Lets commands capture packets of a fabric that stays.
pub(crate) fn offer(engine: &mut Engine) {
    let epoch = engine.started_at();
    let opener: CaptureOpener = Box::new(move |spec, file, names| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let ports = (!names.is_empty()).then(|| ports_of_all(spec, &names)).transpose().map_err(|error| error.to_string())?;
        let layer = link_layer(spec, ports.as_deref()).map_err(|error| error.to_string())?;
        let file = Pcap::begin(BufWriter::new(file), Path::new("of a command"), layer);
        let mut file = file.map_err(|error| format!("cannot write the capture: {error}"))?.dated_from(epoch);
        file.flush_each();
        Ok((ports, Box::new(file)))
    });
    engine.offer_captures(opener);
}
