//! Any segments, calls and times at one stack, from bytes. The fuzz target uses this file, too.

use softband_net::calls::{Accept, Bind, Close, Connect, Info, Listen, Open, Receive, ReceiveUrgent, Send, SetOption, Shutdown, SocketOption};
use softband_net::{
    Body, Datagram, Effect, Family, Flags, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, KernelPart, Options, Packet, Payload, Protocol,
    Segment, SeqNumber, SocketId, Stack, Timestamps,
};
use softband_sim::{SimDuration, SimTime};
use std::net::{IpAddr, SocketAddr};

const ETHERNET: InterfaceId = InterfaceId(1);

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }
    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
    /// Returns a number that is near `near` in most cases.
    fn near(&mut self, near: SeqNumber) -> SeqNumber {
        match self.byte() {
            0..=127 => near,
            128..=191 => near.plus(u32::from(self.word())),
            192..=239 => SeqNumber(near.0.wrapping_sub(u32::from(self.word()))),
            _ => SeqNumber(u32::from(self.word()) << 16 | u32::from(self.word())),
        }
    }
}

struct Target {
    stack: Stack,
    now: SimTime,
    listener: SocketId,
    sockets: Vec<SocketId>,
    in_ring: u32,
    /// Next number of the stack, the number that it expects, and its port, from its last segment.
    next: SeqNumber,
    expected: SeqNumber,
    port: u16,
}

fn local() -> IpAddr {
    IpAddr::from([10, 0, 0, 1])
}
fn remote() -> IpAddr {
    IpAddr::from([10, 0, 0, 2])
}

impl Target {
    fn new(kernel: KernelPart) -> Self {
        let mut stack = Stack::new(kernel, 1);
        stack.add_interface(InterfaceConfig {
            name: "eth0".into(),
            mtu_bytes: 1_500,
            addresses: vec![InterfaceAddress { address: local(), prefix: 24 }],
            link_address: None,
            has_segmentation: true,
            ring_packets: 16,
            queue_packets: 1_000,
        });
        let now = SimTime::ZERO;
        let listener = stack.call(now, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket");
        stack.call(now, Bind { socket: listener, address: SocketAddr::new(local(), 80) }).expect("a free port");
        stack.call(now, Listen { socket: listener, backlog: 3 }).expect("a socket to listen");
        Self { stack, now, listener, sockets: Vec::new(), in_ring: 0, next: SeqNumber(0), expected: SeqNumber(0), port: 80 }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 8 {
            0..=3 => self.segment(bytes),
            4 => {
                self.now += SimDuration::from_micros(u64::from(bytes.word()) * 100);
                self.stack.timer(self.now);
            }
            5 if self.in_ring > 0 => {
                self.in_ring -= 1;
                self.stack.tx_done(self.now, ETHERNET);
            }
            _ => self.call(bytes),
        }
        self.look();
    }

    fn segment(&mut self, bytes: &mut Bytes<'_>) {
        let bits = bytes.byte();
        let bit = |index: u8| bits >> index & 1 == 1;
        let flags = Flags { syn: bit(0), fin: bit(1), rst: bit(2), urg: bit(3), psh: bit(4), ack: !bit(5) };
        let mut options = Options::default();
        if bit(6) {
            let word = bytes.word();
            options.timestamps = Some(Timestamps { value: u32::from(word), echo: u32::from(bytes.word()) });
            options.window_scale = (word & 1 == 1).then_some((word >> 4) as u8);
            options.mss = (word & 2 == 2).then_some(word);
            options.sack_permitted = word & 4 == 4;
        }
        let (seq, ack) = (bytes.near(self.expected), bytes.near(self.next));
        for _ in 0..bytes.byte() % 5 {
            let begin = bytes.near(self.next);
            options.sack.push(begin, begin.plus(u32::from(bytes.word())));
        }
        let len = if bit(7) { u32::from(bytes.word()) } else { 0 };
        let segment = Segment {
            source_port: 1_000 + u16::from(bytes.byte() % 3),
            destination_port: self.port,
            seq,
            ack,
            flags,
            window: bytes.word(),
            urgent: if flags.urg { bytes.word() } else { 0 },
            options,
            payload: Payload::counted(len),
            packet_payload_bytes: if len > 1_460 { 1_460 } else { 0 },
        };
        let body = if bits == 0xff {
            Body::Udp(Datagram { source_port: 5, destination_port: bytes.word(), payload: Payload::counted(len) })
        } else {
            Body::Tcp(segment)
        };
        self.stack.packet_in(self.now, ETHERNET, Frame::Packet(Packet { source: remote(), destination: local(), hop_limit: 64, body }));
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) {
        let (now, stack) = (self.now, &mut self.stack);
        let kind = bytes.byte();
        let Some(socket) = self.sockets.get(usize::from(bytes.byte()) % self.sockets.len().max(1)).copied().filter(|_| kind % 10 < 7) else {
            if kind % 10 == 7 && self.sockets.len() < 8 {
                let socket = stack.call(now, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket");
                let _ = stack.call(now, Connect { socket, to: SocketAddr::new(remote(), 1_000) });
                self.sockets.push(socket);
            } else if let Ok((socket, _)) = stack.call(now, Accept { socket: self.listener }) {
                self.sockets.push(socket);
            }
            return;
        };
        match kind % 10 {
            0 | 1 => drop(stack.call(now, Send { socket, payload: Payload::counted(u32::from(bytes.word())), urgent: kind > 200, more: false })),
            2 | 3 => drop(stack.call(now, Receive { socket, most: u32::from(bytes.word()), peek: kind > 200 })),
            4 => drop(stack.call(now, ReceiveUrgent { socket, peek: kind > 200 })),
            5 if kind > 128 => {
                let _ = stack.call(now, Close { socket });
                self.sockets.retain(|other| *other != socket);
            }
            5 => drop(stack.call(now, Shutdown { socket, receive: kind & 1 == 1, send: kind & 2 == 2 })),
            _ => {
                let on = kind > 128;
                let options = [
                    SocketOption::NoDelay(on),
                    SocketOption::Cork(on),
                    SocketOption::KeepAlive(on),
                    SocketOption::Linger(on.then_some(SimDuration::ZERO)),
                    SocketOption::ReceiveBuffer(u32::from(bytes.word())),
                    SocketOption::SendBuffer(u32::from(bytes.word())),
                    SocketOption::UrgentInline(on),
                    SocketOption::KeepAliveIdle(SimDuration::from_micros(1_000_000 * u64::from(bytes.word()))),
                    SocketOption::UserTimeout(SimDuration::from_micros(u64::from(bytes.word()))),
                ];
                let option = options[usize::from(bytes.byte()) % options.len()];
                let _ = stack.call(now, SetOption { socket, option });
            }
        }
    }

    /// Takes the effects, and checks what holds always.
    fn look(&mut self) {
        let mut effects = 0;
        while let Some(effect) = self.stack.next_effect() {
            effects += 1;
            assert!(effects < 100_000, "an entry has too many effects");
            if let Effect::Transmit { frame: Frame::Packet(packet), .. } = effect {
                self.in_ring += 1;
                if let Body::Tcp(segment) = &packet.body {
                    (self.next, self.expected, self.port) = (segment.end(), segment.ack, segment.source_port);
                }
            }
        }
        for socket in &self.sockets {
            if let Ok(info) = self.stack.call(self.now, Info { socket: *socket }) {
                assert!(info.unacknowledged_bytes <= u64::from(info.send_buffer.max(1 << 17)), "{info:?}");
                assert!(info.queued_bytes <= 8 << 20, "{info:?}");
            }
        }
        assert!(self.stack.sockets() < 10_000);
    }
}

/// Feeds a stack with the steps that `input` describes.
pub(crate) fn survive(kernel: KernelPart, input: &[u8]) {
    let mut bytes = Bytes(input);
    let mut target = Target::new(kernel);
    while !bytes.0.is_empty() {
        target.step(&mut bytes);
    }
    // All timers of a connection without an answer end.
    for _ in 0..100 {
        target.now += SimDuration::from_micros(60_000_000);
        target.stack.timer(target.now);
        target.look();
    }
}
