//! How long the fabric had something to send, and which queue pairs had to send again.

use crate::World;
use softband_model::transport::Repeats;
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Qpn};

/// Queue pairs that are gone and keep their counters; a fabric that stays sees any number of them.
const GONE_MAX: usize = 4_096;

/// The time with at least one send request between its doorbell and its outcome.
#[derive(Default)]
pub(crate) struct Transfers {
    /// Send requests that are under way.
    open: u64,
    /// Since when there has been one; nothing where there is none.
    since: SimTime,
    spent: SimDuration,
    /// Of the first `GONE_MAX` queue pairs that are gone.
    repeats: Vec<QueuePairRepeats>,
}

impl Transfers {
    /// A request has entered its send queue.
    pub(crate) fn begin(&mut self, now: SimTime) {
        if self.open == 0 {
            self.since = now;
        }
        self.open += 1;
    }

    /// So many requests have left their send queues.
    pub(crate) fn end(&mut self, count: usize, now: SimTime) {
        if count == 0 {
            return;
        }
        self.open = self.open.saturating_sub(count as u64);
        if self.open == 0 {
            self.spent += now.saturating_since(self.since);
        }
    }

    /// Keeps the counters of a queue pair that goes, if there are any and there is room.
    fn keep(&mut self, repeats: Option<QueuePairRepeats>) {
        let has_room = self.repeats.len() < GONE_MAX;
        self.repeats.extend(repeats.filter(|_| has_room));
    }

    fn spent_at(&self, now: SimTime) -> SimDuration {
        if self.open == 0 { self.spent } else { self.spent + now.saturating_since(self.since) }
    }
}

/// A queue pair that had to wait for its receiver or to send again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePairRepeats {
    pub hca: HcaId,
    /// `host/device`.
    pub node: String,
    pub qpn: Qpn,
    pub repeats: Repeats,
}

impl World {
    /// The transfer time in picoseconds: how long at least one send request was under way since the fabric began.
    ///
    /// Only of the nodes that are here: of a fabric in partitions the times of the partitions overlap.
    pub fn transfer_picos(&self) -> u64 {
        let heard_until = self.queue.window_end().unwrap_or_else(|| self.queue.now());
        self.transfers.spent_at(heard_until).as_picos()
    }

    /// Whether a send request is under way.
    pub fn has_transfers(&self) -> bool {
        self.transfers.open > 0
    }

    /// All queue pairs that ever had to repeat something, by HCA and number.
    pub fn repeats(&self) -> Vec<QueuePairRepeats> {
        let living = (0..self.qps.len() as u32).filter_map(|index| self.repeats_of(index));
        let mut all: Vec<QueuePairRepeats> = self.transfers.repeats.iter().cloned().chain(living).collect();
        all.sort_by_key(|one| (one.hca, one.qpn));
        all
    }

    /// Keeps the counters of a queue pair that goes, and ends its requests.
    pub(crate) fn close_transfers(&mut self, index: u32) {
        let repeats = self.repeats_of(index);
        let open = self.slot(index).map_or(0, |slot| slot.qp.requester.queue_len());
        self.transfers.keep(repeats);
        self.transfers.end(open, self.queue.now());
    }

    fn repeats_of(&self, index: u32) -> Option<QueuePairRepeats> {
        let qp = &self.slot(index)?.qp;
        let repeats = qp.requester.repeats()?;
        Some(QueuePairRepeats { hca: qp.hca, node: self.device_name(qp.hca), qpn: qp.attributes.qpn, repeats })
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
