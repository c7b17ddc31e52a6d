//! Two hosts on a wire that delays, loses, reorders and duplicates packets by a seed.

#![allow(dead_code, reason = "each test file uses a part of it")]

use softband_net::calls::{Accept, Bind, Connect, Info, Listen, Open, Receive, Send, SetOption, SocketOption};
use softband_net::{
    ConnectionInfo, Effect, Events, Family, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, KernelPart, LinkAddress, LinkDestination,
    NetError, Packet, Payload, PayloadSlice, Protocol, SocketId, Stack,
};
use softband_sim::{RandomStream, SimDuration, SimTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};

/// Preamble, Ethernet header, frame check sequence and gap (IEEE 802.3).
pub(crate) const FRAMING_BYTES: u64 = 38;
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
const PATTERN_BYTES: u64 = 1 << 20;

static PATTERN: LazyLock<Arc<[u8]>> = LazyLock::new(|| (0..PATTERN_BYTES).map(pattern).collect());

/// Returns the byte of a stream at `offset`.
pub(crate) fn pattern(offset: u64) -> u8 {
    let at = offset % PATTERN_BYTES;
    (at ^ (at >> 8) ^ (at >> 16).wrapping_mul(31)) as u8
}

pub(crate) fn kernel(name: &str) -> KernelPart {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog");
    softband_catalog::Catalog::load(folder.as_ref()).expect("the catalogue").kernel(name).expect("a kernel").clone()
}

pub(crate) fn address(host: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, host as u8 + 1])
}

pub(crate) fn address_v6(host: usize) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1])
}

/// Returns the link address of a host, of 20 bytes as IPoIB has them.
pub(crate) fn link_address(host: usize) -> LinkAddress {
    LinkAddress::new(&[host as u8 + 1; 20]).expect("20 bytes")
}

/// Decides whether a packet is lost.
type Drop = dyn FnMut(usize, &Packet) -> bool;
/// Sees a packet.
type Tap = dyn FnMut(SimTime, usize, &Packet);

/// Properties of the wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) bytes_per_second: u64,
    pub(crate) delay: SimDuration,
    pub(crate) mtu_bytes: u32,
    pub(crate) framing_bytes: u64,
    pub(crate) loss_ppm: u64,
    pub(crate) duplicate_ppm: u64,
    /// Packets that arrive late by up to `late`.
    pub(crate) late_ppm: u64,
    pub(crate) late: SimDuration,
    /// Slower port behind the sender: its rate and queue in bytes.
    pub(crate) bottleneck: Option<(u64, u64)>,
    /// Whether hosts ask for link addresses.
    pub(crate) resolves: bool,
    /// Whether packets of acknowledgements are lost too.
    pub(crate) loses_acks: bool,
}

impl Wire {
    pub(crate) fn new(megabits: u64, delay: SimDuration) -> Self {
        Self {
            bytes_per_second: megabits * 125_000,
            delay,
            mtu_bytes: 1_500,
            framing_bytes: FRAMING_BYTES,
            loss_ppm: 0,
            duplicate_ppm: 0,
            late_ppm: 0,
            late: SimDuration::ZERO,
            bottleneck: None,
            resolves: false,
            loses_acks: true,
        }
    }
}

#[derive(Debug)]
enum Event {
    Arrive(usize, Frame),
    Timer(usize),
    Done(usize),
}

pub(crate) struct Host {
    pub(crate) stack: Stack,
    interface: InterfaceId,
    timer: Option<SimTime>,
    free_at: SimTime,
    port_free_at: SimTime,
    pub(crate) ready: VecDeque<(SocketId, Events)>,
    pub(crate) charges: u64,
    /// Groups that sockets joined (true) and left on the link.
    pub(crate) joined: Vec<(bool, InterfaceId, IpAddr)>,
    /// Groups whose frames the link brings.
    pub(crate) groups: BTreeSet<IpAddr>,
}

impl Host {
    /// Returns whether the link brings the host a frame.
    fn hears(&self, to: LinkDestination) -> bool {
        !matches!(to, LinkDestination::Group(group) if !self.groups.contains(&group))
    }
}

pub(crate) struct Net {
    pub(crate) now: SimTime,
    pub(crate) wire: Wire,
    pub(crate) hosts: Vec<Host>,
    pub(crate) lost: u64,
    pub(crate) packets: u64,
    /// Questions for link addresses, and answers.
    pub(crate) asked: u64,
    events: BTreeMap<(SimTime, u64), Event>,
    order: u64,
    random: RandomStream,
    /// Decides whether a packet is lost, beside chance.
    pub(crate) drop: Option<Box<Drop>>,
    /// Sees each packet that a host sends.
    pub(crate) tap: Option<Box<Tap>>,
}

impl Net {
    pub(crate) fn new(kernels: [&KernelPart; 2], wire: Wire, seed: u64) -> Self {
        let host = |(index, kernel): (usize, &&KernelPart)| {
            let mut stack = Stack::new((*kernel).clone(), seed + index as u64);
            let interface = stack.add_interface(InterfaceConfig {
                name: "eth0".into(),
                mtu_bytes: wire.mtu_bytes,
                addresses: vec![
                    InterfaceAddress { address: address(index), prefix: 24 },
                    InterfaceAddress { address: address_v6(index), prefix: 64 },
                ],
                link_address: wire.resolves.then(|| link_address(index)),
                has_segmentation: true,
                ring_packets: 256,
                queue_packets: kernel.transmit_queue_packets,
            });
            let (free_at, port_free_at) = (SimTime::ZERO, SimTime::ZERO);
            let own = |effect| if let Effect::Join { group, .. } = effect { Some(group) } else { None };
            let groups = std::iter::from_fn(|| stack.next_effect()).filter_map(own).collect();
            Host { stack, interface, timer: None, free_at, port_free_at, ready: VecDeque::new(), charges: 0, joined: Vec::new(), groups }
        };
        let hosts = kernels.iter().enumerate().map(host).collect();
        let random = RandomStream::new(seed, 1);
        let now = SimTime::ZERO + SimDuration::from_micros(1);
        Self { now, wire, hosts, lost: 0, packets: 0, asked: 0, events: BTreeMap::new(), order: 0, random, drop: None, tap: None }
    }

    fn push(&mut self, at: SimTime, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    fn chance(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.random.next_u64() % 1_000_000 < ppm
    }

    /// Carries out a call on a host.
    pub(crate) fn call<C: softband_net::Call>(&mut self, host: usize, call: C) -> Result<C::Reply, NetError> {
        let reply = self.hosts[host].stack.call(self.now, call);
        self.take_effects(host);
        reply
    }

    fn take_effects(&mut self, host: usize) {
        while let Some(effect) = self.hosts[host].stack.next_effect() {
            match effect {
                Effect::Transmit { frame: Frame::Packet(packet), to, .. } => {
                    let is_known = to == LinkDestination::Link(link_address(1 - host)) || packet.destination.is_multicast();
                    assert!(!self.wire.resolves || is_known, "{to:?}");
                    self.transmit(host, to, packet);
                }
                Effect::Transmit { frame, to, .. } => {
                    let at = self.hosts[host].free_at.max(self.now)
                        + SimDuration::of_bytes(frame.wire_bytes() + self.wire.framing_bytes, self.wire.bytes_per_second);
                    self.hosts[host].free_at = at;
                    self.asked += 1;
                    self.push(at, Event::Done(host));
                    if !self.chance(self.wire.loss_ppm) && self.drop.is_none() && self.hosts[1 - host].hears(to) {
                        self.push(at + self.wire.delay, Event::Arrive(1 - host, frame));
                    }
                }
                Effect::SetTimer(at) => {
                    let at = at.max(self.now);
                    self.hosts[host].timer = Some(at);
                    self.push(at, Event::Timer(host));
                }
                Effect::Join { interface, group } => {
                    self.hosts[host].joined.push((true, interface, group));
                    self.hosts[host].groups.insert(group);
                }
                Effect::Leave { interface, group } => {
                    self.hosts[host].joined.push((false, interface, group));
                    self.hosts[host].groups.remove(&group);
                }
                Effect::Ready { socket, events } => self.hosts[host].ready.push_back((socket, events)),
                Effect::Charge(_) => self.hosts[host].charges += 1,
                Effect::Sdp { .. } => {}
            }
        }
    }

    fn transmit(&mut self, host: usize, to: LinkDestination, packet: Packet) {
        let mut at = self.hosts[host].free_at.max(self.now);
        for packet in packet.cut() {
            assert!(packet.wire_bytes() <= u64::from(self.wire.mtu_bytes), "a packet exceeds the MTU: {packet:?}");
            let bytes = packet.wire_bytes() + self.wire.framing_bytes;
            at += SimDuration::of_bytes(bytes, self.wire.bytes_per_second);
            if let Some(tap) = &mut self.tap {
                tap(at, host, &packet);
            }
            if self.hosts[1 - host].hears(to) {
                self.on_wire(host, at, bytes, packet);
            }
        }
        self.hosts[host].free_at = at;
        self.push(at, Event::Done(host));
    }

    fn on_wire(&mut self, host: usize, sent_at: SimTime, bytes: u64, packet: Packet) {
        self.packets += 1;
        let mut at = sent_at;
        if let Some((rate, queue)) = self.wire.bottleneck.filter(|_| host == CLIENT) {
            let free_at = self.hosts[host].port_free_at.max(sent_at);
            let waiting = u128::from((free_at - sent_at).as_picos()) * u128::from(rate) / 1_000_000_000_000;
            if waiting as u64 + bytes > queue {
                self.lost += 1;
                return;
            }
            at = free_at + SimDuration::of_bytes(bytes, rate);
            self.hosts[host].port_free_at = at;
        }
        let is_ack = packet.payload_bytes() == 0;
        let chosen = self.drop.as_mut().is_some_and(|drop| drop(host, &packet));
        if chosen || (self.wire.loses_acks || !is_ack) && self.chance(self.wire.loss_ppm) {
            self.lost += 1;
            return;
        }
        at += self.wire.delay;
        if self.chance(self.wire.late_ppm) {
            at += SimDuration::from_picos(self.random.next_u64() % self.wire.late.as_picos().max(1));
        }
        if self.chance(self.wire.duplicate_ppm) {
            self.push(at + SimDuration::from_micros(3), Event::Arrive(1 - host, Frame::Packet(packet.clone())));
        }
        self.push(at, Event::Arrive(1 - host, Frame::Packet(packet)));
    }

    /// Puts a packet on the wire to a host.
    pub(crate) fn inject(&mut self, host: usize, packet: Packet) {
        self.push(self.now, Event::Arrive(host, Frame::Packet(packet)));
    }

    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    /// Executes the next event. Returns the host that saw it.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let ((at, _), event) = self.events.pop_first()?;
        assert!(at >= self.now, "time moved back");
        self.now = at;
        let host = match event {
            Event::Arrive(host, frame) => {
                let interface = self.hosts[host].interface;
                self.hosts[host].stack.packet_in(at, interface, frame);
                host
            }
            Event::Timer(host) if self.hosts[host].timer == Some(at) => {
                self.hosts[host].timer = None;
                self.hosts[host].stack.timer(at);
                host
            }
            Event::Timer(host) => return Some(host),
            Event::Done(host) => {
                let interface = self.hosts[host].interface;
                self.hosts[host].stack.tx_done(at, interface);
                host
            }
        };
        self.take_effects(host);
        Some(host)
    }

    pub(crate) fn run_until(&mut self, end: SimTime) {
        while self.next_time().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }
    pub(crate) fn run_for(&mut self, span: SimDuration) {
        self.run_until(self.now + span);
    }

    pub(crate) fn open(&mut self, host: usize, protocol: Protocol) -> SocketId {
        self.call(host, Open { family: Family::V4, protocol }).expect("a socket")
    }

    pub(crate) fn listen(&mut self, port: u16, backlog: u32) -> SocketId {
        let socket = self.open(SERVER, Protocol::Stream);
        self.call(SERVER, Bind { socket, address: SocketAddr::from(([0, 0, 0, 0], port)) }).expect("a free port");
        self.call(SERVER, Listen { socket, backlog }).expect("a socket to listen");
        socket
    }

    /// Makes a connection. Returns the client's socket and the server's.
    pub(crate) fn pair(&mut self, options: &[SocketOption]) -> (SocketId, SocketId) {
        let listener = self.listen(80, 16);
        let client = self.open(CLIENT, Protocol::Stream);
        for option in options {
            self.call(SERVER, SetOption { socket: listener, option: *option }).expect("an option");
            self.call(CLIENT, SetOption { socket: client, option: *option }).expect("an option");
        }
        let begun = self.call(CLIENT, Connect { socket: client, to: SocketAddr::new(address(SERVER), 80) });
        assert_eq!(begun, Err(NetError::InProgress));
        loop {
            self.step().expect("the handshake ends");
            if let Ok((server, _)) = self.call(SERVER, Accept { socket: listener }) {
                return (client, server);
            }
        }
    }

    /// Makes several connections.
    pub(crate) fn pairs(&mut self, count: usize) -> Vec<(SocketId, SocketId)> {
        let listener = self.listen(80, 128);
        let clients: Vec<SocketId> = (0..count).map(|_| self.open(CLIENT, Protocol::Stream)).collect();
        for socket in &clients {
            let begun = self.call(CLIENT, Connect { socket: *socket, to: SocketAddr::new(address(SERVER), 80) });
            assert_eq!(begun, Err(NetError::InProgress));
        }
        self.run_for(SimDuration::from_micros(10_000));
        clients.into_iter().map(|client| (client, self.call(SERVER, Accept { socket: listener }).expect("a connection").0)).collect()
    }

    pub(crate) fn info(&mut self, host: usize, socket: SocketId) -> ConnectionInfo {
        self.call(host, Info { socket }).expect("a connection")
    }

    pub(crate) fn send(&mut self, host: usize, socket: SocketId, bytes: &[u8]) -> Result<u32, NetError> {
        self.call(host, Send { socket, payload: Payload::from(bytes), urgent: false, more: false })
    }
    pub(crate) fn receive(&mut self, host: usize, socket: SocketId, most: u32) -> Result<Vec<u8>, NetError> {
        self.call(host, Receive { socket, most, peek: false }).map(|payload| payload.to_vec())
    }
}

/// Transfer of bytes in one direction.
pub(crate) struct Transfer {
    pub(crate) from: (usize, SocketId),
    pub(crate) to: (usize, SocketId),
    pub(crate) total: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes of a write.
    pub(crate) chunk: u32,
    /// Whether bytes have values, which the receiver checks.
    pub(crate) checks: bool,
}

impl Transfer {
    pub(crate) fn new(from: (usize, SocketId), to: (usize, SocketId), total: u64, checks: bool) -> Self {
        Self { from, to, total, sent: 0, received: 0, chunk: 65_536, checks }
    }

    pub(crate) fn write(&mut self, net: &mut Net) {
        while self.sent < self.total {
            let len = u64::from(self.chunk).min(self.total - self.sent);
            let payload = if self.checks {
                let at = self.sent % PATTERN_BYTES;
                let mut payload = Payload::empty();
                payload.push(PayloadSlice { buffer: Some(PATTERN.clone()), offset: at as u32, len: len.min(PATTERN_BYTES - at) as u32 });
                payload
            } else {
                Payload::counted(len as u32)
            };
            match net.call(self.from.0, Send { socket: self.from.1, payload, urgent: false, more: false }) {
                Ok(taken) => self.sent += u64::from(taken),
                Err(NetError::WouldBlock) => break,
                Err(error) => panic!("a write fails: {error}"),
            }
        }
    }

    pub(crate) fn read(&mut self, net: &mut Net) {
        loop {
            match net.call(self.to.0, Receive { socket: self.to.1, most: 1 << 20, peek: false }) {
                Ok(payload) if payload.is_empty() => break,
                Ok(payload) => {
                    if self.checks {
                        let bytes = payload.to_vec();
                        let fits = bytes.iter().enumerate().all(|(index, byte)| *byte == pattern(self.received + index as u64));
                        assert!(fits, "wrong bytes from {}", self.received);
                    }
                    self.received += u64::from(payload.len());
                }
                Err(NetError::WouldBlock) => break,
                Err(error) => panic!("a read fails: {error}"),
            }
        }
    }

    /// Runs until all bytes arrived, or until `end`. `check` sees the net after each event.
    pub(crate) fn run(&mut self, net: &mut Net, end: SimTime, mut check: impl FnMut(&mut Net)) {
        self.write(net);
        while self.received < self.total && net.next_time().is_some_and(|at| at <= end) {
            let Some(host) = net.step() else { break };
            if net.hosts[host].ready.is_empty() {
                continue;
            }
            net.hosts[host].ready.clear();
            if host == self.to.0 {
                self.read(net);
            }
            if host == self.from.0 {
                self.write(net);
            }
            check(net);
        }
    }
}

/// Returns the goodput in bits a second of an endless transfer, from the first byte to `span`.
pub(crate) fn goodput(net: &mut Net, span: SimDuration, options: &[SocketOption]) -> u64 {
    let (client, server) = net.pair(options);
    let begin = net.now;
    let mut transfer = Transfer::new((CLIENT, client), (SERVER, server), u64::MAX, false);
    transfer.run(net, begin + span, |_| {});
    (u128::from(transfer.received) * 8 * 1_000_000_000_000 / u128::from(span.as_picos())) as u64
}
