//! Arriving segments (RFC 9293, 3.10.7).

use super::congestion::initial_window;
use super::recovery::{Acked, Flow};
use super::scoreboard::Delivery;
use super::{Connection, Context, State, clock};
use crate::error::NetError;
use crate::events::Events;
use crate::packet::{Segment, Timestamps};
use crate::sequence::{SeqNumber, first_offset};
use softband_sim::SimDuration;

impl Connection {
    /// Processes a segment of the peer.
    pub(crate) fn segment_in(&mut self, segment: &Segment, cx: &mut Context<'_>) {
        match self.state {
            State::Closed | State::TimeWait => return,
            State::SynSent => self.answer_to_syn(segment, cx),
            _ => self.synchronized(segment, cx),
        }
        if self.state != State::Closed {
            self.output(cx);
        }
    }

    /// Processes a segment in SYN-SENT (RFC 9293, 3.10.7.3).
    fn answer_to_syn(&mut self, segment: &Segment, cx: &mut Context<'_>) {
        let is_acked = segment.flags.ack && segment.ack == SeqNumber::of(self.tx.next);
        if segment.flags.ack && !is_acked {
            if !segment.flags.rst {
                cx.out.push(reset_for(segment));
            }
            return;
        }
        if segment.flags.rst {
            if is_acked {
                self.fail(NetError::Refused, cx);
            }
            return;
        }
        if !segment.flags.syn {
            return;
        }
        self.negotiate(&segment.options, first_offset(segment.seq.0), cx);
        let start = self.rx.window.next() - 1;
        self.set_send_window(u32::from(segment.window), (start, self.tx.first + 1));
        if !is_acked {
            // Both sides sent SYN at once (RFC 9293, 3.5, figure 7).
            self.state = State::SynReceived;
            self.send_syn(cx);
            self.set_syn_timer(cx);
            return;
        }
        self.tx.una = self.tx.next;
        if self.attempts == 0 {
            self.rtt.sample(cx.now.saturating_since(self.syn_at));
        }
        self.establish(cx);
        self.rx.ack.enter_quick(cx.kernel, self.rx.window.left(), self.rx.window.segment_bytes());
        self.send_ack(cx);
    }

    fn synchronized(&mut self, segment: &Segment, cx: &mut Context<'_>) {
        let start = segment.seq.offset_near(self.rx.window.next());
        let end = start + u64::from(segment.payload.len()) + u64::from(segment.flags.syn) + u64::from(segment.flags.fin);
        if !self.is_acceptable(segment, (start, end), cx) {
            return;
        }
        if segment.flags.rst {
            // RFC 5961, 3.2: any other number only earns a challenge.
            if start == self.rx.window.next() {
                self.reset(cx);
            } else {
                self.send_ack(cx);
            }
            return;
        }
        if segment.flags.syn {
            if self.state == State::SynReceived && start + 1 == self.rx.window.next() && segment.flags.ack {
                self.acknowledge(segment, start + 1, cx);
            }
            // RFC 5961, 4.2.
            self.send_ack(cx);
            return;
        }
        if !segment.flags.ack {
            return;
        }
        self.rx.last_heard_at = cx.now;
        self.note_alive(cx);
        if let Some(Timestamps { value, .. }) = segment.options.timestamps.filter(|_| self.has_timestamps) {
            // RFC 7323, 4.3: only a segment at the last acknowledged number counts.
            if start <= self.rx.window.acked() && !SeqNumber(value).is_before(SeqNumber(self.rx.recent)) {
                self.rx.recent = value;
            }
        }
        if !self.acknowledge(segment, start, cx) {
            return;
        }
        if segment.flags.urg {
            self.note_urgent(segment, start, cx);
        }
        self.take_data(segment, start, cx);
    }

    /// Checks timestamp and numbers (RFC 7323, 5.3; RFC 9293, 3.10.7.4). A segment that fails earns
    /// an acknowledgement.
    fn is_acceptable(&mut self, segment: &Segment, (start, end): (u64, u64), cx: &mut Context<'_>) -> bool {
        let window = &self.rx.window;
        let is_old_clock = segment
            .options
            .timestamps
            .is_some_and(|timestamps| self.has_timestamps && !segment.flags.rst && SeqNumber(timestamps.value).is_before(SeqNumber(self.rx.recent)));
        let is_within = end >= window.acked() && start <= window.end();
        if is_within && !is_old_clock {
            return true;
        }
        if !segment.flags.rst {
            if start < window.next() && end > start {
                self.note_twice(start, end.min(window.next()), cx);
            }
            self.send_ack(cx);
        }
        false
    }

    fn note_twice(&mut self, start: u64, end: u64, cx: &Context<'_>) {
        self.rx.ack.enter_quick(cx.kernel, self.rx.window.left(), self.rx.window.segment_bytes());
        if self.has_sack {
            self.rx.twice = Some((start, end));
        }
    }

    fn reset(&mut self, cx: &mut Context<'_>) {
        let error = match self.state {
            State::SynReceived => NetError::Refused,
            // Linux: a program that writes after the peer's FIN hears EPIPE.
            State::CloseWait => NetError::Broken,
            _ => NetError::Reset,
        };
        self.fail(error, cx);
    }

    pub(super) fn set_send_window(&mut self, window: u32, at: (u64, u64)) {
        self.tx.window = window;
        self.tx.window_max = self.tx.window_max.max(window);
        self.tx.window_at = at;
    }

    /// Processes the acknowledgement of a segment. Returns whether the rest of it counts.
    fn acknowledge(&mut self, segment: &Segment, start: u64, cx: &mut Context<'_>) -> bool {
        let ack = segment.ack.offset_near(self.tx.una);
        if ack > self.tx.next {
            self.send_ack(cx);
            return false;
        }
        self.soft_error = None;
        let scale = if segment.flags.syn { 0 } else { self.tx.scale };
        let window = u32::from(segment.window) << scale;
        if self.state == State::SynReceived {
            if ack != self.tx.next {
                cx.out.push(reset_for(segment));
                return false;
            }
            self.tx.una = ack;
            self.set_send_window(window, (start, ack));
            self.establish(cx);
            return true;
        }
        let is_duplicate =
            ack == self.tx.una && segment.payload.is_empty() && window == self.tx.window && !segment.flags.fin && !self.board.is_empty();
        // RFC 9293, 3.10.7.4: an old segment does not change the window.
        let (wl_seq, wl_ack) = self.tx.window_at;
        if ack > self.tx.una || start > wl_seq || ack >= wl_ack && start == wl_seq && window > self.tx.window {
            self.set_send_window(window, (start, ack.max(wl_ack)));
        }
        if self.board.is_empty() {
            self.note_open_window();
        }
        let acked = self.update_board(segment, ack, is_duplicate, cx);
        self.recover(&acked, cx);
        self.after_progress(acked.is_advance, cx);
        true
    }

    /// Applies the cumulative number and the blocks to the scoreboard.
    fn update_board(&mut self, segment: &Segment, ack: u64, is_duplicate: bool, cx: &Context<'_>) -> Acked {
        let is_advance = ack > self.tx.una;
        let mut delivery = Delivery::default();
        let highest = self.board.highest_sacked();
        if is_advance {
            self.tx.una = ack;
            self.board.acknowledge(ack, &mut delivery);
            self.tx.queue.discard_to(ack);
        }
        let (mut twice, mut twice_end) = (0, 0);
        for (index, (begin, end)) in segment.options.sack.as_slice().iter().enumerate() {
            let block = (begin.offset_near(self.tx.una), end.offset_near(self.tx.una));
            let second = segment.options.sack.as_slice().get(1).map(|(begin, end)| (begin.offset_near(self.tx.una), end.offset_near(self.tx.una)));
            // RFC 2883, 4: the first block lies below the cumulative number or within the second.
            let is_twice = index == 0 && (block.1 <= ack || second.is_some_and(|(begin, end)| begin <= block.0 && block.1 <= end));
            if is_twice && block.0 < block.1 {
                twice_end = block.1;
                twice += ((block.1 - block.0).div_ceil(u64::from(self.tx.mss)) as u32).max(1);
            } else if self.has_sack {
                self.board.sack(block, highest, &mut delivery);
            }
        }
        let echo = segment.options.timestamps.filter(|_| self.has_timestamps).map(|timestamps| timestamps.echo);
        let sample = match (delivery.first_sent_at, echo) {
            (Some(at), _) => Some(cx.now.saturating_since(at)),
            // RFC 7323, 4.1: the echo tells which of several transmissions arrived.
            (None, Some(echo)) if is_advance && delivery.packets > 0 => age(cx, echo),
            _ => None,
        };
        if let Some(sample) = sample {
            self.rtt.sample(sample);
        }
        Acked { delivery, is_advance, is_duplicate: is_duplicate && !delivery.is_new, twice, twice_end, echo, has_sack: self.has_sack }
    }

    fn recover(&mut self, acked: &Acked, cx: &Context<'_>) {
        let (una, next) = (self.tx.una, self.tx.next);
        let mut flow = Flow { board: &mut self.board, congestion: &mut self.congestion, rtt: &self.rtt, kernel: cx.kernel, now: cx.now, una, next };
        let wait = self.recovery.acknowledged(&mut flow, acked);
        if acked.is_advance || wait.is_some() || acked.delivery.is_new && self.has_arrival_timer() {
            self.set_data_timer(wait, cx);
        }
    }

    /// Grows the send buffer, wakes the program, and moves on if the peer has this side's FIN.
    fn after_progress(&mut self, is_advance: bool, cx: &mut Context<'_>) {
        if !is_advance {
            return;
        }
        self.attempts = 0;
        self.grow_send_buffer(cx);
        self.wake_writer(cx);
        if self.tx.has_fin && self.tx.una == self.tx.queue.end() + 1 {
            match self.state {
                State::FinWait1 => {
                    self.state = State::FinWait2;
                    if self.is_orphan {
                        self.expiry = Some(cx.now + cx.kernel.fin_timeout);
                    }
                    self.end_linger(cx);
                }
                State::Closing => self.wait(cx),
                State::LastAck => self.close_now(cx),
                _ => {}
            }
        }
    }

    /// Makes room for two windows, so that the next is there when this one is acknowledged (as Linux's
    /// `tcp_sndbuf_expand`).
    pub(super) fn grow_send_buffer(&mut self, cx: &Context<'_>) {
        if !self.tx.is_locked {
            let wanted = u64::from(self.congestion.window().max(initial_window(cx.kernel, self.tx.mss))) * 2 * u64::from(self.tx.mss);
            self.tx.buffer = self.tx.buffer.max(wanted.min(u64::from(cx.kernel.send_buffer.max_bytes)) as u32);
        }
    }

    /// Enters TIME_WAIT, which the stack takes over.
    fn wait(&mut self, cx: &mut Context<'_>) {
        self.state = State::TimeWait;
        (self.timer, self.expiry, self.keepalive_at) = (None, None, None);
        cx.events |= Events::HANG_UP | Events::READABLE | Events::WRITABLE;
        self.end_linger(cx);
    }

    fn take_data(&mut self, segment: &Segment, start: u64, cx: &mut Context<'_>) {
        let end = start + u64::from(segment.payload.len());
        let may_receive = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) && !self.rx.has_fin;
        if end > start && may_receive {
            if self.is_orphan && end > self.rx.window.next() {
                // Linux: nobody can read the data of a closed socket any more.
                self.send_reset(cx);
                self.close_now(cx);
                return;
            }
            self.take_bytes(segment, (start, end), cx);
        } else if end > start {
            self.note_twice(start, end.min(self.rx.window.next()).max(start), cx);
            self.send_ack(cx);
        }
        if segment.flags.fin && may_receive && end <= self.rx.window.end() {
            self.rx.fin.get_or_insert(end);
        } else if segment.flags.fin && self.rx.has_fin {
            self.send_ack(cx);
        }
        if self.rx.fin.is_some_and(|fin| fin == self.rx.window.next()) && !self.rx.has_fin {
            self.take_fin(cx);
        }
    }

    fn take_bytes(&mut self, segment: &Segment, (start, end): (u64, u64), cx: &mut Context<'_>) {
        let next = self.rx.window.next();
        let limit = self.rx.window.end().min(self.rx.fin.unwrap_or(u64::MAX));
        let packet = if segment.packet_payload_bytes == 0 { segment.payload.len() } else { segment.packet_payload_bytes };
        let (from, to) = (start.max(next), end.min(limit));
        if start < next {
            self.note_twice(start, end.min(next), cx);
        }
        if from >= to {
            // All of it is old or beyond the window (RFC 9293, 3.10.7.4).
            self.send_ack(cx);
            return;
        }
        if !cx.has_memory && !self.finds_room(from, to - from) {
            return;
        }
        let payload = segment.payload.part((from - start) as u32, (to - from) as u32);
        if from > next {
            if let Some(twice) = self.rx.early.insert(from, &payload) {
                self.note_twice(twice.0, twice.1, cx);
            }
            self.rx.ack.enter_quick(cx.kernel, self.rx.window.left(), self.rx.window.segment_bytes());
            self.send_ack(cx);
            return;
        }
        let had_gap = !self.rx.early.is_empty();
        self.rx.queue.push(&payload);
        let more = if had_gap { self.rx.early.take(to) } else { Default::default() };
        self.rx.queue.push(&more);
        self.rx.window.advance(u64::from(payload.len()) + u64::from(more.len()));
        self.keep_urgent(cx);
        let echo_age = segment.options.timestamps.filter(|_| self.has_timestamps && packet >= self.rx.window.segment_bytes());
        let echo_age = echo_age.and_then(|timestamps| age(cx, timestamps.echo));
        let queued = self.queued();
        self.rx.ack.note_size(packet < self.rx.window.segment_bytes());
        self.rx.window.data_arrived(cx.now, packet, queued, echo_age);
        let (left, bytes) = (self.rx.window.left(), self.rx.window.segment_bytes());
        self.rx.ack.data_arrived(cx.now, cx.kernel, self.rtt.rto(cx.kernel), left, bytes);
        cx.events |= Events::READABLE;
        // RFC 5681, 4.2: a segment that fills a gap, or leaves some, is acknowledged at once.
        if had_gap || self.rx.twice.is_some() {
            self.send_ack(cx);
        }
    }

    /// Gives up early data on a host without memory, as Linux's `tcp_prune_ofo_queue`. Returns whether
    /// `bytes` from stream offset `from` may enter; the peer sends the others again.
    fn finds_room(&mut self, from: u64, bytes: u64) -> bool {
        // RFC 2018, 8: a receiver may take reported data back.
        let freed = std::mem::take(&mut self.rx.early).bytes();
        // Data for a program that has none must enter: nothing else would move the connection.
        from == self.rx.window.next() && (self.rx.queue.is_empty() || freed >= bytes)
    }

    fn take_fin(&mut self, cx: &mut Context<'_>) {
        self.rx.has_fin = true;
        self.rx.window.advance(1);
        cx.events |= Events::READABLE | Events::READ_CLOSED;
        match self.state {
            State::Established | State::SynReceived => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait(cx),
            _ => {}
        }
        self.send_ack(cx);
    }
}

/// Returns the time since the echoed clock, at least a tick of it.
fn age(cx: &Context<'_>, echo: u32) -> Option<SimDuration> {
    let ticks = clock(cx.now).wrapping_sub(echo);
    (echo != 0 && ticks < 1 << 31).then(|| SimDuration::from_micros(1_000 * u64::from(ticks.max(1))))
}

/// Returns the reset that answers a segment without a connection (RFC 9293, 3.10.7.1).
pub(crate) fn reset_for(segment: &Segment) -> Segment {
    let mut reset = Segment { source_port: segment.destination_port, destination_port: segment.source_port, ..Segment::default() };
    reset.flags.rst = true;
    if segment.flags.ack {
        reset.seq = segment.ack;
    } else {
        reset.flags.ack = true;
        reset.ack = segment.end();
    }
    reset
}
