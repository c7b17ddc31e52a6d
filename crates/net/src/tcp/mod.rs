//! TCP (RFC 9293): one connection as a state machine. It gets segments, calls and times, and leaves
//! segments in the [`Context`].

mod ack;
mod congestion;
mod cookies;
mod input;
mod listener;
mod output;
mod path_mtu;
mod reassembly;
mod recovery;
mod rtt;
mod scoreboard;
mod timers;
mod urgent;
mod user;
mod window;

pub(crate) use cookies::Secret;
pub(crate) use input::reset_for;
pub(crate) use listener::Listener;
pub(crate) use rtt::doubled;
pub use user::ConnectionInfo;
pub(crate) use window::ReceiveWindow;

use crate::error::NetError;
use crate::events::Events;
use crate::packet::{Options, Segment, TIMESTAMPS_BYTES, Timestamps};
use crate::payload::ByteQueue;
use crate::sequence::first_offset;
use ack::AckClock;
use congestion::Congestion;
use reassembly::Reassembly;
use recovery::Recovery;
use rtt::RttEstimator;
use scoreboard::Scoreboard;
use softband_model::parts::{CongestionControl, KernelPart};
use softband_sim::{SimDuration, SimTime};
use std::net::SocketAddr;
use timers::Timer;
use urgent::Urgent;

/// Least MSS of a peer that counts, as Linux's `tcp_min_snd_mss`: 8 B beside the largest options.
const SEND_MSS_MIN: u32 = 48;

/// State of a connection (RFC 9293, 3.3.2). A listening socket is no connection, and TIME_WAIT
/// lives in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// This side sent SYN.
    SynSent,
    /// Both sides sent SYN; the peer's acknowledgement is missing.
    SynReceived,
    /// Both sides may send.
    Established,
    /// This side sent FIN.
    FinWait1,
    /// The peer has this side's FIN.
    FinWait2,
    /// The peer sent FIN.
    CloseWait,
    /// Both sent FIN; the peer's acknowledgement is missing.
    Closing,
    /// The peer sent FIN, then this side.
    LastAck,
    /// Both sides are done, and this side waits for late packets.
    TimeWait,
    /// Nothing is left.
    Closed,
}

/// Path of a connection, as its route and interface give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Largest payload with options, in bytes.
    pub(crate) mss: u32,
    /// Largest super-segment in bytes, at least `mss`.
    pub(crate) super_segment: u32,
    /// Most packets of a super-segment.
    pub(crate) super_segment_packets: u32,
    /// Frames that the queue of the interface still takes.
    pub(crate) room: u32,
}

/// Surroundings of a step of a connection.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: SimTime,
    pub(crate) kernel: &'a KernelPart,
    pub(crate) path: Path,
    /// Whether the connections of the host leave memory for more data.
    pub(crate) has_memory: bool,
    /// Segments that leave, in order.
    pub(crate) out: Vec<Segment>,
    /// News for the program.
    pub(crate) events: Events,
}

impl<'a> Context<'a> {
    pub(crate) fn new(now: SimTime, kernel: &'a KernelPart, path: Path) -> Self {
        Self { now, kernel, path, has_memory: true, out: Vec::new(), events: Events::NONE }
    }
}

/// Options of a socket that its connection obeys.
#[derive(Clone, Debug)]
pub(crate) struct SocketOptions {
    pub(crate) no_delay: bool,
    pub(crate) cork: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keepalive_idle: SimDuration,
    pub(crate) keepalive_interval: SimDuration,
    pub(crate) keepalive_probes: u32,
    pub(crate) urgent_inline: bool,
    /// Largest time without an answer, or zero for the kernel's.
    pub(crate) user_timeout: SimDuration,
    /// Time that `close` waits, or `None` for a close in the background.
    pub(crate) linger: Option<SimDuration>,
    pub(crate) send_buffer: Option<u32>,
    pub(crate) receive_buffer: Option<u32>,
    pub(crate) congestion: CongestionControl,
    pub(crate) mss_max: u32,
}

impl SocketOptions {
    pub(crate) fn new(kernel: &KernelPart) -> Self {
        Self {
            no_delay: false,
            cork: false,
            keep_alive: false,
            keepalive_idle: kernel.keepalive_idle,
            keepalive_interval: kernel.keepalive_interval,
            keepalive_probes: kernel.keepalive_probes,
            urgent_inline: false,
            user_timeout: SimDuration::ZERO,
            linger: None,
            send_buffer: None,
            receive_buffer: None,
            congestion: kernel.congestion_control,
            mss_max: u32::MAX,
        }
    }
}

/// Sending side of a connection.
#[derive(Debug)]
struct Sender {
    first: u64,
    una: u64,
    next: u64,
    /// Window of the peer, its largest value, and the segment that stated it.
    window: u32,
    window_max: u32,
    window_at: (u64, u64),
    scale: u8,
    queue: ByteQueue,
    has_fin: bool,
    /// End of the last segment below the MSS.
    small_end: u64,
    urgent_end: Option<u64>,
    buffer: u32,
    is_locked: bool,
    last_sent_at: Option<SimTime>,
    /// Bytes in queues of the interface.
    below: u32,
    /// End of the flight after which the host may reduce the window again.
    slowed_until: u64,
    mss: u32,
    /// The buffer was too full for a poll to call it writable, and no event said otherwise since.
    was_full: bool,
    /// The host had no memory for the program's last write.
    is_starved: bool,
    /// The program announced more data with its last (`MSG_MORE`).
    has_more: bool,
}

/// Receiving side of a connection.
#[derive(Debug)]
struct Receiver {
    window: ReceiveWindow,
    queue: ByteQueue,
    early: Reassembly,
    ack: AckClock,
    /// Offset of the peer's FIN, once it arrived, in order or not.
    fin: Option<u64>,
    has_fin: bool,
    is_shut: bool,
    urgent: Option<Urgent>,
    /// Block that arrived twice, for the next acknowledgement (RFC 2883).
    twice: Option<(u64, u64)>,
    /// Latest timestamp of the peer.
    recent: u32,
    last_heard_at: SimTime,
}

/// TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    state: State,
    local: SocketAddr,
    remote: SocketAddr,
    options: SocketOptions,
    has_timestamps: bool,
    has_sack: bool,
    tx: Sender,
    rx: Receiver,
    board: Scoreboard,
    rtt: RttEstimator,
    congestion: Congestion,
    recovery: Recovery,
    timer: Option<Timer>,
    /// SYNs or keep-alive probes without an answer.
    attempts: u32,
    syn_at: SimTime,
    /// End of FIN_WAIT2 of a closed socket.
    expiry: Option<SimTime>,
    /// End of a lingering close.
    linger_until: Option<SimTime>,
    keepalive_at: Option<SimTime>,
    error: Option<NetError>,
    /// Error that the network reported since the peer last answered (`sk_err_soft` of Linux).
    soft_error: Option<NetError>,
    /// The result of `connect` is unknown to the program.
    is_connecting: bool,
    /// The program closed the socket.
    is_orphan: bool,
    retransmissions: u64,
}

/// Result of a handshake in the listening socket.
#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// First numbers of this side and of the peer.
    pub(crate) first: u32,
    pub(crate) remote_first: u32,
    /// Options of the peer's SYN.
    pub(crate) options: Options,
    pub(crate) rtt: Option<SimDuration>,
    pub(crate) window: ReceiveWindow,
    pub(crate) socket: SocketOptions,
}

impl Connection {
    fn new((local, remote): (SocketAddr, SocketAddr), first: u32, socket: SocketOptions, cx: &Context<'_>) -> Self {
        let kernel = cx.kernel;
        let buffer = socket.receive_buffer.unwrap_or(kernel.receive_buffer.initial_bytes);
        let mss = cx.path.mss.min(socket.mss_max);
        let window = ReceiveWindow::new(kernel, (buffer, socket.receive_buffer.is_some()), mss, 0, cx.now);
        let first = first_offset(first);
        let tx = Sender {
            first,
            una: first,
            next: first,
            window: 0,
            window_max: 0,
            window_at: (0, 0),
            scale: 0,
            queue: ByteQueue::new(first + 1),
            has_fin: false,
            small_end: 0,
            urgent_end: None,
            buffer: socket.send_buffer.unwrap_or(kernel.send_buffer.initial_bytes),
            is_locked: socket.send_buffer.is_some(),
            last_sent_at: None,
            below: 0,
            slowed_until: 0,
            mss,
            was_full: false,
            is_starved: false,
            has_more: false,
        };
        let rx = Receiver {
            window,
            queue: ByteQueue::default(),
            early: Reassembly::default(),
            ack: AckClock::default(),
            fin: None,
            has_fin: false,
            is_shut: false,
            urgent: None,
            twice: None,
            recent: 0,
            last_heard_at: cx.now,
        };
        Self {
            state: State::SynSent,
            local,
            remote,
            has_timestamps: kernel.timestamps,
            has_sack: kernel.selective_ack,
            tx,
            rx,
            board: Scoreboard::default(),
            rtt: RttEstimator::new(),
            congestion: Congestion::new(kernel, socket.congestion),
            recovery: Recovery::new(),
            timer: None,
            attempts: 0,
            syn_at: cx.now,
            expiry: None,
            linger_until: None,
            keepalive_at: None,
            error: None,
            soft_error: None,
            is_connecting: false,
            is_orphan: false,
            retransmissions: 0,
            options: socket,
        }
    }

    /// Begins a connection: sends SYN.
    pub(crate) fn connect(addresses: (SocketAddr, SocketAddr), first: u32, socket: SocketOptions, cx: &mut Context<'_>) -> Self {
        let mut connection = Self::new(addresses, first, socket, cx);
        connection.tx.next = connection.tx.first + 1;
        connection.is_connecting = true;
        connection.send_syn(cx);
        connection.set_syn_timer(cx);
        connection
    }

    /// Returns a connection whose handshake a listening socket made.
    pub(crate) fn accepted(handshake: Handshake, cx: &mut Context<'_>) -> Self {
        let addresses = (handshake.local, handshake.remote);
        let mut connection = Self::new(addresses, handshake.first, handshake.socket, cx);
        connection.rx.window = handshake.window;
        connection.tx.next = connection.tx.first + 1;
        connection.negotiate(&handshake.options, first_offset(handshake.remote_first), cx);
        connection.tx.una = connection.tx.next;
        if let Some(rtt) = handshake.rtt {
            connection.rtt.sample(rtt);
        }
        connection.establish(cx);
        connection
    }

    /// Takes the peer's options and first number.
    fn negotiate(&mut self, options: &Options, remote_first: u64, cx: &Context<'_>) {
        // RFC 9293, 3.7.1: 536 bytes without an option.
        let offered = options.mss.map_or(536, u32::from);
        let is_scaled = options.window_scale.is_some() && cx.kernel.window_scaling;
        self.has_timestamps &= options.timestamps.is_some();
        self.has_sack &= options.sack_permitted;
        self.rx.recent = options.timestamps.map_or(0, |timestamps| timestamps.value);
        // RFC 7323, 2.3: a larger shift counts as 14.
        self.tx.scale = if is_scaled { options.window_scale.unwrap_or(0).min(14) } else { 0 };
        let taken = if self.has_timestamps { TIMESTAMPS_BYTES } else { 0 };
        // A peer must not cut the stream into crumbs.
        self.tx.mss = offered.min(self.options.mss_max).max(SEND_MSS_MIN).min(cx.path.mss).saturating_sub(taken).max(1);
        self.board.set_packet_bytes(self.tx.mss);
        self.congestion.begin(cx.kernel, self.tx.mss);
        self.rx.window.start(remote_first + 1, is_scaled, cx.now);
        self.rx.queue = ByteQueue::new(remote_first + 1);
    }

    fn establish(&mut self, cx: &mut Context<'_>) {
        self.state = State::Established;
        (self.timer, self.attempts) = (None, 0);
        self.grow_send_buffer(cx);
        if self.options.keep_alive {
            self.keepalive_at = Some(cx.now.saturating_add(self.options.keepalive_idle));
        }
        cx.events |= Events::CONNECTED | Events::WRITABLE;
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }
    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }
    pub(crate) fn is_orphan(&self) -> bool {
        self.is_orphan
    }

    /// Returns whether the closed socket counts against the host's limit. Linux keeps one in FIN_WAIT2
    /// as it does TIME_WAIT, unless it waits longer there.
    pub(crate) fn is_counted(&self, kernel: &KernelPart) -> bool {
        self.is_orphan && !(self.state == State::FinWait2 && kernel.fin_timeout <= kernel.time_wait)
    }

    /// Ends the connection with an error for the program.
    pub(crate) fn fail(&mut self, error: NetError, cx: &mut Context<'_>) {
        self.error.get_or_insert(error);
        self.close_now(cx);
    }

    /// Ends the connection after too many tries. The program hears the last report of the network, if
    /// there is one (`tcp_write_err` of Linux).
    pub(super) fn time_out(&mut self, cx: &mut Context<'_>) {
        let error = self.soft_error.unwrap_or(NetError::TimedOut);
        self.fail(error, cx);
    }

    /// Notes an ICMP error. Only a connection under way fails by it (RFC 1122, 4.2.3.9).
    pub(crate) fn unreachable(&mut self, error: NetError, cx: &mut Context<'_>) {
        match self.state {
            State::SynSent | State::SynReceived => self.fail(error, cx),
            _ => self.soft_error = Some(error),
        }
    }

    fn close_now(&mut self, cx: &mut Context<'_>) {
        self.state = State::Closed;
        (self.timer, self.expiry, self.keepalive_at) = (None, None, None);
        cx.events |= Events::READABLE | Events::WRITABLE | Events::HANG_UP;
        self.end_linger(cx);
    }

    /// Ends a lingering close: the peer has all, the connection ended, or the time is over.
    fn end_linger(&mut self, cx: &mut Context<'_>) {
        cx.events |= Events::LINGERED.when(self.linger_until.take().is_some());
    }

    /// Returns whether a program in `close` waits.
    pub(crate) fn lingers(&self) -> bool {
        self.linger_until.is_some()
    }

    fn timestamps(&self, cx: &Context<'_>) -> Timestamps {
        Timestamps { value: clock(cx.now), echo: self.rx.recent }
    }

    /// Returns the bytes that the connection keeps.
    pub(crate) fn memory(&self) -> u64 {
        self.tx.queue.len() + self.queued()
    }

    /// Returns the bytes that wait for the program or for missing data.
    fn queued(&self) -> u64 {
        self.rx.queue.len() + self.rx.early.bytes()
    }

    /// Returns what the stack keeps of a connection in TIME_WAIT.
    pub(crate) fn remains(&self) -> Remains {
        Remains { next: self.tx.next, expected: self.rx.window.next(), recent: self.has_timestamps.then_some(self.rx.recent) }
    }
}

/// Numbers of a connection in TIME_WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remains {
    /// Next number of this side, and the next that it expects.
    pub(crate) next: u64,
    pub(crate) expected: u64,
    /// Latest timestamp of the peer, if it sent any.
    pub(crate) recent: Option<u32>,
}

/// Returns the clock of timestamps: milliseconds, never zero in the first two months.
pub(crate) fn clock(now: SimTime) -> u32 {
    ((now.as_picos() / 1_000_000_000) as u32).wrapping_add(1)
}
