//! Link addresses of neighbours, for IPv4 and IPv6, and hosts that do not answer.

use crate::common::{CLIENT, Net, SERVER, Wire, address, kernel, link_address};
use softband_net::calls::{Bind, Connect, Open, ReceiveFrom, SendTo, TakeError};
use softband_net::{
    Effect, Family, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, LinkAddress, LinkDestination, NeighbourMessage, NetError, Payload,
    Protocol, Route, Stack,
};
use softband_sim::{SimDuration, SimTime};
use std::net::{IpAddr, SocketAddr};

const MILLI: SimDuration = SimDuration::from_micros(1_000);
const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

fn net() -> Net {
    let kernel = kernel("linux-6.1");
    Net::new([&kernel, &kernel], Wire { resolves: true, ..Wire::new(1_000, SimDuration::from_micros(25)) }, 5)
}

#[test]
fn the_first_packet_waits_for_the_neighbour_and_later_ones_do_not() {
    let mut net = net();
    let (client, server) = net.pair(&[]);
    // The server learned the client's link address from its question.
    assert_eq!(net.asked, 2);
    net.send(CLIENT, client, b"data").unwrap();
    net.run_for(MILLI);
    assert_eq!((net.receive(SERVER, server, 9).unwrap(), net.asked), (b"data".to_vec(), 2));
    let known: Vec<_> = net.hosts[CLIENT].stack.neighbours().collect();
    assert_eq!(known, [(InterfaceId(1), address(SERVER), link_address(SERVER))]);
    // After 30 s the address is in question, and stays in use meanwhile.
    net.run_for(SECOND * 31);
    net.send(CLIENT, client, b"more").unwrap();
    net.run_for(MILLI);
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"more");
    assert!(net.asked > 2);
}

#[test]
fn a_host_that_does_not_answer_is_unreachable_after_three_seconds() {
    let mut net = net();
    net.drop = Some(Box::new(|_, _| true));
    let socket = net.open(CLIENT, Protocol::Stream);
    let _ = net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) });
    let datagram = net.open(CLIENT, Protocol::Datagram);
    net.call(CLIENT, Connect { socket: datagram, to: SocketAddr::new(address(SERVER), 7) }).unwrap();
    net.call(CLIENT, SendTo { socket: datagram, payload: Payload::from(&b"x"[..]), to: None }).unwrap();
    net.run_for(MILLI * 2_900);
    assert_eq!(net.call(CLIENT, TakeError { socket }), Ok(()));
    net.run_for(MILLI * 200);
    assert_eq!(net.call(CLIENT, TakeError { socket }), Err(NetError::HostUnreachable));
    assert_eq!(net.call(CLIENT, TakeError { socket: datagram }), Err(NetError::HostUnreachable));
    assert_eq!(net.asked, 3);
}

#[test]
fn packets_that_wait_are_bounded() {
    let mut net = net();
    net.drop = Some(Box::new(|_, _| true));
    let socket = net.open(CLIENT, Protocol::Datagram);
    let to = Some(SocketAddr::new(address(SERVER), 7));
    for _ in 0..1_000 {
        net.call(CLIENT, SendTo { socket, payload: Payload::from(&[0; 9][..]), to }).unwrap();
    }
    net.run_for(SECOND * 10);
    assert_eq!(net.packets, 0);
}

#[test]
fn questions_of_strangers_take_bounded_memory() {
    let mut stack = Stack::new(kernel("linux-6.1"), 1);
    let own = LinkAddress::new(&[1; 6]).unwrap();
    let addresses = vec![InterfaceAddress { address: address(0), prefix: 8 }];
    let eth = stack.add_interface(InterfaceConfig {
        name: "eth0".into(),
        mtu_bytes: 1_500,
        addresses,
        link_address: Some(own),
        has_segmentation: false,
        ring_packets: 1 << 20,
        queue_packets: 1_000,
    });
    for number in 0..5_000_u32 {
        let sender = IpAddr::from((0x0a10_0000 + number).to_be_bytes());
        let sender_link = LinkAddress::new(&number.to_be_bytes()).unwrap();
        let message = NeighbourMessage { is_request: true, sender, sender_link, target: address(0), target_link: None };
        stack.packet_in(SimTime::ZERO, eth, Frame::Neighbour(message));
        let answers = std::iter::from_fn(|| stack.next_effect())
            .filter(|effect| matches!(effect, Effect::Transmit { to, .. } if *to == LinkDestination::Link(sender_link)));
        assert_eq!(answers.count(), 1);
    }
    assert_eq!(stack.neighbours().count(), 1_024);
}

#[test]
fn packets_for_forgotten_neighbours_return_their_bytes() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire { resolves: true, ..Wire::new(1_000, SimDuration::from_micros(25)) }, 5);
    net.drop = Some(Box::new(|_, _| true));
    let route = Route { network: [10, 0, 0, 0].into(), prefix: 8, gateway: None, interface: InterfaceId(1), source: None, metric: 0 };
    net.hosts[CLIENT].stack.add_route(route);
    let sockets: Vec<_> = (0..10).map(|_| net.open(CLIENT, Protocol::Datagram)).collect();
    let send = |net: &mut Net, socket, number: u32| {
        let to = Some(SocketAddr::new((0x0a10_0000 + number).to_be_bytes().into(), 7));
        net.call(CLIENT, SendTo { socket, payload: Payload::empty(), to })
    };
    // Each of 2,000 hosts has a packet that waits for its link address, and 1,024 find room.
    for number in 0..2_000 {
        assert_eq!(send(&mut net, sockets[number as usize % 10], number), Ok(0));
    }
    net.run_for(SECOND * 10);
    // A send buffer of 212,992 B holds 278 packets of 768 B.
    for socket in sockets {
        assert!((0..278).all(|_| send(&mut net, socket, 1) == Ok(0)));
        net.run_for(SECOND * 10);
    }
}

#[test]
fn an_answer_without_a_link_address_confirms_the_known_one() {
    let address = |host: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host]);
    let mut stack = Stack::new(kernel("linux-6.1"), 1);
    let interface = stack.add_interface(InterfaceConfig {
        name: "ib0".into(),
        mtu_bytes: 2_044,
        addresses: vec![InterfaceAddress { address: address(1), prefix: 64 }],
        link_address: Some(link_address(0)),
        has_segmentation: true,
        ring_packets: 16,
        queue_packets: 1_000,
    });
    let answer = |sender_link| {
        let (sender, target) = (address(2), address(1));
        Frame::Neighbour(NeighbourMessage { is_request: false, sender, sender_link, target, target_link: None })
    };
    let socket = stack.call(SimTime::ZERO, Open { family: Family::V6, protocol: Protocol::Datagram }).unwrap();
    let ask = |stack: &mut Stack, now: SimTime| {
        let to = Some(SocketAddr::new(address(2), 7));
        stack.call(now, SendTo { socket, payload: Payload::empty(), to }).unwrap();
        let is_question = |effect: &Effect| matches!(effect, Effect::Transmit { frame: Frame::Neighbour(_), .. });
        let asked = std::iter::from_fn(|| stack.next_effect()).filter(is_question).count();
        (0..9).for_each(|_| stack.tx_done(now, interface));
        asked
    };
    let empty = LinkAddress::new(&[]).unwrap();
    assert_eq!(ask(&mut stack, SimTime::ZERO), 1);
    // It says nothing about an unknown neighbour.
    stack.packet_in(SimTime::ZERO, interface, answer(empty));
    assert_eq!(stack.neighbours().count(), 0);
    stack.packet_in(SimTime::ZERO, interface, answer(link_address(1)));
    let later = SimTime::ZERO + SECOND * 31;
    assert_eq!(ask(&mut stack, later), 1);
    stack.packet_in(later, interface, answer(empty));
    assert_eq!(stack.neighbours().collect::<Vec<_>>(), [(interface, address(2), link_address(1))]);
    // Good for another 30 seconds, without further questions.
    stack.timer(later + SECOND * 20);
    assert_eq!(ask(&mut stack, later + SECOND * 20), 0);
}

/// Two stacks with IPv6 addresses, on a wire without delay.
#[test]
fn ipv6_asks_the_group_of_the_address() {
    let address = |host: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host]);
    let mut stacks: Vec<Stack> = (0..2)
        .map(|host| {
            let mut stack = Stack::new(kernel("linux-6.1"), host);
            stack.add_interface(InterfaceConfig {
                name: "ib0".into(),
                mtu_bytes: 2_044,
                addresses: vec![InterfaceAddress { address: address(host as u16 + 1), prefix: 64 }],
                link_address: Some(link_address(host as usize)),
                has_segmentation: true,
                ring_packets: 16,
                queue_packets: 1_000,
            });
            stack
        })
        .collect();
    let now = SimTime::ZERO;
    let sockets: Vec<_> =
        stacks.iter_mut().map(|stack| stack.call(now, Open { family: Family::V6, protocol: Protocol::Datagram }).unwrap()).collect();
    stacks[1].call(now, Bind { socket: sockets[1], address: SocketAddr::new(address(2), 7) }).unwrap();
    let to = Some(SocketAddr::new(address(2), 7));
    stacks[0].call(now, SendTo { socket: sockets[0], payload: Payload::from(&b"six"[..]), to }).unwrap();
    let mut seen = Vec::new();
    while let Some((host, effect)) = (0..2).find_map(|host| Some((host, stacks[host].next_effect()?))) {
        if let Effect::Transmit { interface, to, frame } = effect {
            seen.push((host, to, frame.wire_bytes()));
            stacks[host].tx_done(now, interface);
            stacks[1 - host].packet_in(now, interface, frame);
        }
    }
    let group = LinkDestination::Group("ff02::1:ff00:2".parse().unwrap());
    let links = [link_address(0), link_address(1)].map(LinkDestination::Link);
    assert_eq!(seen, [(0, group, 88), (1, links[0], 88), (0, links[1], 40 + 8 + 3)]);
    let received = stacks[1].call(now, ReceiveFrom { socket: sockets[1], most: 99, peek: false }).unwrap();
    assert_eq!((received.payload.to_vec(), received.from.ip()), (b"six".to_vec(), address(1)));
    let long = Payload::counted(65_528);
    assert_eq!(stacks[0].call(now, SendTo { socket: sockets[0], payload: long, to }), Err(NetError::MessageTooLong));
}
