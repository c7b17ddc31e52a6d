//! Credits: each side sends only as many messages as the other has free receive buffers.

use super::RECEIVE_BUFFERS;
use super::headers::Base;

/// Messages and buffers of a connection, in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credits {
    /// Number of the next message.
    next: u32,
    /// Number of the last message for which the peer has a buffer.
    limit: u32,
    /// Number of the last message of the peer.
    received: u32,
    /// Own free receive buffers.
    free: u32,
    /// Number of the peer's last message for which it knows a buffer.
    told: u32,
}

impl Credits {
    /// Returns the credits of a new connection: Hello needs none, and its answer brings the first.
    pub(super) const fn new() -> Self {
        Self { next: 0, limit: 0, received: 0, free: RECEIVE_BUFFERS, told: 0 }
    }

    /// Returns the messages that the peer takes now.
    pub(super) fn available(&self) -> u32 {
        let left = self.limit.wrapping_sub(self.next).wrapping_add(1).cast_signed();
        left.max(0).cast_unsigned()
    }

    /// Notes a message of the peer with its counts, which takes a receive buffer.
    pub(super) fn arrived(&mut self, base: &Base) {
        (self.received, self.free) = (base.number, self.free.saturating_sub(1));
        let limit = base.acknowledged.wrapping_add(u32::from(base.buffers));
        if limit.wrapping_sub(self.limit).cast_signed() > 0 {
            self.limit = limit;
        }
    }

    /// Notes receive buffers that are free again.
    pub(super) fn freed(&mut self, buffers: u32) {
        self.free += buffers;
    }

    /// Returns whether the next message brings the peer credits.
    pub(super) fn brings_some(&self) -> bool {
        self.received.wrapping_add(self.free) != self.told
    }

    /// Returns whether the peer should hear of buffers that became free: it knows half of them at most.
    pub(super) fn are_worth_a_message(&self) -> bool {
        self.received.wrapping_add(self.free).wrapping_sub(self.told) >= RECEIVE_BUFFERS / 2
    }

    /// Numbers the next message, and returns its base header.
    pub(super) fn take(&mut self, flags: u8) -> Base {
        let base = Base { flags, buffers: self.free as u16, number: self.next, acknowledged: self.received };
        (self.next, self.told) = (self.next.wrapping_add(1), self.received.wrapping_add(self.free));
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_a_credit_until_its_buffer_is_free() {
        let (mut a, mut b) = (Credits::new(), Credits::new());
        b.arrived(&a.take(0));
        b.freed(1);
        a.arrived(&b.take(0));
        a.freed(1);
        assert_eq!(a.available(), RECEIVE_BUFFERS);
        for _ in 0..RECEIVE_BUFFERS {
            b.arrived(&a.take(0));
        }
        assert_eq!(a.available(), 0);
        b.freed(RECEIVE_BUFFERS / 2 - 1);
        assert!(!b.are_worth_a_message());
        b.freed(1);
        assert!(b.are_worth_a_message());
        a.arrived(&b.take(0));
        assert_eq!(a.available(), RECEIVE_BUFFERS / 2);
        assert!(!b.are_worth_a_message());
    }
}
