//! Acknowledgements, NAKs and timeouts (IBTA 9.7.5 and 9.7.6).

use super::Requester;
use crate::packet::NakCode;
use crate::transport::hardware_counters::Remark;
use crate::transport::timers::rnr_wait;
use crate::verbs::api::QpSnapshot;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Psn, WcStatus};

/// Value of `rnr_retry` that never gives up.
const RNR_RETRY_INFINITE: u8 = 7;

impl Requester {
    /// Handles an acknowledgement: everything up to `psn` has arrived.
    pub fn on_ack(&mut self, a: &QpSnapshot, psn: Psn, now: SimTime) {
        if self.halted || psn.since(self.unacked_psn) >= self.sent_psn.since(self.unacked_psn) {
            return; // A ghost: acknowledged already, or never sent.
        }
        if !self.settle_before(a, psn.plus(1), now) {
            self.response_lost(a, now);
        }
    }

    /// Handles a NAK: the request with `psn` was refused, and those before it have arrived.
    pub fn on_nak(&mut self, a: &QpSnapshot, psn: Psn, code: NakCode, now: SimTime) {
        if !self.accept_nak(a, psn, now) {
            return;
        }
        match code {
            NakCode::PsnSequenceError => {
                self.remark = Some(Remark::SequenceNak);
                self.retry(a, now);
            }
            NakCode::InvalidRequest => self.fail(WcStatus::RemoteInvalidRequestError),
            NakCode::RemoteAccessError => self.fail(WcStatus::RemoteAccessError),
            NakCode::RemoteOperationalError => self.fail(WcStatus::RemoteOperationError),
        }
    }

    /// Handles an RNR NAK: the receiver has no receive request for `psn` yet. Returns the wait
    /// before the request is sent again.
    pub fn on_rnr_nak(&mut self, a: &QpSnapshot, psn: Psn, timer_code: u8, now: SimTime) -> Option<SimDuration> {
        if self.waits_for_receiver || !self.accept_nak(a, psn, now) {
            return None;
        }
        self.remark = Some(Remark::RnrNak);
        if a.rnr_retry != RNR_RETRY_INFINITE {
            if self.rnr_retries_left == 0 {
                self.fail(WcStatus::RnrRetryExceeded);
                return None;
            }
            self.rnr_retries_left -= 1;
        }
        self.rewind();
        self.waits_for_receiver = true;
        self.deadline = None;
        let wait = rnr_wait(timer_code);
        let repeats = self.repeats.get_or_insert_default();
        repeats.rnr_naks += 1;
        repeats.rnr_waits += wait;
        Some(wait)
    }

    /// Ends the wait for the receiver.
    pub fn on_receiver_waited_for(&mut self) {
        self.waits_for_receiver = false;
    }

    /// Looks at the timer; sends overdue packets again.
    pub fn on_timer(&mut self, a: &QpSnapshot, now: SimTime) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.deadline = None;
        if !self.halted && self.sent_psn != self.unacked_psn {
            self.recovering = false;
            self.remark = Some(Remark::Timeout);
            let waited = self.ack_timeout(a).unwrap_or(SimDuration::ZERO);
            let repeats = self.repeats.get_or_insert_default();
            repeats.timeouts += 1;
            repeats.timeout_waits += waited;
            self.retry(a, now);
        }
    }

    /// Checks whether a NAK of `psn` means a request that waits for an answer. Settles the requests
    /// before it.
    fn accept_nak(&mut self, a: &QpSnapshot, psn: Psn, now: SimTime) -> bool {
        if self.halted || psn.since(self.unacked_psn) >= self.sent_psn.since(self.unacked_psn) {
            return false;
        }
        if !self.settle_before(a, psn, now) {
            self.response_lost(a, now);
            return false;
        }
        true
    }

    /// Settles all requests before `end`. Returns `false` if that would pass a read or atomic whose
    /// response is missing.
    pub(super) fn settle_before(&mut self, a: &QpSnapshot, end: Psn, now: SimTime) -> bool {
        let count = end.since(self.unacked_psn);
        if count == 0 {
            return true;
        }
        let start = self.unacked_psn;
        let mut complete = true;
        let mut reached = end;
        while let Some(wqe) = self.queue.get_mut(self.settled).filter(|wqe| wqe.started) {
            if wqe.is_local() {
                self.settled += 1;
                continue;
            }
            if wqe.expects_response() {
                let expected = wqe.first_psn.plus(wqe.received);
                if expected.since(start) < count {
                    complete = false;
                    reached = expected;
                }
                break;
            }
            if wqe.last_psn().since(start) >= count {
                break;
            }
            wqe.outcome = Some(WcStatus::Success);
            self.settled += 1;
        }
        self.advance(a, reached, now);
        complete
    }

    /// Moves the oldest unacknowledged PSN on to `psn`, with everything that must not lag behind
    /// it.
    pub(super) fn advance(&mut self, a: &QpSnapshot, psn: Psn, now: SimTime) {
        if psn == self.unacked_psn {
            return;
        }
        self.unacked_psn = psn;
        self.renew_retries(a);
        self.pass_local();
        self.skip_acknowledged();
        self.restart_timer(a, now);
    }

    /// Skips acknowledged packets: a late answer may overtake a retransmission and make it
    /// needless.
    fn skip_acknowledged(&mut self) {
        if self.cursor < self.settled {
            self.cursor = self.settled;
            self.cursor_packet = 0;
        }
        if self.cursor == self.settled
            && let Some(wqe) = self.queue.get(self.cursor)
            && wqe.started
            && !wqe.expects_response()
        {
            let acknowledged = self.unacked_psn.since(wqe.first_psn);
            if acknowledged < wqe.packets {
                self.cursor_packet = self.cursor_packet.max(acknowledged);
            }
        }
        self.skip_local();
    }

    /// Retries once: a later response tells that the expected response is lost (IBTA 9.7.5.1.1,
    /// implied NAK).
    pub(super) fn response_lost(&mut self, a: &QpSnapshot, now: SimTime) {
        if !self.recovering {
            self.recovering = true;
            self.remark = Some(Remark::ImpliedNak);
            self.retry(a, now);
        }
    }

    fn retry(&mut self, a: &QpSnapshot, now: SimTime) {
        if self.retries_left == 0 {
            self.fail(WcStatus::RetryExceeded);
            return;
        }
        self.retries_left -= 1;
        self.repeats.get_or_insert_default().retransmissions += 1;
        self.rewind();
        self.restart_timer(a, now);
    }

    /// Goes back to the oldest unacknowledged packet, which goes next (go-back-N).
    fn rewind(&mut self) {
        self.cursor = self.settled;
        self.cursor_packet = match self.queue.get(self.settled) {
            Some(wqe) if wqe.started && !wqe.expects_response() => self.unacked_psn.since(wqe.first_psn),
            _ => 0,
        };
        for wqe in self.queue.range_mut(self.settled..).take_while(|wqe| wqe.started) {
            if std::mem::take(&mut wqe.requested) {
                self.reads_outstanding -= 1;
            }
        }
        self.skip_local();
    }
}
