//! Receive queues that programs consume directly: their requests enter and leave the World as a
//! whole.

use super::Hcas;
use super::queue_pairs::Post;
use crate::link::Links;
use crate::pdes::timeline::Timeline;
use crate::subnet::Subnet;
use softband_model::verbs::Group;
use softband_model::verbs::api::{DatagramDestination, QpSnapshot, ReceiveRequest, SrqOfXrc};
use softband_types::{CqHandle, HcaId, QpState, QpType, Qpn, SrqHandle, XrcdHandle};

impl Hcas {
    /// Appends requests to a shared queue at once.
    pub(crate) fn put_shared_receives(&mut self, srq: SrqHandle, requests: impl IntoIterator<Item = ReceiveRequest>) {
        for request in requests {
            self.verbs.post_srq_receive(srq, request);
        }
    }

    /// Appends requests to a queue pair's receive queue at once. In the error state they are
    /// flushed.
    pub(crate) fn put_receives(&mut self, timeline: &mut Timeline, hca: HcaId, qpn: Qpn, requests: impl IntoIterator<Item = ReceiveRequest>) {
        let Some(index) = self.qp_index(hca, qpn) else { return };
        let Some(slot) = self.slot_mut(index) else { return };
        let most = slot.qp.attributes.init.capabilities.max_recv_wr as usize;
        let left = most.saturating_sub(slot.qp.responder.queue_len());
        requests.into_iter().take(left).for_each(|request| slot.qp.responder.post(request));
        self.flush_in_error(timeline, index);
    }

    /// Returns a request to the front of its queue, because its message never completed. In the
    /// error state it is flushed.
    pub(crate) fn put_back_receive(&mut self, timeline: &mut Timeline, hca: HcaId, qpn: Qpn, request: ReceiveRequest) {
        let Some(index) = self.qp_index(hca, qpn) else { return };
        let Some(slot) = self.slot_mut(index) else { return };
        slot.qp.responder.put_back(request);
        self.flush_in_error(timeline, index);
    }

    fn flush_in_error(&mut self, timeline: &mut Timeline, index: u32) {
        if self.slot(index).is_some_and(|slot| slot.qp.attributes.state == QpState::Error) {
            self.flush_receives(timeline, index, timeline.now());
        }
    }

    /// Returns the queue pairs that a datagram with these keys reaches: a single queue pair, or the
    /// members of a group.
    pub(crate) fn datagram_receivers(&self, subnet: &Subnet, to: &DatagramDestination, (from, sender): (HcaId, &QpSnapshot)) -> Vec<(HcaId, Qpn)> {
        let Some(path) = self.verbs.ahs.get(to.ah.0).map(|ah| ah.vector) else { return Vec::new() };
        if let Some(route) = path.grh.filter(|_| path.dlid.is_multicast()) {
            let members = |hca| self.verbs.multicast.members(Group { hca, mlid: path.dlid, mgid: route.dgid }).iter().map(move |qpn| (hca, *qpn));
            return self.verbs.multicast.hcas(path.dlid).flat_map(members).collect();
        }
        let wanted = if to.remote_qkey.0 >> 31 == 1 { sender.qkey } else { to.remote_qkey };
        let at = self.port_index(from, sender.port).and_then(|port| subnet.hca_reached(port, path.dlid));
        let takes = |hca: &HcaId| self.find_qp(*hca, to.remote_qpn).is_some_and(|(_, receiver)| receiver.qkey == wanted);
        at.filter(takes).map(|hca| (hca, to.remote_qpn)).into_iter().collect()
    }

    /// Returns a request to the front of its shared queue, because its message never completed.
    pub(crate) fn put_back_shared_receive(&mut self, srq: SrqHandle, request: ReceiveRequest) {
        self.verbs.put_back(ReceiveRequest { srq: Some(srq), ..request });
    }

    /// Returns the armed limit of a shared queue, or 0. The owner wants an event when fewer
    /// requests remain.
    pub(crate) fn srq_limit(&self, srq: SrqHandle) -> u32 {
        self.verbs.srqs.get(srq.0).map_or(0, |queue| queue.limit())
    }

    /// Fires the limit event after a direct consumer has left fewer requests than the limit.
    pub(crate) fn reach_srq_limit(&mut self, timeline: &mut Timeline, srq: SrqHandle) {
        if self.verbs.srqs.get_mut(srq.0).is_some_and(|queue| queue.disarm()) {
            self.report_srq_limit(timeline, srq, timeline.now());
        }
    }

    /// Returns the queue pairs whose messages may name a queue: those of its domain.
    pub(crate) fn targets_of(&self, srq: SrqHandle) -> Vec<(HcaId, Qpn)> {
        let Some(xrc) = self.verbs.srqs.get(srq.0).and_then(|queue| queue.init.xrc) else { return Vec::new() };
        let is_of_domain = |qp: &QpSnapshot| qp.init.qp_type == QpType::XrcRecv && qp.init.xrcd == Some(xrc.xrcd);
        self.queue_pairs().filter(|(_, _, qp)| is_of_domain(qp)).map(|(_, hca, qp)| (hca, qp.qpn)).collect()
    }

    /// Returns the queue of a domain that messages name by `number`, and its completion queue.
    pub(crate) fn queue_of_domain(&self, xrcd: XrcdHandle, number: u32) -> Option<(SrqHandle, CqHandle)> {
        let (srq, queue) = self.verbs.xrc_srq(xrcd, number)?;
        Some((srq, queue.init.xrc?.cq))
    }

    /// Returns the completion queues of a domain's shared queues.
    pub(crate) fn completions_of_domain(&self, xrcd: XrcdHandle) -> Vec<CqHandle> {
        let of_domain = |xrc: SrqOfXrc| (xrc.xrcd == xrcd).then_some(xrc.cq);
        self.verbs.srqs.iter().filter_map(|(_, queue)| queue.init.xrc.and_then(of_domain)).collect()
    }

    /// Checks that no work is in flight from a shared queue's owner, or to its `users`.
    pub(crate) fn is_shared_queue_at_rest<'a>(&self, links: &Links, srq: SrqHandle, users: impl IntoIterator<Item = &'a (HcaId, Qpn)>) -> bool {
        let on_its_way = |post: &Post| matches!(post, Post::SharedReceive { srq: to, .. } if *to == srq);
        let is_at_rest = |(hca, qpn): &(HcaId, Qpn)| self.qp_index(*hca, *qpn).is_none_or(|index| !self.is_something_under_way(links, index, *qpn));
        !self.posts.iter().any(on_its_way) && users.into_iter().all(is_at_rest)
    }

    /// Checks that no work is in flight to a queue pair's receive queue, nor from its owner.
    pub(crate) fn is_receive_queue_at_rest(&self, links: &Links, hca: HcaId, qpn: Qpn) -> bool {
        let Some(index) = self.qp_index(hca, qpn) else { return true };
        let on_its_way = |post: &Post| matches!(post, Post::Receive { qp, .. } if *qp == index);
        !self.posts.iter().any(on_its_way) && !self.is_something_under_way(links, index, qpn)
    }

    /// Takes the oldest requests of a shared queue, so that another component can receive with
    /// them. A request that holds a partly received message stays.
    pub(crate) fn take_shared_receives(&mut self, srq: SrqHandle, count_max: usize) -> Vec<ReceiveRequest> {
        self.verbs.srqs.get_mut(srq.0).map(|queue| queue.take_many(count_max)).unwrap_or_default()
    }
}
