//! Listening sockets: half-open connections, and those that wait for `accept`.

use super::cookies::{Cookies, Secret, kept, restored, stamped};
use super::input::reset_for;
use super::{Context, Handshake, ReceiveWindow, SocketOptions, clock, doubled};
use crate::packet::{Flags, Options, Segment, TIMESTAMPS_BYTES, Timestamps};
use crate::sequence::SeqNumber;
use crate::socket_id::SocketId;
use softband_model::parts::SynCookies;
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
    /// Secret of the host's cookies.
    secret: Secret,
    /// Cookies, since SYNs first found no room.
    cookies: Option<Box<Cookies>>,
}

impl Listener {
    pub(crate) fn new(backlog: u32, secret: Secret) -> Self {
        Self { backlog, half_open: BTreeMap::new(), deadlines: BTreeSet::new(), ready: VecDeque::new(), overflows: 0, secret, cookies: None }
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
            let is_crowded = self.half_open.len() >= most;
            if self.is_full() || is_crowded && cx.kernel.syn_cookies == SynCookies::No {
                self.overflows += 1;
                return;
            }
            let fresh = HalfOpen::new(first, segment.seq.0, segment.options, socket, cx);
            if is_crowded {
                self.answer_by_cookie(addresses, fresh, socket, cx);
                return;
            }
            self.deadlines.insert((fresh.deadline, addresses));
            self.half_open.insert(addresses, fresh);
        }
        self.answer(addresses, socket, cx);
    }

    /// Sends SYN-ACK.
    fn answer(&self, addresses: Addresses, socket: &SocketOptions, cx: &mut Context<'_>) {
        if let Some(half) = self.half_open.get(&addresses) {
            cx.out.push(half.answer(addresses, clock(cx.now), socket, cx));
        }
    }

    /// Answers a SYN that finds no room, and remembers nothing of it.
    fn answer_by_cookie(&mut self, addresses: Addresses, fresh: HalfOpen, socket: &SocketOptions, cx: &mut Context<'_>) {
        let cookies = self.cookies.get_or_insert_with(|| Box::new(Cookies::new(self.secret, cx.now)));
        let first = cookies.number(addresses, fresh.remote_first, &fresh.options, cx.now);
        let half = HalfOpen { first, options: kept(&fresh.options, cx.kernel.syn_cookies), ..fresh };
        cx.out.push(half.answer(addresses, stamped(&half.options, clock(cx.now)), socket, cx));
    }

    /// Returns the handshake that the third segment completes by a cookie.
    fn by_cookie(&self, addresses: Addresses, segment: &Segment, socket: &SocketOptions, cx: &Context<'_>) -> Option<HalfOpen> {
        let (first, remote_first) = (segment.ack.0.wrapping_sub(1), segment.seq.0.wrapping_sub(1));
        let size = self.cookies.as_ref()?.check(addresses, (first, remote_first), cx.now)?;
        let timestamps = segment.options.timestamps.filter(|_| cx.kernel.timestamps && cx.kernel.syn_cookies == SynCookies::Options);
        // The time of the answer is not known, so that it measures no round trip.
        Some(HalfOpen { attempts: 1, ..HalfOpen::new(first, remote_first, restored(size, timestamps), socket, cx) })
    }

    fn complete(&mut self, addresses: Addresses, segment: &Segment, socket: &SocketOptions, cx: &mut Context<'_>) -> Option<Handshake> {
        let known = self.half_open.get(&addresses).cloned();
        let Some(half) = known.or_else(|| self.by_cookie(addresses, segment, socket, cx)) else {
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
            window: half.window(socket, cx),
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

impl HalfOpen {
    fn new(first: u32, remote_first: u32, options: Options, socket: &SocketOptions, cx: &Context<'_>) -> Self {
        let mss = cx.path.mss.min(socket.mss_max).min(u32::from(u16::MAX)) as u16;
        Self { first, remote_first, options, mss, attempts: 0, sent_at: cx.now, deadline: cx.now + cx.kernel.rto_initial }
    }

    fn window(&self, socket: &SocketOptions, cx: &Context<'_>) -> ReceiveWindow {
        let buffer = socket.receive_buffer.unwrap_or(cx.kernel.receive_buffer.initial_bytes);
        let has_timestamps = self.options.timestamps.is_some() && cx.kernel.timestamps;
        let taken = if has_timestamps { TIMESTAMPS_BYTES } else { 0 };
        ReceiveWindow::new(cx.kernel, (buffer, socket.receive_buffer.is_some()), u32::from(self.mss), taken, cx.now)
    }

    /// Returns SYN-ACK.
    fn answer(&self, addresses: Addresses, value: u32, socket: &SocketOptions, cx: &Context<'_>) -> Segment {
        let (window, kernel) = (self.window(socket, cx), cx.kernel);
        let timestamps = self.options.timestamps.filter(|_| kernel.timestamps);
        let options = Options {
            mss: Some(self.mss),
            window_scale: self.options.window_scale.filter(|_| kernel.window_scaling).map(|_| window.scale()),
            sack_permitted: self.options.sack_permitted && kernel.selective_ack,
            timestamps: timestamps.map(|timestamps| Timestamps { value, echo: timestamps.value }),
            ..Options::default()
        };
        Segment {
            source_port: addresses.0.port(),
            destination_port: addresses.1.port(),
            seq: SeqNumber(self.first),
            ack: SeqNumber(self.remote_first).plus(1),
            flags: Flags { syn: true, ack: true, ..Flags::default() },
            window: window.first_field(),
            options,
            ..Segment::default()
        }
    }
}
