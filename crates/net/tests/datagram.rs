//! UDP sockets.

use crate::common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Bind, Close, Connect, Drops, LocalAddress, ReceiveFrom, Send, SendTo, SetOption, Shutdown, SocketOption, TakeError};
use softband_net::{Events, InterfaceId, NetError, Payload, Protocol, SocketId};
use softband_sim::SimDuration;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

const MILLI: SimDuration = SimDuration::from_micros(1_000);

fn net() -> Net {
    let kernel = kernel("linux-6.1");
    Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

fn bound(net: &mut Net, host: usize, port: u16) -> SocketId {
    let socket = net.open(host, Protocol::Datagram);
    net.call(host, Bind { socket, address: SocketAddr::from(([0, 0, 0, 0], port)) }).unwrap();
    socket
}

fn send_to(net: &mut Net, host: usize, socket: SocketId, bytes: &[u8], to: SocketAddr) -> Result<u32, NetError> {
    net.call(host, SendTo { socket, payload: Payload::from(bytes), to: Some(to) })
}

fn receive(net: &mut Net, host: usize, socket: SocketId) -> Result<(Vec<u8>, SocketAddr), NetError> {
    net.call(host, ReceiveFrom { socket, most: 99, peek: false }).map(|received| (received.payload.to_vec(), received.from))
}

#[test]
fn a_datagram_keeps_its_bounds_and_its_source() {
    let mut net = net();
    let server = bound(&mut net, SERVER, 7);
    let client = net.open(CLIENT, Protocol::Datagram);
    for text in [&b"one"[..], b"", b"three"] {
        send_to(&mut net, CLIENT, client, text, SocketAddr::new(address(SERVER), 7)).unwrap();
    }
    net.run_for(MILLI);
    let local = net.call(CLIENT, LocalAddress { socket: client }).unwrap();
    let from = SocketAddr::new(address(CLIENT), local.port());
    let got: Vec<_> = (0..3).map(|_| receive(&mut net, SERVER, server).unwrap()).collect();
    assert_eq!(got, [(b"one".to_vec(), from), (Vec::new(), from), (b"three".to_vec(), from)]);
    assert_eq!(receive(&mut net, SERVER, server), Err(NetError::WouldBlock));
}

#[test]
fn a_connected_socket_hears_of_closed_ports_and_of_its_peer_alone() {
    let mut net = net();
    let client = net.open(CLIENT, Protocol::Datagram);
    net.call(CLIENT, Connect { socket: client, to: SocketAddr::new(address(SERVER), 9) }).unwrap();
    net.call(CLIENT, Send { socket: client, payload: Payload::from(&b"x"[..]), urgent: false, more: false }).unwrap();
    net.run_for(MILLI);
    assert_eq!(receive(&mut net, CLIENT, client), Err(NetError::Refused));
    assert_eq!(net.call(CLIENT, TakeError { socket: client }), Ok(()));
    let (peer, stranger) = (bound(&mut net, SERVER, 9), bound(&mut net, SERVER, 10));
    let to = net.call(CLIENT, LocalAddress { socket: client }).unwrap();
    assert_eq!(to.ip(), address(CLIENT));
    send_to(&mut net, SERVER, stranger, b"no", to).unwrap();
    send_to(&mut net, SERVER, peer, b"yes", to).unwrap();
    net.run_for(MILLI);
    assert_eq!(receive(&mut net, CLIENT, client).unwrap().0, b"yes");
    assert_eq!(receive(&mut net, CLIENT, client), Err(NetError::WouldBlock));
}

#[test]
fn a_full_queue_drops_datagrams_and_counts_them() {
    let mut net = net();
    let server = bound(&mut net, SERVER, 7);
    net.call(SERVER, SetOption { socket: server, option: SocketOption::ReceiveBuffer(4_096) }).unwrap();
    let client = net.open(CLIENT, Protocol::Datagram);
    let to = SocketAddr::new(address(SERVER), 7);
    assert!((0..50).all(|_| send_to(&mut net, CLIENT, client, &[0; 1_000], to) == Ok(1_000)));
    net.run_for(MILLI * 10);
    let got = std::iter::from_fn(|| receive(&mut net, SERVER, server).ok()).count() as u64;
    // 8,192 B hold five datagrams of 1,768 B: the last one begins below the limit.
    assert_eq!((got, net.call(SERVER, Drops { socket: server })), (5, Ok(45)));
    assert_eq!(send_to(&mut net, CLIENT, client, &[0; 65_508], SocketAddr::new(address(SERVER), 7)), Err(NetError::MessageTooLong));
}

#[test]
fn members_of_a_group_hear_it_and_others_do_not() {
    let mut net = net();
    let group = IpAddr::from([239, 1, 2, 3]);
    let route = softband_net::Route { network: group, prefix: 8, gateway: None, interface: InterfaceId(1), source: None, metric: 0 };
    (0..2).for_each(|host| net.hosts[host].stack.add_route(route));
    let members = [bound(&mut net, SERVER, 7), net.open(SERVER, Protocol::Datagram)];
    for option in [SocketOption::ReuseAddress(true), SocketOption::Join { group, interface: Some(InterfaceId(1)) }, SocketOption::MulticastAll(false)]
    {
        members.iter().for_each(|socket| net.call(SERVER, SetOption { socket: *socket, option }).unwrap());
    }
    let any = SocketAddr::from(([0, 0, 0, 0], 7));
    net.call(SERVER, Bind { socket: members[1], address: any }).unwrap();
    let client = net.open(CLIENT, Protocol::Datagram);
    send_to(&mut net, CLIENT, client, b"all", SocketAddr::new(group, 7)).unwrap();
    net.run_for(MILLI);
    assert!(members.iter().all(|socket| receive(&mut net, SERVER, *socket).is_ok()));
    net.call(SERVER, SetOption { socket: members[0], option: SocketOption::Leave { group, interface: Some(InterfaceId(1)) } }).unwrap();
    send_to(&mut net, CLIENT, client, b"all", SocketAddr::new(group, 7)).unwrap();
    net.run_for(MILLI);
    assert_eq!(members.map(|socket| receive(&mut net, SERVER, socket).is_ok()), [false, true]);
}

#[test]
fn links_join_groups_with_their_first_socket_and_leave_with_their_last() {
    let mut net = net();
    let (group, link) = (IpAddr::from([239, 1, 2, 3]), InterfaceId(1));
    let sockets: Vec<SocketId> = (0..3).map(|_| bound(&mut net, SERVER, 0)).collect();
    let join = |group, interface| SocketOption::Join { group, interface };
    let mut set = |socket: SocketId, option| net.call(SERVER, SetOption { socket, option });
    // Without a route, the first link has the group.
    assert_eq!(set(sockets[0], join(group, None)), Ok(()));
    assert_eq!(set(sockets[0], join(group, Some(link))), Err(NetError::AddressInUse));
    assert_eq!(set(sockets[0], join(group, Some(InterfaceId(9)))), Err(NetError::NoDevice));
    assert_eq!(set(sockets[0], join([10, 0, 0, 1].into(), None)), Err(NetError::Invalid));
    assert_eq!(set(sockets[1], join(group, Some(link))), Ok(()));
    assert_eq!(set(sockets[0], SocketOption::Leave { group, interface: None }), Ok(()));
    assert_eq!(set(sockets[0], SocketOption::Leave { group, interface: None }), Err(NetError::AddressNotAvailable));
    for number in 0..20 {
        assert_eq!(set(sockets[2], join([239, 9, 9, number].into(), None)), Ok(()));
    }
    assert_eq!(set(sockets[2], join(group, None)), Err(NetError::NoBuffers));
    assert_eq!(net.hosts[SERVER].joined.len(), 21);
    assert_eq!(net.hosts[SERVER].joined[0], (true, link, group));
    for socket in sockets {
        net.call(SERVER, Close { socket }).unwrap();
    }
    assert_eq!(net.hosts[SERVER].joined[21], (false, link, group));
    assert_eq!(net.hosts[SERVER].joined.len(), 42);
}

#[test]
fn a_socket_hears_groups_of_others_unless_it_says_otherwise() {
    let mut net = net();
    let group = IpAddr::from([239, 1, 2, 3]);
    let (member, other) = (bound(&mut net, SERVER, 0), bound(&mut net, SERVER, 7));
    net.call(SERVER, SetOption { socket: member, option: SocketOption::Join { group, interface: None } }).unwrap();
    let client = net.open(CLIENT, Protocol::Datagram);
    for (limit, hears_all, arrives) in [(1, true, true), (1, false, false), (0, true, false), (32, true, true)] {
        net.call(CLIENT, SetOption { socket: client, option: SocketOption::MulticastHopLimit(limit) }).unwrap();
        net.call(SERVER, SetOption { socket: other, option: SocketOption::MulticastAll(hears_all) }).unwrap();
        send_to(&mut net, CLIENT, client, b"all", SocketAddr::new(group, 7)).unwrap();
        net.run_for(MILLI);
        assert_eq!(receive(&mut net, SERVER, other).is_ok(), arrives);
    }
    // By the loopback interface, datagrams stay on the host.
    net.call(CLIENT, SetOption { socket: client, option: SocketOption::MulticastInterface(Some(InterfaceId(0))) }).unwrap();
    send_to(&mut net, CLIENT, client, b"all", SocketAddr::new(group, 7)).unwrap();
    net.run_for(MILLI);
    assert!(receive(&mut net, SERVER, other).is_err());
}

#[test]
fn ports_conflict_and_ephemeral_ones_follow_the_seed() {
    let mut net = net();
    let first = bound(&mut net, SERVER, 7);
    let second = net.open(SERVER, Protocol::Datagram);
    let local = SocketAddr::new(address(SERVER), 7);
    assert_eq!(net.call(SERVER, Bind { socket: second, address: local }), Err(NetError::AddressInUse));
    assert_eq!(net.call(SERVER, Bind { socket: second, address: "10.9.9.9:7".parse().unwrap() }), Err(NetError::AddressNotAvailable));
    net.call(SERVER, Close { socket: first }).unwrap();
    net.call(SERVER, Bind { socket: second, address: local }).unwrap();
    let ports = |seed: u64| -> Vec<u16> {
        let kernel = kernel("linux-6.1");
        let mut net = Net::new([&kernel, &kernel], Wire::new(1_000, MILLI), seed);
        let one = |net: &mut Net| {
            let socket = bound(net, CLIENT, 0);
            net.call(CLIENT, LocalAddress { socket }).unwrap().port()
        };
        (0..100).map(|_| one(&mut net)).collect()
    };
    let drawn = ports(1);
    assert_eq!(drawn, ports(1));
    assert_ne!(drawn, ports(2));
    assert!(drawn.iter().all(|port| (32_768..=60_999).contains(port) && port % 2 == 1));
    assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn a_shut_socket_wakes_its_program_and_sends_no_more() {
    let mut net = net();
    let socket = net.open(CLIENT, Protocol::Datagram);
    net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 9) }).unwrap();
    net.call(CLIENT, Shutdown { socket, receive: true, send: false }).unwrap();
    let (woken, events) = net.hosts[CLIENT].ready.pop_back().unwrap();
    assert!(woken == socket && events.intersects(Events::READABLE) && events.intersects(Events::READ_CLOSED));
    assert!(!net.hosts[CLIENT].stack.readiness(socket).intersects(Events::HANG_UP));
    net.call(CLIENT, Shutdown { socket, receive: false, send: true }).unwrap();
    assert!(net.hosts[CLIENT].stack.readiness(socket).intersects(Events::HANG_UP));
    assert_eq!(net.call(CLIENT, Send { socket, payload: Payload::from(&b"x"[..]), urgent: false, more: false }), Err(NetError::Broken));
}

#[test]
fn a_full_send_buffer_stops_the_sender_until_datagrams_leave() {
    for (option, count) in [(None, 121), (Some(SocketOption::SendBuffer(10_000)), 12)] {
        let mut net = net();
        let client = net.open(CLIENT, Protocol::Datagram);
        if let Some(option) = option {
            net.call(CLIENT, SetOption { socket: client, option }).unwrap();
        }
        let to = SocketAddr::new(address(SERVER), 7);
        // Each counts 1,768 B, and the last begins below the limit: 212,992 B or 20,000 B.
        let sent = (0..1_000).take_while(|_| send_to(&mut net, CLIENT, client, &[0; 1_000], to).is_ok()).count();
        assert_eq!(sent, count);
        assert_eq!(send_to(&mut net, CLIENT, client, b"", to), Err(NetError::WouldBlock));
        let is_writable = |net: &Net| net.hosts[CLIENT].stack.readiness(client).intersects(Events::WRITABLE);
        assert!(!is_writable(&net));
        net.hosts[CLIENT].ready.clear();
        net.run_for(MILLI * 10);
        let woken = net.hosts[CLIENT].ready.iter().filter(|(_, events)| events.intersects(Events::WRITABLE)).count();
        assert!(is_writable(&net) && woken == 1, "{woken} events");
        assert!(send_to(&mut net, CLIENT, client, b"", to).is_ok());
    }
}

#[test]
fn a_full_queue_of_the_interface_drops_datagrams_without_a_word() {
    let kernel = softband_net::KernelPart { transmit_queue_packets: 2, ..kernel("linux-6.1") };
    let mut net = Net::new([&kernel, &kernel], Wire::new(1, SimDuration::from_micros(25)), 5);
    let to = SocketAddr::new(address(SERVER), 7);
    // The ring holds 256 frames and the queue two; each socket may have 277 empty datagrams below.
    let sockets: Vec<SocketId> = (0..3).map(|_| net.open(CLIENT, Protocol::Datagram)).collect();
    for socket in sockets {
        assert!((0..200).all(|_| send_to(&mut net, CLIENT, socket, b"", to) == Ok(0)));
    }
    let dropped: u64 = net.hosts[CLIENT].stack.interfaces().map(|(.., counters)| counters.sent_dropped).sum();
    assert_eq!(dropped, 600 - 258);
}
