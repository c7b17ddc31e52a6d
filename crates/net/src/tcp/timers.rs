//! Timers of a connection: retransmission, probes, delayed acknowledgements, keep-alive.

use super::recovery::{Flow, Phase};
use super::rtt::doubled;
use super::{Connection, Context, State};
use softband_sim::{SimDuration, SimTime};

/// Least time of a probe for the loss of the last packets beyond two round trips.
const PROBE_SLACK: SimDuration = SimDuration::from_micros(2_000);

/// Timer of the sending side; one runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    at: SimTime,
    kind: TimerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerKind {
    /// SYN or SYN-ACK has no answer.
    Syn,
    /// Data has no answer.
    Retransmission,
    /// The last packets may be lost (RFC 8985, section 7).
    TailLoss,
    /// A packet may be reordered (RFC 8985, 6.3).
    Reordering,
    /// The window is closed, or data waits for a full segment.
    Probe,
}

impl Connection {
    /// Returns the time of the next timer.
    pub(crate) fn deadline(&self) -> Option<SimTime> {
        let timer = self.timer.map(|timer| timer.at);
        [timer, self.rx.ack.deadline(), self.expiry, self.linger_until, self.keepalive_at].into_iter().flatten().min()
    }

    /// Runs all timers that are due.
    pub(crate) fn timer(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let is_due = |at: Option<SimTime>| at.is_some_and(|at| at <= now);
        if is_due(self.expiry) {
            // Linux drops a closed socket in FIN_WAIT2 without a word.
            self.close_now(cx);
            return;
        }
        if is_due(self.linger_until) {
            // The connection ends in the background.
            self.end_linger(cx);
        }
        if is_due(self.rx.ack.deadline()) {
            self.rx.ack.expired(cx.kernel, self.rtt.rto(cx.kernel));
            self.send_ack(cx);
        }
        if is_due(self.keepalive_at) {
            self.keep_alive(cx);
        }
        if let Some(timer) = self.timer.filter(|timer| timer.at <= cx.now) {
            self.timer = None;
            match timer.kind {
                TimerKind::Syn => self.syn_expired(cx),
                TimerKind::Retransmission => self.retransmission_expired(cx),
                TimerKind::TailLoss => self.probe_tail(cx),
                TimerKind::Reordering => self.reordering_expired(cx),
                TimerKind::Probe => self.probe_window(cx),
            }
        }
        if self.state != State::Closed {
            self.output(cx);
        }
    }

    /// Returns whether the running timer waits for news that an arrival may have brought.
    pub(super) fn has_arrival_timer(&self) -> bool {
        self.timer.is_none_or(|timer| matches!(timer.kind, TimerKind::TailLoss | TimerKind::Reordering))
    }

    pub(super) fn set_syn_timer(&mut self, cx: &Context<'_>) {
        let doublings = self.attempts.saturating_sub(cx.kernel.syn_linear_timeouts);
        let span = doubled(cx.kernel.rto_initial, doublings, cx.kernel.rto_max);
        self.timer = Some(Timer { at: cx.now + span, kind: TimerKind::Syn });
    }

    fn syn_expired(&mut self, cx: &mut Context<'_>) {
        if self.attempts >= cx.kernel.syn_retries + cx.kernel.syn_linear_timeouts || self.has_timed_out(cx) {
            self.time_out(cx);
            return;
        }
        self.attempts += 1;
        self.send_syn(cx);
        self.set_syn_timer(cx);
    }

    fn has_timed_out(&self, cx: &Context<'_>) -> bool {
        let limit = self.options.user_timeout;
        limit > SimDuration::ZERO && cx.now.saturating_since(self.rx.last_heard_at) >= limit
    }

    /// Returns whether data was sent in vain for as long as the kernel tries: the time of its
    /// retries at the least timeout (RFC 1122, 4.2.3.5).
    fn is_given_up(&self, cx: &Context<'_>) -> bool {
        let Some(since) = self.recovery.first_timeout_at() else { return false };
        // A closed socket gets fewer tries; Linux's default for them is 8.
        let retries = if self.is_orphan { cx.kernel.retries.min(8) } else { cx.kernel.retries };
        let waits = (1..=retries).map(|times| doubled(cx.kernel.rto_min, times, cx.kernel.rto_max).as_picos());
        let limit = waits.fold(0_u64, u64::saturating_add);
        cx.now.saturating_since(since).as_picos() >= limit || self.has_timed_out(cx)
    }

    pub(super) fn flow<'a>(&'a mut self, cx: &'a Context<'_>) -> (&'a mut super::Recovery, Flow<'a>) {
        let (una, next) = (self.tx.una, self.tx.next);
        let flow = Flow { board: &mut self.board, congestion: &mut self.congestion, rtt: &self.rtt, kernel: cx.kernel, now: cx.now, una, next };
        (&mut self.recovery, flow)
    }

    fn retransmission_expired(&mut self, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            return;
        }
        if self.is_given_up(cx) {
            self.time_out(cx);
            return;
        }
        let (recovery, mut flow) = self.flow(cx);
        recovery.timed_out(&mut flow);
        self.set_retransmission_timer(cx);
    }

    pub(super) fn set_retransmission_timer(&mut self, cx: &Context<'_>) {
        let span = self.rtt.backed_off(cx.kernel, self.recovery.backoff());
        self.timer = Some(Timer { at: cx.now + span, kind: TimerKind::Retransmission });
    }

    fn reordering_expired(&mut self, cx: &Context<'_>) {
        let (recovery, mut flow) = self.flow(cx);
        let wait = recovery.reordering_expired(&mut flow);
        self.set_data_timer(wait, cx);
    }

    /// Repeats the last packet, or sends a new one, so that the peer shows its gaps (RFC 8985, 7.3).
    fn probe_tail(&mut self, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            return;
        }
        let sent_new = self.send_next(cx, true);
        if !sent_new && let Some((start, end)) = self.board.retransmit_last(u64::from(self.tx.mss), cx.now) {
            self.retransmit(start, end, cx);
        }
        self.recovery.note_probe(self.tx.next, !sent_new);
        self.set_retransmission_timer(cx);
    }

    /// Sets the timer for data in flight. `wait` is the time until a reordered packet counts as
    /// lost.
    pub(super) fn set_data_timer(&mut self, wait: Option<SimDuration>, cx: &Context<'_>) {
        if self.board.is_empty() {
            self.timer = self.timer.filter(|timer| timer.kind == TimerKind::Syn);
            return;
        }
        if let Some(wait) = wait {
            self.timer = Some(Timer { at: cx.now + wait, kind: TimerKind::Reordering });
            return;
        }
        self.set_retransmission_timer(cx);
        let may_probe = cx.kernel.tail_loss_probe
            && self.has_sack
            && self.recovery.phase() == Phase::Open
            && self.recovery.backoff() == 0
            && !self.recovery.has_probe()
            && self.board.sacked() == 0;
        if let (true, Some(smoothed), Some(timer)) = (may_probe, self.rtt.smoothed(), &mut self.timer) {
            // RFC 8985, 7.2: a lone packet's acknowledgement may be delayed.
            let slack = if self.board.packets() == 1 { cx.kernel.rto_min } else { PROBE_SLACK };
            let at = cx.now + smoothed * 2 + slack;
            if at < timer.at {
                *timer = Timer { at, kind: TimerKind::TailLoss };
            }
        }
    }

    /// Sets the timer after new data left.
    pub(super) fn note_data_sent(&mut self, was_empty: bool, cx: &Context<'_>) {
        let keeps = self.timer.is_some_and(|timer| matches!(timer.kind, TimerKind::Retransmission | TimerKind::Reordering));
        // The probe moves with the last packet; the timeout counts from the first.
        let moves = self.recovery.phase() == Phase::Open && cx.kernel.tail_loss_probe && self.recovery.backoff() == 0;
        if was_empty || !keeps || moves && self.timer.is_some_and(|timer| timer.kind == TimerKind::TailLoss) {
            self.set_data_timer(None, cx);
        }
    }

    /// Sets the timer of data that waits with nothing in flight.
    pub(super) fn set_probe_timer(&mut self, cx: &Context<'_>) {
        let waits = self.board.is_empty() && self.tx.next < self.tx.queue.end() + u64::from(self.tx.has_fin) && self.tx.below == 0;
        if waits && self.timer.is_none() {
            let span = self.rtt.backed_off(cx.kernel, self.recovery.backoff());
            self.timer = Some(Timer { at: cx.now + span, kind: TimerKind::Probe });
        } else if !waits {
            self.timer = self.timer.filter(|timer| timer.kind != TimerKind::Probe);
            if self.board.is_empty() {
                self.recovery.reset_backoff();
            }
        }
    }

    /// Ends the probes, and their doubled times, if the window takes the next segment (as Linux's
    /// `tcp_ack_probe`). The data that leaves now begins with a timeout of its own.
    pub(super) fn note_open_window(&mut self) {
        let waiting = (self.tx.queue.end() - self.tx.next.min(self.tx.queue.end())).min(u64::from(self.packet_bytes()));
        if self.tx.next + waiting <= self.tx.una + u64::from(self.tx.window) {
            self.timer = self.timer.filter(|timer| timer.kind != TimerKind::Probe);
            self.recovery.reset_backoff();
        }
    }

    /// Probes a closed window, or sends a small segment that waited long enough.
    fn probe_window(&mut self, cx: &mut Context<'_>) {
        if self.is_given_up(cx) && (self.is_orphan || self.has_timed_out(cx)) {
            self.time_out(cx);
            return;
        }
        // RFC 9293, 3.8.6.1: a peer that answers keeps the connection for ever.
        if !self.send_next(cx, true) {
            self.send_probe(cx);
            self.recovery.note_timeout(cx.now);
        }
    }

    /// Notes a sign of life of the peer.
    pub(super) fn note_alive(&mut self, cx: &Context<'_>) {
        if self.options.keep_alive {
            self.attempts = 0;
            self.keepalive_at = Some(cx.now.saturating_add(self.options.keepalive_idle));
        }
    }

    /// Switches keep-alive on or off.
    pub(super) fn set_keep_alive(&mut self, cx: &Context<'_>) {
        let is_synchronized = !matches!(self.state, State::SynSent | State::SynReceived | State::Closed | State::TimeWait);
        let at = cx.now.saturating_add(self.options.keepalive_idle);
        self.keepalive_at = (self.options.keep_alive && is_synchronized).then_some(at);
    }

    fn keep_alive(&mut self, cx: &mut Context<'_>) {
        if !self.board.is_empty() {
            // Data in flight asks the same question.
            self.keepalive_at = Some(cx.now.saturating_add(self.options.keepalive_idle));
            return;
        }
        if self.attempts >= self.options.keepalive_probes || self.has_timed_out(cx) && self.attempts > 0 {
            self.send_reset(cx);
            self.time_out(cx);
            return;
        }
        self.attempts += 1;
        self.send_probe(cx);
        self.keepalive_at = Some(cx.now.saturating_add(self.options.keepalive_interval));
    }
}
