//! Many connections, and floods: memory is bounded.

use crate::common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_model::parts::SynCookies;
use softband_net::calls::{Accept, Close, Connect, Drops, HalfOpen, Info};
use softband_net::{Body, Flags, KernelPart, NetError, Options, Packet, Protocol, Segment, SeqNumber, Timestamps};
use softband_sim::SimDuration;
use std::net::{IpAddr, SocketAddr};

const MILLI: SimDuration = SimDuration::from_micros(1_000);

/// Sends segments of `flags` to the server's port, each from an address of its own that nobody has.
fn flood(net: &mut Net, count: u32, flags: Flags) {
    for number in 0..count {
        let timestamps = Some(Timestamps { value: number, echo: number });
        let options = Options { mss: Some(1_460), window_scale: Some(7), timestamps, ..Options::default() };
        let port = 1_024 + (number % 60_000) as u16;
        let (seq, ack) = (SeqNumber(number), SeqNumber(number.wrapping_mul(2_654_435_761)));
        let segment = Segment { source_port: port, destination_port: 80, seq, ack, flags, options, window: 1_000, ..Segment::default() };
        let source = IpAddr::from([10, 0, 1, (number / 60_000) as u8 + 1]);
        net.inject(SERVER, Packet { source, destination: address(SERVER), hop_limit: 64, body: Body::Tcp(segment) });
    }
    net.run_for(MILLI * 10);
}

const SYN: Flags = Flags { fin: false, syn: true, rst: false, psh: false, ack: false, urg: false };
const ACK: Flags = Flags { syn: false, ack: true, ..SYN };

#[test]
fn honest_clients_get_in_during_a_flood_by_cookies() {
    for (name, has_options) in [("linux-2.6.18", false), ("linux-3.10", true), ("linux-6.1", true)] {
        let kernel = kernel(name);
        let mut net = Net::new([&kernel, &kernel], Wire::new(10_000, SimDuration::from_micros(5)), 5);
        let listener = net.listen(80, 128);
        flood(&mut net, 20_000, SYN);
        let held = net.call(SERVER, HalfOpen { socket: listener }).unwrap();
        flood(&mut net, 100_000, SYN);
        // Forged third segments guess no cookie.
        flood(&mut net, 20_000, ACK);
        assert_eq!((net.call(SERVER, HalfOpen { socket: listener }).unwrap(), net.hosts[SERVER].stack.sockets()), (held, 1), "{name}");
        for _ in 0..20 {
            let socket = net.open(CLIENT, Protocol::Stream);
            assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) }), Err(NetError::InProgress));
            net.run_for(MILLI);
            let (server, _) = net.call(SERVER, Accept { socket: listener }).expect("a connection by a cookie");
            let data: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
            let mut sent = 0;
            let mut received = Vec::new();
            while received.len() < data.len() {
                sent += net.send(CLIENT, socket, &data[sent..]).unwrap_or(0) as usize;
                net.run_for(MILLI);
                received.extend(net.receive(SERVER, server, 1 << 20).unwrap_or_default());
            }
            assert_eq!(received, data);
            let info = net.call(SERVER, Info { socket: server }).unwrap();
            assert_eq!(info.mss, if has_options { 1_448 } else { 1_460 }, "{name}");
            net.call(CLIENT, Close { socket }).unwrap();
            net.call(SERVER, Close { socket: server }).unwrap();
        }
    }
}

#[test]
fn a_flood_of_syns_holds_bounded_memory_and_honest_clients_come_later() {
    let kernel = KernelPart { syn_cookies: SynCookies::No, ..kernel("linux-6.1") };
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
