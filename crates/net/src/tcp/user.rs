//! Calls of the program on a connection.

use super::{Connection, Context, SocketOptions, State};
use crate::error::NetError;
use crate::events::Events;
use crate::payload::Payload;
use softband_sim::SimDuration;

/// Numbers of a connection, as `TCP_INFO` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// State of the connection.
    pub state: State,
    /// Payload of a full packet in bytes.
    pub mss: u32,
    /// Congestion window in segments.
    pub window: u32,
    /// Window below which slow start ends, in segments.
    pub threshold: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Smoothed round trip.
    pub rtt: SimDuration,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Bytes that the program wrote and the peer does not have.
    pub unacknowledged_bytes: u64,
    /// Bytes that a send takes now.
    pub room: u32,
    /// Bytes that wait for the program.
    pub unread_bytes: u64,
    /// Size of the send buffer in bytes.
    pub send_buffer: u32,
    /// Size of the receive buffer in bytes.
    pub receive_buffer: u32,
    /// Bytes of the receive queue and of data ahead of missing bytes.
    pub queued_bytes: u64,
    /// Window of the peer in bytes.
    pub peer_window: u32,
}

impl Connection {
    /// Writes data. Returns the number of bytes taken. Fails with `WouldBlock` if the buffer is full.
    /// `urgent` marks the last byte, and with `more` a small packet at the end waits.
    pub(crate) fn send(&mut self, payload: &Payload, (urgent, more): (bool, bool), cx: &mut Context<'_>) -> Result<u32, NetError> {
        self.take_error()?;
        match self.state {
            State::SynSent | State::SynReceived => return Err(NetError::WouldBlock),
            State::Established | State::CloseWait if !self.tx.has_fin => {}
            _ => return Err(NetError::Broken),
        }
        let room = u64::from(self.tx.buffer).saturating_sub(self.tx.queue.len());
        let taken = u64::from(payload.len()).min(room) as u32;
        let taken = if cx.has_memory || self.tx.queue.is_empty() { taken } else { 0 };
        if taken == 0 && !payload.is_empty() {
            self.tx.was_full = true;
            self.tx.is_starved = room > 0;
            return Err(NetError::WouldBlock);
        }
        self.tx.queue.push(&payload.part(0, taken));
        // A program may poll before it writes again: each way back over the mark is an event.
        self.tx.was_full |= !self.is_writable();
        if urgent && taken == payload.len() && taken > 0 {
            self.tx.urgent_end = Some(self.tx.queue.end());
        }
        // A full buffer leaves the program's last bytes for another call in any case.
        if !payload.is_empty() {
            self.tx.has_more = more && taken == payload.len();
        }
        self.output(cx);
        Ok(taken)
    }

    /// Reads up to `most` bytes. Returns an empty payload at the end of the stream. Fails with
    /// `WouldBlock` if there is none yet.
    pub(crate) fn receive(&mut self, most: u32, peek: bool, cx: &mut Context<'_>) -> Result<Payload, NetError> {
        let (start, stop) = self.read_stop(peek);
        let len = (stop - start).min(u64::from(most)) as u32;
        if len == 0 {
            if most == 0 {
                return Ok(Payload::empty());
            }
            self.take_error()?;
            return match self.state {
                State::SynSent | State::SynReceived => Err(NetError::WouldBlock),
                State::Closed | State::TimeWait => Ok(Payload::empty()),
                _ if self.rx.has_fin || self.rx.is_shut => Ok(Payload::empty()),
                _ => Err(NetError::WouldBlock),
            };
        }
        let payload = self.rx.queue.get(start, len);
        if !peek {
            self.rx.queue.discard_to(start + u64::from(len));
            self.rx.window.data_read(cx.now, self.rx.queue.start(), cx.kernel);
            self.open_window(cx);
        }
        Ok(payload)
    }

    /// Acknowledges data that the program has read, and tells the peer of a window that opened.
    fn open_window(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::Closed | State::TimeWait) {
            return;
        }
        let pending = self.rx.window.next() - self.rx.window.acked();
        let is_full = pending > u64::from(self.rx.window.segment_bytes());
        let is_due = self.rx.ack.is_scheduled() && (is_full || self.rx.queue.is_empty() && self.rx.ack.is_message());
        // RFC 9293, 3.8.6.2.2: a window that doubles is worth a segment.
        let (left, candidate) = (self.rx.window.left(), self.rx.window.candidate(self.queued()));
        let opens = candidate > 0 && u64::from(candidate) >= 2 * u64::from(left);
        if is_due || opens && !self.rx.has_fin {
            self.send_ack(cx);
        }
    }

    /// Fails with the pending error of the socket, which a call sees once.
    pub(crate) fn take_error(&mut self) -> Result<(), NetError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Answers a further `connect`, as Linux's `inet_stream_connect` does: the first after the
    /// handshake succeeds, and the first after a failure tells it.
    pub(crate) fn connect_again(&mut self) -> Result<(), NetError> {
        if !self.is_connecting {
            return Err(NetError::Connected);
        }
        match self.state {
            State::SynSent | State::SynReceived => return Err(NetError::Already),
            State::Closed | State::TimeWait => self.take_error().and(Err(NetError::Aborted))?,
            _ => {}
        }
        self.is_connecting = false;
        Ok(())
    }

    /// Returns whether the connection ended before the program knew it.
    pub(crate) fn has_failed_to_connect(&self) -> bool {
        self.is_connecting && matches!(self.state, State::Closed | State::TimeWait)
    }

    /// Ends the connection at once, with a reset for a peer that may still send (as Linux's
    /// `tcp_disconnect`).
    pub(crate) fn abandon(&mut self, cx: &mut Context<'_>) {
        match self.state {
            State::Established | State::CloseWait | State::FinWait1 | State::FinWait2 | State::SynReceived => self.send_reset(cx),
            State::Closing | State::LastAck if self.tx.next <= self.tx.queue.end() => self.send_reset(cx),
            _ => {}
        }
        self.close_now(cx);
    }

    pub(crate) fn options(&self) -> &SocketOptions {
        &self.options
    }

    /// Ends the sending direction.
    pub(crate) fn shut_send(&mut self, cx: &mut Context<'_>) {
        if self.tx.has_fin {
            return;
        }
        match self.state {
            State::Established | State::SynReceived => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => return,
        }
        (self.tx.has_fin, self.is_connecting) = (true, false);
        // Linux wakes all who poll a socket that shuts down; a write now fails at once.
        cx.events |= Events::WRITABLE | Events::HANG_UP.when(self.readiness().intersects(Events::HANG_UP));
        self.output(cx);
    }

    /// Returns whether the program waits for memory of the host.
    pub(crate) fn is_starved(&self) -> bool {
        self.tx.is_starved
    }

    /// Tells a program that the buffer has room again.
    pub(crate) fn wake_writer(&mut self, cx: &mut Context<'_>) {
        self.tx.is_starved &= !cx.has_memory && !self.tx.queue.is_empty();
        if self.tx.was_full && self.is_writable() {
            self.tx.was_full = false;
            cx.events |= Events::WRITABLE;
        }
    }

    /// Ends the receiving direction. The peer hears nothing of it.
    pub(crate) fn shut_receive(&mut self, cx: &mut Context<'_>) {
        self.rx.is_shut = true;
        cx.events |= Events::READABLE | Events::READ_CLOSED | Events::HANG_UP.when(self.readiness().intersects(Events::HANG_UP));
    }

    /// Closes the socket. Unread data, or a linger time of zero, resets the connection.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) {
        self.is_orphan = true;
        let abort = self.options.linger == Some(SimDuration::ZERO);
        match self.state {
            State::SynSent | State::Closed => self.close_now(cx),
            State::TimeWait => {}
            // RFC 2525, 2.17: the peer must learn that its data was lost.
            _ if abort || !self.rx.queue.is_empty() => {
                self.send_reset(cx);
                self.close_now(cx);
            }
            State::FinWait2 => self.expiry = Some(cx.now + cx.kernel.fin_timeout),
            _ => {
                self.linger_until = self.options.linger.map(|span| cx.now.saturating_add(span));
                self.shut_send(cx);
            }
        }
    }

    /// Changes options of the socket.
    pub(crate) fn set_options(&mut self, change: impl FnOnce(&mut SocketOptions), cx: &mut Context<'_>) {
        let before = (self.options.keep_alive, self.options.keepalive_idle);
        change(&mut self.options);
        if let Some(bytes) = self.options.send_buffer {
            (self.tx.buffer, self.tx.is_locked) = (bytes, true);
            self.tx.was_full |= !self.is_writable();
            self.wake_writer(cx);
        }
        if let Some(bytes) = self.options.receive_buffer {
            self.rx.window.set_buffer(bytes);
        }
        if before != (self.options.keep_alive, self.options.keepalive_idle) {
            self.set_keep_alive(cx);
        }
        // TCP_NODELAY and the end of TCP_CORK send all that waits.
        self.output(cx);
    }

    pub(crate) fn info(&self) -> ConnectionInfo {
        ConnectionInfo {
            state: self.state,
            mss: self.tx.mss,
            window: self.congestion.window(),
            threshold: self.congestion.threshold(),
            in_flight: self.board.in_flight(),
            rtt: self.rtt.smoothed().unwrap_or(SimDuration::ZERO),
            retransmissions: self.retransmissions,
            unacknowledged_bytes: self.tx.queue.len(),
            room: u64::from(self.tx.buffer).saturating_sub(self.tx.queue.len()) as u32,
            unread_bytes: self.rx.queue.len(),
            send_buffer: self.tx.buffer,
            receive_buffer: self.rx.window.buffer(),
            queued_bytes: self.queued(),
            peer_window: self.tx.window,
        }
    }
}
