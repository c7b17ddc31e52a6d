//! Sends the messages of a connection as credits and the send queue allow.

use super::connection::{Connection, Context, Stage};
use super::headers::{Message, URGENT_HERE, URGENT_SOON};
use super::sender::{End, Posted, Source};
use super::{Order, SEND_MESSAGES, SOURCE_TIMEOUT, source_address};
use crate::payload::Payload;

/// Credits that data leaves for a message that brings the peer credits (IBTA A4.5, credit rules).
const RESERVED_CREDITS: u32 = 1;

impl Connection {
    /// Posts a message with its data.
    pub(super) fn post(&mut self, message: Message, flags: u8, payload: Payload, cx: &mut Context<'_>) {
        let posted = match message {
            Message::Data { bytes: 1.. } => Posted::Data(payload.len()),
            Message::Disconnect => Posted::End,
            Message::Abort => Posted::Abort,
            _ => Posted::Control,
        };
        let header = message.encode(self.credits.take(flags));
        self.tx.posted.push_back(posted);
        self.tx.posted_bytes += u64::from(payload.len());
        cx.orders.push(Order::Send { header, payload });
    }

    fn can_post(&self, reserved: u32) -> bool {
        self.credits.available() > reserved && self.tx.posted.len() < SEND_MESSAGES as usize
    }

    /// Returns whether an answer may leave. The last credit is for one that brings the peer credits.
    fn can_answer(&self) -> bool {
        self.can_post(RESERVED_CREDITS) || self.credits.brings_some() && self.can_post(0)
    }

    /// Sends all that may leave now.
    pub(super) fn output(&mut self, cx: &mut Context<'_>) {
        if self.stage != Stage::Established {
            return;
        }
        if self.tx.must_abort {
            return self.send_abort(cx);
        }
        while !self.answers.is_empty() && self.can_answer() {
            let message = self.answers.remove(0);
            self.post(message, 0, Payload::empty(), cx);
        }
        while self.send_data(cx) {}
        self.announce_source(cx);
        if self.tx.end == End::Wanted && self.tx.queue.is_empty() && self.tx.source.is_none() && self.can_post(RESERVED_CREDITS) {
            self.tx.end = End::Sent;
            self.post(Message::Disconnect, 0, Payload::empty(), cx);
        }
        if self.credits.are_worth_a_message() && self.can_post(0) {
            self.post(Message::Data { bytes: 0 }, 0, Payload::empty(), cx);
        }
    }

    /// Ends the connection by a message if the peer has a buffer for it, and without one otherwise.
    fn send_abort(&mut self, cx: &mut Context<'_>) {
        if self.tx.posted.contains(&Posted::Abort) {
            return;
        }
        if self.credits.available() == 0 {
            return self.close_now(cx);
        }
        self.post(Message::Abort, 0, Payload::empty(), cx);
    }

    /// Sends a message with data. Returns false if none may leave.
    fn send_data(&mut self, cx: &mut Context<'_>) -> bool {
        if self.tx.queue.is_empty() || !self.can_post(RESERVED_CREDITS) {
            return false;
        }
        let start = self.tx.queue.start();
        let urgent_at = self.tx.urgent_end.map(|end| end - start);
        let most = urgent_at.unwrap_or(u64::MAX).min(u64::from(self.tx.message_bytes)).min(self.tx.queue.len()) as u32;
        let is_urgent = urgent_at == Some(u64::from(most));
        if !is_urgent && most < self.tx.message_bytes && self.holds_small(cx) {
            return false;
        }
        let flags = match (is_urgent, urgent_at) {
            (true, _) => URGENT_HERE,
            (false, Some(_)) => URGENT_SOON,
            (false, None) => 0,
        };
        let payload = self.tx.queue.get(start, most);
        self.tx.queue.discard_to(start + u64::from(most));
        if is_urgent {
            self.tx.urgent_end = None;
        }
        self.post(Message::Data { bytes: most }, flags, payload, cx);
        true
    }

    /// Returns whether a message that is not full waits for more data: the program announced some, or
    /// an earlier message is still under way (Nagle).
    fn holds_small(&self, cx: &Context<'_>) -> bool {
        let must_leave = self.tx.end != End::Open || matches!(self.tx.source, Some(Source::Ready { .. }));
        let is_under_way = self.tx.posted_bytes > 0;
        !must_leave && (self.tx.has_more || cx.options.cork || is_under_way && !cx.options.no_delay)
    }

    /// Announces the source of a blocking call behind all earlier data.
    fn announce_source(&mut self, cx: &mut Context<'_>) {
        let is_next = matches!(self.tx.source, Some(Source::Ready { .. })) && self.tx.queue.is_empty();
        if !is_next || !self.can_post(RESERVED_CREDITS) {
            return;
        }
        let Some(Source::Ready { number, payload }) = self.tx.source.take() else { return };
        cx.orders.push(Order::Expose { source: number, payload: payload.clone() });
        let message = Message::Source { bytes: payload.len(), rkey: cx.rkey, address: source_address(number) };
        let cancel_at = Some(cx.now.saturating_add(SOURCE_TIMEOUT));
        self.tx.source = Some(Source::Announced { number, payload, read: 0, cancel_at });
        self.post(message, 0, Payload::empty(), cx);
    }

    /// Lets the rest of a source go by copy: its program has not made it whole, or that of the peer
    /// does not read it.
    pub(super) fn cancel_source(&mut self, cx: &mut Context<'_>) {
        if let Some(Source::Announced { cancel_at, .. }) = &mut self.tx.source {
            *cancel_at = None;
            self.answers.push(Message::CancelSource);
        }
        self.tx.give_up_gathering();
        self.wake_writer(cx);
        self.output(cx);
    }
}
