//! Queue pairs as programs handle them.

use super::World;
use softband_model::verbs::api::{QpInit, QpModification, QpSnapshot, ReceiveRequest, SendRequest, VerbsError};
use softband_sim::SimTime;
use softband_types::{HcaId, ProcessId, QpState, Qpn, SrqHandle, XrcdHandle};

impl World {
    /// Creates a QP in state `Reset`.
    ///
    /// # Errors
    /// `Invalid` for capabilities beyond the HCA's or for objects of another HCA, `NoMemory` if the
    /// HCA has no free QP.
    pub fn create_qp(&mut self, owner: ProcessId, hca: HcaId, init: QpInit) -> Result<QpSnapshot, VerbsError> {
        self.hcas.create_qp(owner, hca, init)
    }

    /// Returns all queue pairs in order of creation.
    pub fn queue_pairs(&self) -> impl Iterator<Item = (ProcessId, HcaId, QpSnapshot)> {
        self.hcas.queue_pairs()
    }

    /// Changes attributes and the state of a QP. Returns its new attributes.
    ///
    /// # Errors
    /// `Invalid` for an illegal transition, or for an attribute that is missing, needless or out of
    /// range. Also the errors of [`Self::resolve`].
    pub fn modify_qp(
        &mut self,
        now: SimTime,
        owner: ProcessId,
        hca: HcaId,
        qpn: Qpn,
        modification: &QpModification,
    ) -> Result<QpSnapshot, VerbsError> {
        self.end_trains_of(hca, qpn);
        let (hcas, mut hop) = self.split();
        hcas.modify_qp(&mut hop, now, owner, hca, qpn, modification)
    }

    /// Returns a queue pair and its owner without an ownership check.
    pub fn find_qp(&self, hca: HcaId, qpn: Qpn) -> Option<(ProcessId, QpSnapshot)> {
        self.hcas.find_qp(hca, qpn)
    }

    /// Returns the attributes of a QP.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if another process owns it.
    pub fn query_qp(&self, owner: ProcessId, hca: HcaId, qpn: Qpn) -> Result<QpSnapshot, VerbsError> {
        self.hcas.query_qp(owner, hca, qpn)
    }

    /// Destroys a QP. Packets on their way to it are lost.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if another process owns it, `Busy` while it is
    /// attached to a multicast group.
    pub fn destroy_qp(&mut self, _now: SimTime, owner: ProcessId, hca: HcaId, qpn: Qpn) -> Result<(), VerbsError> {
        self.end_trains_of(hca, qpn);
        let left = self.hcas.destroy_qp(owner, hca, qpn, self.timeline.now())?;
        self.grow_trees(left);
        Ok(())
    }

    /// Ends all trains before a queue pair changes that may have packets in them.
    fn end_trains_of(&mut self, hca: HcaId, qpn: Qpn) {
        let sends = |(_, snapshot): &(ProcessId, QpSnapshot)| !matches!(snapshot.state, QpState::Reset | QpState::Init);
        if self.find_qp(hca, qpn).filter(sends).is_some() {
            self.end_trains();
        }
    }

    /// Opens the receiving side of an extended reliable connection that another process of the
    /// domain created.
    ///
    /// # Errors
    /// `Invalid` if the domain has no such queue pair, `Forbidden` if `owner` has not opened the
    /// domain.
    pub fn open_qp(&mut self, owner: ProcessId, xrcd: XrcdHandle, qpn: Qpn) -> Result<QpSnapshot, VerbsError> {
        self.hcas.open_qp(owner, xrcd, qpn)
    }

    /// Posts a send request at `now`, by a doorbell. Errors in the request become completions. Does
    /// nothing without a QP of this number and owner.
    ///
    /// # Panics
    /// If `now` lies before [`World::now`].
    pub fn post_send(&mut self, now: SimTime, owner: ProcessId, hca: HcaId, qpn: Qpn, request: SendRequest) {
        self.hcas.post_send(&mut self.timeline, now, owner, hca, qpn, request);
    }

    /// Gives a queue pair a permanent receive request: each message uses a copy of `request`. Does
    /// nothing if no queue pair has this number.
    pub fn receive_always(&mut self, hca: HcaId, qpn: Qpn, request: ReceiveRequest) {
        self.hcas.receive_always(hca, qpn, request);
    }

    /// Posts a receive request. Packets that arrive at `now` or later can use it.
    pub fn post_receive(&mut self, now: SimTime, owner: ProcessId, hca: HcaId, qpn: Qpn, request: ReceiveRequest) {
        self.hcas.post_receive(&mut self.timeline, now, owner, hca, qpn, request);
    }

    /// Posts a receive request to a shared queue.
    pub fn post_srq_receive(&mut self, now: SimTime, owner: ProcessId, srq: SrqHandle, request: ReceiveRequest) {
        self.hcas.post_srq_receive(&mut self.timeline, now, owner, srq, request);
    }

    /// Checks that a send queue has no outstanding work.
    pub fn has_sent_all(&self, hca: HcaId, qpn: Qpn) -> bool {
        self.hcas.has_sent_all(&self.links, hca, qpn)
    }

    /// Removes and returns the receive requests of a queue pair, so that another component can
    /// receive with them. `None` in the middle of a message.
    pub fn take_receives(&mut self, hca: HcaId, qpn: Qpn) -> Option<Vec<ReceiveRequest>> {
        self.hcas.take_receives(&self.links, hca, qpn)
    }

    /// Reports an established connection after a peer reached a queue pair without a packet. Only a
    /// queue pair in RTR reports it.
    pub fn establish(&mut self, now: SimTime, hca: HcaId, qpn: Qpn) {
        self.hcas.establish(&mut self.timeline, now, hca, qpn);
    }
}
