//! ICMP echo: answers of hosts, and sockets that ask.

use crate::common::{CLIENT, Net, SERVER, Wire, address, address_v6, kernel, pattern};
use softband_net::calls::{Bind, Close, Connect, LocalAddress, Open, ReceiveFrom, SendTo};
use softband_net::{Family, NetError, Payload, Protocol, Received, SocketId};
use softband_sim::SimDuration;
use std::net::{IpAddr, SocketAddr};

const MILLI: SimDuration = SimDuration::from_micros(1_000);

fn net() -> Net {
    let kernel = kernel("linux-6.1");
    Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

fn open(net: &mut Net, family: Family) -> SocketId {
    net.call(CLIENT, Open { family, protocol: Protocol::Echo }).unwrap()
}

/// Returns a request as a program writes it: the kernel fills in checksum and identifier.
fn request(family: Family, sequence: u8, len: u64) -> Vec<u8> {
    let kind = if family == Family::V4 { 8 } else { 128 };
    let mut bytes = vec![kind, 0, 0, 0, 0, 0, 0, sequence];
    bytes.extend((0..len).map(pattern));
    bytes
}

fn send(net: &mut Net, socket: SocketId, to: Option<IpAddr>, message: &[u8]) -> Result<u32, NetError> {
    let to = to.map(|to| SocketAddr::new(to, 0));
    let sent = net.call(CLIENT, SendTo { socket, payload: Payload::from(message), to });
    net.run_for(MILLI * 10);
    sent
}

fn receive(net: &mut Net, socket: SocketId) -> Result<Received, NetError> {
    net.call(CLIENT, ReceiveFrom { socket, most: 1 << 17, peek: false })
}

#[test]
fn a_host_sends_requests_back() {
    let loopback = [IpAddr::from([127, 0, 0, 1]), "::1".parse().unwrap()];
    for (family, answer, hosts) in
        [(Family::V4, 0, [address(SERVER), address(CLIENT), loopback[0]]), (Family::V6, 129, [address_v6(SERVER), address_v6(CLIENT), loopback[1]])]
    {
        let mut net = net();
        let socket = open(&mut net, family);
        for (sequence, to) in (1..).zip(hosts) {
            for len in [0, 56, 1_001, 5_000] {
                let message = request(family, sequence, len);
                let begin = net.now;
                assert_eq!(send(&mut net, socket, Some(to), &message), Ok(message.len() as u32));
                let received = receive(&mut net, socket).unwrap_or_else(|error| panic!("{to} {len}: {error}"));
                let identifier = net.call(CLIENT, LocalAddress { socket }).unwrap().port();
                let bytes = received.payload.to_vec();
                assert_eq!((received.from, received.hop_limit), (SocketAddr::new(to, 0), 64));
                assert_eq!((bytes[..2] == [answer, 0], &bytes[4..6], &bytes[6..]), (true, &identifier.to_be_bytes()[..], &message[6..]));
                let took = received.arrived_at.saturating_since(begin);
                assert_eq!(took > SimDuration::from_micros(50), to == hosts[0], "{took:?}");
            }
        }
    }
}

#[test]
fn each_socket_gets_the_answers_to_its_own_requests() {
    let mut net = net();
    let [one, two] = [(); 2].map(|()| open(&mut net, Family::V4));
    let own = |port| SocketAddr::from(([0, 0, 0, 0], port));
    net.call(CLIENT, Bind { socket: one, address: own(7) }).unwrap();
    // A datagram socket has ports of its own.
    let datagram = net.open(CLIENT, Protocol::Datagram);
    net.call(CLIENT, Bind { socket: datagram, address: own(7) }).unwrap();
    send(&mut net, one, Some(address(SERVER)), &request(Family::V4, 1, 9)).unwrap();
    assert_eq!([one, two, datagram].map(|socket| receive(&mut net, socket).is_ok()), [true, false, false]);
    // Of several sockets with one identifier, the latest hears.
    net.call(CLIENT, Bind { socket: two, address: own(7) }).unwrap();
    send(&mut net, one, Some(address(SERVER)), &request(Family::V4, 1, 9)).unwrap();
    assert_eq!([one, two].map(|socket| receive(&mut net, socket).is_ok()), [false, true]);
    net.call(CLIENT, Close { socket: two }).unwrap();
    // The program of another host hears nothing of requests.
    let other = net.call(SERVER, Open { family: Family::V4, protocol: Protocol::Echo }).unwrap();
    net.call(SERVER, Bind { socket: other, address: own(7) }).unwrap();
    net.call(CLIENT, Connect { socket: one, to: SocketAddr::new(address(SERVER), 0) }).unwrap();
    send(&mut net, one, None, &request(Family::V4, 2, 9)).unwrap();
    assert!(receive(&mut net, one).is_ok());
    assert_eq!(net.call(SERVER, ReceiveFrom { socket: other, most: 99, peek: false }).map(|_| ()), Err(NetError::WouldBlock));
}

#[test]
fn other_messages_and_groups_have_the_failures_of_linux() {
    let mut net = net();
    let [v4, v6] = [Family::V4, Family::V6].map(|family| open(&mut net, family));
    let whole = request(Family::V4, 1, 0);
    assert_eq!(send(&mut net, v4, None, &whole), Err(NetError::DestinationRequired));
    for bad in [&whole[..7], &request(Family::V6, 1, 0), &[0; 8], &[8, 1, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(send(&mut net, v4, Some(address(SERVER)), bad), Err(NetError::Invalid), "{bad:?}");
    }
    assert_eq!(send(&mut net, v4, Some(address(SERVER)), &request(Family::V4, 1, 65_508)), Err(NetError::MessageTooLong));
    assert_eq!(send(&mut net, v4, Some(IpAddr::from([10, 0, 0, 255])), &whole), Err(NetError::Denied));
    let mapped = "::ffff:10.0.0.2".parse().unwrap();
    assert_eq!(send(&mut net, v6, Some(mapped), &request(Family::V6, 1, 0)), Err(NetError::Invalid));
    assert_eq!(send(&mut net, v4, Some(IpAddr::from([224, 0, 0, 1])), &whole), Ok(8));
    assert_eq!(receive(&mut net, v4).map(|_| ()), Err(NetError::WouldBlock));
}
