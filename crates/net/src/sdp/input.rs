//! Handles messages of the peer, and completions of the own queue pair.

use super::Order;
use super::connection::{Connection, Context, Stage};
use super::headers::{Base, Message, URGENT_HERE, URGENT_SOON};
use super::receiver::{Offer, Urgent};
use super::sender::{End, Posted, Source};
use crate::error::NetError;
use crate::events::Events;
use crate::payload::Payload;

impl Connection {
    /// Handles a message of the peer. Bytes without a message end the connection.
    pub(crate) fn arrived(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        if self.stage == Stage::Closed {
            return;
        }
        let Ok((message, base, data)) = Message::decode(bytes) else {
            self.error = Some(NetError::Reset);
            cx.events |= Events::ERROR;
            return self.abort(cx);
        };
        self.credits.arrived(&base);
        if !matches!(message, Message::Data { bytes: 1.. }) || self.is_lost() {
            self.free_buffers(1, cx);
        }
        match message {
            Message::HelloAck { buffer_bytes } => self.answered(buffer_bytes, cx),
            Message::Abort => {
                let refused = self.stage == Stage::Connecting;
                return self.fail(if refused { NetError::Refused } else { NetError::Reset }, cx);
            }
            Message::Disconnect => self.peer_ended(cx),
            Message::Data { bytes: 0 } => {}
            Message::Data { .. } | Message::Source { .. } if self.is_lost() => self.abort(cx),
            Message::Data { .. } => self.data_arrived(&base, data, cx),
            Message::Source { bytes, rkey, address } => self.source_arrived((bytes, rkey, address), cx),
            Message::ReadComplete { bytes } => self.source_read(bytes, cx),
            Message::SendSmall => self.source_declined(cx),
            Message::CancelSource => self.source_cancelled(),
            // The connection exists already.
            Message::Hello(_) => self.abort(cx),
        }
        self.output(cx);
    }

    /// Returns whether no program reads data that arrive.
    fn is_lost(&self) -> bool {
        self.is_orphan || self.rx.has_end
    }

    fn answered(&mut self, buffer_bytes: u32, cx: &mut Context<'_>) {
        if self.stage == Stage::Connecting {
            (self.stage, self.expiry) = (Stage::Established, None);
            self.set_peer_buffers(buffer_bytes);
            cx.events |= Events::CONNECTED | Events::WRITABLE;
        }
    }

    fn peer_ended(&mut self, cx: &mut Context<'_>) {
        self.rx.has_end = true;
        let hang_up = Events::HANG_UP.when(self.tx.end != End::Open);
        cx.events |= Events::READABLE | Events::READ_CLOSED | hang_up;
        self.end_if_done(cx);
    }

    /// Ends a connection both of whose directions have ended.
    fn end_if_done(&mut self, cx: &mut Context<'_>) {
        if self.rx.has_end && self.tx.end == End::Delivered {
            self.close_now(cx);
        }
    }

    fn data_arrived(&mut self, base: &Base, data: &[u8], cx: &mut Context<'_>) {
        if self.rx.is_shut {
            // Linux drops data behind `shutdown`.
            return self.free_buffers(1, cx);
        }
        self.rx.push(data);
        cx.events |= Events::READABLE;
        if base.flags & URGENT_HERE != 0
            && let Some(byte) = data.last()
        {
            self.rx.urgent = Some(Urgent { offset: self.rx.queue.end() - 1, byte: *byte, is_read: false });
        }
        if base.flags & (URGENT_HERE | URGENT_SOON) != 0 {
            cx.events |= Events::URGENT;
        }
    }

    fn source_arrived(&mut self, (bytes, rkey, address): (u32, u32, u64), cx: &mut Context<'_>) {
        let has_end = address.checked_add(u64::from(bytes)).is_some();
        if bytes == 0 || !has_end || self.rx.offer.is_some() {
            return self.abort(cx);
        }
        self.rx.offer = Some(Offer { address, rkey, left: bytes, read: 0, reading: 0, is_cancelled: false });
        // Programs that send before they read would wait for each other's reads.
        if self.rx.is_shut || self.tx.source.is_some() {
            return self.decline();
        }
        cx.events |= Events::READABLE;
    }

    /// The peer waits no longer for reads of its source.
    fn source_cancelled(&mut self) {
        match &mut self.rx.offer {
            Some(offer) if offer.reading > 0 => offer.is_cancelled = true,
            Some(_) => self.decline(),
            // The end of the source has crossed the message.
            None => {}
        }
    }

    /// The peer has read bytes of the source.
    fn source_read(&mut self, bytes: u32, cx: &mut Context<'_>) {
        let Some(Source::Announced { number, payload, read, .. }) = &mut self.tx.source else { return };
        *read = read.saturating_add(bytes);
        if *read >= payload.len() {
            cx.orders.push(Order::Conceal { source: *number });
            self.tx.source = None;
            self.wake_writer(cx);
        }
    }

    /// The peer wants the rest of the source by copy.
    fn source_declined(&mut self, cx: &mut Context<'_>) {
        if let Some(Source::Announced { number, payload, read, .. }) = self.tx.source.take() {
            self.tx.copy_source(&payload, read);
            cx.orders.push(Order::Conceal { source: number });
            self.wake_writer(cx);
        }
    }

    /// Notes that the HCA has sent the oldest message of the send queue.
    pub(crate) fn sent(&mut self, cx: &mut Context<'_>) {
        match self.tx.posted.pop_front() {
            Some(Posted::Data(bytes)) => self.tx.posted_bytes -= u64::from(bytes),
            Some(Posted::End) => {
                self.tx.end = End::Delivered;
                self.linger_until = None;
                cx.events |= Events::LINGERED;
                self.end_if_done(cx);
                self.await_end(cx);
            }
            Some(Posted::Abort) => return self.close_now(cx),
            Some(Posted::Control) | None => {}
        }
        if self.stage == Stage::Established {
            self.wake_writer(cx);
            self.output(cx);
        }
    }

    pub(super) fn wake_writer(&mut self, cx: &mut Context<'_>) {
        if self.tx.was_full && self.tx.is_writable() {
            self.tx.was_full = false;
            cx.events |= Events::WRITABLE;
        }
    }

    /// Takes the bytes of a read of the peer's source.
    pub(crate) fn read_done(&mut self, data: &Payload, cx: &mut Context<'_>) {
        let Some(offer) = &mut self.rx.offer else { return };
        (offer.read, offer.reading) = (offer.read + offer.reading, 0);
        let (is_whole, is_cancelled) = (offer.left == 0, offer.is_cancelled);
        if !self.rx.is_shut && !self.is_orphan {
            self.rx.push_in_place(data);
        }
        if is_whole {
            self.finish_offer();
        } else if self.rx.is_shut || is_cancelled {
            self.decline();
        }
        cx.events |= Events::READABLE;
        self.output(cx);
    }

    /// Tells the peer of the bytes that reads have fetched. The offer is over.
    fn finish_offer(&mut self) {
        if let Some(offer) = self.rx.offer.take() {
            self.answers.push(Message::ReadComplete { bytes: offer.read });
        }
    }

    /// Asks the peer to send the rest of its source by copy.
    pub(super) fn decline(&mut self) {
        if let Some(offer) = self.rx.offer.take() {
            if offer.read > 0 {
                self.answers.push(Message::ReadComplete { bytes: offer.read });
            }
            self.answers.push(Message::SendSmall);
        }
    }
}
