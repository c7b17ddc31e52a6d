//! Ends of connections that programs no longer see: lingering closes, TIME_WAIT, limits of a host.

use crate::common::{CLIENT, Net, SERVER, Transfer, Wire, address, kernel};
use softband_net::calls::{Accept, Close, Connect, Disconnect, LocalAddress, PeerAddress, SetOption, Shutdown, SocketOption, TakeError};
use softband_net::{Body, Events, Flags, KernelPart, NetError, Packet, Protocol, Segment, SocketId, State};
use softband_sim::{SimDuration, SimTime};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

const MILLI: SimDuration = SimDuration::from_micros(1_000);
const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

fn net_of(kernel: &KernelPart) -> Net {
    Net::new([kernel, kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

/// Closes the client's socket, and returns the time until the lingering close may return.
fn linger(net: &mut Net, client: SocketId) -> SimDuration {
    net.hosts[CLIENT].ready.clear();
    let begin = net.now;
    net.call(CLIENT, Close { socket: client }).unwrap();
    assert!(net.hosts[CLIENT].stack.lingers(client));
    while !net.hosts[CLIENT].ready.iter().any(|(socket, events)| *socket == client && events.intersects(Events::LINGERED)) {
        net.step().expect("the close returns");
    }
    assert!(!net.hosts[CLIENT].stack.lingers(client));
    net.now - begin
}

#[test]
fn a_lingering_close_returns_when_the_peer_has_all_data_or_the_time_ends() {
    let kernel = kernel("linux-6.1");
    let options = [SocketOption::Linger(Some(SECOND * 5))];
    let mut net = net_of(&kernel);
    let (client, server) = net.pair(&options);
    net.send(CLIENT, client, b"data").unwrap();
    // The server's program sees the end later: FIN_WAIT2 suffices.
    assert!(linger(&mut net, client) < MILLI * 50);
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"data");
    let mut net = net_of(&kernel);
    let (client, _) = net.pair(&options);
    net.drop = Some(Box::new(|_, _| true));
    net.send(CLIENT, client, b"lost").unwrap();
    assert_eq!(linger(&mut net, client), SECOND * 5);
    assert_eq!(net.hosts[CLIENT].stack.orphans(), 1, "the connection ends in the background");
    // A close in the background does not linger.
    let mut net = net_of(&kernel);
    let (client, _) = net.pair(&[]);
    net.call(CLIENT, Close { socket: client }).unwrap();
    assert!(!net.hosts[CLIENT].stack.lingers(client));
}

#[test]
fn a_reset_at_the_expected_number_ends_time_wait() {
    for distance in [1, 0] {
        let mut net = net_of(&kernel("linux-6.1"));
        let (client, server) = net.pair(&[]);
        let local = net.call(CLIENT, LocalAddress { socket: client }).unwrap();
        let last = Rc::new(Cell::new(None));
        let seen = last.clone();
        net.tap = Some(Box::new(move |_, host, packet| {
            if let Body::Tcp(segment) = &packet.body
                && host == SERVER
            {
                seen.set(Some(segment.end()));
            }
        }));
        net.call(CLIENT, Close { socket: client }).unwrap();
        net.run_for(MILLI);
        net.call(SERVER, Close { socket: server }).unwrap();
        net.run_for(MILLI);
        assert_eq!(net.hosts[CLIENT].stack.time_waits(), 1);
        let flags = Flags { rst: true, ..Flags::default() };
        let seq = last.get().unwrap().plus(distance);
        let segment = Segment { source_port: 80, destination_port: local.port(), seq, flags, ..Segment::default() };
        net.inject(CLIENT, Packet { source: address(SERVER), destination: address(CLIENT), hop_limit: 64, body: Body::Tcp(segment) });
        net.run_for(MILLI);
        assert_eq!(net.hosts[CLIENT].stack.time_waits(), distance as usize);
    }
}

#[test]
fn a_host_resets_closed_connections_beyond_its_limit() {
    let kernel = KernelPart { orphans_max: 3, ..kernel("linux-6.1") };
    let mut net = net_of(&kernel);
    let pairs = net.pairs(5);
    for (client, _) in &pairs {
        net.call(CLIENT, Close { socket: *client }).unwrap();
    }
    assert_eq!(net.hosts[CLIENT].stack.orphans(), 3);
    net.run_for(MILLI);
    let reset = pairs.iter().filter(|(_, server)| net.receive(SERVER, *server, 9) == Err(NetError::Reset)).count();
    assert_eq!(reset, 2);
    for (_, server) in pairs {
        net.call(SERVER, Close { socket: server }).unwrap();
    }
    net.run_for(MILLI);
    assert_eq!([CLIENT, SERVER].map(|host| net.hosts[host].stack.orphans()), [0, 0]);
}

#[test]
fn a_closed_socket_that_waits_for_the_peers_end_leaves_the_limit() {
    // Linux keeps it as it does TIME_WAIT, unless it waits longer than that.
    for (fin_timeout, counted) in [(SECOND * 60, 0), (SECOND * 61, 1)] {
        let mut net = net_of(&KernelPart { fin_timeout, orphans_max: 1, ..kernel("linux-6.1") });
        let (client, server) = net.pair(&[]);
        net.call(CLIENT, Close { socket: client }).unwrap();
        assert_eq!(net.hosts[CLIENT].stack.orphans(), 1);
        net.run_for(MILLI);
        assert_eq!(net.hosts[CLIENT].stack.orphans(), counted);
        net.call(SERVER, Close { socket: server }).unwrap();
        net.run_for(MILLI);
        assert_eq!((net.hosts[CLIENT].stack.orphans(), net.hosts[CLIENT].stack.time_waits()), (0, 1));
    }
}

#[test]
fn no_call_reaches_a_closed_socket() {
    let mut net = net_of(&kernel("linux-6.1"));
    let (socket, server) = net.pair(&[]);
    net.drop = Some(Box::new(|host, _| host == CLIENT));
    net.send(CLIENT, socket, b"data").unwrap();
    net.call(CLIENT, Close { socket }).unwrap();
    let bad = Err(NetError::BadSocket);
    assert_eq!(net.call(CLIENT, Close { socket }), bad);
    assert_eq!(net.call(CLIENT, Disconnect { socket }), bad);
    assert_eq!(net.call(CLIENT, Shutdown { socket, receive: true, send: true }), bad);
    assert_eq!(net.call(CLIENT, SetOption { socket, option: SocketOption::Linger(Some(SimDuration::ZERO)) }), bad);
    assert_eq!(net.call(CLIENT, TakeError { socket }), bad);
    assert_eq!(net.send(CLIENT, socket, b"more").err(), Some(NetError::BadSocket));
    assert_eq!(net.receive(CLIENT, socket, 1).err(), Some(NetError::BadSocket));
    assert_eq!((net.hosts[CLIENT].stack.orphans(), net.hosts[CLIENT].stack.sockets()), (1, 1));
    // The connection still ends in the background.
    net.drop = None;
    net.run_for(SECOND);
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"data");
}

#[test]
fn all_connections_together_keep_the_hosts_memory_limit() {
    let kernel = KernelPart { tcp_memory_bytes: 1_000_000, ..kernel("linux-6.1") };
    let mut net = net_of(&kernel);
    let pairs = net.pairs(40);
    let mut transfers: Vec<Transfer> =
        pairs.iter().map(|(client, server)| Transfer::new((CLIENT, *client), (SERVER, *server), 300_000, true)).collect();
    let mut most = 0;
    let end = SimTime::ZERO + SECOND * 4_000;
    while transfers.iter().any(|transfer| transfer.received < transfer.total) && net.now < end {
        for transfer in &mut transfers {
            transfer.write(&mut net);
            transfer.read(&mut net);
        }
        net.run_for(MILLI);
        most = most.max(net.hosts.iter().map(|host| host.stack.tcp_memory_bytes()).max().unwrap_or(0));
    }
    assert!(transfers.iter().all(|transfer| transfer.received == transfer.total), "all arrives");
    // A write of 64 KiB and a packet of each connection may exceed it.
    assert!((900_000..1_000_000 + 41 * 65_536).contains(&most), "{most} B");
    for (client, server) in pairs {
        net.call(CLIENT, Close { socket: client }).unwrap();
        net.call(SERVER, Close { socket: server }).unwrap();
    }
    net.run_for(SECOND);
    assert_eq!([CLIENT, SERVER].map(|host| net.hosts[host].stack.tcp_memory_bytes()), [0, 0]);
}

#[test]
fn a_failed_connect_leaves_a_socket_that_connects() {
    let mut net = net_of(&kernel("linux-6.1"));
    let listener = net.listen(80, 4);
    let socket = net.open(CLIENT, Protocol::Stream);
    let connect = |net: &mut Net, port| {
        let to = SocketAddr::new(address(SERVER), port);
        let begun = net.call(CLIENT, Connect { socket, to });
        net.run_for(MILLI);
        (begun, net.call(CLIENT, Connect { socket, to }))
    };
    // A program that blocks sees the failure by the second call; its third begins again.
    assert_eq!(connect(&mut net, 81), (Err(NetError::InProgress), Err(NetError::Refused)));
    assert_eq!(connect(&mut net, 82), (Err(NetError::InProgress), Err(NetError::Refused)));
    assert_eq!(connect(&mut net, 80), (Err(NetError::InProgress), Ok(())));
    assert_eq!(net.call(CLIENT, PeerAddress { socket }), Ok(SocketAddr::new(address(SERVER), 80)));
    let (server, _) = net.call(SERVER, Accept { socket: listener }).unwrap();
    assert_eq!(net.info(SERVER, server).state, State::Established);
}
