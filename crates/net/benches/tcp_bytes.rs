//! Simulated TCP bytes per second of the machine, with 1 and 64 connections: two stacks and a wire of
//! 10 Gb/s that carries single packets of 1,500 B.
#![allow(clippy::disallowed_methods)] // a benchmark reads the clock; the stack never does

#[path = "../tests/common/mod.rs"]
mod common;

use common::{CLIENT, Net, SERVER, Transfer, Wire, kernel};
use softband_sim::SimDuration;
use std::collections::BTreeMap;
use std::time::Instant;

const SPAN: SimDuration = SimDuration::from_micros(400_000);

/// Runs endless transfers for [`SPAN`]. Returns their bytes, the wire's packets and the seconds that
/// they took.
fn run(connections: usize) -> (u64, u64, f64) {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(10_000, SimDuration::from_micros(15)), 1);
    let pairs = net.pairs(connections);
    let mut transfers: Vec<Transfer> =
        pairs.iter().map(|(client, server)| Transfer::new((CLIENT, *client), (SERVER, *server), u64::MAX, false)).collect();
    let owners: BTreeMap<_, _> = transfers.iter().enumerate().flat_map(|(index, transfer)| [(transfer.from, index), (transfer.to, index)]).collect();
    let (begun, packets, end) = (Instant::now(), net.packets, net.now + SPAN);
    transfers.iter_mut().for_each(|transfer| transfer.write(&mut net));
    while net.now < end {
        let Some(host) = net.step() else { break };
        while let Some((socket, _)) = net.hosts[host].ready.pop_front() {
            let Some(index) = owners.get(&(host, socket)) else { continue };
            let transfer = &mut transfers[*index];
            if host == SERVER { transfer.read(&mut net) } else { transfer.write(&mut net) }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    (transfers.iter().map(|transfer| transfer.received).sum(), net.packets - packets, seconds)
}

fn main() {
    for connections in [1, 64] {
        let (bytes, packets, seconds) = run(connections);
        println!(
            "{connections:>2} connections: {:.0} MB/s of simulated TCP payload, {:.0} ns a packet, {:.1} % of the link",
            bytes as f64 / seconds / 1e6,
            seconds * 1e9 / packets as f64,
            bytes as f64 * 100.0 / (1.25e9 * SPAN.as_secs_f64()),
        );
    }
}
