//! Listening sockets: half-open connections, and those that wait for `accept`.

use super::input::reset_for;
use super::{Context, Handshake, ReceiveWindow, SocketOptions, clock, doubled};
use crate::packet::{Flags, Options, Segment, Timestamps};
use crate::sequence::SeqNumber;
use crate::socket_id::SocketId;
use softband_sim::{SimDuration, SimTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Least number of half-open connections that a listening socket holds.
const HALF_OPEN_MIN: u32 = 8;

type Addresses = (SocketAddr, SocketAddr);

/// Connection whose third segment is missing. It is smaller than a connection, and their number is
/// bounded, so a flood of SYNs costs little.
#[derive(Clone, Debug)]
struct HalfOpen {
    first: u32,
    remote_first: u32,
    options: Options,
    mss: u16,
    attempts: u32,
    sent_at: SimTime,
    deadline: SimTime,
}

/// State of a listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    backlog: u32,
    half_open: BTreeMap<Addresses, HalfOpen>,
    deadlines: BTreeSet<(SimTime, Addresses)>,
    ready: VecDeque<SocketId>,
    overflows: u64,
}

impl Listener {
    pub(crate) fn new(backlog: u32) -> Self {
        Self { backlog, half_open: BTreeMap::new(), deadlines: BTreeSet::new(), ready: VecDeque::new(), overflows: 0 }
    }
    pub(crate) fn backlog(&self) -> u32 {
        self.backlog
    }
    pub(crate) fn set_backlog(&mut self, backlog: u32) {
        self.backlog = backlog;
    }
    /// Returns the SYNs and handshakes that full queues dropped.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows
    }
    pub(crate) fn half_open(&self) -> usize {
        self.half_open.len()
    }
    /// Returns whether the handshake between the addresses is under way.
    pub(crate) fn holds(&self, addresses: Addresses) -> bool {
        self.half_open.contains_key(&addresses)
    }
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
    pub(crate) fn push_ready(&mut self, socket: SocketId) {
        self.ready.push_back(socket);
    }
    pub(crate) fn accept(&mut self) -> Option<SocketId> {
        self.ready.pop_front()
    }
    pub(crate) fn ready_sockets(&self) -> Vec<SocketId> {
        self.ready.iter().copied().collect()
    }
    pub(crate) fn deadline(&self) -> Option<SimTime> {
        self.deadlines.first().map(|(at, _)| *at)
    }
    /// Linux: the queue is full when it is longer than the backlog.
    fn is_full(&self) -> bool {
        self.ready.len() > self.backlog as usize
    }

    /// Processes a segment to the listening address (RFC 9293, 3.10.7.2). Returns the handshake if
    /// it completes. `first` is the number of a new connection.
    pub(crate) fn segment_in(
        &mut self,
        addresses: Addresses,
        segment: &Segment,
        first: u32,
        socket: &SocketOptions,
        cx: &mut Context<'_>,
    ) -> Option<Handshake> {
        if segment.flags.rst {
            let expected = self.half_open.get(&addresses).map(|half| SeqNumber(half.remote_first).plus(1));
            if expected == Some(segment.seq) {
                self.forget(addresses);
            }
            return None;
        }
        if segment.flags.ack && !segment.flags.syn {
            return self.complete(addresses, segment, socket, cx);
        }
        if segment.flags.syn && !segment.flags.ack {
            self.syn(addresses, segment, first, socket, cx);
        } else if segment.flags.ack {
            cx.out.push(reset_for(segment));
        }
        None
    }

    fn syn(&mut self, addresses: Addresses, segment: &Segment, first: u32, socket: &SocketOptions, cx: &mut Context<'_>) {
        let known = self.half_open.get(&addresses).is_some_and(|half| half.remote_first == segment.seq.0);
        if !known {
            let most = self.backlog.min(cx.kernel.syn_backlog_max).max(HALF_OPEN_MIN) as usize;
            self.forget(addresses);
            if self.is_full() || self.half_open.len() >= most {
                self.overflows += 1;
                return;
            }
            let mss = cx.path.mss.min(socket.mss_max).min(u32::from(u16::MAX)) as u16;
            let deadline = cx.now + cx.kernel.rto_initial;
            let half = HalfOpen { first, remote_first: segment.seq.0, options: segment.options, mss, attempts: 0, sent_at: cx.now, deadline };
            self.half_open.insert(addresses, half);
            self.deadlines.insert((deadline, addresses));
        }
        self.answer(addresses, socket, cx);
    }

    /// Sends SYN-ACK.
    fn answer(&self, addresses: Addresses, socket: &SocketOptions, cx: &mut Context<'_>) {
        let Some(half) = self.half_open.get(&addresses) else { return };
        let window = window_of(half, socket, cx);
        let kernel = cx.kernel;
        let timestamps = half.options.timestamps.filter(|_| kernel.timestamps);
        let options = Options {
            mss: Some(half.mss),
            window_scale: half.options.window_scale.filter(|_| kernel.window_scaling).map(|_| window.scale()),
            sack_permitted: half.options.sack_permitted && kernel.selective_ack,
            timestamps: timestamps.map(|timestamps| Timestamps { value: clock(cx.now), echo: timestamps.value }),
            ..Options::default()
        };
        cx.out.push(Segment {
            source_port: addresses.0.port(),
            destination_port: addresses.1.port(),
            seq: SeqNumber(half.first),
            ack: SeqNumber(half.remote_first).plus(1),
            flags: Flags { syn: true, ack: true, ..Flags::default() },
            window: window.first_field(),
            options,
            ..Segment::default()
        });
    }

    fn complete(&mut self, addresses: Addresses, segment: &Segment, socket: &SocketOptions, cx: &mut Context<'_>) -> Option<Handshake> {
        let Some(half) = self.half_open.get(&addresses) else {
            cx.out.push(reset_for(segment));
            return None;
        };
        if segment.ack != SeqNumber(half.first).plus(1) {
            cx.out.push(reset_for(segment));
            return None;
        }
        if self.is_full() {
            // Linux: the client believes in the connection, and SYN-ACK comes again.
            self.overflows += 1;
            return None;
        }
        let rtt = (half.attempts == 0).then(|| cx.now.saturating_since(half.sent_at));
        let handshake = Handshake {
            local: addresses.0,
            remote: addresses.1,
            first: half.first,
            remote_first: half.remote_first,
            options: half.options,
            rtt,
            window: window_of(half, socket, cx),
            socket: socket.clone(),
        };
        self.forget(addresses);
        Some(handshake)
    }

    fn forget(&mut self, addresses: Addresses) {
        if let Some(half) = self.half_open.remove(&addresses) {
            self.deadlines.remove(&(half.deadline, addresses));
        }
    }

    /// Returns the addresses of a half-open connection whose SYN-ACK is due again, and forgets
    /// those that were answered never.
    pub(crate) fn due(&mut self, now: SimTime, retries: u32) -> Option<Addresses> {
        loop {
            let (at, addresses) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
            let half = self.half_open.get_mut(&addresses)?;
            if half.attempts < retries {
                return Some(addresses);
            }
            debug_assert!(at == half.deadline, "each half-open connection has one deadline");
            self.forget(addresses);
        }
    }

    /// Sends SYN-ACK again.
    pub(crate) fn repeat(&mut self, addresses: Addresses, socket: &SocketOptions, cx: &mut Context<'_>) {
        let Some(half) = self.half_open.get_mut(&addresses) else { return };
        self.deadlines.remove(&(half.deadline, addresses));
        half.attempts += 1;
        let span: SimDuration = doubled(cx.kernel.rto_initial, half.attempts, cx.kernel.rto_max);
        half.deadline = cx.now + span;
        self.deadlines.insert((half.deadline, addresses));
        self.answer(addresses, socket, cx);
    }
}

fn window_of(half: &HalfOpen, socket: &SocketOptions, cx: &Context<'_>) -> ReceiveWindow {
    let buffer = socket.receive_buffer.unwrap_or(cx.kernel.receive_buffer.initial_bytes);
    ReceiveWindow::new(cx.kernel, buffer, socket.receive_buffer.is_some(), u32::from(half.mss), cx.now)
}
