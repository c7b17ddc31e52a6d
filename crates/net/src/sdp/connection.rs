//! A connection: its state, its life, and its end.

use super::credits::Credits;
use super::headers::{Base, Hello, Message};
use super::receiver::Receiver;
use super::sender::{End, Sender};
use super::{BUFFER_BYTES, Order};
use crate::error::NetError;
use crate::events::Events;
use crate::interface::InterfaceId;
use crate::payload::Payload;
use crate::tcp::{SocketOptions, State, doubled};
use softband_model::parts::KernelPart;
use softband_sim::SimTime;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

/// Time and options of a step, with the orders and events that it makes.
pub(crate) struct Context<'a> {
    pub(crate) now: SimTime,
    pub(crate) options: &'a SocketOptions,
    kernel: &'a KernelPart,
    /// Bytes from which a blocking call goes without a copy. `None`: all are copied.
    pub(crate) zcopy_threshold: Option<u32>,
    /// Key by which the peer reads sources, once the caller has memory for them.
    pub(crate) rkey: u32,
    pub(crate) orders: Vec<Order>,
    pub(crate) events: Events,
}

impl<'a> Context<'a> {
    pub(crate) fn new(now: SimTime, options: &'a SocketOptions, kernel: &'a KernelPart, rkey: u32) -> Self {
        let zcopy_threshold = kernel.sdp_zcopy_threshold;
        Self { now, options, kernel, zcopy_threshold, rkey, orders: Vec::new(), events: Events::NONE }
    }

    /// Returns when a connection fails whose Hello has no answer: as late as TCP with its SYNs.
    fn connect_limit(&self) -> SimTime {
        let (linear, kernel) = (self.kernel.syn_linear_timeouts, self.kernel);
        let span = |tries: u32| doubled(kernel.rto_initial, tries.saturating_sub(linear), kernel.rto_max);
        (0..=kernel.syn_retries + linear).fold(self.now, |at, tries| at.saturating_add(span(tries)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Hello is under way.
    Connecting,
    Established,
    Closed,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    interface: InterfaceId,
    pub(super) stage: Stage,
    pub(super) credits: Credits,
    pub(super) tx: Sender,
    pub(super) rx: Receiver,
    pub(super) error: Option<NetError>,
    /// The program has not seen the result of `connect`.
    is_connecting: bool,
    /// No program has the socket any more.
    pub(super) is_orphan: bool,
    /// RdmaRdCompl and SendSm that wait for a credit.
    pub(super) answers: Vec<Message>,
    /// Number of its source. It has one source at a time.
    pub(super) source: u32,
    /// Time at which the peer has had enough time to answer, or to end its direction.
    pub(super) expiry: Option<SimTime>,
    /// Time until which `close` waits (`SO_LINGER`).
    pub(super) linger_until: Option<SimTime>,
}

impl Connection {
    fn new(local: SocketAddr, remote: SocketAddr, interface: InterfaceId, buffer: u32, source: u32) -> Self {
        Self {
            local,
            remote,
            interface,
            stage: Stage::Connecting,
            credits: Credits::new(),
            tx: Sender::new(buffer),
            rx: Receiver::new(),
            error: None,
            is_connecting: true,
            is_orphan: false,
            answers: Vec::new(),
            source,
            expiry: None,
            linger_until: None,
        }
    }

    /// Begins a connection with a send buffer of `buffer` bytes. Its sources have the number `source`.
    pub(crate) fn connect(
        (local, remote): (SocketAddrV4, SocketAddrV4),
        interface: InterfaceId,
        (buffer, source): (u32, u32),
        cx: &mut Context<'_>,
    ) -> Self {
        let mut connection = Self::new(local.into(), remote.into(), interface, buffer, source);
        connection.expiry = Some(cx.connect_limit());
        cx.orders.push(Order::Connect { to: IpAddr::V4(*remote.ip()) });
        let hello = Hello { source: local, destination: remote, buffer_bytes: BUFFER_BYTES };
        connection.post(Message::Hello(hello), 0, Payload::empty(), cx);
        connection
    }

    /// Accepts a connection that a peer requests.
    pub(crate) fn accept((hello, base): &(Hello, Base), interface: InterfaceId, (buffer, source): (u32, u32), cx: &mut Context<'_>) -> Self {
        let mut connection = Self::new(hello.destination.into(), hello.source.into(), interface, buffer, source);
        (connection.stage, connection.is_connecting) = (Stage::Established, false);
        connection.credits.arrived(base);
        connection.free_buffers(1, cx);
        connection.set_peer_buffers(hello.buffer_bytes);
        connection.post(Message::HelloAck { buffer_bytes: BUFFER_BYTES }, 0, Payload::empty(), cx);
        connection
    }

    pub(super) fn set_peer_buffers(&mut self, bytes: u32) {
        self.tx.message_bytes = bytes.min(BUFFER_BYTES).saturating_sub(super::headers::HEADER_BYTES).max(1);
    }

    pub(super) fn free_buffers(&mut self, buffers: u32, cx: &mut Context<'_>) {
        if buffers > 0 {
            self.credits.freed(buffers);
            cx.orders.push(Order::Repost { buffers });
        }
    }

    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.remote)
    }

    pub(crate) fn interface(&self) -> InterfaceId {
        self.interface
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.is_orphan
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Returns the state by TCP's names, as Linux's tools show it.
    pub(crate) fn state(&self) -> State {
        match (self.stage, self.tx.end, self.rx.has_end) {
            (Stage::Connecting, ..) => State::SynSent,
            (Stage::Closed, ..) => State::Closed,
            (_, End::Open, false) => State::Established,
            (_, End::Open, true) => State::CloseWait,
            (_, End::Wanted | End::Sent, false) => State::FinWait1,
            (_, End::Wanted | End::Sent, true) => State::LastAck,
            (_, End::Delivered, false) => State::FinWait2,
            (_, End::Delivered, true) => State::TimeWait,
        }
    }

    pub(crate) fn readiness(&self, options: &SocketOptions) -> Events {
        let is_done = self.is_closed();
        let read_closed = self.rx.has_end || self.rx.is_shut || is_done;
        let write_closed = self.tx.end != End::Open || is_done;
        let is_connected = self.stage != Stage::Connecting;
        let has_urgent = self.rx.urgent.is_some_and(|urgent| !urgent.is_read);
        Events::READABLE.when(self.rx.is_readable(options.urgent_inline) || read_closed)
            | Events::WRITABLE.when(is_connected && (self.tx.is_writable() || write_closed))
            | Events::URGENT.when(has_urgent)
            | Events::ERROR.when(self.error.is_some())
            | Events::READ_CLOSED.when(read_closed)
            | Events::HANG_UP.when(is_done || read_closed && write_closed)
    }

    /// Returns the time at which [`Connection::timer`] has work.
    pub(crate) fn deadline(&self) -> Option<SimTime> {
        [self.expiry, self.linger_until, self.tx.cancel_at()].into_iter().flatten().min().filter(|_| !self.is_closed())
    }

    /// Gives up a peer that does not answer or end its direction, or a source that takes too long.
    pub(crate) fn timer(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let is_over = |at: Option<SimTime>| at.is_some_and(|at| at <= now);
        if is_over(self.linger_until) {
            self.linger_until = None;
            cx.events |= Events::LINGERED;
        }
        if is_over(self.tx.cancel_at()) {
            self.cancel_source(cx);
        }
        if is_over(self.expiry) {
            // The abort has no limit of its own: the HCA reports its message, or its failure.
            self.expiry = None;
            if self.stage == Stage::Connecting {
                return self.fail(NetError::TimedOut, cx);
            }
            self.abort(cx);
        }
    }

    /// Returns whether `close` waits.
    pub(crate) fn lingers(&self) -> bool {
        self.linger_until.is_some() && !self.is_closed() && self.tx.end != End::Delivered
    }

    /// Starts the wait for the peer's end, if no program has the socket.
    pub(super) fn await_end(&mut self, cx: &Context<'_>) {
        if self.is_orphan && self.tx.end == End::Delivered && !self.rx.has_end && self.expiry.is_none() {
            self.expiry = Some(cx.now.saturating_add(cx.kernel.fin_timeout));
        }
    }

    /// Ends the connection by AbortConn.
    pub(crate) fn abort(&mut self, cx: &mut Context<'_>) {
        match self.stage {
            Stage::Closed => {}
            Stage::Connecting => self.close_now(cx),
            Stage::Established => {
                self.tx.must_abort = true;
                self.output(cx);
            }
        }
    }

    /// Ends the connection at once. Nothing is left of it but its error.
    pub(super) fn close_now(&mut self, cx: &mut Context<'_>) {
        if self.stage == Stage::Closed {
            return;
        }
        self.stage = Stage::Closed;
        if let Some(super::sender::Source::Announced { number, .. }) = self.tx.source.take() {
            cx.orders.push(Order::Conceal { source: number });
        }
        self.rx.offer = None;
        self.answers.clear();
        cx.orders.push(Order::Close);
        cx.events |= Events::READABLE | Events::WRITABLE | Events::HANG_UP | Events::READ_CLOSED;
    }

    /// Ends the connection with an error for the program.
    pub(super) fn fail(&mut self, error: NetError, cx: &mut Context<'_>) {
        if self.stage != Stage::Closed {
            self.error = Some(error);
            cx.events |= Events::ERROR;
            self.close_now(cx);
        }
    }

    /// Notes that the queue pair has failed, or that its peer is gone.
    pub(crate) fn lost(&mut self, error: NetError, cx: &mut Context<'_>) {
        let is_over = self.rx.has_end && matches!(self.tx.end, End::Sent | End::Delivered);
        if is_over || self.tx.must_abort {
            return self.close_now(cx);
        }
        // A host that answers no Hello counts as silent, as for TCP.
        let is_silent = self.stage == Stage::Connecting && error == NetError::Reset;
        self.fail(if is_silent { NetError::TimedOut } else { error }, cx);
    }

    /// Fails with the pending error of the socket, which a call sees once.
    pub(crate) fn take_error(&mut self) -> Result<(), NetError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Answers a further `connect` as TCP does: the first after the handshake succeeds, and the first
    /// after a failure tells it.
    pub(crate) fn connect_again(&mut self) -> Result<(), NetError> {
        if !self.is_connecting {
            return Err(NetError::Connected);
        }
        match self.stage {
            Stage::Connecting => return Err(NetError::Already),
            Stage::Closed => self.take_error().and(Err(NetError::Aborted))?,
            Stage::Established => {}
        }
        self.is_connecting = false;
        Ok(())
    }

    /// Returns whether the connection ended before the program knew it.
    pub(crate) fn has_failed_to_connect(&self) -> bool {
        self.is_connecting && self.is_closed()
    }

    /// Returns the peer's address while there is one.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        (self.stage == Stage::Established).then_some(self.remote)
    }
}
