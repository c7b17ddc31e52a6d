//! `softband up --metrics`: the port counters of a fabric for Prometheus.

use anyhow::Context;
use clap::Args;
use softband_engine::Remote;
use softband_metrics::ports::to_text;
use softband_metrics::server::Server;
use std::net::{Ipv4Addr, SocketAddr};

#[derive(Args)]
pub(crate) struct MetricsArguments {
    /// Serve the counters of all ports for Prometheus on this address (IP:PORT, or a port of 127.0.0.1)
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| "expected IP:PORT, such as 127.0.0.1:9410, or a port".to_owned())
}

impl MetricsArguments {
    /// Returns the words that repeat these arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        self.metrics.iter().flat_map(|address| ["--metrics".to_owned(), address.to_string()]).collect()
    }

    /// Takes the address, before the fabric comes up.
    pub(crate) fn prepare(&self) -> anyhow::Result<Option<Server>> {
        let bind = |address| Server::bind(address).with_context(|| format!("cannot serve metrics on {address}"));
        self.metrics.map(bind).transpose()
    }
}

/// Starts to answer with the counters of an engine of this process. Returns the place of the metrics.
pub(crate) fn start(server: Server, engine: &str) -> anyhow::Result<String> {
    let (place, engine) = (format!("http://{}/metrics", server.address()?), engine.to_owned());
    // The engine answers as it answers `softband status`.
    let ask = move || Some(to_text(&Remote::connect(&engine).ok()??.ports().ok()?));
    server.start(Box::new(ask)).context("cannot start the server of metrics")?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(address("9410"), Ok(([127, 0, 0, 1], 9410).into()));
        assert_eq!(address("0.0.0.0:80"), Ok(([0, 0, 0, 0], 80).into()));
        assert!(address("[::1]:80").is_ok());
        for bad in ["", "x", "localhost:1", "1.2.3.4", "70000", "127.0.0.1:"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
