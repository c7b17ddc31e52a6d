//! How long the fabric had something to send, and which queue pairs had to send again.

use crate::World;
use softband_model::transport::Repeats;
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Qpn};

/// The time with at least one send request between its doorbell and its outcome.
#[derive(Default)]
pub(crate) struct Transfers {
    /// Send requests that are under way.
    open: u64,
    /// Since when there has been one; nothing where there is none.
    since: SimTime,
    spent: SimDuration,
    /// Of queue pairs that are gone.
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
    /// Only of the nodes that are here: of a fabric in parts the times of the parts overlap.
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
        self.transfers.repeats.extend(repeats);
        self.transfers.end(open, self.queue.now());
    }

    fn repeats_of(&self, index: u32) -> Option<QueuePairRepeats> {
        let qp = &self.slot(index)?.qp;
        let repeats = qp.requester.repeats()?;
        Some(QueuePairRepeats { hca: qp.hca, node: self.device_name(qp.hca), qpn: qp.attributes.qpn, repeats })
    }
}
