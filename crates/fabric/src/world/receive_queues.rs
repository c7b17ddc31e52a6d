//! Receive queues that programs consume directly: their requests enter and leave the World as a
//! whole.

use super::World;
use softband_model::verbs::api::{DatagramDestination, QpSnapshot, ReceiveRequest};
use softband_types::{CqHandle, HcaId, Qpn, SrqHandle, XrcdHandle};

impl World {
    /// Appends requests to a shared queue at once.
    pub fn put_shared_receives(&mut self, srq: SrqHandle, requests: impl IntoIterator<Item = ReceiveRequest>) {
        self.hcas.put_shared_receives(srq, requests);
    }

    /// Appends requests to a queue pair's receive queue at once. In the error state they are
    /// flushed.
    pub fn put_receives(&mut self, hca: HcaId, qpn: Qpn, requests: impl IntoIterator<Item = ReceiveRequest>) {
        self.hcas.put_receives(&mut self.timeline, hca, qpn, requests);
    }

    /// Returns a request to the front of its queue, because its message never completed. In the
    /// error state it is flushed.
    pub fn put_back_receive(&mut self, hca: HcaId, qpn: Qpn, request: ReceiveRequest) {
        self.hcas.put_back_receive(&mut self.timeline, hca, qpn, request);
    }

    /// Returns the queue pairs that a datagram with these keys reaches: a single queue pair, or the
    /// members of a group.
    pub fn datagram_receivers(&self, to: &DatagramDestination, (from, sender): (HcaId, &QpSnapshot)) -> Vec<(HcaId, Qpn)> {
        self.hcas.datagram_receivers(&self.subnet, to, (from, sender))
    }

    /// Returns a request to the front of its shared queue, because its message never completed.
    pub fn put_back_shared_receive(&mut self, srq: SrqHandle, request: ReceiveRequest) {
        self.hcas.put_back_shared_receive(srq, request);
    }

    /// Returns the armed limit of a shared queue, or 0. The owner wants an event when fewer
    /// requests remain.
    pub fn srq_limit(&self, srq: SrqHandle) -> u32 {
        self.hcas.srq_limit(srq)
    }

    /// Fires the limit event after a direct consumer has left fewer requests than the limit.
    pub fn reach_srq_limit(&mut self, srq: SrqHandle) {
        self.hcas.reach_srq_limit(&mut self.timeline, srq);
    }

    /// Returns the queue pairs whose messages may name a queue: those of its domain.
    pub fn targets_of(&self, srq: SrqHandle) -> Vec<(HcaId, Qpn)> {
        self.hcas.targets_of(srq)
    }

    /// Returns the queue of a domain that messages name by `number`, and its completion queue.
    pub fn queue_of_domain(&self, xrcd: XrcdHandle, number: u32) -> Option<(SrqHandle, CqHandle)> {
        self.hcas.queue_of_domain(xrcd, number)
    }

    /// Returns the completion queues of a domain's shared queues.
    pub fn completions_of_domain(&self, xrcd: XrcdHandle) -> Vec<CqHandle> {
        self.hcas.completions_of_domain(xrcd)
    }

    /// Checks that no work is in flight from a shared queue's owner, or to its `users`.
    pub fn is_shared_queue_at_rest<'a>(&self, srq: SrqHandle, users: impl IntoIterator<Item = &'a (HcaId, Qpn)>) -> bool {
        self.hcas.is_shared_queue_at_rest(&self.links, srq, users)
    }

    /// Checks that no work is in flight to a queue pair's receive queue, nor from its owner.
    pub fn is_receive_queue_at_rest(&self, hca: HcaId, qpn: Qpn) -> bool {
        self.hcas.is_receive_queue_at_rest(&self.links, hca, qpn)
    }

    /// Takes the oldest requests of a shared queue, so that another component can receive with
    /// them. A request that holds a partly received message stays.
    pub fn take_shared_receives(&mut self, srq: SrqHandle, count_max: usize) -> Vec<ReceiveRequest> {
        self.hcas.take_shared_receives(srq, count_max)
    }
}
