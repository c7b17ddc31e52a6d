//! Addresses of one link, interfaces of a socket, and groups by source.

use softband_model::parts::KernelPart;
use softband_net::calls::{
    Accept, Bind, Close, Connect, Listen, LocalAddress, Open, ReceiveFrom, SendMessage, SendTo, SetOption, SocketOption, SourceChange, Way,
};
use softband_net::{
    Effect, Family, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, LinkAddress, NetError, Payload, Protocol, Received, SocketId, Stack,
};
use softband_sim::SimTime;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

const NOW: SimTime = SimTime::ZERO;

/// Two hosts on one link. Host 1 has another interface before that.
struct Pair([Stack; 2]);

/// Interface of each host on the link.
const LINK: [InterfaceId; 2] = [InterfaceId(1), InterfaceId(2)];

fn config(host: u8, subnet: u8) -> InterfaceConfig {
    let v4 = InterfaceAddress { address: IpAddr::from([10, subnet, 0, host + 1]), prefix: 16 };
    let v6 = InterfaceAddress { address: link_local(host), prefix: 64 };
    InterfaceConfig {
        name: format!("eth{subnet}"),
        mtu_bytes: 1_500,
        addresses: vec![v4, v6],
        link_address: LinkAddress::new(&[2, 0, 0, 0, subnet, host]),
        has_segmentation: false,
        ring_packets: 64,
        queue_packets: 64,
    }
}

fn link_local(host: u8) -> IpAddr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(host) + 1).into()
}

fn scoped(address: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
        IpAddr::V4(_) => SocketAddr::new(address, port),
    }
}

impl Pair {
    fn new() -> Self {
        let mut stacks = [0, 1].map(|seed| Stack::new(KernelPart::linux_6_1(), seed));
        stacks[0].add_interface(config(0, 1));
        stacks[1].add_interface(config(1, 9));
        stacks[1].add_interface(config(1, 1));
        Self(stacks)
    }

    fn socket(&mut self, host: usize, family: Family, port: u16) -> SocketId {
        let socket = self.0[host].call(NOW, Open { family, protocol: Protocol::Datagram }).unwrap();
        let any = if family == Family::V4 { IpAddr::from([0; 4]) } else { Ipv6Addr::UNSPECIFIED.into() };
        self.0[host].call(NOW, Bind { socket, address: SocketAddr::new(any, port) }).unwrap();
        socket
    }

    fn set(&mut self, host: usize, socket: SocketId, option: SocketOption) -> Result<(), NetError> {
        self.0[host].call(NOW, SetOption { socket, option })
    }

    /// Carries all frames of the link, whose addresses have no scope.
    fn carry(&mut self) {
        loop {
            let mut frames = Vec::new();
            for (host, stack) in self.0.iter_mut().enumerate() {
                while let Some(effect) = stack.next_effect() {
                    if let Effect::Transmit { interface, frame, .. } = effect {
                        stack.tx_done(NOW, interface);
                        frames.extend((interface == LINK[host]).then_some((host, frame)));
                    }
                }
            }
            if frames.is_empty() {
                return;
            }
            for (host, frame) in frames {
                if let Frame::Packet(packet) = &frame {
                    assert!(
                        !packet.source.to_string().starts_with("fe80:1") && !packet.source.to_string().starts_with("fe80:2"),
                        "{}",
                        packet.source
                    );
                }
                self.0[1 - host].packet_in(NOW, LINK[1 - host], frame);
            }
        }
    }

    fn read(&mut self, host: usize, socket: SocketId) -> Result<Received, NetError> {
        self.carry();
        self.0[host].call(NOW, ReceiveFrom { socket, most: 99, peek: false })
    }
}

fn data() -> Payload {
    Payload::from(&b"data"[..])
}

#[test]
fn a_link_local_address_needs_its_interface() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(0, Family::V6, 1), pair.socket(1, Family::V6, 2));
    let to = |scope| Some(scoped(link_local(1), 2, scope));
    assert_eq!(pair.0[0].call(NOW, SendTo { socket: client, payload: data(), to: to(0) }), Err(NetError::Invalid));
    pair.0[0].call(NOW, SendTo { socket: client, payload: data(), to: to(2) }).unwrap();
    let read = pair.read(1, server).unwrap();
    assert_eq!((read.from, read.to, read.interface, read.hop_limit), (scoped(link_local(0), 1, 3), link_local(1), LINK[1], 64));
    pair.0[1].call(NOW, Connect { socket: server, to: read.from }).unwrap();
    assert_eq!(pair.0[1].call(NOW, LocalAddress { socket: server }), Ok(scoped(link_local(1), 2, 3)));
    pair.0[1].call(NOW, SendTo { socket: server, payload: data(), to: None }).unwrap();
    assert_eq!(pair.read(0, client).unwrap().from, scoped(link_local(1), 2, 2));
    assert!(pair.0[1].has_address(link_local(1)) && !pair.0[1].has_address(link_local(0)));
}

#[test]
fn a_large_datagram_between_addresses_of_a_link_arrives_whole() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(0, Family::V6, 1), pair.socket(1, Family::V6, 2));
    let payload = Payload::from(&[7; 4_000][..]);
    pair.0[0].call(NOW, SendTo { socket: client, payload, to: Some(scoped(link_local(1), 2, 2)) }).unwrap();
    assert_eq!(pair.read(1, server).map(|read| (read.len_bytes, read.from)), Ok((4_000, scoped(link_local(0), 1, 3))));
}

#[test]
fn a_group_of_a_link_needs_no_route() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(1, Family::V6, 1), pair.socket(0, Family::V6, 2));
    let all = "ff02::1".parse().unwrap();
    // Without a scope, the first link carries it.
    for (scope, arrives) in [(0, false), (3, true)] {
        pair.0[1].call(NOW, SendTo { socket: client, payload: data(), to: Some(scoped(all, 2, scope)) }).unwrap();
        let from = pair.read(0, server).map(|read| (read.from, read.hop_limit));
        assert_eq!(from, if arrives { Ok((scoped(link_local(1), 1, 2), 1)) } else { Err(NetError::WouldBlock) });
    }
}

#[test]
fn a_socket_of_an_interface_hears_no_other() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(0, Family::V4, 1), pair.socket(1, Family::V4, 2));
    let to = Some(SocketAddr::from(([10, 1, 0, 2], 2)));
    for (device, arrives) in [(Some(InterfaceId(1)), false), (Some(LINK[1]), true), (None, true)] {
        pair.set(1, server, SocketOption::Device(device)).unwrap();
        pair.0[0].call(NOW, SendTo { socket: client, payload: data(), to }).unwrap();
        assert_eq!(pair.read(1, server).is_ok(), arrives, "{device:?}");
    }
    // Two sockets of different interfaces share a port.
    pair.set(1, server, SocketOption::Device(Some(LINK[1]))).unwrap();
    let other = pair.0[1].call(NOW, Open { family: Family::V4, protocol: Protocol::Datagram }).unwrap();
    let address = SocketAddr::from(([0; 4], 2));
    assert_eq!(pair.0[1].call(NOW, Bind { socket: other, address }), Err(NetError::AddressInUse));
    pair.set(1, other, SocketOption::Device(Some(InterfaceId(1)))).unwrap();
    assert_eq!(pair.0[1].call(NOW, Bind { socket: other, address }), Ok(()));
}

#[test]
fn a_socket_of_an_interface_reaches_its_own_address() {
    let mut pair = Pair::new();
    let own = |subnet: u8| IpAddr::from([10, subnet, 0, 2]);
    // Each host address belongs to its interface, although its packets cross `lo`.
    for (device, address, arrives) in [(LINK[1], own(1), true), (InterfaceId(1), own(1), false), (InterfaceId(1), own(9), true)] {
        let server = pair.socket(1, Family::V4, 5);
        pair.set(1, server, SocketOption::Device(Some(device))).unwrap();
        let client = pair.socket(1, Family::V4, 6);
        pair.set(1, client, SocketOption::Device(Some(device))).unwrap();
        pair.0[1].call(NOW, SendTo { socket: client, payload: data(), to: Some(SocketAddr::new(address, 5)) }).unwrap();
        let read = pair.read(1, server).map(|read| read.interface);
        assert_eq!(read, if arrives { Ok(device) } else { Err(NetError::WouldBlock) }, "{address} by {device:?}");
        for socket in [server, client] {
            pair.0[1].call(NOW, Close { socket }).unwrap();
        }
    }
    let [listener, client] = [(); 2].map(|()| {
        let socket = pair.0[1].call(NOW, Open { family: Family::V4, protocol: Protocol::Stream }).unwrap();
        pair.set(1, socket, SocketOption::Device(Some(LINK[1]))).unwrap();
        socket
    });
    let to = SocketAddr::new(own(1), 80);
    pair.0[1].call(NOW, Bind { socket: listener, address: to }).unwrap();
    pair.0[1].call(NOW, Listen { socket: listener, backlog: 1 }).unwrap();
    assert_eq!(pair.0[1].call(NOW, Connect { socket: client, to }), Err(NetError::InProgress));
    assert!(pair.0[1].call(NOW, Accept { socket: listener }).is_ok());
}

#[test]
fn a_datagram_names_a_source_of_its_link() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(1, Family::V6, 1), pair.socket(0, Family::V6, 2));
    let global: SocketAddr = "[2001:db8::1]:2".parse().unwrap();
    let mut send = |to, interface| {
        let way = Way { interface, source: Some(link_local(1)), hop_limit: None };
        pair.0[1].call(NOW, SendMessage { socket: client, payload: data(), to: Some(to), way })
    };
    assert_eq!(send(global, None), Err(NetError::Invalid), "nothing says which link");
    // Host 1 has the address on both links.
    send(scoped(link_local(0), 2, 3), None).unwrap();
    send(scoped(link_local(0), 2, 3), Some(LINK[1])).unwrap();
    for _ in 0..2 {
        assert_eq!(pair.read(0, server).map(|read| read.from), Ok(scoped(link_local(1), 1, 2)));
    }
}

#[test]
fn a_datagram_goes_its_own_way() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(1, Family::V4, 1), pair.socket(0, Family::V4, 2));
    let to = Some(SocketAddr::from(([10, 1, 0, 1], 2)));
    let mut send = |way| pair.0[1].call(NOW, SendMessage { socket: client, payload: data(), to, way });
    assert_eq!(send(Way { interface: Some(InterfaceId(7)), ..Way::default() }), Err(NetError::NoDevice));
    assert_eq!(send(Way { source: Some(IpAddr::from([10, 1, 0, 9])), ..Way::default() }), Err(NetError::Invalid));
    let source = IpAddr::from([10, 9, 0, 2]);
    send(Way { source: Some(source), hop_limit: Some(9), ..Way::default() }).unwrap();
    let read = pair.read(0, server).unwrap();
    assert_eq!((read.from.ip(), read.hop_limit), (source, 9));
}

#[test]
fn a_socket_hears_the_sources_of_a_group_that_it_names() {
    let mut pair = Pair::new();
    let (client, server) = (pair.socket(0, Family::V4, 1), pair.socket(1, Family::V4, 2));
    let group = IpAddr::from([239, 1, 2, 3]);
    let change = |change, last| SocketOption::Source { change, group, source: IpAddr::from([10, 1, 0, last]), interface: Some(LINK[1]) };
    let hears = |pair: &mut Pair| {
        pair.0[0].call(NOW, SendTo { socket: client, payload: data(), to: Some(SocketAddr::new(group, 2)) }).unwrap();
        pair.read(1, server).is_ok()
    };
    assert_eq!(pair.set(1, server, change(SourceChange::Block, 1)), Err(NetError::Invalid));
    pair.set(1, server, change(SourceChange::Add, 9)).unwrap();
    assert!(!hears(&mut pair));
    pair.set(1, server, change(SourceChange::Add, 1)).unwrap();
    assert_eq!(pair.set(1, server, change(SourceChange::Add, 1)), Err(NetError::AddressNotAvailable));
    assert!(hears(&mut pair));
    assert_eq!(pair.set(1, server, change(SourceChange::Block, 1)), Err(NetError::Invalid));
    for last in [9, 1] {
        pair.set(1, server, change(SourceChange::Drop, last)).unwrap();
    }
    // The last source took the membership with it.
    assert!(!hears(&mut pair));
    pair.set(1, server, SocketOption::Join { group, interface: Some(LINK[1]) }).unwrap();
    assert!(hears(&mut pair));
    pair.set(1, server, change(SourceChange::Block, 1)).unwrap();
    assert!(!hears(&mut pair));
    pair.set(1, server, change(SourceChange::Unblock, 1)).unwrap();
    assert!(hears(&mut pair));
}
