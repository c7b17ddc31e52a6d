//! Queue pairs as an observer sees them: outstanding requests, and the location of their peers.

use super::Hcas;
use softband_model::verbs::api::QpSnapshot;
use softband_types::{HcaId, ProcessId, SrqHandle};

/// Snapshot of a queue pair for an observer.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairView {
    /// HCA of the QP.
    pub hca: HcaId,
    /// Attributes, as `query_qp` returns them.
    pub attributes: QpSnapshot,
    /// Send requests without a completion.
    pub sends: usize,
    /// Receive requests without a completion; for a user of a shared queue, those of the shared
    /// queue.
    pub receives: usize,
    /// The receiver had no receive request, so the requester waits before it resends.
    pub waits_for_receiver: bool,
    /// The requester waits for an acknowledgement or a response.
    pub waits_for_acknowledgement: bool,
}

impl Hcas {
    /// Returns the queue pairs that a process owns or has opened, by HCA and number.
    pub(crate) fn queue_pairs_of(&self, owner: ProcessId) -> Vec<QueuePairView> {
        let own = self.qps.iter().flatten().filter(|slot| slot.qp.owner == owner || slot.sharers.contains(&owner));
        let mut views: Vec<QueuePairView> = own
            .map(|slot| QueuePairView {
                hca: slot.qp.hca,
                attributes: slot.qp.snapshot(),
                sends: slot.qp.requester.queue_len(),
                receives: slot.qp.attributes.init.srq.map_or_else(|| slot.qp.responder.queue_len(), |srq| self.shared_receives(srq)),
                waits_for_receiver: slot.qp.requester.waits_for_receiver(),
                waits_for_acknowledgement: slot.qp.requester.deadline().is_some(),
            })
            .collect();
        views.sort_by_key(|view| (view.hca, view.attributes.qpn));
        views
    }

    fn shared_receives(&self, srq: SrqHandle) -> usize {
        self.verbs.srqs.get(srq.0).map_or(0, |queue| queue.waiting())
    }

    /// Returns a device's name in the fabric file's notation: `a/mthca0`.
    pub(crate) fn device_name(&self, hca: HcaId) -> &str {
        &self.nodes[hca.0 as usize].name
    }
}
