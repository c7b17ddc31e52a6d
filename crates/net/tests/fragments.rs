//! Datagrams above the MTU: fragments, their loss, their memory.

use crate::common::{CLIENT, Net, SERVER, Wire, address, address_v6, kernel, pattern};
use softband_net::calls::{Bind, Open, ReceiveFrom, SendTo};
use softband_net::{
    Body, Datagram, Events, Family, Fragment, Frame, HOP_LIMIT, InterfaceId, KernelPart, NetError, Packet, Payload, Protocol, SocketId, wire,
};
use softband_sim::SimDuration;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

const MILLI: SimDuration = SimDuration::from_micros(1_000);
const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

/// Returns a net with a socket of each host, the server's at port 7.
fn net(family: Family, wire: Wire, kernel: &KernelPart) -> (Net, SocketId, SocketId) {
    let mut net = Net::new([kernel, kernel], wire, 5);
    let [client, server] = [CLIENT, SERVER].map(|host| net.call(host, Open { family, protocol: Protocol::Datagram }).unwrap());
    net.call(SERVER, Bind { socket: server, address: SocketAddr::new(family.unspecified(), 7) }).unwrap();
    (net, client, server)
}

fn gigabit() -> Wire {
    Wire::new(1_000, SimDuration::from_micros(25))
}

fn bytes(len: u64) -> Vec<u8> {
    (0..len).map(pattern).collect()
}

fn send(net: &mut Net, socket: SocketId, to: IpAddr, len: u64) -> Result<u32, NetError> {
    net.call(CLIENT, SendTo { socket, payload: Payload::from(&bytes(len)[..]), to: Some(SocketAddr::new(to, 7)) })
}

fn receive(net: &mut Net, socket: SocketId) -> Result<Vec<u8>, NetError> {
    net.call(SERVER, ReceiveFrom { socket, most: 1 << 17, peek: false }).map(|received| received.payload.to_vec())
}

#[test]
fn large_datagrams_arrive_whole_in_fragments_that_fit() {
    // 1,480 B of an IPv4 packet, and 1,448 B of an IPv6 packet, are multiples of 8 B.
    for (family, to, len, packets) in [
        (Family::V4, address(SERVER), 1_472, 1),
        (Family::V4, address(SERVER), 1_473, 2),
        (Family::V4, address(SERVER), 65_507, 45),
        (Family::V6, address_v6(SERVER), 1_452, 1),
        (Family::V6, address_v6(SERVER), 1_453, 2),
        (Family::V6, address_v6(SERVER), 65_527, 46),
    ] {
        let (mut net, client, server) = net(family, gigabit(), &kernel("linux-6.1"));
        let on_wire = Rc::new(RefCell::new(Vec::new()));
        let log = on_wire.clone();
        net.tap = Some(Box::new(move |_, _, packet| log.borrow_mut().push(packet.clone())));
        assert_eq!(send(&mut net, client, to, len), Ok(len as u32));
        net.run_for(MILLI * 10);
        assert_eq!(receive(&mut net, server), Ok(bytes(len)));
        assert_eq!(on_wire.borrow().len(), packets, "{len} B to {to}");
        // The same by bytes of the wire, in the reverse order.
        let (mut again, _, server) = self::net(family, gigabit(), &kernel("linux-6.1"));
        for packet in on_wire.borrow().iter().rev() {
            let mut bytes = Vec::new();
            wire::encode(&Frame::Packet(packet.clone()), &mut bytes).unwrap();
            let frame = wire::decode(&bytes).unwrap();
            again.hosts[SERVER].stack.packet_in(again.now, InterfaceId(1), frame);
        }
        assert_eq!(receive(&mut again, server), Ok(bytes(len)));
    }
    let (mut net, client, _) = net(Family::V6, gigabit(), &kernel("linux-6.1"));
    assert_eq!(send(&mut net, client, address_v6(SERVER), 65_528), Err(NetError::MessageTooLong));
}

#[test]
fn a_lost_fragment_loses_the_datagram_and_frees_its_memory() {
    let kernel = KernelPart { fragment_memory_bytes: 100_000, ..kernel("linux-6.1") };
    let (mut net, client, server) = net(Family::V4, gigabit(), &kernel);
    let mut count = 0;
    net.drop = Some(Box::new(move |_, _| {
        count += 1;
        count % 10 == 3
    }));
    for _ in 0..10 {
        send(&mut net, client, address(SERVER), 30_000).unwrap();
        net.run_for(MILLI * 10);
    }
    net.drop = None;
    assert_eq!(receive(&mut net, server), Err(NetError::WouldBlock));
    // Incomplete datagrams fill the memory, so that whole ones find no room for 30 seconds.
    send(&mut net, client, address(SERVER), 30_000).unwrap();
    net.run_for(MILLI * 10);
    assert_eq!(receive(&mut net, server), Err(NetError::WouldBlock));
    net.run_for(SECOND * 31);
    send(&mut net, client, address(SERVER), 30_000).unwrap();
    net.run_for(MILLI * 10);
    assert_eq!(receive(&mut net, server), Ok(bytes(30_000)));
    assert!(net.hosts[CLIENT].stack.readiness(client).intersects(Events::WRITABLE));
}

/// Returns the fragments of a datagram with 16 B of payload to port 7, by their places in it.
fn cut(places: &[(u32, u32, bool)]) -> Vec<Frame> {
    let datagram = Datagram { source_port: 5, destination_port: 7, payload: Payload::from(&bytes(16)[..]) };
    let mut whole = Vec::new();
    let packet = |body| Frame::Packet(Packet { source: address(CLIENT), destination: address(SERVER), hop_limit: HOP_LIMIT, body });
    wire::encode(&packet(Body::Udp(datagram)), &mut whole).unwrap();
    // Behind the IP header, and zeros behind the datagram.
    let mut content = Payload::from(&whole[20..]);
    content.append(Payload::counted(1 << 17));
    let fragment = |(offset, len, has_more): &(u32, u32, bool)| {
        let payload = content.part(*offset, *len);
        packet(Body::Fragment(Fragment { identification: 1, offset: *offset, has_more: *has_more, protocol: 17, payload }))
    };
    places.iter().map(fragment).collect()
}

/// Returns the datagram that the server's program reads after these fragments arrived.
fn joined(places: &[(u32, u32, bool)]) -> Result<Vec<u8>, NetError> {
    let (mut net, _, server) = net(Family::V4, gigabit(), &kernel("linux-6.1"));
    for frame in cut(places) {
        net.hosts[SERVER].stack.packet_in(net.now, InterfaceId(1), frame);
    }
    receive(&mut net, server)
}

#[test]
fn fragments_that_contradict_each_other_give_nothing() {
    for places in [
        vec![(0, 16, true), (16, 8, false)],
        vec![(16, 8, false), (0, 8, true), (8, 8, true)],
        vec![(0, 16, true), (0, 16, true), (16, 8, false)],
        vec![(16, 8, false), (16, 8, false), (0, 16, true)],
    ] {
        assert_eq!(joined(&places), Ok(bytes(16)), "{places:?}");
    }
    for places in [
        vec![(0, 16, true), (8, 16, false)],
        vec![(8, 16, true), (0, 16, true), (16, 8, false)],
        vec![(16, 8, false), (32, 8, true), (0, 16, true)],
        vec![(32, 8, true), (16, 8, false), (0, 16, true)],
        vec![(16, 16, false), (16, 8, false), (0, 16, true)],
        vec![(65_528, 65_528, true), (0, 8, true)],
        // Fragments of a lost datagram do not begin another.
        vec![(0, 16, true), (8, 8, true), (0, 16, true), (16, 8, false)],
        vec![(16, 8, false), (8, 16, false), (16, 8, false), (0, 16, true)],
    ] {
        assert_eq!(joined(&places), Err(NetError::WouldBlock), "{places:?}");
    }
}

#[test]
fn the_remains_of_a_contradiction_end_with_its_time() {
    let (mut net, _, server) = net(Family::V4, gigabit(), &kernel("linux-6.1"));
    let arrive = |net: &mut Net, places: &[(u32, u32, bool)]| {
        cut(places).into_iter().for_each(|frame| net.hosts[SERVER].stack.packet_in(net.now, InterfaceId(1), frame));
        net.run_for(SECOND);
        receive(net, server)
    };
    assert_eq!(arrive(&mut net, &[(0, 16, true), (8, 8, true)]), Err(NetError::WouldBlock));
    net.run_for(SECOND * 28);
    assert_eq!(arrive(&mut net, &[(0, 16, true), (16, 8, false)]), Err(NetError::WouldBlock));
    net.run_for(SECOND * 2);
    assert_eq!(arrive(&mut net, &[(0, 16, true), (16, 8, false)]), Ok(bytes(16)));
}

#[test]
fn old_kernels_forget_the_oldest_datagrams_for_new_ones() {
    for (name, evicts) in [("linux-2.6.9", true), ("linux-3.10", true), ("linux-6.1", false)] {
        let kernel = kernel(name);
        assert_eq!(kernel.fragment_memory_low_bytes.is_some(), evicts, "{name}");
        let memory = kernel.fragment_memory_bytes;
        let (mut net, client, server) = net(Family::V4, gigabit(), &kernel);
        let mut count = 0;
        // The last fragment of each of the first datagrams is lost.
        net.drop = Some(Box::new(move |_, _| {
            count += 1;
            count % 21 == 0
        }));
        for _ in 0..=memory / 20_000 {
            send(&mut net, client, address(SERVER), 30_000).unwrap();
            net.run_for(MILLI);
        }
        net.drop = None;
        assert_eq!(receive(&mut net, server), Err(NetError::WouldBlock), "{name}");
        send(&mut net, client, address(SERVER), 30_000).unwrap();
        net.run_for(MILLI);
        let read = if evicts { Ok(bytes(30_000)) } else { Err(NetError::WouldBlock) };
        assert_eq!(receive(&mut net, server), read, "{name}");
    }
}

#[test]
fn a_full_queue_loses_fragments_and_returns_their_bytes() {
    let kernel = KernelPart { transmit_queue_packets: 4, ..kernel("linux-6.1") };
    let (mut net, client, server) = net(Family::V4, Wire::new(10, SimDuration::from_micros(25)), &kernel);
    let others: Vec<SocketId> = (0..2).map(|_| net.open(CLIENT, Protocol::Datagram)).collect();
    // 44 fragments each: 256 frames of the ring and 4 of the queue hold five datagrams and a part.
    for socket in [client, others[0], others[1]] {
        (0..3).for_each(|_| assert!(send(&mut net, socket, address(SERVER), 65_000).is_ok()));
    }
    net.run_for(SECOND);
    assert_eq!(std::iter::from_fn(|| receive(&mut net, server).ok()).count(), 4, "as many as the receive buffer holds");
    let dropped: u64 = net.hosts[CLIENT].stack.interfaces().map(|(.., counters)| counters.sent_dropped).sum();
    assert_eq!(dropped, 9 * 44 - 260);
    // The sockets' send buffers are free again: each takes three datagrams at once.
    for socket in [client, others[0], others[1]] {
        (0..3).for_each(|_| assert!(send(&mut net, socket, address(SERVER), 65_000).is_ok()));
    }
}
