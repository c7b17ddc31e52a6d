//! Departing segments: data, retransmissions, acknowledgements.

use super::congestion::initial_window;
use super::recovery::Phase;
use super::{Connection, Context, State, clock};
use crate::events::Events;
use crate::packet::{Flags, Options, SACK_BLOCKS_MAX, SackBlocks, Segment, sack_bytes};
use crate::payload::Payload;
use crate::sequence::SeqNumber;
use softband_sim::{SimDuration, SimTime};

/// Time after the last segment from which the next waits for nothing.
const DEFER_MAX: SimDuration = SimDuration::from_micros(1_000);

impl Connection {
    /// Sends all that windows and rules allow, and the acknowledgement that is due.
    pub(super) fn output(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::SynSent | State::SynReceived | State::Closed) {
            return;
        }
        self.restart_if_idle(cx);
        self.retransmit_lost(cx);
        while self.send_next(cx, false) {}
        self.set_probe_timer(cx);
        self.acknowledge_data(cx);
    }

    /// Returns the payload of a full packet beside the blocks that are due (RFC 6691). A peer with a
    /// small window gets smaller packets (RFC 9293, 3.8.6.2.1).
    pub(super) fn packet_bytes(&self) -> u32 {
        let mss = self.tx.mss.saturating_sub(sack_bytes(self.due_blocks())).max(1);
        match self.tx.window_max / 2 {
            0 => mss,
            half => mss.min(half.max(mss.min(536))),
        }
    }

    fn restart_if_idle(&mut self, cx: &Context<'_>) {
        let Some(last) = self.tx.last_sent_at.filter(|_| self.board.is_empty()) else { return };
        let (idle, rto) = (cx.now.saturating_since(last), self.rtt.rto(cx.kernel));
        if idle > rto && self.tx.next < self.tx.queue.end() {
            self.congestion.restart_after_idle(idle, rto, initial_window(cx.kernel, self.tx.mss));
            self.tx.last_sent_at = Some(cx.now);
        }
    }

    fn retransmit_lost(&mut self, cx: &mut Context<'_>) {
        while self.board.lost() > 0 {
            let quota = self.congestion.window().saturating_sub(self.board.in_flight());
            let bytes = (u64::from(quota) * u64::from(self.tx.mss)).min(self.super_segment(cx));
            if quota == 0 || !self.has_room(cx) {
                break;
            }
            let Some((start, end)) = self.board.retransmit_lost(bytes, cx.now) else { break };
            self.retransmit(start, end, cx);
        }
    }

    /// Sends a span of the scoreboard again.
    pub(super) fn retransmit(&mut self, start: u64, end: u64, cx: &mut Context<'_>) {
        let packets = self.emit(start, end, cx);
        self.retransmissions += u64::from(packets);
        self.recovery.note_sent(packets);
        self.recovery.note_retransmission(packets, clock(cx.now));
    }

    /// Returns the payload of the largest super-segment: whole packets.
    fn super_segment(&self, cx: &Context<'_>) -> u64 {
        self.super_segment_of(u64::from(self.tx.mss), cx)
    }

    /// Returns the payload of the largest super-segment of packets with so many bytes.
    fn super_segment_of(&self, bytes: u64, cx: &Context<'_>) -> u64 {
        // Blocks or a small window can make packets smaller than these.
        let most = u64::from(cx.path.super_segment_packets) * u64::from(self.packet_bytes()) / bytes;
        (u64::from(cx.path.super_segment) / bytes).min(most).max(1) * bytes
    }

    fn has_room_below(&self, cx: &Context<'_>) -> bool {
        let Some(most) = cx.kernel.small_queue_bytes else { return true };
        let by_rate = cx.kernel.small_queue_time.zip(self.rtt.smoothed()).map(|(time, smoothed)| {
            // Linux, `tcp_update_pacing_rate`: twice the window a round trip in slow start, 1.2 times beyond.
            let percent = if self.congestion.window() < self.congestion.threshold() / 2 { 200 } else { 120 };
            let flight = u128::from(self.congestion.window()) * u128::from(self.tx.mss) * percent / 100;
            let bytes = flight * u128::from(time.as_picos()) / u128::from(smoothed.as_picos().max(1));
            bytes.max(2 * u128::from(self.super_segment(cx)))
        });
        u128::from(self.tx.below) < by_rate.map_or(u128::from(most), |bytes| bytes.min(u128::from(most)))
    }

    /// Sends the next new segment, if windows and rules allow it. `force` ignores the congestion
    /// window and the rules about small segments. Returns whether a segment left.
    pub(super) fn send_next(&mut self, cx: &mut Context<'_>, force: bool) -> bool {
        let (next, data_end) = (self.tx.next, self.tx.queue.end());
        let end = data_end + u64::from(self.tx.has_fin);
        if next >= end || !self.may_send() {
            return false;
        }
        self.fit_to_path(cx);
        let in_flight = self.board.in_flight();
        let is_only_fin = next == data_end;
        let quota = match self.congestion.window().saturating_sub(in_flight) {
            0 if force || is_only_fin => 1,
            quota => u64::from(quota),
        };
        let window = (self.tx.una + u64::from(self.tx.window)).saturating_sub(next);
        let bytes = match self.next_bytes(quota, window, force, cx) {
            Ok(bytes) => bytes,
            Err(stop) => {
                let usage = (self.tx.una, self.tx.next);
                self.congestion.note_use(self.board.packets(), stop == Stop::Congestion, usage);
                if stop == Stop::Full {
                    self.slow_down();
                }
                return false;
            }
        };
        // FIN rides on the last data, or goes alone.
        let stop = if next + bytes == data_end { end } else { next + bytes };
        if bytes > 0 && bytes < u64::from(self.packet_bytes()) {
            self.tx.small_end = stop;
        }
        let was_empty = self.board.is_empty();
        let packets = self.emit(next, stop, cx);
        self.board.push(next, stop, cx.now);
        self.tx.next = stop;
        self.tx.last_sent_at = Some(cx.now);
        self.recovery.note_sent(packets);
        self.rx.ack.data_sent(cx.now);
        self.congestion.note_use(self.board.packets(), false, (self.tx.una, self.tx.next));
        if was_empty || !self.recovery.has_probe() {
            self.note_data_sent(was_empty, cx);
        }
        true
    }

    fn may_send(&self) -> bool {
        matches!(self.state, State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck)
    }

    /// Returns the bytes of the next segment, or the reason why none may leave.
    fn next_bytes(&self, quota: u64, window: u64, force: bool, cx: &Context<'_>) -> Result<u64, Stop> {
        let mss = u64::from(self.packet_bytes());
        let available = self.tx.queue.end() - self.tx.next;
        if quota == 0 {
            return Err(Stop::Congestion);
        }
        if cx.out.len() >= cx.path.room as usize {
            return Err(Stop::Full);
        }
        if !force && !self.has_room_below(cx) {
            return Err(Stop::Below);
        }
        if window == 0 || window < mss.min(available) && !force {
            return Err(Stop::Window);
        }
        let limit = (quota * mss).min(window);
        let mut bytes = available.min(limit).min(self.super_segment_of(mss, cx));
        if bytes > mss {
            bytes -= bytes % mss;
        }
        let is_small = bytes < mss && bytes > 0;
        if is_small && !force && !self.tx.has_fin && self.holds_small() {
            return Err(Stop::Small);
        }
        let is_deferred = !force && bytes >= mss && self.defers(limit, available, cx);
        if is_deferred { Err(if limit < window { Stop::Congestion } else { Stop::Window }) } else { Ok(bytes) }
    }

    /// Returns whether a segment below the MSS waits: for the program (`TCP_CORK`), or for the
    /// acknowledgement of the last one (Nagle, RFC 9293, 3.7.4, with Minshall's change).
    fn holds_small(&self) -> bool {
        let has_urgent = self.tx.urgent_end.is_some_and(|end| end > self.tx.next);
        self.options.cork || self.tx.has_more || !self.options.no_delay && !has_urgent && !self.board.is_empty() && self.tx.small_end > self.tx.una
    }

    /// Returns whether a larger super-segment will be possible soon, as Linux's `tcp_tso_should_defer`.
    fn defers(&self, limit: u64, available: u64, cx: &Context<'_>) -> bool {
        let Some(first) = self.board.first() else { return false };
        let is_recent = |at: SimTime, span: SimDuration| cx.now.saturating_since(at) <= span;
        if self.recovery.phase() != Phase::Open || !self.tx.last_sent_at.is_some_and(|at| is_recent(at, DEFER_MAX)) {
            return false;
        }
        if self.tx.has_fin || limit >= available.min(self.super_segment(cx)) {
            return false;
        }
        let window = u64::from(self.tx.window).min(u64::from(self.congestion.window()) * u64::from(self.tx.mss));
        let is_enough = match cx.kernel.super_segment_divisor {
            0 => true,
            divisor => limit >= window / u64::from(divisor),
        };
        // The next acknowledgement would come too late if the oldest packet has just left.
        let half = self.rtt.smoothed().map_or(SimDuration::ZERO, |smoothed| SimDuration::from_picos(smoothed.as_picos() / 2));
        !is_enough && cx.now.saturating_since(first.sent_at) >= half
    }

    /// Emits the span of the stream from `start` to `end`. Returns its packets.
    fn emit(&mut self, start: u64, end: u64, cx: &mut Context<'_>) -> u32 {
        let data_end = end.min(self.tx.queue.end());
        let payload = if data_end > start { self.tx.queue.get(start, (data_end - start) as u32) } else { Payload::empty() };
        let mss = self.packet_bytes();
        let mut segment = self.segment(start, cx);
        segment.flags.fin = end > self.tx.queue.end();
        segment.flags.psh = data_end == self.tx.queue.end() && !payload.is_empty();
        if let Some(urgent) = self.tx.urgent_end.filter(|urgent| *urgent > start && *urgent - start <= u64::from(u16::MAX)) {
            segment.flags.urg = true;
            segment.urgent = (urgent - start) as u16;
        }
        segment.packet_payload_bytes = if payload.len() > mss { mss } else { 0 };
        // On a path with tiny packets, blocks make room for the data.
        while segment.options.wire_bytes() + payload.len().min(mss) > cx.path.mss && segment.options.sack.pop().is_some() {}
        self.tx.below = self.tx.below.saturating_add(payload.len());
        segment.payload = payload;
        let packets = segment.packets();
        cx.out.push(segment);
        packets
    }

    /// Returns an empty segment that acknowledges all data.
    fn segment(&mut self, start: u64, cx: &Context<'_>) -> Segment {
        let unacknowledged = (self.rx.window.next() - self.rx.window.acked()).div_ceil(u64::from(self.rx.window.segment_bytes().max(1)));
        self.rx.ack.acknowledged(u32::try_from(unacknowledged).unwrap_or(u32::MAX).max(1));
        let queued = self.queued();
        if self.rx.window.is_crowded(queued) {
            self.rx.ack.leave_quick();
        }
        let timestamps = self.has_timestamps.then(|| self.timestamps(cx));
        let options = Options { timestamps, sack: self.blocks(), ..Options::default() };
        Segment {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: SeqNumber::of(start),
            ack: SeqNumber::of(self.rx.window.next()),
            flags: Flags { ack: true, ..Flags::default() },
            window: self.rx.window.offer(queued),
            options,
            ..Segment::default()
        }
    }

    /// Returns the blocks of the next acknowledgement: data that came twice, then early data.
    fn blocks(&mut self) -> SackBlocks {
        let twice = self.rx.twice.take();
        if !self.has_sack || twice.is_none() && self.rx.early.is_empty() {
            return SackBlocks::default();
        }
        let most = self.most_blocks();
        let early = self.rx.early.blocks(most);
        let Some((begin, end)) = twice else { return early };
        let mut blocks = SackBlocks::default();
        blocks.push(SeqNumber::of(begin), SeqNumber::of(end));
        early.as_slice().iter().take(most - 1).for_each(|(begin, end)| blocks.push(*begin, *end));
        blocks
    }

    /// Returns the most blocks of a segment.
    fn most_blocks(&self) -> usize {
        // Timestamps take the place of one block (RFC 2018, section 3).
        SACK_BLOCKS_MAX - usize::from(self.has_timestamps)
    }

    /// Returns the number of blocks in the next segment.
    fn due_blocks(&self) -> usize {
        let blocks = self.rx.early.ranges() + usize::from(self.rx.twice.is_some());
        if self.has_sack { blocks.min(self.most_blocks()) } else { 0 }
    }

    /// Sends an acknowledgement alone.
    pub(super) fn send_ack(&mut self, cx: &mut Context<'_>) {
        let segment = self.segment(self.tx.next, cx);
        cx.out.push(segment);
    }

    /// Sends an old number, which the peer must answer with its window and expected number.
    pub(super) fn send_probe(&mut self, cx: &mut Context<'_>) {
        let segment = self.segment(self.tx.una.wrapping_sub(1), cx);
        cx.out.push(segment);
    }

    pub(super) fn send_reset(&mut self, cx: &mut Context<'_>) {
        let mut segment = self.segment(self.tx.next, cx);
        segment.flags.rst = true;
        cx.out.push(segment);
    }

    /// Sends SYN, or SYN-ACK if the peer's SYN arrived.
    pub(super) fn send_syn(&mut self, cx: &mut Context<'_>) {
        let is_answer = self.state == State::SynReceived;
        let mss = cx.path.mss.min(self.options.mss_max).min(u32::from(u16::MAX)) as u16;
        let has_scale = if is_answer { self.rx.window.scale() > 0 } else { cx.kernel.window_scaling };
        let options = Options {
            mss: Some(mss),
            window_scale: has_scale.then(|| self.rx.window.scale()),
            sack_permitted: self.has_sack,
            timestamps: self.has_timestamps.then(|| self.timestamps(cx)),
            sack: SackBlocks::default(),
        };
        cx.out.push(Segment {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: SeqNumber::of(self.tx.first),
            ack: if is_answer { SeqNumber::of(self.rx.window.next()) } else { SeqNumber(0) },
            flags: Flags { syn: true, ack: is_answer, ..Flags::default() },
            window: self.rx.window.first_field(),
            options,
            ..Segment::default()
        });
    }

    /// Sends the acknowledgement of arrived data at once, or delays it.
    fn acknowledge_data(&mut self, cx: &mut Context<'_>) {
        if !self.rx.ack.is_scheduled() {
            return;
        }
        let pending = self.rx.window.next() - self.rx.window.acked();
        // RFC 5681, 4.2: at least every second full segment, if the window moves with it.
        let is_due = pending > u64::from(self.rx.window.segment_bytes()) && self.rx.window.candidate(self.queued()) >= self.rx.window.offered();
        if is_due || self.rx.ack.is_quick() {
            self.send_ack(cx);
        } else {
            self.rx.ack.delay(cx.now, cx.kernel, self.rtt.smoothed());
        }
    }

    /// Notes that `bytes` left the queues of the interface.
    pub(crate) fn bytes_left_host(&mut self, bytes: u32, cx: &mut Context<'_>) {
        self.tx.below = self.tx.below.saturating_sub(bytes);
        if self.tx.next < self.tx.queue.end() {
            self.output(cx);
        }
    }

    /// Returns whether the queue of the interface takes another segment. A full one is congestion, as
    /// Linux's `tcp_enter_cwr` has it.
    fn has_room(&mut self, cx: &Context<'_>) -> bool {
        let has_room = cx.out.len() < cx.path.room as usize;
        if !has_room {
            self.slow_down();
        }
        has_room
    }

    /// Reduces the window at most once a flight, unless recovery does so already.
    fn slow_down(&mut self) {
        if self.recovery.phase() == Phase::Open && self.tx.una >= self.tx.slowed_until {
            self.congestion.reduce();
            self.congestion.set_window(self.congestion.threshold());
            self.tx.slowed_until = self.tx.next;
        }
    }

    /// Notes that bytes left the queues of the interface, or were lost there.
    pub(crate) fn dropped_locally(&mut self, bytes: u32) {
        self.tx.below = self.tx.below.saturating_sub(bytes);
    }

    pub(super) fn is_writable(&self) -> bool {
        // Linux wakes a writer when a third of the buffer is free.
        !self.tx.is_starved && self.tx.queue.len() * 3 <= u64::from(self.tx.buffer) * 2
    }

    /// Returns the state of the socket as `poll` shows it.
    pub(crate) fn readiness(&self) -> Events {
        let is_done = matches!(self.state, State::Closed | State::TimeWait);
        let read_closed = self.rx.has_fin || self.rx.is_shut || self.state == State::Closed;
        let is_connected = !matches!(self.state, State::SynSent | State::SynReceived);
        let has_data = self.rx.queue.end() > self.rx.queue.start();
        let write_closed = self.tx.has_fin || is_done;
        Events::READABLE.when(has_data || read_closed)
            | Events::WRITABLE.when(is_connected && (self.is_writable() || write_closed))
            | Events::URGENT.when(self.has_urgent())
            | Events::ERROR.when(self.error.is_some())
            | Events::READ_CLOSED.when(read_closed)
            | Events::HANG_UP.when(is_done || read_closed && write_closed)
    }
}

/// Reason why no new data may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Congestion,
    Window,
    Small,
    Below,
    Full,
}
