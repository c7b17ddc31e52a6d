//! IPv6 sockets, with IPv4 by mapped addresses.

use crate::common::{CLIENT, Net, SERVER, Wire, address, address_v6, kernel};
use softband_net::calls::{Accept, Bind, Connect, Listen, LocalAddress, Open, PeerAddress, ReceiveFrom, SendTo, SetOption, SocketOption};
use softband_net::{Family, NetError, Payload, Protocol, SocketId};
use softband_sim::SimDuration;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const MILLI: SimDuration = SimDuration::from_micros(1_000);

fn net() -> Net {
    let kernel = kernel("linux-6.1");
    Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

fn mapped(host: usize) -> IpAddr {
    match address(host) {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        other => other,
    }
}

fn open_v6(net: &mut Net, host: usize, protocol: Protocol) -> SocketId {
    net.call(host, Open { family: Family::V6, protocol }).unwrap()
}

fn bind(net: &mut Net, socket: SocketId, address: IpAddr, port: u16) -> Result<(), NetError> {
    net.call(SERVER, Bind { socket, address: SocketAddr::new(address, port) })
}

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

#[test]
fn a_listener_of_both_families_accepts_mapped_and_plain_peers() {
    let mut net = net();
    let listener = open_v6(&mut net, SERVER, Protocol::Stream);
    bind(&mut net, listener, ANY, 80).unwrap();
    net.call(SERVER, Listen { socket: listener, backlog: 4 }).unwrap();
    for (family, to, shown) in [
        (Family::V4, address(SERVER), mapped(CLIENT)),
        (Family::V6, address_v6(SERVER), address_v6(CLIENT)),
        (Family::V6, mapped(SERVER), mapped(CLIENT)),
    ] {
        let client = net.call(CLIENT, Open { family, protocol: Protocol::Stream }).unwrap();
        assert_eq!(net.call(CLIENT, Connect { socket: client, to: SocketAddr::new(to, 80) }), Err(NetError::InProgress));
        net.run_for(MILLI);
        let (server, peer) = net.call(SERVER, Accept { socket: listener }).unwrap();
        assert_eq!(peer.ip(), shown);
        assert_eq!(net.call(SERVER, PeerAddress { socket: server }), Ok(peer));
        assert_eq!(net.call(CLIENT, PeerAddress { socket: client }), Ok(SocketAddr::new(to, 80)));
        let local = net.call(SERVER, LocalAddress { socket: server }).unwrap();
        assert_eq!(local, SocketAddr::new(if family == Family::V4 { mapped(SERVER) } else { to }, 80));
        net.send(CLIENT, client, b"data").unwrap();
        net.run_for(MILLI);
        assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"data");
    }
}

#[test]
fn a_socket_for_ipv6_alone_leaves_ipv4_to_others() {
    let mut net = net();
    let only = open_v6(&mut net, SERVER, Protocol::Stream);
    net.call(SERVER, SetOption { socket: only, option: SocketOption::V6Only(true) }).unwrap();
    assert_eq!(bind(&mut net, only, mapped(SERVER), 80), Err(NetError::Invalid));
    bind(&mut net, only, ANY, 80).unwrap();
    assert_eq!(net.call(SERVER, SetOption { socket: only, option: SocketOption::V6Only(false) }), Err(NetError::Invalid));
    let plain = net.open(SERVER, Protocol::Stream);
    bind(&mut net, plain, IpAddr::from([0, 0, 0, 0]), 80).unwrap();
    // A socket of both families takes both.
    let dual = open_v6(&mut net, SERVER, Protocol::Stream);
    bind(&mut net, dual, ANY, 81).unwrap();
    for address in [IpAddr::from([0, 0, 0, 0]), address(SERVER)] {
        let socket = net.open(SERVER, Protocol::Stream);
        assert_eq!(bind(&mut net, socket, address, 81), Err(NetError::AddressInUse));
    }
    let socket = net.open(SERVER, Protocol::Stream);
    assert_eq!(bind(&mut net, socket, address(SERVER), 82), Ok(()));
    let dual = open_v6(&mut net, SERVER, Protocol::Stream);
    assert_eq!(bind(&mut net, dual, ANY, 82), Err(NetError::AddressInUse));
    // A closed way: the client's side of an IPv6-only socket.
    let client = open_v6(&mut net, CLIENT, Protocol::Stream);
    net.call(CLIENT, SetOption { socket: client, option: SocketOption::V6Only(true) }).unwrap();
    let to = SocketAddr::new(mapped(SERVER), 80);
    assert_eq!(net.call(CLIENT, Connect { socket: client, to }), Err(NetError::NetworkUnreachable));
    let plain = net.open(CLIENT, Protocol::Stream);
    assert_eq!(net.call(CLIENT, Connect { socket: plain, to: SocketAddr::new(address_v6(SERVER), 80) }), Err(NetError::Invalid));
}

#[test]
fn datagrams_of_both_families_reach_one_socket() {
    let mut net = net();
    let server = open_v6(&mut net, SERVER, Protocol::Datagram);
    bind(&mut net, server, ANY, 7).unwrap();
    let client = open_v6(&mut net, CLIENT, Protocol::Datagram);
    for (to, from) in [(mapped(SERVER), mapped(CLIENT)), (address_v6(SERVER), address_v6(CLIENT)), (address(SERVER), mapped(CLIENT))] {
        let to = SocketAddr::new(to, 7);
        net.call(CLIENT, SendTo { socket: client, payload: Payload::from(&b"x"[..]), to: Some(to) }).unwrap();
        net.run_for(MILLI);
        let received = net.call(SERVER, ReceiveFrom { socket: server, most: 9, peek: false }).unwrap();
        let own = if to.ip() == address_v6(SERVER) { address_v6(SERVER) } else { mapped(SERVER) };
        assert_eq!((received.from.ip(), received.to), (from, own));
        net.call(SERVER, SendTo { socket: server, payload: Payload::from(&b"y"[..]), to: Some(received.from) }).unwrap();
        net.run_for(MILLI);
        let answer = net.call(CLIENT, ReceiveFrom { socket: client, most: 9, peek: false }).unwrap();
        assert_eq!(answer.payload.to_vec(), b"y");
    }
}
