//! Listening sockets: shared ports, ends, and connections that no program has seen.

use crate::common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Accept, Bind, Close, Connect, Listen, SetOption, Shutdown, SocketOption};
use softband_net::{Events, NetError, Protocol, SocketId};
use softband_sim::SimDuration;
use std::net::SocketAddr;

const MILLI: SimDuration = SimDuration::from_micros(1_000);

fn net() -> Net {
    let kernel = kernel("linux-6.1");
    Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

fn connect(net: &mut Net) -> SocketId {
    let socket = net.open(CLIENT, Protocol::Stream);
    assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) }), Err(NetError::InProgress));
    socket
}

#[test]
fn a_shut_listening_socket_wakes_its_program_and_accepts_no_more() {
    let mut net = net();
    let listener = net.listen(80, 4);
    let client = connect(&mut net);
    net.run_for(MILLI);
    net.call(SERVER, Shutdown { socket: listener, receive: false, send: true }).unwrap();
    net.hosts[SERVER].ready.clear();
    net.call(SERVER, Shutdown { socket: listener, receive: true, send: false }).unwrap();
    let ready: Vec<_> = net.hosts[SERVER].ready.drain(..).collect();
    assert!(ready.iter().all(|(socket, _)| *socket == listener), "{ready:?}");
    assert!(ready.iter().any(|(_, events)| events.intersects(Events::READABLE)), "{ready:?}");
    assert_eq!(net.call(SERVER, Accept { socket: listener }), Err(NetError::Invalid));
    net.run_for(MILLI);
    // The connection that waited is reset, and the port refuses.
    assert_eq!(net.receive(CLIENT, client, 9), Err(NetError::Reset));
    let client = connect(&mut net);
    net.run_for(MILLI);
    assert_eq!(net.receive(CLIENT, client, 9), Err(NetError::Refused));
    net.call(SERVER, Listen { socket: listener, backlog: 4 }).unwrap();
    let _ = connect(&mut net);
    net.run_for(MILLI);
    assert!(net.call(SERVER, Accept { socket: listener }).is_ok());
}

#[test]
fn sockets_that_share_a_port_share_its_connections() {
    let mut net = net();
    let any = SocketAddr::from(([0, 0, 0, 0], 80));
    let sharing: Vec<SocketId> = (0..4)
        .map(|_| {
            let socket = net.open(SERVER, Protocol::Stream);
            net.call(SERVER, SetOption { socket, option: SocketOption::ReusePort(true) }).unwrap();
            net.call(SERVER, Bind { socket, address: any }).unwrap();
            net.call(SERVER, Listen { socket, backlog: 128 }).unwrap();
            socket
        })
        .collect();
    for _ in 0..200 {
        connect(&mut net);
    }
    net.run_for(MILLI * 10);
    let counts: Vec<usize> = sharing.iter().map(|socket| (0..200).filter(|_| net.call(SERVER, Accept { socket: *socket }).is_ok()).count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 200);
    assert!(counts.iter().all(|count| (25..=75).contains(count)), "{counts:?}");
}

#[test]
fn programs_hear_nothing_of_connections_that_they_never_accepted() {
    let mut net = net();
    let listener = net.listen(80, 4);
    let client = connect(&mut net);
    net.run_for(MILLI);
    net.send(CLIENT, client, b"data").unwrap();
    net.run_for(MILLI);
    net.call(SERVER, Close { socket: listener }).unwrap();
    net.run_for(MILLI);
    let strange: Vec<_> = net.hosts[SERVER].ready.iter().filter(|(socket, _)| *socket != listener).collect();
    assert!(strange.is_empty(), "{strange:?}");
}
