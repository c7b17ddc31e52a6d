//! Segments in flight: sent, acknowledged selectively, lost, retransmitted.

use softband_sim::SimTime;
use std::collections::VecDeque;

/// Span of the stream that left in one go.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) sent_at: SimTime,
    /// Packets on the wire.
    packets: u32,
    sacked: bool,
    lost: bool,
    /// A retransmission is in flight.
    retransmitted: bool,
    /// Some retransmission happened, so that its round trip is ambiguous (Karn).
    ambiguous: bool,
    /// End of all that had left when the retransmission did.
    sent_before: u64,
}

impl Sent {
    pub(crate) fn is_sacked(&self) -> bool {
        self.sacked
    }
    /// Returns whether a retransmission is in flight although data that left after it has arrived.
    /// `highest_sacked` is the end of that data.
    pub(crate) fn is_lost_again(&self, highest_sacked: u64) -> bool {
        self.retransmitted && self.lost && highest_sacked > self.sent_before
    }
    /// Returns whether a retransmission of this span is in flight.
    pub(crate) fn is_retransmitted(&self) -> bool {
        self.retransmitted
    }
    /// Returns whether this span left before another that left at `sent_at` up to `end` (RFC 8985, 6.2).
    pub(crate) fn is_before(&self, sent_at: SimTime, end: u64) -> bool {
        (self.sent_at, self.end) < (sent_at, end)
    }
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    /// Packets that the acknowledgement reports for the first time.
    pub(crate) packets: u32,
    /// Oldest unambiguous send time among the spans that the cumulative number covers.
    pub(crate) first_sent_at: Option<SimTime>,
    /// Latest send time and end among the spans, and whether it is a retransmission.
    pub(crate) latest: Option<(SimTime, u64, bool)>,
    /// A span that was never retransmitted arrived after one with higher numbers.
    pub(crate) is_reordered: bool,
    /// The cumulative number covers a retransmitted span.
    pub(crate) has_retransmitted: bool,
    /// The cumulative number or a block is new.
    pub(crate) is_new: bool,
}

/// All spans from the first unacknowledged byte to the last byte sent.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// Payload of a packet, for the number of packets of a part.
    packet_bytes: u32,
    packets: u32,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// Packets that duplicate acknowledgements report, for peers without SACK.
    duplicates: u32,
    highest_sacked: u64,
}

impl Scoreboard {
    pub(crate) fn set_packet_bytes(&mut self, bytes: u32) {
        self.packet_bytes = bytes.max(1);
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
    /// Returns the packets sent and not acknowledged cumulatively.
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }
    /// Returns the packets that the network holds, as far as the sender knows (RFC 6675, pipe).
    pub(crate) fn in_flight(&self) -> u32 {
        (self.packets + self.retransmitted - self.sacked - self.lost).saturating_sub(self.duplicates)
    }
    /// Returns the packets that duplicate acknowledgements report.
    pub(crate) fn duplicates(&self) -> u32 {
        self.duplicates
    }
    /// Notes a duplicate acknowledgement of a peer without SACK: a packet arrived somewhere.
    pub(crate) fn note_duplicate(&mut self) {
        self.duplicates = (self.duplicates + 1).min(self.packets.saturating_sub(1));
    }
    pub(crate) fn highest_sacked(&self) -> u64 {
        self.highest_sacked
    }
    pub(crate) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    fn packets_of(&self, start: u64, end: u64) -> u32 {
        ((end - start).div_ceil(u64::from(self.packet_bytes.max(1))) as u32).max(1)
    }

    /// Notes a span that left for the first time.
    pub(crate) fn push(&mut self, start: u64, end: u64, now: SimTime) {
        let packets = self.packets_of(start, end);
        self.packets += packets;
        self.sent.push_back(Sent {
            start,
            end,
            sent_at: now,
            packets,
            sacked: false,
            lost: false,
            retransmitted: false,
            ambiguous: false,
            sent_before: 0,
        });
    }

    /// Cuts the span at `index` at stream offset `at`, which must lie within it.
    fn split(&mut self, index: usize, at: u64) {
        let whole = self.sent[index].clone();
        self.count(&whole, false);
        let (mut front, mut back) = (whole.clone(), whole);
        (front.end, back.start) = (at, at);
        front.packets = self.packets_of(front.start, front.end);
        back.packets = self.packets_of(back.start, back.end);
        self.count(&front, true);
        self.count(&back, true);
        self.sent[index] = front;
        self.sent.insert(index + 1, back);
    }

    /// Adds a span to all counters, or removes it.
    fn count(&mut self, sent: &Sent, add: bool) {
        let change = |counter: &mut u32, applies: bool| {
            let packets = if applies { sent.packets } else { 0 };
            *counter = if add { *counter + packets } else { *counter - packets };
        };
        change(&mut self.packets, true);
        change(&mut self.sacked, sent.sacked);
        change(&mut self.lost, sent.lost);
        change(&mut self.retransmitted, sent.retransmitted);
    }

    /// Returns the index of the span that begins at `at` or later, after a cut there.
    fn cut_at(&mut self, at: u64) -> usize {
        let index = self.sent.partition_point(|sent| sent.end <= at);
        match self.sent.get(index) {
            Some(sent) if sent.start < at => {
                self.split(index, at);
                index + 1
            }
            _ => index,
        }
    }

    /// Removes all up to `una`.
    pub(crate) fn acknowledge(&mut self, una: u64, delivery: &mut Delivery) {
        let before = self.highest_sacked;
        let count = self.cut_at(una);
        for _ in 0..count {
            let Some(sent) = self.sent.pop_front() else { break };
            self.count(&sent, false);
            delivery.is_new = true;
            delivery.has_retransmitted |= sent.ambiguous;
            if !sent.sacked {
                delivery.note(&sent, before);
                if !sent.ambiguous {
                    delivery.first_sent_at = Some(delivery.first_sent_at.map_or(sent.sent_at, |at| at.min(sent.sent_at)));
                }
            }
        }
        self.duplicates = self.duplicates.saturating_sub(delivery.packets.saturating_sub(1)).min(self.packets.saturating_sub(1));
        if self.sent.is_empty() && self.sent.capacity() > 64 {
            self.sent = VecDeque::new();
        }
    }

    /// Marks a block as arrived. `before` is the highest block before this acknowledgement.
    pub(crate) fn sack(&mut self, (begin, end): (u64, u64), before: u64, delivery: &mut Delivery) {
        let (first, last) = (self.sent.front().map_or(0, |sent| sent.start), self.sent.back().map_or(0, |sent| sent.end));
        if begin >= end || begin < first || end > last {
            return;
        }
        let (from, to) = (self.cut_at(begin), self.cut_at(end));
        // A cut at the end does not move the beginning, which lies before it.
        for index in from..to {
            if self.sent[index].sacked {
                continue;
            }
            let old = self.sent[index].clone();
            self.count(&old, false);
            delivery.note(&old, before);
            delivery.is_new = true;
            let sent = &mut self.sent[index];
            (sent.sacked, sent.lost, sent.retransmitted) = (true, false, false);
            let new = sent.clone();
            self.highest_sacked = self.highest_sacked.max(new.end);
            self.count(&new, true);
        }
    }

    /// Marks spans as lost if `is_lost` says so of a span and of the packets above it that arrived.
    /// A span with a retransmission in flight needs a new one. Returns the packets.
    pub(crate) fn mark_lost(&mut self, mut is_lost: impl FnMut(&Sent, u32) -> bool) -> u32 {
        let (mut above, mut marked) = (self.sacked, 0);
        for sent in &mut self.sent {
            if sent.sacked {
                above -= sent.packets;
            } else if (!sent.lost || sent.retransmitted) && is_lost(sent, above) {
                if sent.retransmitted {
                    self.retransmitted -= sent.packets;
                }
                if !sent.lost {
                    self.lost += sent.packets;
                }
                (sent.lost, sent.retransmitted) = (true, false);
                marked += sent.packets;
            }
        }
        marked
    }

    /// Marks the first packet as lost, unless it is marked or its retransmission is in flight.
    pub(crate) fn mark_first_lost(&mut self) {
        if let Some(first) = self.sent.front() {
            let end = first.end.min(first.start + u64::from(self.packet_bytes.max(1)));
            self.cut_at(end);
            let mut is_first = true;
            self.mark_lost(|sent, _| std::mem::take(&mut is_first) && !sent.retransmitted);
        }
    }

    /// Forgets all blocks and retransmissions, and marks all spans as lost (RFC 6675, 5.1).
    pub(crate) fn mark_all_lost(&mut self, keep_sacked: bool) {
        self.highest_sacked = if keep_sacked { self.highest_sacked } else { 0 };
        for sent in &mut self.sent {
            sent.sacked &= keep_sacked;
            (sent.lost, sent.retransmitted) = (!sent.sacked, false);
        }
        let spans = std::mem::take(&mut self.sent);
        (self.packets, self.sacked, self.lost, self.retransmitted, self.duplicates) = (0, 0, 0, 0, 0);
        spans.iter().for_each(|sent| self.count(sent, true));
        self.sent = spans;
    }

    /// Takes back all marks of loss that no retransmission followed.
    pub(crate) fn unmark_lost(&mut self) {
        for sent in &mut self.sent {
            if sent.lost {
                self.lost -= sent.packets;
                sent.lost = false;
            }
        }
    }

    /// Takes the next lost span for retransmission, at most `bytes` of it.
    pub(crate) fn retransmit_lost(&mut self, bytes: u64, now: SimTime) -> Option<(u64, u64)> {
        let index = self.sent.iter().position(|sent| sent.lost && !sent.retransmitted)?;
        Some(self.retransmit(index, bytes, now))
    }

    /// Takes the last `bytes` of the last span for retransmission.
    pub(crate) fn retransmit_last(&mut self, bytes: u64, now: SimTime) -> Option<(u64, u64)> {
        let last = self.sent.back()?;
        let at = last.end.saturating_sub(bytes).max(last.start);
        if at > last.start {
            self.cut_at(at);
        }
        let index = self.sent.len() - 1;
        (!self.sent[index].sacked).then(|| self.retransmit(index, u64::MAX, now))
    }

    fn retransmit(&mut self, index: usize, bytes: u64, now: SimTime) -> (u64, u64) {
        let sent = &self.sent[index];
        let at = sent.start.saturating_add(bytes.max(1));
        if at < sent.end {
            self.split(index, at);
        }
        debug_assert!(!self.sent[index].sacked, "a retransmission repeats no data that arrived");
        let sent_before = self.sent.back().map_or(0, |last| last.end);
        let sent = &mut self.sent[index];
        sent.sent_before = sent_before;
        if !sent.retransmitted {
            self.retransmitted += sent.packets;
        }
        (sent.retransmitted, sent.ambiguous, sent.sent_at) = (true, true, now);
        (sent.start, sent.end)
    }

    /// Checks the counters against the spans.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let sum = |applies: fn(&Sent) -> bool| self.sent.iter().filter(|sent| applies(sent)).map(|sent| sent.packets).sum::<u32>();
        assert_eq!(self.packets, sum(|_| true));
        assert_eq!(self.sacked, sum(|sent| sent.sacked));
        assert_eq!(self.lost, sum(|sent| sent.lost));
        assert_eq!(self.retransmitted, sum(|sent| sent.retransmitted));
        assert!(self.sent.iter().zip(self.sent.iter().skip(1)).all(|(a, b)| a.end == b.start && a.start < a.end));
        assert!(self.sent.iter().all(|sent| !(sent.sacked && (sent.lost || sent.retransmitted))));
    }
}

impl Delivery {
    fn note(&mut self, sent: &Sent, highest_sacked_before: u64) {
        self.packets += sent.packets;
        self.is_reordered |= !sent.ambiguous && sent.end < highest_sacked_before;
        let latest = (sent.sent_at, sent.end);
        if self.latest.is_none_or(|(at, end, _)| (at, end) < latest) {
            self.latest = Some((sent.sent_at, sent.end, sent.ambiguous));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn board() -> Scoreboard {
        let mut board = Scoreboard::default();
        board.set_packet_bytes(100);
        (0..3).for_each(|number| board.push(number * 1_000, (number + 1) * 1_000, SimTime::from_picos(number)));
        board
    }

    #[test]
    fn a_block_within_a_super_segment_splits_it() {
        let mut board = board();
        let mut delivery = Delivery::default();
        board.sack((1_200, 2_100), 0, &mut delivery);
        board.check();
        assert_eq!((delivery.packets, board.sacked(), board.in_flight()), (9, 9, 21));
        let again = &mut Delivery::default();
        board.sack((1_200, 2_100), 2_100, again);
        assert_eq!(again.packets, 0);
        assert_eq!(board.mark_lost(|_, above| above >= 3), 12);
        assert_eq!(board.retransmit_lost(300, SimTime::from_picos(9)), Some((0, 300)));
        board.check();
        assert_eq!((board.lost(), board.in_flight()), (12, 12));
        let ack = &mut Delivery::default();
        board.acknowledge(2_050, ack);
        board.check();
        assert!(ack.is_new && ack.has_retransmitted && ack.is_reordered);
        assert_eq!(board.first().map(|sent| sent.start), Some(2_050));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u64),
        Acknowledge(u64),
        Sack(u64, u64),
        Lose(u32),
        Repeat(u64),
        RepeatLast(u64),
        LoseAll(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..5_000_u64).prop_map(Step::Send),
            (0..3_000_u64).prop_map(Step::Acknowledge),
            (0..9_000_u64, 1..4_000_u64).prop_map(|(from, len)| Step::Sack(from, from + len)),
            (0..5_u32).prop_map(Step::Lose),
            (1..4_000_u64).prop_map(Step::Repeat),
            (1..4_000_u64).prop_map(Step::RepeatLast),
            any::<bool>().prop_map(Step::LoseAll),
        ]
    }

    proptest! {
        #[test]
        fn counters_follow_the_spans_and_nothing_that_arrived_is_repeated(steps in proptest::collection::vec(step(), 0..80)) {
            let mut board = Scoreboard::default();
            board.set_packet_bytes(100);
            let (mut una, mut next, mut arrived) = (0, 0, std::collections::BTreeSet::new());
            for (time, step) in steps.into_iter().enumerate() {
                let now = SimTime::from_picos(time as u64);
                let delivery = &mut Delivery::default();
                match step {
                    Step::Send(len) => {
                        board.push(next, next + len, now);
                        next += len;
                    }
                    Step::Acknowledge(len) => {
                        una = (una + len).min(next);
                        board.acknowledge(una, delivery);
                    }
                    Step::Sack(from, to) => {
                        let (from, to) = (una + from, una + to);
                        let before = board.highest_sacked();
                        board.sack((from, to), before, delivery);
                        if to <= next {
                            arrived.extend(from..to);
                        }
                    }
                    Step::Lose(least) => {
                        board.mark_lost(|_, above| above >= least);
                    }
                    Step::Repeat(bytes) => {
                        if let Some((from, to)) = board.retransmit_lost(bytes, now) {
                            prop_assert!(from >= una && to <= next && to - from <= bytes && arrived.range(from..to).next().is_none());
                        }
                    }
                    Step::RepeatLast(bytes) => {
                        if let Some((from, to)) = board.retransmit_last(bytes, now) {
                            prop_assert!(from >= una && to <= next && to - from <= bytes && arrived.range(from..to).next().is_none());
                        }
                    }
                    Step::LoseAll(keep) => {
                        board.mark_all_lost(keep);
                        if !keep {
                            arrived.clear();
                        }
                    }
                }
                board.check();
            }
        }
    }

    #[test]
    fn blocks_outside_the_flight_are_ignored() {
        let mut board = board();
        for block in [(5, 5), (7, 3), (2_900, 3_001), (4_000, 5_000), (0, u64::MAX)] {
            board.sack(block, 0, &mut Delivery::default());
        }
        board.check();
        assert_eq!(board.sacked(), 0);
    }
}
