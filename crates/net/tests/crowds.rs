//! Many connections, and floods: memory is bounded.

mod common;

use common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Accept, Connect, Drops, HalfOpen};
use softband_net::{Body, Flags, NetError, Options, Packet, Protocol, Segment, SeqNumber, SocketId};
use softband_sim::SimDuration;
use std::net::{IpAddr, SocketAddr};

const MILLI: SimDuration = SimDuration::from_micros(1_000);

#[test]
fn a_flood_of_syns_holds_bounded_memory_and_honest_clients_come_later() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(10_000, SimDuration::from_micros(5)), 5);
    let listener = net.listen(80, 128);
    for number in 0..20_000_u32 {
        let flags = Flags { syn: true, ..Flags::default() };
        let options = Options { mss: Some(1_460), ..Options::default() };
        let port = 1_024 + (number % 60_000) as u16;
        let segment =
            Segment { source_port: port, destination_port: 80, seq: SeqNumber(number), flags, options, window: 1_000, ..Segment::default() };
        let source = IpAddr::from([10, 0, 1, (number / 60_000) as u8 + 1]);
        net.inject(SERVER, Packet { source, destination: address(SERVER), hop_limit: 64, body: Body::Tcp(segment) });
    }
    net.run_for(MILLI * 10);
    let half_open = net.call(SERVER, HalfOpen { socket: listener }).unwrap();
    assert_eq!((half_open, net.hosts[SERVER].stack.sockets()), (128, 1));
    assert!(net.call(SERVER, Drops { socket: listener }).unwrap() >= 20_000 - 128);
    // The half-open connections end after five repetitions of SYN-ACK: 1 + 2 + ... + 32 s.
    net.run_for(SimDuration::from_micros(64_000_000));
    assert_eq!(net.call(SERVER, HalfOpen { socket: listener }), Ok(0));
    let socket = net.open(CLIENT, Protocol::Stream);
    assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) }), Err(NetError::InProgress));
    net.run_for(MILLI);
    assert!(net.call(SERVER, Accept { socket: listener }).is_ok());
}

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
