//! Two hosts on a wire in real time. A host is this stack, or the machine's kernel in a network
//! namespace of its own behind a TUN device.

use super::machine::Machine;
use softband_net::{
    Body, Call, Effect, Events, Frame, InterfaceAddress, InterfaceConfig, InterfaceId, KernelPart, NetError, Segment, SocketId, Stack, wire,
};
use softband_sim::{RandomStream, SimDuration, SimTime};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

pub(crate) const MTU_BYTES: u32 = 1_500;
const LINK: InterfaceId = InterfaceId(1);
/// Longest wait for packets before the caller looks again.
const STEP: Duration = Duration::from_millis(1);

pub(crate) fn address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, side as u8 + 1)
}

/// Kind of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Linux,
    Ours,
}

/// Properties of the wire, in each direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) delay: SimDuration,
    pub(crate) loss_ppm: u64,
    pub(crate) bytes_per_second: u64,
    /// Bytes that wait in front of it before others are lost.
    pub(crate) queue_bytes: u64,
}

impl Wire {
    pub(crate) fn fast() -> Self {
        Self { delay: SimDuration::from_micros(500), loss_ppm: 0, bytes_per_second: 125_000_000, queue_bytes: 1 << 20 }
    }
}

enum End {
    Linux(Machine),
    Ours { stack: Box<Stack>, timer: Option<SimTime> },
}

enum Event {
    Arrive(usize, Vec<u8>),
    Done(usize),
}

/// Two hosts and their wire.
pub(crate) struct Lab {
    ends: [End; 2],
    wire: Wire,
    begun: Instant,
    now: SimTime,
    packets: Receiver<(usize, Vec<u8>)>,
    events: BTreeMap<(SimTime, u64), Event>,
    order: u64,
    free_at: [SimTime; 2],
    random: RandomStream,
    pub(crate) lost: u64,
    /// Segments with SYN that the hosts sent.
    pub(crate) handshake: Vec<(usize, Segment)>,
}

impl Lab {
    /// Returns the hosts, or the reason why this machine has no namespace or no TUN device.
    pub(crate) fn new(kinds: [Kind; 2], kernel: &KernelPart, wire: Wire, seed: u64) -> Result<Self, String> {
        let (sender, packets) = mpsc::channel();
        let [first, second] = kinds;
        let end = |side: usize, kind| match kind {
            Kind::Linux => Machine::new(side, kernel, sender.clone()).map(End::Linux),
            Kind::Ours => Ok(End::Ours { stack: Box::new(stack(side, kernel, seed)), timer: None }),
        };
        let ends = [end(0, first)?, end(1, second)?];
        let random = RandomStream::new(seed, 9);
        Ok(Self {
            ends,
            wire,
            begun: Instant::now(),
            now: SimTime::ZERO,
            packets,
            events: BTreeMap::new(),
            order: 0,
            free_at: [SimTime::ZERO; 2],
            random,
            lost: 0,
            handshake: Vec::new(),
        })
    }

    pub(crate) fn machine(&self, side: usize) -> &Machine {
        match &self.ends[side] {
            End::Linux(machine) => machine,
            End::Ours { .. } => panic!("host {side} is not the machine's kernel"),
        }
    }

    /// Carries out a call on this stack.
    pub(crate) fn call<C: Call>(&mut self, side: usize, call: C) -> Result<C::Reply, NetError> {
        self.tick();
        let now = self.now;
        let End::Ours { stack, .. } = &mut self.ends[side] else { panic!("host {side} is the machine's kernel") };
        let reply = stack.call(now, call);
        self.settle(side);
        reply
    }

    pub(crate) fn readiness(&self, side: usize, socket: SocketId) -> Events {
        match &self.ends[side] {
            End::Ours { stack, .. } => stack.readiness(socket),
            End::Linux(_) => Events::NONE,
        }
    }

    /// Moves packets until `is_over` says so. Returns whether it did within `most`.
    pub(crate) fn run(&mut self, most: Duration, mut is_over: impl FnMut(&mut Self) -> bool) -> bool {
        let end = Instant::now() + most;
        loop {
            if is_over(self) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            self.wait();
            self.deliver();
        }
    }

    fn tick(&mut self) {
        let nanos = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.now = self.now.max(SimTime::ZERO + SimDuration::from_nanos(nanos + 1_000));
    }

    /// Waits for a packet of a kernel, or for the next event.
    fn wait(&mut self) {
        self.tick();
        let timers = self.ends.iter().filter_map(|end| if let End::Ours { timer, .. } = end { *timer } else { None });
        let next = timers.chain(self.events.first_key_value().map(|((at, _), _)| *at)).min();
        let span = next.map_or(STEP, |at| Duration::from_nanos(at.saturating_since(self.now).as_nanos()).min(STEP));
        if let Ok((side, bytes)) = self.packets.recv_timeout(span) {
            self.tick();
            self.on_wire(side, bytes);
            while let Ok((side, bytes)) = self.packets.try_recv() {
                self.on_wire(side, bytes);
            }
        }
        self.tick();
    }

    /// Delivers what is due, and runs the timers of this stack.
    fn deliver(&mut self) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (side, event) = match entry.remove() {
                Event::Arrive(side, bytes) => (side, Some(bytes)),
                Event::Done(side) => (side, None),
            };
            let now = self.now;
            match (&mut self.ends[side], event) {
                (End::Linux(machine), Some(bytes)) => machine.receive(&bytes),
                (End::Linux(_), None) => {}
                (End::Ours { stack, .. }, Some(bytes)) => {
                    if let Ok(frame) = wire::decode(&bytes) {
                        stack.packet_in(now, LINK, frame);
                    }
                }
                (End::Ours { stack, .. }, None) => stack.tx_done(now, LINK),
            }
            self.settle(side);
        }
        for side in 0..2 {
            let now = self.now;
            if let End::Ours { stack, timer } = &mut self.ends[side]
                && timer.is_some_and(|at| at <= now)
            {
                *timer = None;
                stack.timer(now);
                self.settle(side);
            }
        }
    }

    fn settle(&mut self, side: usize) {
        loop {
            let End::Ours { stack, timer } = &mut self.ends[side] else { return };
            match stack.next_effect() {
                None => return,
                Some(Effect::SetTimer(at)) => *timer = Some(at),
                Some(Effect::Transmit { frame: Frame::Packet(packet), .. }) => {
                    let mut at = self.now;
                    for packet in packet.cut() {
                        let mut bytes = Vec::new();
                        wire::encode(&Frame::Packet(packet), &mut bytes).expect("a packet with bytes");
                        at = self.on_wire(side, bytes);
                    }
                    self.push(at, Event::Done(side));
                }
                Some(_) => {}
            }
        }
    }

    /// Puts a packet of a host on the wire. Returns the time when it has left.
    fn on_wire(&mut self, side: usize, bytes: Vec<u8>) -> SimTime {
        let Ok(Frame::Packet(packet)) = wire::decode(&bytes) else { return self.now };
        if let Body::Tcp(segment) = &packet.body
            && segment.flags.syn
        {
            self.handshake.push((side, segment.clone()));
        }
        let begin = self.free_at[side].max(self.now);
        let waiting = u128::from((begin - self.now).as_picos()) * u128::from(self.wire.bytes_per_second) / 1_000_000_000_000;
        let is_lost = waiting > u128::from(self.wire.queue_bytes) || self.random.next_u64() % 1_000_000 < self.wire.loss_ppm;
        let at = begin + SimDuration::of_bytes(bytes.len() as u64, self.wire.bytes_per_second);
        self.free_at[side] = at;
        if is_lost {
            self.lost += 1;
        } else {
            self.push(at + self.wire.delay, Event::Arrive(1 - side, bytes));
        }
        at
    }

    fn push(&mut self, at: SimTime, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }
}

fn stack(side: usize, kernel: &KernelPart, seed: u64) -> Stack {
    let mut stack = Stack::new(kernel.clone(), seed + side as u64);
    stack.add_interface(InterfaceConfig {
        name: "wire0".into(),
        mtu_bytes: MTU_BYTES,
        addresses: vec![InterfaceAddress { address: IpAddr::V4(address(side)), prefix: 24 }],
        link_address: None,
        has_segmentation: true,
        ring_packets: 256,
        queue_packets: kernel.transmit_queue_packets,
    });
    stack
}
