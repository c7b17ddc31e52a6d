//! Sockets that begin again: after a failed `connect`, after `shutdown`, after `AF_UNSPEC`.

use crate::common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Bind, Close, Connect, Disconnect, LocalAddress, PeerAddress, Shutdown, SocketOption, TakeError};
use softband_net::{NetError, Protocol, SocketId};
use softband_sim::SimDuration;
use std::net::SocketAddr;

const MILLI: SimDuration = SimDuration::from_micros(1_000);

fn net() -> Net {
    let kernel = kernel("linux-6.1");
    Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

fn connect(net: &mut Net, socket: SocketId, port: u16) -> Result<(), NetError> {
    net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), port) })
}

#[test]
fn a_refused_socket_connects_again() {
    for takes_error in [false, true] {
        let mut net = net();
        net.listen(80, 4);
        let socket = net.open(CLIENT, Protocol::Stream);
        net.call(CLIENT, Bind { socket, address: "0.0.0.0:4000".parse().unwrap() }).unwrap();
        assert_eq!(connect(&mut net, socket, 81), Err(NetError::InProgress));
        assert_eq!(net.call(CLIENT, PeerAddress { socket }), Err(NetError::NotConnected));
        net.run_for(MILLI);
        assert_eq!(net.call(CLIENT, PeerAddress { socket }), Err(NetError::NotConnected));
        if takes_error {
            assert_eq!(net.call(CLIENT, TakeError { socket }), Err(NetError::Refused));
        }
        // The failure is the answer of the next call; the call after it begins again.
        assert_eq!(connect(&mut net, socket, 80), Err(if takes_error { NetError::Aborted } else { NetError::Refused }));
        assert_eq!(net.call(CLIENT, LocalAddress { socket }), Ok("0.0.0.0:4000".parse().unwrap()));
        assert_eq!(connect(&mut net, socket, 80), Err(NetError::InProgress));
        net.run_for(MILLI);
        assert_eq!(net.call(CLIENT, PeerAddress { socket }), Ok(SocketAddr::new(address(SERVER), 80)));
        // The first call after the handshake returns its result.
        assert_eq!(connect(&mut net, socket, 80), Ok(()));
        assert_eq!(connect(&mut net, socket, 80), Err(NetError::Connected));
    }
}

#[test]
fn shutdown_knows_what_is_connected() {
    let mut net = net();
    let socket = net.open(CLIENT, Protocol::Stream);
    let both = Shutdown { socket, receive: true, send: true };
    assert_eq!(net.call(CLIENT, both.clone()), Err(NetError::NotConnected));
    // A handshake under way ends, and the socket is fresh.
    assert_eq!(connect(&mut net, socket, 81), Err(NetError::InProgress));
    assert_eq!(net.call(CLIENT, both.clone()), Ok(()));
    assert_eq!(connect(&mut net, socket, 81), Err(NetError::InProgress));
    net.run_for(MILLI);
    assert_eq!(net.call(CLIENT, both), Err(NetError::NotConnected));
}

#[test]
fn a_disconnected_socket_resets_its_peer_and_connects_again() {
    let mut net = net();
    let (client, server) = net.pair(&[]);
    let before = net.call(CLIENT, LocalAddress { socket: client }).unwrap();
    net.call(CLIENT, Disconnect { socket: client }).unwrap();
    assert_eq!(net.call(CLIENT, LocalAddress { socket: client }), Ok("0.0.0.0:0".parse().unwrap()));
    net.run_for(MILLI);
    assert_eq!(net.receive(SERVER, server, 9), Err(NetError::Reset));
    assert_eq!(connect(&mut net, client, 80), Err(NetError::InProgress));
    net.run_for(MILLI);
    assert_eq!(connect(&mut net, client, 80), Ok(()));
    assert_ne!(net.call(CLIENT, LocalAddress { socket: client }).unwrap(), before);
    // A UDP socket gives up the port that the kernel chose for it.
    let socket = net.open(CLIENT, Protocol::Datagram);
    connect(&mut net, socket, 9).unwrap();
    net.call(CLIENT, Disconnect { socket }).unwrap();
    assert_eq!(net.call(CLIENT, LocalAddress { socket }), Ok("0.0.0.0:0".parse().unwrap()));
}

#[test]
fn an_end_in_time_wait_leaves_a_later_connection_alone() {
    let mut net = net();
    let (client, server) = net.pair(&[SocketOption::ReuseAddress(true)]);
    let local = net.call(CLIENT, LocalAddress { socket: client }).unwrap();
    // The client ends second, so that the server waits, and its program keeps the socket.
    net.call(SERVER, Shutdown { socket: server, receive: false, send: true }).unwrap();
    net.run_for(MILLI);
    net.call(CLIENT, Close { socket: client }).unwrap();
    net.run_for(MILLI);
    assert_eq!(net.hosts[SERVER].stack.time_waits(), 1);
    let again = net.open(CLIENT, Protocol::Stream);
    net.call(CLIENT, Bind { socket: again, address: local }).unwrap();
    assert_eq!(connect(&mut net, again, 80), Err(NetError::InProgress));
    net.run_for(MILLI);
    net.call(SERVER, Close { socket: server }).unwrap();
    net.send(CLIENT, again, b"data").unwrap();
    net.run_for(MILLI);
    assert_eq!(connect(&mut net, again, 80), Ok(()), "the later connection lives");
}
