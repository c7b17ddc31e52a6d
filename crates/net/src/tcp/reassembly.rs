//! Data that arrived ahead of missing bytes.

use crate::packet::SackBlocks;
use crate::payload::Payload;
use crate::sequence::SeqNumber;
use std::collections::BTreeMap;

/// Most spans apart. A peer that sends every other byte gains no more memory.
const SPANS_MAX: usize = 4_096;

/// Spans of the stream beyond the next expected byte. They do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    spans: BTreeMap<u64, Payload>,
    bytes: u64,
    /// Ranges in the order of their latest change, the latest first (RFC 2018, section 4).
    recent: Vec<(u64, u64)>,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of ranges, which lie apart.
    pub(crate) fn ranges(&self) -> usize {
        self.recent.len()
    }

    /// Keeps the bytes from stream offset `start` that are new. Returns the span of a duplicate,
    /// if all bytes were there.
    pub(crate) fn insert(&mut self, start: u64, payload: &Payload) -> Option<(u64, u64)> {
        let end = start + u64::from(payload.len());
        let mut at = start;
        let mut is_new = false;
        if let Some((before, span)) = self.spans.range(..=start).next_back() {
            at = at.max(before + u64::from(span.len()));
        }
        while at < end && self.spans.len() < SPANS_MAX {
            let next = self.spans.range(at..).next().map(|(start, span)| (*start, *start + u64::from(span.len())));
            let stop = next.map_or(end, |(start, _)| start.min(end));
            if stop > at {
                let part = payload.part((at - start) as u32, (stop - at) as u32);
                self.bytes += u64::from(part.len());
                self.spans.insert(at, part);
                is_new = true;
            }
            at = next.map_or(end, |(_, behind)| behind);
        }
        if is_new {
            self.note(start, at.min(end));
        }
        (!is_new && at >= end).then_some((start, end))
    }

    /// Moves the range around the new span to the front of the recent ones.
    fn note(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start, end);
        self.recent.retain(|(from, to)| {
            let touches = *from <= high && low <= *to;
            if touches {
                (low, high) = (low.min(*from), high.max(*to));
            }
            !touches
        });
        self.recent.insert(0, (low, high));
        // A pass joins ranges that touch only through a later one; those in the middle of the list
        // may still touch the front.
        let front = self.recent[0];
        self.recent.retain(|range| *range == front || range.1 < front.0 || range.0 > front.1);
    }

    /// Takes the bytes that continue the stream at offset `next`.
    pub(crate) fn take(&mut self, next: u64) -> Payload {
        let mut payload = Payload::empty();
        while let Some(entry) = self.spans.first_entry() {
            let at = next + u64::from(payload.len());
            if *entry.key() > at {
                break;
            }
            let (start, span) = entry.remove_entry();
            self.bytes -= u64::from(span.len());
            let skip = u32::try_from(at - start).unwrap_or(u32::MAX);
            payload.append(span.part(skip, span.len().saturating_sub(skip)));
        }
        let at = next + u64::from(payload.len());
        self.recent.retain(|(_, end)| *end > at);
        payload
    }

    /// Returns the blocks to report, the most recent first, at most `most` of them.
    pub(crate) fn blocks(&self, most: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for (begin, end) in self.recent.iter().take(most) {
            blocks.push(SeqNumber::of(*begin), SeqNumber::of(*end));
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_overlap_and_come_out_once() {
        let bytes: Vec<u8> = (0..100).collect();
        let part = |from: usize, to: usize| Payload::from(&bytes[from..to]);
        let mut reassembly = Reassembly::default();
        for (from, to) in [(40, 50), (20, 30), (25, 45), (10, 15)] {
            assert_eq!(reassembly.insert(from as u64, &part(from, to)), None);
        }
        assert_eq!(reassembly.insert(22, &part(22, 48)), Some((22, 48)));
        assert_eq!(reassembly.blocks(4).as_slice(), [(SeqNumber(10), SeqNumber(15)), (SeqNumber(20), SeqNumber(50))]);
        assert_eq!(reassembly.bytes(), 35);
        assert_eq!(reassembly.take(12).to_vec(), [12, 13, 14]);
        assert_eq!(reassembly.take(20).to_vec(), bytes[20..50]);
        assert!(reassembly.is_empty() && reassembly.bytes() == 0 && reassembly.blocks(4).as_slice().is_empty());
    }
}
