//! Calls of the program on a connection.

use super::connection::{Connection, Context, Stage};
use super::sender::{End, Source};
use super::{Order, SOURCE_BYTES_MAX, SOURCE_TIMEOUT};
use crate::error::NetError;
use crate::events::Events;
use crate::payload::{ByteQueue, Payload};
use crate::tcp::ConnectionInfo;
use softband_sim::SimDuration;

/// A part of a program's send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The last byte is urgent.
    pub(crate) urgent: bool,
    /// More data follows.
    pub(crate) more: bool,
    /// Bytes of the call behind this part, if the call waits for its end.
    pub(crate) rest: Option<u32>,
}

/// Bytes that a send took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Copied(u32),
    /// The pages stay with the program until the peer has read them.
    Pinned(u32),
}

/// Answer to a receive.
#[derive(Clone, Debug)]
pub(crate) enum Got {
    /// Data, with the number of bytes that the call copied.
    Data(Payload, u32),
    /// An RDMA read began, into this many bytes of the program.
    Reading(u32),
}

impl Connection {
    /// Writes data. Fails with `WouldBlock` if there is no room.
    pub(crate) fn send(&mut self, payload: &Payload, part: Part, cx: &mut Context<'_>) -> Result<Taken, NetError> {
        self.take_error()?;
        match self.stage {
            Stage::Connecting => return Err(NetError::WouldBlock),
            Stage::Established if self.tx.end == End::Open && !self.tx.must_abort => {}
            _ => return Err(NetError::Broken),
        }
        if let Some(taken) = self.gather(payload, part, cx) {
            self.output(cx);
            return Ok(Taken::Pinned(taken));
        }
        let taken = payload.len().min(self.tx.room());
        if taken == 0 && !payload.is_empty() {
            self.tx.was_full = true;
            return Err(NetError::WouldBlock);
        }
        self.tx.queue.push(&payload.part(0, taken));
        self.tx.was_full |= !self.tx.is_writable();
        if part.urgent && taken == payload.len() && taken > 0 {
            self.tx.urgent_end = Some(self.tx.queue.end());
        }
        if !payload.is_empty() {
            self.tx.has_more = part.more && taken == payload.len();
        }
        self.output(cx);
        Ok(Taken::Copied(taken))
    }

    /// Takes a part of a large call that waits for its end, without a copy. Returns its bytes, or
    /// `None` if the part goes by copy.
    fn gather(&mut self, payload: &Payload, part: Part, cx: &Context<'_>) -> Option<u32> {
        let rest = part.rest.filter(|_| !part.urgent)?;
        let whole = payload.len().saturating_add(rest).min(SOURCE_BYTES_MAX);
        match &mut self.tx.source {
            // Beside a source of the peer, both sides could wait for each other's reads.
            None if cx.zcopy_threshold.is_some_and(|least| whole >= least) && !payload.is_empty() && self.rx.offer.is_none() => {
                let until = cx.now.saturating_add(SOURCE_TIMEOUT);
                self.tx.source = Some(Source::Gathering { queue: ByteQueue::new(0), missing: whole, until });
            }
            Some(Source::Gathering { missing, .. }) if *missing <= payload.len().saturating_add(rest) => {}
            _ => return None,
        }
        let Some(Source::Gathering { queue, missing, .. }) = &mut self.tx.source else { return None };
        let taken = payload.len().min(*missing);
        // The queue joins small parts, which would cost a buffer each.
        queue.push(&payload.part(0, taken));
        *missing -= taken;
        self.tx.was_full = true;
        if *missing == 0 {
            let (payload, number) = (queue.get(0, u32::MAX), self.source);
            self.tx.source = Some(Source::Ready { number, payload });
        }
        Some(taken)
    }

    /// Returns whether a call that waits for its end has to wait for the peer.
    pub(crate) fn awaits_peer(&self) -> bool {
        matches!(self.tx.source, Some(Source::Ready { .. } | Source::Announced { .. }))
    }

    /// Reads up to `most` bytes of a call that wants `wanted` in all.
    pub(crate) fn receive(&mut self, (most, wanted): (u32, u32), peek: bool, cx: &mut Context<'_>) -> Result<Got, NetError> {
        let (start, stop) = self.rx.span(cx.options.urgent_inline);
        if !peek {
            let freed = self.rx.discard_to(start);
            self.free_buffers(freed, cx);
        }
        let len = (stop - start).min(u64::from(most)) as u32;
        if len == 0 {
            return self.receive_none((most, wanted), peek, cx);
        }
        let payload = self.rx.queue.get(start, len);
        let copied = self.rx.copied(start, len);
        if !peek {
            let freed = self.rx.discard_to(start + u64::from(len));
            self.free_buffers(freed, cx);
            self.output(cx);
        }
        Ok(Got::Data(payload, copied))
    }

    /// Answers a read that finds no data: it fetches the peer's source, or fails.
    fn receive_none(&mut self, (most, wanted): (u32, u32), peek: bool, cx: &mut Context<'_>) -> Result<Got, NetError> {
        if most == 0 {
            return Ok(Got::Data(Payload::empty(), 0));
        }
        if let Some(offer) = &mut self.rx.offer {
            if offer.reading > 0 {
                return Err(NetError::WouldBlock);
            }
            // A read into less than a threshold costs more than a copy.
            if peek || cx.zcopy_threshold.is_none_or(|least| wanted < least.min(offer.left)) {
                self.decline();
                self.output(cx);
                return Err(NetError::WouldBlock);
            }
            let bytes = wanted.min(offer.left).min(SOURCE_BYTES_MAX);
            cx.orders.push(Order::Read { address: offer.address, rkey: offer.rkey, bytes });
            (offer.reading, offer.left) = (bytes, offer.left - bytes);
            // An offer ends below the last address.
            offer.address += u64::from(bytes);
            return Ok(Got::Reading(bytes));
        }
        self.take_error()?;
        match self.stage {
            Stage::Closed => Ok(Got::Data(Payload::empty(), 0)),
            _ if self.rx.has_end || self.rx.is_shut => Ok(Got::Data(Payload::empty(), 0)),
            _ => Err(NetError::WouldBlock),
        }
    }

    /// Reads the urgent byte (`MSG_OOB`). Fails with `Invalid` if there is none, or if it was read.
    pub(crate) fn receive_urgent(&mut self, peek: bool, is_inline: bool) -> Result<u8, NetError> {
        let urgent = self.rx.urgent.as_mut().filter(|urgent| !urgent.is_read && !is_inline).ok_or(NetError::Invalid)?;
        urgent.is_read = !peek;
        Ok(urgent.byte)
    }

    /// Returns whether the next byte to read is the urgent one (`SIOCATMARK`).
    pub(crate) fn is_at_mark(&self) -> bool {
        self.rx.urgent.is_some_and(|urgent| urgent.offset == self.rx.queue.start())
    }

    /// Ends the sending direction.
    pub(crate) fn shut_send(&mut self, cx: &mut Context<'_>) {
        if self.tx.end != End::Open || self.stage != Stage::Established {
            return;
        }
        self.tx.give_up_gathering();
        self.tx.end = End::Wanted;
        cx.events |= Events::WRITABLE | Events::HANG_UP.when(self.rx.has_end || self.rx.is_shut);
        self.output(cx);
    }

    /// Ends the receiving direction. The peer hears nothing of it.
    pub(crate) fn shut_receive(&mut self, cx: &mut Context<'_>) {
        self.rx.is_shut = true;
        let freed = self.rx.discard_to(self.rx.queue.end());
        self.free_buffers(freed, cx);
        if self.rx.offer.is_some_and(|offer| offer.reading == 0) {
            self.decline();
        }
        cx.events |= Events::READABLE | Events::READ_CLOSED | Events::HANG_UP.when(self.tx.end != End::Open);
        self.output(cx);
    }

    /// Closes the socket. Unread data, or a linger time of zero, aborts the connection.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) {
        self.is_orphan = true;
        if self.stage == Stage::Connecting {
            return self.close_now(cx);
        }
        let aborts = cx.options.linger == Some(SimDuration::ZERO);
        if aborts || self.rx.has_unread() {
            return self.abort(cx);
        }
        self.linger_until = cx.options.linger.map(|span| cx.now.saturating_add(span));
        self.shut_send(cx);
        self.await_end(cx);
    }

    /// Ends the connection at once, for a socket that lives on.
    pub(crate) fn abandon(&mut self, cx: &mut Context<'_>) {
        self.abort(cx);
        self.close_now(cx);
    }

    /// Closes a socket that no program accepted.
    pub(crate) fn close_by_abort(&mut self, cx: &mut Context<'_>) {
        self.is_orphan = true;
        self.abort(cx);
    }

    /// Changes the size of the send buffer in bytes.
    pub(crate) fn set_buffer(&mut self, bytes: u32) {
        self.tx.buffer = bytes;
        self.tx.was_full |= !self.tx.is_writable();
    }

    /// Sends the data that new options hold back no more.
    pub(crate) fn options_changed(&mut self, cx: &mut Context<'_>) {
        self.output(cx);
    }

    pub(crate) fn unread_bytes(&self) -> u64 {
        self.rx.queue.len() + self.rx.offer.map_or(0, |offer| u64::from(offer.left + offer.reading))
    }

    /// Returns the numbers of the connection as far as TCP has them, too.
    pub(crate) fn info(&self, receive_buffer: u32) -> ConnectionInfo {
        ConnectionInfo {
            state: self.state(),
            mss: self.tx.message_bytes.max(1),
            window: self.credits.available(),
            threshold: 0,
            in_flight: self.tx.posted.len() as u32,
            rtt: SimDuration::ZERO,
            retransmissions: 0,
            unacknowledged_bytes: self.tx.unsent(),
            room: self.tx.room(),
            unread_bytes: self.unread_bytes(),
            send_buffer: self.tx.buffer,
            receive_buffer,
            queued_bytes: self.rx.queue.len(),
            peer_window: self.credits.available().saturating_mul(self.tx.message_bytes),
        }
    }
}
