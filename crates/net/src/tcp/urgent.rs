//! Urgent data (RFC 9293, 3.8.5, RFC 6093), as Linux understands it: one byte out of band.

use super::{Connection, Context};
use crate::error::NetError;
use crate::events::Events;
use crate::packet::Segment;

/// Latest urgent byte of the peer.
#[derive(Clone, Debug)]
pub(super) struct Urgent {
    /// Stream offset of the byte.
    pub(super) offset: u64,
    byte: Option<u8>,
    is_read: bool,
}

impl Connection {
    /// Notes the urgent pointer of a segment at stream offset `start`.
    pub(super) fn note_urgent(&mut self, segment: &Segment, start: u64, cx: &mut Context<'_>) {
        // RFC 6093, 3.1: the pointer of real stacks points behind the byte.
        let offset = start.wrapping_add(u64::from(segment.urgent)).wrapping_sub(1);
        let is_old = offset < self.rx.queue.start() || offset < self.rx.window.next();
        if segment.urgent == 0 || is_old || self.rx.urgent.as_ref().is_some_and(|urgent| offset <= urgent.offset) {
            return;
        }
        self.rx.urgent = Some(Urgent { offset, byte: None, is_read: false });
        cx.events |= Events::URGENT;
    }

    /// Keeps the urgent byte once its segment has arrived in order.
    pub(super) fn keep_urgent(&mut self, cx: &mut Context<'_>) {
        let Some(urgent) = &mut self.rx.urgent else { return };
        if urgent.byte.is_none() && (self.rx.queue.start()..self.rx.queue.end()).contains(&urgent.offset) {
            urgent.byte = Some(self.rx.queue.get(urgent.offset, 1).to_vec().first().copied().unwrap_or(0));
            cx.events |= Events::URGENT;
        }
    }

    /// Reads the urgent byte (`MSG_OOB`). Fails with `Invalid` if there is none, or if it was read.
    pub(crate) fn receive_urgent(&mut self, peek: bool) -> Result<u8, NetError> {
        let inline = self.options.urgent_inline;
        let urgent = self.rx.urgent.as_mut().filter(|urgent| !urgent.is_read && !inline).ok_or(NetError::Invalid)?;
        let byte = urgent.byte.ok_or(NetError::WouldBlock)?;
        urgent.is_read = !peek;
        Ok(byte)
    }

    /// Returns whether the next byte to read is the urgent one (`SIOCATMARK`).
    pub(crate) fn is_at_mark(&self) -> bool {
        self.rx.urgent.as_ref().is_some_and(|urgent| urgent.offset == self.rx.queue.start())
    }

    pub(super) fn has_urgent(&self) -> bool {
        self.rx.urgent.as_ref().is_some_and(|urgent| !urgent.is_read && urgent.byte.is_some())
    }

    /// Returns the stream offset before which a read stops, and skips a byte out of band.
    pub(super) fn read_stop(&mut self, peek: bool) -> (u64, u64) {
        let (start, end) = (self.rx.queue.start(), self.rx.queue.end());
        match &self.rx.urgent {
            Some(urgent) if urgent.offset == start && end > start && !self.options.urgent_inline => {
                if !peek {
                    self.rx.queue.discard_to(start + 1);
                }
                (start + 1, end)
            }
            // A read ends at the mark, so that the program can notice it.
            Some(urgent) if (start + 1..end).contains(&urgent.offset) => (start, urgent.offset),
            _ => (start, end),
        }
    }
}
