//! Connections that come and go. No other test of this process takes memory meanwhile.

mod common;

use common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Accept, Close, Connect};
use softband_net::{NetError, Protocol};
use softband_sim::SimDuration;
use std::net::SocketAddr;

const MILLI: SimDuration = SimDuration::from_micros(1_000);

/// Returns the resident bytes of the process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4_096
}

#[test]
fn ten_thousand_connections_opened_and_closed_leave_nothing() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(10_000, SimDuration::from_micros(5)), 5);
    let listener = net.listen(80, 128);
    let mut after_first = 0;
    for number in 0..10_000 {
        let socket = net.open(CLIENT, Protocol::Stream);
        assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) }), Err(NetError::InProgress));
        net.run_for(SimDuration::from_micros(20));
        let (server, _) = net.call(SERVER, Accept { socket: listener }).expect("a connection");
        net.call(CLIENT, Close { socket }).unwrap();
        net.run_for(SimDuration::from_micros(20));
        net.call(SERVER, Close { socket: server }).unwrap();
        net.run_for(MILLI * 10);
        if number == 1_000 {
            after_first = resident_bytes();
        }
    }
    // Those of the last 60 s, one each 10.04 ms, are in TIME_WAIT.
    let waits = net.hosts[CLIENT].stack.time_waits();
    assert!((5_900..6_000).contains(&waits), "{waits}");
    let more = resident_bytes().saturating_sub(after_first);
    println!("{more} B more");
    assert!(more < 4 << 20, "{more} B more");
    assert_eq!((net.hosts[CLIENT].stack.sockets(), net.hosts[SERVER].stack.sockets()), (0, 1));
    net.run_for(SimDuration::from_micros(61_000_000));
    assert_eq!((net.hosts[CLIENT].stack.time_waits(), net.hosts[CLIENT].stack.tcp_memory_bytes()), (0, 0));
}
