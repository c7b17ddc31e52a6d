//! Hosts that forward packets: routes, hops, links of different MTUs, and reports to sources.

use crate::common::kernel;
use softband_net::calls::{Accept, Bind, Connect, Info, Listen, LocalAddress, Open, Receive, ReceiveFrom, Send, SendTo, TakeError};
use softband_net::{
    Body, Datagram, Effect, Family, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, LinkDestination, NetError, Packet, Payload, Protocol,
    Route, SocketId, Stack, Unreachable, UnreachableReason,
};
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const DELAY: SimDuration = SimDuration::from_micros(10);

enum Event {
    Arrive(usize, InterfaceId, Frame),
    Done(usize, InterfaceId),
    Timer(usize),
}

/// Hosts in a row: networks 0, 1 and so on lie between neighbours. Host `h` has 10.N.0.H+1 on each of its
/// networks N.
struct Row {
    hosts: Vec<Stack>,
    events: BTreeMap<(SimTime, u64), Event>,
    order: u64,
    now: SimTime,
    /// Packets of the last host's and the first host's networks that arrived there.
    seen: Vec<(usize, Packet)>,
}

fn ip(network: u8, host: usize) -> IpAddr {
    [10, network, 0, host as u8 + 1].into()
}

impl Row {
    /// Makes hosts with a network of each MTU between them. Those inside forward.
    fn new(mtus: &[u32]) -> Self {
        let part = kernel("linux-6.1");
        let last = mtus.len();
        let host = |number: usize| {
            let mut stack = Stack::new(part.clone(), number as u64);
            for network in [number.wrapping_sub(1), number].into_iter().filter(|network| *network < last) {
                stack.add_interface(InterfaceConfig {
                    name: format!("net{network}"),
                    mtu_bytes: mtus[network],
                    addresses: vec![InterfaceAddress { address: ip(network as u8, number), prefix: 24 }],
                    link_address: None,
                    has_segmentation: network % 2 == 0,
                    ring_packets: 64,
                    queue_packets: 1_000,
                });
            }
            stack.set_forwarding(number > 0 && number < last);
            // Far networks lie behind the neighbour on their side.
            for network in 0..last {
                let (interface, near, gateway) = match network {
                    network if network + 1 < number => (1, number - 1, number - 1),
                    network if network > number => (if number == 0 { 1 } else { 2 }, number, number + 1),
                    _ => continue,
                };
                let gateway = Some(ip(near as u8, gateway));
                let interface = InterfaceId(interface);
                stack.add_route(Route { network: ip(network as u8, 0), prefix: 24, gateway, interface, source: None, metric: 0 });
            }
            stack
        };
        Self { hosts: (0..=last).map(host).collect(), events: BTreeMap::new(), order: 0, now: SimTime::ZERO, seen: Vec::new() }
    }

    fn push(&mut self, after: SimDuration, event: Event) {
        self.order += 1;
        self.events.insert((self.now + after, self.order), event);
    }

    fn call<C: softband_net::Call>(&mut self, host: usize, call: C) -> Result<C::Reply, NetError> {
        let reply = self.hosts[host].call(self.now, call);
        self.settle(host);
        reply
    }

    fn settle(&mut self, host: usize) {
        while let Some(effect) = self.hosts[host].next_effect() {
            match effect {
                Effect::Transmit { interface, to: LinkDestination::Host(next), frame } => {
                    self.push(SimDuration::ZERO, Event::Done(host, interface));
                    let has = |stack: &Stack| {
                        stack.interfaces().find(|(_, config, _)| config.addresses.iter().any(|own| own.address == next)).map(|(id, ..)| id)
                    };
                    let Some((peer, at)) = self.hosts.iter().enumerate().find_map(|(peer, stack)| has(stack).map(|at| (peer, at))) else { continue };
                    if let Frame::Packet(packet) = &frame {
                        self.seen.push((peer, packet.clone()));
                    }
                    self.push(DELAY, Event::Arrive(peer, at, frame));
                }
                Effect::SetTimer(at) => {
                    let after = at.saturating_since(self.now);
                    self.push(after, Event::Timer(host));
                }
                _ => {}
            }
        }
    }

    fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else { return false };
        self.now = at;
        let host = match event {
            Event::Arrive(host, interface, frame) => {
                self.hosts[host].packet_in(at, interface, frame);
                host
            }
            Event::Done(host, interface) => {
                self.hosts[host].tx_done(at, interface);
                host
            }
            Event::Timer(host) => {
                self.hosts[host].timer(at);
                host
            }
        };
        self.settle(host);
        true
    }

    fn run_for(&mut self, micros: u64) {
        let end = self.now + SimDuration::from_micros(micros);
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.step();
        }
        self.now = end;
    }

    fn open(&mut self, host: usize, protocol: Protocol) -> SocketId {
        self.call(host, Open { family: Family::V4, protocol }).unwrap()
    }

    fn bound(&mut self, host: usize, protocol: Protocol) -> SocketId {
        let socket = self.open(host, protocol);
        self.call(host, Bind { socket, address: "0.0.0.0:80".parse().unwrap() }).unwrap();
        socket
    }

    /// Connects host 0 to an address. Returns the failure with its time in seconds.
    fn failure(&mut self, to: IpAddr) -> (NetError, u64) {
        let socket = self.open(0, Protocol::Stream);
        let (begin, to) = (self.now, SocketAddr::new(to, 80));
        assert_eq!(self.call(0, Connect { socket, to }), Err(NetError::InProgress));
        loop {
            assert!(self.step(), "the connection ends");
            match self.call(0, Connect { socket, to }).unwrap_err() {
                NetError::Already => {}
                error => return (error, (self.now - begin).as_nanos() / 1_000_000_000),
            }
        }
    }

    /// Sends a stream from host 0 to the last. Returns the time that it took.
    fn stream(&mut self, bytes: usize) -> SimDuration {
        let last = self.hosts.len() - 1;
        let listener = self.bound(last, Protocol::Stream);
        self.call(last, Listen { socket: listener, backlog: 4 }).unwrap();
        let client = self.open(0, Protocol::Stream);
        let to = SocketAddr::new(ip(last as u8 - 1, last), 80);
        assert_eq!(self.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
        self.run_for(1_000);
        let (server, from) = self.call(last, Accept { socket: listener }).expect("a connection");
        assert_eq!(from.ip(), ip(0, 0));
        let begin = self.now;
        let data: Vec<u8> = (0..bytes).map(|at| (at >> 3) as u8).collect();
        let (mut sent, mut received) = (0, Vec::new());
        while received.len() < bytes {
            if let Ok(count) = self.call(0, Send { socket: client, payload: Payload::from(&data[sent..]), urgent: false, more: false }) {
                sent += count as usize;
            }
            self.run_for(100);
            if let Ok(part) = self.call(last, Receive { socket: server, most: 1 << 20, peek: false }) {
                received.extend(part.to_vec());
            }
            assert!(self.now < SimTime::ZERO + SimDuration::from_micros(60_000_000), "{} of {bytes} B", received.len());
        }
        assert_eq!(received, data);
        self.now - begin
    }
}

#[test]
fn a_stream_crosses_two_routers_and_loses_a_hop_at_each() {
    let mut row = Row::new(&[1_500, 1_500, 1_500]);
    row.stream(300_000);
    let hops: Vec<u8> = (1..=3).map(|host| row.seen.iter().find(|(peer, _)| *peer == host).expect("a packet").1.hop_limit).collect();
    assert_eq!(hops, [64, 63, 62]);
    let counters = row.hosts[1].interfaces().nth(2).unwrap().2;
    assert!(counters.sent_packets > 200 && counters.received_dropped == 0, "{counters:?}");
}

#[test]
fn a_path_with_a_small_link_gets_small_packets() {
    for small in [576, 1_000] {
        let mut row = Row::new(&[9_000, small, 9_000]);
        row.stream(300_000);
        let reports = row.seen.iter().filter(|(peer, packet)| *peer == 0 && matches!(packet.body, Body::Unreachable(_))).count();
        assert!((1..20).contains(&reports), "{reports} reports");
        let longest = row.seen.iter().filter(|(peer, _)| *peer == 2).map(|(_, packet)| packet.wire_bytes()).max();
        assert_eq!(longest, Some(u64::from(small)));
    }
}

#[test]
fn a_report_concerns_the_connection_of_the_lost_packet() {
    let mut row = Row::new(&[9_000, 576, 9_000]);
    let listener = row.bound(3, Protocol::Stream);
    row.call(3, Listen { socket: listener, backlog: 4 }).unwrap();
    let [large, small] = [(); 2].map(|()| {
        let socket = row.open(0, Protocol::Stream);
        assert_eq!(row.call(0, Connect { socket, to: SocketAddr::new(ip(2, 3), 80) }), Err(NetError::InProgress));
        row.run_for(1_000);
        socket
    });
    for (socket, bytes) in [(large, 8_000), (small, 100)] {
        row.call(0, Send { socket, payload: Payload::counted(bytes), urgent: false, more: false }).unwrap();
    }
    row.run_for(1_000);
    let info = |row: &mut Row, socket| row.call(0, Info { socket }).map(|info| (info.retransmissions > 0, info.mss)).unwrap();
    assert_eq!((info(&mut row, large), info(&mut row, small)), ((true, 524), (false, 8_948)));
    // New data goes in packets that pass.
    row.call(0, Send { socket: small, payload: Payload::counted(8_000), urgent: false, more: false }).unwrap();
    row.run_for(10_000);
    assert_eq!(info(&mut row, small), (false, 524));
}

#[test]
fn no_report_lowers_a_path_of_ipv6_below_its_least_mtu() {
    for (mtu_bytes, pieces) in [(1_279, 1), (1_280, 2)] {
        let mut stack = Stack::new(kernel("linux-6.1"), 1);
        let [own, peer] = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse::<IpAddr>().unwrap());
        let addresses = vec![InterfaceAddress { address: own, prefix: 64 }];
        let config = InterfaceConfig {
            name: "net0".into(),
            mtu_bytes: 1_500,
            addresses,
            link_address: None,
            has_segmentation: false,
            ring_packets: 64,
            queue_packets: 64,
        };
        let interface = stack.add_interface(config);
        let reason = UnreachableReason::TooLong { mtu_bytes };
        let report = Unreachable { reason, tcp: false, source_port: 1, destination: peer, destination_port: 2 };
        let packet = Packet { source: peer, destination: own, hop_limit: 64, body: Body::Unreachable(report) };
        stack.packet_in(SimTime::ZERO, interface, Frame::Packet(packet));
        let socket = stack.call(SimTime::ZERO, Open { family: Family::V6, protocol: Protocol::Datagram }).unwrap();
        let (payload, to) = (Payload::counted(1_400), Some(SocketAddr::new(peer, 2)));
        stack.call(SimTime::ZERO, SendTo { socket, payload, to }).unwrap();
        let sent = std::iter::from_fn(|| stack.next_effect()).filter(|effect| matches!(effect, Effect::Transmit { .. })).count();
        assert_eq!(sent, pieces, "{mtu_bytes} B");
    }
}

/// Returns the packets that host 1 sent to the network behind it, and those that it dropped from the
/// other one.
fn passed(row: &Row) -> (u64, u64) {
    let counters: Vec<_> = row.hosts[1].interfaces().map(|(.., counters)| counters).collect();
    (counters[2].sent_packets, counters[1].received_dropped)
}

#[test]
fn a_router_hears_broadcasts_of_its_other_network_and_forwards_none() {
    let mut row = Row::new(&[1_500, 1_500]);
    let (sender, receiver) = (row.open(0, Protocol::Datagram), row.bound(1, Protocol::Datagram));
    row.call(0, SendTo { socket: sender, payload: Payload::counted(9), to: Some("10.1.0.255:80".parse().unwrap()) }).unwrap();
    row.run_for(1_000);
    assert_eq!(passed(&row), (0, 0));
    assert!(row.call(1, ReceiveFrom { socket: receiver, most: 99, peek: false }).is_ok());
}

#[test]
fn a_router_forwards_no_packet_of_one_link() {
    let mut row = Row::new(&[1_500, 1_500]);
    let [far, other, link] = ["2001:db8::1", "2001:db9::1", "fe80::9"].map(|address| address.parse::<IpAddr>().unwrap());
    let route = Route { network: far, prefix: 32, gateway: None, interface: InterfaceId(2), source: Some(far), metric: 0 };
    row.hosts[1].add_route(route);
    for (source, destination, counts) in [(link, far, (0, 1)), (other, link, (0, 2)), (other, "::1".parse().unwrap(), (0, 3)), (other, far, (1, 3))] {
        let body = Body::Udp(Datagram { source_port: 1, destination_port: 2, payload: Payload::counted(9) });
        let packet = Packet { source, destination, hop_limit: 64, body };
        row.hosts[1].packet_in(row.now, InterfaceId(1), Frame::Packet(packet));
        assert_eq!(passed(&row), counts, "{source} to {destination}");
    }
}

#[test]
fn a_router_reports_the_mtu_of_its_link_to_one_neighbour() {
    let mut row = Row::new(&[9_000, 9_000]);
    let receiver = row.bound(2, Protocol::Datagram);
    let sender = row.open(0, Protocol::Datagram);
    // As a link of IPoIB notes for a neighbour without connected mode.
    row.hosts[1].too_long(SimTime::ZERO, InterfaceId(2), ip(1, 2), 2_044);
    let mut arrived = Vec::new();
    for _ in 0..2 {
        row.call(0, SendTo { socket: sender, payload: Payload::counted(5_000), to: Some(SocketAddr::new(ip(1, 2), 80)) }).unwrap();
        row.run_for(1_000);
        arrived.push(row.call(2, ReceiveFrom { socket: receiver, most: 65_535, peek: false }).map(|datagram| datagram.len_bytes).ok());
    }
    assert_eq!(arrived, [None, Some(5_000)]);
}

#[test]
fn the_source_cuts_datagrams_for_a_small_link_after_the_first() {
    let mut row = Row::new(&[9_000, 600, 9_000]);
    let receiver = row.bound(3, Protocol::Datagram);
    let sender = row.open(0, Protocol::Datagram);
    let to = Some(SocketAddr::new(ip(2, 3), 80));
    let mut arrived = Vec::new();
    for bytes in [5_000, 5_000, 500, 20_000] {
        row.call(0, SendTo { socket: sender, payload: Payload::counted(bytes), to }).unwrap();
        row.run_for(10_000);
        arrived.push(row.call(3, ReceiveFrom { socket: receiver, most: 65_535, peek: false }).map(|datagram| datagram.len_bytes).ok());
    }
    assert_eq!(arrived, [None, Some(5_000), Some(500), Some(20_000)]);
}

#[test]
fn a_router_cuts_fragments_for_a_smaller_link() {
    let mut row = Row::new(&[1_500, 600]);
    let receiver = row.bound(2, Protocol::Datagram);
    let sender = row.open(0, Protocol::Datagram);
    // The source cuts for its own link, and its fragments may be cut again.
    row.call(0, SendTo { socket: sender, payload: Payload::counted(5_000), to: Some(SocketAddr::new(ip(1, 2), 80)) }).unwrap();
    row.run_for(10_000);
    let datagram = row.call(2, ReceiveFrom { socket: receiver, most: 65_535, peek: false }).expect("a datagram");
    assert_eq!(datagram.len_bytes, 5_000);
    assert!(row.seen.iter().filter(|(peer, _)| *peer == 2).count() > 8);
}

#[test]
fn hosts_that_do_not_forward_lose_packets() {
    let mut row = Row::new(&[1_500, 1_500]);
    row.hosts[1].set_forwarding(false);
    // 1 s doubles six times: 127 s (tcp(7), tcp_syn_retries).
    assert_eq!(row.failure(ip(1, 2)), (NetError::TimedOut, 127));
    assert!(row.hosts[1].interfaces().nth(1).unwrap().2.received_dropped >= 7);
}

#[test]
fn a_connection_that_ends_in_vain_names_the_last_report() {
    for (is_answered, error) in [(false, NetError::HostUnreachable), (true, NetError::TimedOut)] {
        let mut row = Row::new(&[1_500, 1_500]);
        let listener = row.bound(2, Protocol::Stream);
        row.call(2, Listen { socket: listener, backlog: 4 }).unwrap();
        let (socket, to) = (row.open(0, Protocol::Stream), SocketAddr::new(ip(1, 2), 80));
        assert_eq!(row.call(0, Connect { socket, to }), Err(NetError::InProgress));
        row.run_for(1_000);
        let source_port = row.call(0, LocalAddress { socket }).unwrap().port();
        let report = Unreachable { reason: UnreachableReason::Host, tcp: true, source_port, destination: to.ip(), destination_port: to.port() };
        let packet = Packet { source: ip(0, 1), destination: ip(0, 0), hop_limit: 64, body: Body::Unreachable(report) };
        row.hosts[0].packet_in(row.now, InterfaceId(1), Frame::Packet(packet));
        row.settle(0);
        let send = Send { socket, payload: Payload::counted(9), urgent: false, more: false };
        if is_answered {
            row.call(0, send.clone()).unwrap();
            row.run_for(1_000_000);
        }
        row.hosts[1].set_forwarding(false);
        row.call(0, send).unwrap();
        row.run_for(2_000_000_000);
        assert_eq!(row.call(0, TakeError { socket }), Err(error));
    }
}

#[test]
fn routers_report_missing_routes_and_endless_loops() {
    let mut row = Row::new(&[1_500, 1_500, 1_500]);
    let route = |network, interface, gateway| Route {
        network,
        prefix: 24,
        gateway: Some(gateway),
        interface: InterfaceId(interface),
        source: None,
        metric: 0,
    };
    row.hosts[0].add_route(route(ip(7, 0), 1, ip(0, 1)));
    assert_eq!(row.failure(ip(7, 5)), (NetError::NetworkUnreachable, 0));
    row.hosts[1].add_route(route(ip(7, 0), 2, ip(1, 2)));
    row.hosts[2].add_route(route(ip(7, 0), 1, ip(1, 1)));
    row.seen.clear();
    assert_eq!(row.failure(ip(7, 5)), (NetError::HostUnreachable, 0));
    assert!((64..70).contains(&row.seen.len()), "{} packets", row.seen.len());
    let is_report = |packet: &Packet| matches!(&packet.body, Body::Unreachable(unreachable) if unreachable.reason == UnreachableReason::HopLimit);
    assert_eq!(row.seen.iter().filter(|(peer, packet)| *peer == 0 && is_report(packet)).count(), 1);
}
