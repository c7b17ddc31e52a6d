//! Transfers with smoltcp as the peer, over a wire that loses packets. It reads the bytes of `wire`, and checks them.

use crate::common::{address, kernel, pattern};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use softband_net::calls::{Accept, Bind, Connect, Listen, Open, Receive, Send};
use softband_net::{
    Effect, Family, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, NetError, Packet, Payload, Protocol, SocketId, Stack, wire,
};
use softband_sim::{RandomStream, SimDuration, SimTime};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

const MTU: usize = 1_500;

fn peer_address(host: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, host + 1)
}

thread_local! {
    static CLOCK: Cell<u32> = const { Cell::new(1) };
}

#[derive(Default)]
struct Queues {
    received: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}
struct Rx(Vec<u8>);
struct Tx<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}
impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        self.0.push_back(bytes);
        result
    }
}
impl Device for Queues {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;
    fn receive(&mut self, _: Instant) -> Option<(Rx, Tx<'_>)> {
        let bytes = self.received.pop_front()?;
        Some((Rx(bytes), Tx(&mut self.sent)))
    }
    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.sent))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, MTU);
        capabilities
    }
}

fn to_bytes(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(&Frame::Packet(packet.clone()), &mut bytes).expect("a packet with bytes");
    bytes
}

fn from_bytes(bytes: &[u8]) -> Packet {
    match wire::decode(bytes) {
        Ok(Frame::Packet(packet)) => packet,
        other => panic!("smoltcp sends {other:?}"),
    }
}

enum Event {
    ToStack(Packet),
    ToPeer(Vec<u8>),
    Done,
    Wake,
}

/// Host 0 runs the stack, host 1 runs smoltcp.
struct Pair {
    stack: Stack,
    interface: Interface,
    device: Queues,
    sockets: SocketSet<'static>,
    peer: SocketHandle,
    now: SimTime,
    events: BTreeMap<(SimTime, u64), Event>,
    order: u64,
    free_at: [SimTime; 2],
    random: RandomStream,
    loss_ppm: u64,
}

impl Pair {
    fn new(name: &str, seed: u64, loss_ppm: u64) -> Self {
        let mut stack = Stack::new(kernel(name), seed);
        stack.add_interface(InterfaceConfig {
            name: "eth0".into(),
            mtu_bytes: MTU as u32,
            addresses: vec![InterfaceAddress { address: address(0), prefix: 24 }],
            link_address: None,
            has_segmentation: true,
            ring_packets: 64,
            queue_packets: 1_000,
        });
        let mut device = Queues::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(peer_address(1), 24)).expect("room for an address"));
        let buffer = || tcp::SocketBuffer::new(vec![0; 200_000]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_congestion_control(tcp::CongestionControl::Cubic);
        socket.set_tsval_generator(Some(|| CLOCK.get()));
        let mut sockets = SocketSet::new(vec![]);
        let peer = sockets.add(socket);
        let now = SimTime::ZERO + SimDuration::from_micros(5);
        let random = RandomStream::new(seed, 3);
        Self { stack, interface, device, sockets, peer, now, events: BTreeMap::new(), order: 0, free_at: [now; 2], random, loss_ppm }
    }

    fn push(&mut self, at: SimTime, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    fn send(&mut self, side: usize, bytes: u64, event: impl FnOnce() -> Event) -> SimTime {
        let at = self.free_at[side].max(self.now) + SimDuration::of_bytes(bytes + 38, 125_000_000);
        self.free_at[side] = at;
        if self.random.next_u64() % 1_000_000 >= self.loss_ppm {
            self.push(at + SimDuration::from_micros(200), event());
        }
        at
    }

    /// Takes effects of the stack, and polls the peer.
    fn settle(&mut self) {
        while let Some(effect) = self.stack.next_effect() {
            match effect {
                Effect::Transmit { frame: Frame::Packet(packet), .. } => {
                    let mut at = self.now;
                    for packet in packet.cut() {
                        at = self.send(0, packet.wire_bytes(), || Event::ToPeer(to_bytes(&packet)));
                    }
                    self.push(at, Event::Done);
                }
                Effect::SetTimer(at) => self.push(at.max(self.now), Event::Wake),
                Effect::Transmit { .. }
                | Effect::Sdp { .. }
                | Effect::Ready { .. }
                | Effect::Charge(_)
                | Effect::Join { .. }
                | Effect::Leave { .. } => {}
            }
        }
        CLOCK.set((self.now.as_nanos() / 1_000_000) as u32 + 1);
        let now = Instant::from_micros((self.now.as_nanos() / 1_000) as i64);
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        while let Some(bytes) = self.device.sent.pop_front() {
            self.send(1, bytes.len() as u64, || Event::ToStack(from_bytes(&bytes)));
        }
        if let Some(at) = self.interface.poll_at(now, &self.sockets) {
            let micros = (at.total_micros().max(0) as u64).max(self.now.as_nanos() / 1_000 + 1);
            self.push(SimTime::ZERO + SimDuration::from_micros(micros), Event::Wake);
        }
    }

    fn step(&mut self) {
        let ((at, _), event) = self.events.pop_first().expect("an event");
        self.now = at;
        match event {
            Event::ToStack(packet) => self.stack.packet_in(at, InterfaceId(1), Frame::Packet(packet)),
            Event::ToPeer(bytes) => self.device.received.push_back(bytes),
            Event::Done => self.stack.tx_done(at, InterfaceId(1)),
            Event::Wake => self.stack.timer(at),
        }
        self.settle();
    }

    fn socket(&mut self) -> SocketId {
        self.stack.call(self.now, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket")
    }

    /// Moves `total` bytes each way at once, and returns whether all arrived.
    fn exchange(&mut self, socket: SocketId, total: u64) -> bool {
        let (mut sent, mut received) = ([0; 2], [0; 2]);
        let end = self.now + SimDuration::from_micros(400_000_000);
        let chunk = |from: u64| (from..(from + 10_000).min(total)).map(pattern).collect::<Vec<u8>>();
        while received != [total; 2] && self.now < end {
            if sent[0] < total
                && let Ok(taken) = self.stack.call(self.now, Send { socket, payload: Payload::from(&chunk(sent[0])[..]), urgent: false, more: false })
            {
                sent[0] += u64::from(taken);
            }
            if let Ok(payload) = self.stack.call(self.now, Receive { socket, most: 50_000, peek: false }) {
                payload.to_vec().iter().enumerate().for_each(|(index, byte)| assert_eq!(*byte, pattern(received[0] + index as u64)));
                received[0] += u64::from(payload.len());
            }
            let peer = self.sockets.get_mut::<tcp::Socket<'_>>(self.peer);
            if sent[1] < total && peer.can_send() {
                sent[1] += peer.send_slice(&chunk(sent[1])).expect("a connection") as u64;
            }
            let mut bytes = vec![0; 50_000];
            if peer.can_recv() {
                let len = peer.recv_slice(&mut bytes).expect("a connection");
                bytes[..len].iter().enumerate().for_each(|(index, byte)| assert_eq!(*byte, pattern(received[1] + index as u64)));
                received[1] += len as u64;
            }
            self.settle();
            self.step();
        }
        println!("{:?} of {total} by {:?}", received, self.now);
        received == [total; 2]
    }
}

const CASES: [(&str, u64); 6] =
    [("linux-2.6.9", 0), ("linux-2.6.9", 10_000), ("linux-3.10", 0), ("linux-6.1", 0), ("linux-6.1", 10_000), ("linux-6.1", 50_000)];

#[test]
fn smoltcp_accepts_and_both_sides_send() {
    for (name, loss_ppm) in CASES {
        let mut pair = Pair::new(name, 7, loss_ppm);
        pair.sockets.get_mut::<tcp::Socket<'_>>(pair.peer).listen(80).expect("a socket to listen");
        let socket = pair.socket();
        let begun = pair.stack.call(pair.now, Connect { socket, to: SocketAddr::new(address(1), 80) });
        assert_eq!(begun, Err(NetError::InProgress));
        assert!(pair.exchange(socket, 500_000), "{name}, {loss_ppm} ppm lost");
    }
}

#[test]
fn smoltcp_connects_and_both_sides_send() {
    for (name, loss_ppm) in CASES {
        let mut pair = Pair::new(name, 8, loss_ppm);
        let listener = pair.socket();
        pair.stack.call(pair.now, Bind { socket: listener, address: SocketAddr::from(([0, 0, 0, 0], 80)) }).expect("a free port");
        pair.stack.call(pair.now, Listen { socket: listener, backlog: 4 }).expect("a socket to listen");
        let Pair { interface, sockets, peer, .. } = &mut pair;
        let remote = (peer_address(0), 80);
        sockets.get_mut::<tcp::Socket<'_>>(*peer).connect(interface.context(), remote, 50_000).expect("a connection");
        pair.settle();
        let socket = loop {
            pair.step();
            if let Ok((socket, _)) = pair.stack.call(pair.now, Accept { socket: listener }) {
                break socket;
            }
        };
        assert!(pair.exchange(socket, 500_000), "{name}, {loss_ppm} ppm lost");
    }
}
