//! The time during which the fabric had requests to send, and the queue pairs that had to resend.

use super::Hcas;
use crate::pdes::timeline::Timeline;
use softband_model::transport::Repeats;
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Qpn};

/// Destroyed queue pairs whose counters the fabric keeps. The limit bounds the memory of a
/// long-lived fabric.
const GONE_MAX: usize = 4_096;

/// The time with at least one send request between its doorbell and its outcome.
#[derive(Default)]
pub(super) struct Transfers {
    /// Send requests in flight.
    open: u64,
    /// Start of the current busy period; meaningless if no request is in flight.
    since: SimTime,
    spent: SimDuration,
    /// Counters of the first `GONE_MAX` destroyed queue pairs.
    repeats: Vec<QueuePairRepeats>,
}

impl Transfers {
    /// Counts a request that entered its send queue.
    pub(super) fn begin(&mut self, now: SimTime) {
        if self.open == 0 {
            self.since = now;
        }
        self.open += 1;
    }

    /// Counts requests that left their send queues.
    pub(super) fn end(&mut self, count: usize, now: SimTime) {
        if count == 0 {
            return;
        }
        self.open = self.open.saturating_sub(count as u64);
        if self.open == 0 {
            self.spent += now.saturating_since(self.since);
        }
    }

    /// Keeps the counters of a destroyed queue pair, if it has any and there is room.
    fn keep(&mut self, repeats: Option<QueuePairRepeats>) {
        let has_room = self.repeats.len() < GONE_MAX;
        self.repeats.extend(repeats.filter(|_| has_room));
    }

    fn spent_at(&self, now: SimTime) -> SimDuration {
        if self.open == 0 { self.spent } else { self.spent + now.saturating_since(self.since) }
    }
}

/// Queue pair that had to wait for its receiver or to resend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePairRepeats {
    /// HCA of the QP.
    pub hca: HcaId,
    /// HCA as `host/device`.
    pub node: String,
    /// Number of the QP.
    pub qpn: Qpn,
    /// Counts of repeats, and waits before them.
    pub repeats: Repeats,
}

impl Hcas {
    /// Returns the transfer time in picoseconds: the time since the fabric began with at least one
    /// send request in flight.
    ///
    /// Covers only the nodes of this partition. The times of several partitions overlap.
    pub(crate) fn transfer_picos(&self, timeline: &Timeline) -> u64 {
        self.transfers.spent_at(timeline.heard_until()).as_picos()
    }

    /// Checks whether a send request is in flight.
    pub(crate) fn has_transfers(&self) -> bool {
        self.transfers.open > 0
    }

    /// Returns all queue pairs that ever had to resend or wait, by HCA and number.
    pub(crate) fn repeats(&self) -> Vec<QueuePairRepeats> {
        let living = (0..self.qps.len() as u32).filter_map(|index| self.repeats_of(index));
        let mut all: Vec<QueuePairRepeats> = self.transfers.repeats.iter().cloned().chain(living).collect();
        all.sort_by_key(|one| (one.hca, one.qpn));
        all
    }

    /// Keeps the counters of a queue pair that is about to go, and ends its requests.
    pub(super) fn close_transfers(&mut self, index: u32, now: SimTime) {
        let repeats = self.repeats_of(index);
        let open = self.slot(index).map_or(0, |slot| slot.qp.requester.queue_len());
        self.transfers.keep(repeats);
        self.transfers.end(open, now);
    }

    fn repeats_of(&self, index: u32) -> Option<QueuePairRepeats> {
        let qp = &self.slot(index)?.qp;
        let repeats = qp.requester.repeats()?;
        Some(QueuePairRepeats { hca: qp.hca, node: self.device_name(qp.hca).to_owned(), qpn: qp.attributes.qpn, repeats })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_that_are_gone_take_a_limited_room() {
        let mut transfers = Transfers::default();
        for qpn in 0..2 * GONE_MAX as u32 {
            transfers.keep(Some(QueuePairRepeats { hca: HcaId(0), node: String::new(), qpn: Qpn(qpn), repeats: Repeats::default() }));
        }
        assert_eq!((transfers.repeats.len(), transfers.repeats[0].qpn), (GONE_MAX, Qpn(0)));
    }
}
