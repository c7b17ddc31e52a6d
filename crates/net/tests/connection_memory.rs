//! Memory of many connections. The test reads the resident set of its process, so no other test shares
//! this binary.

mod common;

use common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Accept, Connect};
use softband_net::{NetError, Protocol, SocketId};
use softband_sim::SimDuration;
use std::net::SocketAddr;

/// Returns the resident bytes of the process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4_096
}

#[test]
fn ten_thousand_connections_take_little_memory() {
    const COUNT: u64 = 10_000;
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(10_000, SimDuration::from_micros(5)), 5);
    let listener = net.listen(80, 4_096);
    let before = resident_bytes();
    let mut pairs: Vec<(SocketId, SocketId)> = Vec::new();
    for _ in 0..COUNT {
        let socket = net.open(CLIENT, Protocol::Stream);
        assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) }), Err(NetError::InProgress));
        net.run_for(SimDuration::from_micros(20));
        pairs.push((socket, net.call(SERVER, Accept { socket: listener }).expect("a connection").0));
    }
    let bytes = (resident_bytes() - before) / (2 * COUNT);
    println!("{bytes} B an end of a connection");
    assert!(bytes < 2_500, "{bytes} B an end of a connection");
    for (client, server) in &pairs {
        net.send(CLIENT, *client, &[7; 100]).unwrap();
        net.run_for(SimDuration::from_micros(10));
        assert_eq!(net.receive(SERVER, *server, 999).unwrap(), [7; 100]);
    }
}
