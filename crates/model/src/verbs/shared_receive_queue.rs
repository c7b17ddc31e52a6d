//! Shared receive queues (IBTA 10.2.9): many queue pairs take receive requests from them.

use super::api::{ReceiveRequest, SrqInit, SrqSnapshot, VerbsError};
use super::objects::{Verbs, take};
use softband_types::{HcaId, ProcessId, SrqHandle};
use std::collections::VecDeque;

/// Shared receive queue (IBTA 10.2.9).
#[derive(Debug)]
pub struct SharedReceiveQueue {
    /// Process that created the queue.
    pub owner: ProcessId,
    /// HCA of the queue.
    pub hca: HcaId,
    /// Domain, sizes, and the domain of extended reliable connections.
    pub init: SrqInit,
    /// Number of queue pairs that take from the queue.
    pub users: u32,
    /// The queue raises an event when fewer requests than this are left. 0 means no event.
    limit: u32,
    requests: VecDeque<ReceiveRequest>,
}

impl SharedReceiveQueue {
    /// Returns the number by which messages name a queue, given its handle: 24 bits, as in the
    /// extended transport header.
    pub const fn number_of(handle: SrqHandle) -> u32 {
        handle.0 >> 8
    }

    /// Takes the oldest request. Also returns whether fewer requests are left than the armed limit,
    /// which raises its event once.
    pub fn take(&mut self) -> Option<(ReceiveRequest, bool)> {
        let request = self.requests.pop_front()?;
        let reached = (self.requests.len() as u64) < u64::from(self.limit);
        if reached {
            self.limit = 0;
        }
        Some((request, reached))
    }

    /// Takes the oldest requests, `count_max` at most, without an event.
    pub fn take_many(&mut self, count_max: usize) -> Vec<ReceiveRequest> {
        self.requests.drain(..self.requests.len().min(count_max)).collect()
    }

    /// Returns the armed limit, or 0.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Disarms the limit: a program that takes requests itself has found fewer. Returns whether the
    /// limit was armed.
    pub fn disarm(&mut self) -> bool {
        std::mem::take(&mut self.limit) > 0
    }

    /// Returns the number of requests that wait for a message.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Puts an unused request back: its message was never completed.
    pub fn put_back(&mut self, request: ReceiveRequest) {
        self.requests.push_front(request);
    }
}

impl Verbs {
    /// Returns the shared receive queue, if `owner` may use it.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if it belongs to another process.
    pub fn srq(&self, owner: ProcessId, srq: SrqHandle) -> Result<&SharedReceiveQueue, VerbsError> {
        let found = self.srqs.get(srq.0).ok_or(VerbsError::Invalid)?;
        if found.owner == owner { Ok(found) } else { Err(VerbsError::Forbidden) }
    }

    fn srq_mut(&mut self, owner: ProcessId, srq: SrqHandle) -> Result<&mut SharedReceiveQueue, VerbsError> {
        let found = self.srqs.get_mut(srq.0).ok_or(VerbsError::Invalid)?;
        if found.owner == owner { Ok(found) } else { Err(VerbsError::Forbidden) }
    }

    /// Creates a shared receive queue. Its limit is 0: it raises no event.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without such queues, `Invalid` for more requests or entries than it
    /// permits, `NoMemory` if it has as many queues as it permits. The errors of [`Self::pd`].
    pub fn create_srq(&mut self, owner: ProcessId, hca: HcaId, init: SrqInit) -> Result<SrqHandle, VerbsError> {
        let index = self.hca_index(hca)?;
        let limits = &self.limits[index].optional;
        if limits.max_srq == 0 {
            return Err(VerbsError::Unsupported);
        }
        let fits = (1..=limits.max_srq_wr).contains(&init.max_wr) && init.max_sge <= limits.max_srq_sge;
        if self.pd(owner, init.pd)?.hca != hca || !fits {
            return Err(VerbsError::Invalid);
        }
        if let Some(xrc) = init.xrc
            && (self.xrcd(owner, xrc.xrcd)?.hca != hca || self.cq(owner, xrc.cq)?.hca != hca)
        {
            return Err(VerbsError::Invalid);
        }
        take(&mut self.in_use[index].srqs, self.limits[index].optional.max_srq)?;
        let srq = SharedReceiveQueue { owner, hca, init, users: 0, limit: 0, requests: VecDeque::new() };
        let srq = self.srqs.insert(srq).ok_or(VerbsError::NoMemory)?;
        self.use_pd(init.pd, 1);
        if let Some(xrc) = init.xrc {
            self.use_cq(xrc.cq, 1);
            self.use_xrcd(Some(xrc.xrcd), 1);
        }
        Ok(SrqHandle(srq))
    }

    /// Changes the size, which must hold the waiting requests, or arms the limit.
    ///
    /// # Errors
    /// `Invalid` for a size or limit that does not fit; nothing changes then.
    pub fn modify_srq(&mut self, owner: ProcessId, srq: SrqHandle, max_wr: Option<u32>, limit: Option<u32>) -> Result<(), VerbsError> {
        let index = self.hca_index(self.srq(owner, srq)?.hca)?;
        let most = self.limits[index].optional.max_srq_wr;
        let queue = self.srq_mut(owner, srq)?;
        let size = max_wr.unwrap_or(queue.init.max_wr);
        if size == 0 || size > most || (size as usize) < queue.requests.len() || limit.is_some_and(|limit| limit > size) {
            return Err(VerbsError::Invalid);
        }
        queue.init.max_wr = size;
        queue.limit = limit.unwrap_or(queue.limit);
        Ok(())
    }

    /// Returns the attributes and the limit of a queue.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if it belongs to another process.
    pub fn query_srq(&self, owner: ProcessId, srq: SrqHandle) -> Result<SrqSnapshot, VerbsError> {
        let queue = self.srq(owner, srq)?;
        Ok(SrqSnapshot { hca: queue.hca, init: queue.init, limit: queue.limit })
    }

    /// Destroys a queue and its waiting requests.
    ///
    /// # Errors
    /// `Busy` while a queue pair takes from it, and the errors of [`Self::srq`].
    pub fn destroy_srq(&mut self, owner: ProcessId, srq: SrqHandle) -> Result<(), VerbsError> {
        if self.srq(owner, srq)?.users > 0 {
            return Err(VerbsError::Busy);
        }
        if let Some(queue) = self.srqs.remove(srq.0) {
            self.in_use[queue.hca.0 as usize].srqs -= 1;
            self.use_pd(queue.init.pd, -1);
            if let Some(xrc) = queue.init.xrc {
                self.use_cq(xrc.cq, -1);
                self.use_xrcd(Some(xrc.xrcd), -1);
            }
        }
        Ok(())
    }

    /// Adds `delta` to the number of queue pairs that take from `srq`.
    pub fn use_srq(&mut self, srq: Option<SrqHandle>, delta: i32) {
        if let Some(queue) = srq.and_then(|srq| self.srqs.get_mut(srq.0)) {
            queue.users = queue.users.saturating_add_signed(delta);
        }
    }

    /// Adds a request, or drops it if there is no room: the library counts, so only a lying program
    /// posts too many.
    pub fn post_srq_receive(&mut self, srq: SrqHandle, request: ReceiveRequest) {
        if let Some(queue) = self.srqs.get_mut(srq.0)
            && queue.requests.len() < queue.init.max_wr as usize
        {
            queue.requests.push_back(ReceiveRequest { srq: Some(srq), ..request });
        }
    }

    /// Gives a request back to the queue that it was taken from.
    pub fn put_back(&mut self, request: ReceiveRequest) {
        if let Some(queue) = request.srq.and_then(|srq| self.srqs.get_mut(srq.0)) {
            queue.put_back(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::Limits;
    use super::*;
    use crate::parts::OptionalVerbs;

    const HCA: HcaId = HcaId(0);
    const OWNER: ProcessId = ProcessId(7);

    fn queue_of(max_wr: u32) -> (Verbs, SrqHandle) {
        let optional = OptionalVerbs { max_srq: 1, max_srq_wr: 8, max_srq_sge: 2, ..OptionalVerbs::default() };
        let mut verbs = Verbs::new(vec![Limits { pds: 4, cqs: 4, cqes: 100, mrs: 4, ahs: 4, optional }]);
        let pd = verbs.alloc_pd(OWNER, HCA).unwrap();
        let srq = verbs.create_srq(OWNER, HCA, SrqInit { pd, max_wr, max_sge: 2, xrc: None }).unwrap();
        (verbs, srq)
    }

    fn request(wr_id: u64) -> ReceiveRequest {
        ReceiveRequest { wr_id, entries: Vec::new(), srq: None }
    }

    #[test]
    fn many_requests_are_taken_in_their_order_and_without_reaching_the_limit() {
        let (mut verbs, srq) = queue_of(4);
        (0..4).for_each(|wr_id| verbs.post_srq_receive(srq, request(wr_id)));
        verbs.modify_srq(OWNER, srq, None, Some(3)).unwrap();
        let queue = verbs.srqs.get_mut(srq.0).unwrap();
        assert_eq!(queue.take_many(3).iter().map(|request| request.wr_id).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((queue.limit(), queue.take_many(3).len()), (3, 1));
    }

    #[test]
    fn the_limit_raises_its_event_once_and_must_be_armed_again() {
        let (mut verbs, srq) = queue_of(4);
        (0..4).for_each(|wr_id| verbs.post_srq_receive(srq, request(wr_id)));
        verbs.modify_srq(OWNER, srq, None, Some(3)).unwrap();
        let queue = verbs.srqs.get_mut(srq.0).unwrap();
        let reached: Vec<bool> = (0..4).map(|_| queue.take().unwrap().1).collect();
        assert_eq!(reached, [false, true, false, false]);
        assert!(queue.take().is_none());
        assert_eq!(verbs.query_srq(OWNER, srq).unwrap().limit, 0);
    }

    #[test]
    fn requests_leave_in_order_and_one_that_comes_back_is_the_next() {
        let (mut verbs, srq) = queue_of(2);
        (0..3).for_each(|wr_id| verbs.post_srq_receive(srq, request(wr_id)));
        let (first, _) = verbs.srqs.get_mut(srq.0).unwrap().take().unwrap();
        assert_eq!((first.wr_id, first.srq), (0, Some(srq)));
        verbs.put_back(first);
        let queue = verbs.srqs.get_mut(srq.0).unwrap();
        assert_eq!((0..3).map_while(|_| queue.take().map(|(request, _)| request.wr_id)).collect::<Vec<_>>(), [0, 1], "the third found no room");
    }

    #[test]
    fn sizes_and_limits_that_do_not_fit_are_refused() {
        let (mut verbs, srq) = queue_of(4);
        let pd = verbs.srq(OWNER, srq).unwrap().init.pd;
        assert_eq!(verbs.create_srq(OWNER, HCA, SrqInit { pd, max_wr: 9, max_sge: 1, xrc: None }), Err(VerbsError::Invalid));
        assert_eq!(verbs.create_srq(OWNER, HCA, SrqInit { pd, max_wr: 1, max_sge: 3, xrc: None }), Err(VerbsError::Invalid));
        assert_eq!(verbs.create_srq(OWNER, HCA, SrqInit { pd, max_wr: 1, max_sge: 1, xrc: None }), Err(VerbsError::NoMemory));
        (0..3).for_each(|wr_id| verbs.post_srq_receive(srq, request(wr_id)));
        assert_eq!(verbs.modify_srq(OWNER, srq, Some(2), None), Err(VerbsError::Invalid), "three wait");
        assert_eq!(verbs.modify_srq(OWNER, srq, Some(3), Some(4)), Err(VerbsError::Invalid));
        assert_eq!(verbs.modify_srq(OWNER, srq, Some(3), Some(3)), Ok(()));
        assert_eq!(verbs.modify_srq(ProcessId(1), srq, None, None), Err(VerbsError::Forbidden));
        verbs.use_srq(Some(srq), 1);
        assert_eq!(verbs.destroy_srq(OWNER, srq), Err(VerbsError::Busy));
        verbs.use_srq(Some(srq), -1);
        assert_eq!(verbs.dealloc_pd(OWNER, pd), Err(VerbsError::Busy));
        assert_eq!(verbs.destroy_srq(OWNER, srq), Ok(()));
        assert_eq!(verbs.dealloc_pd(OWNER, pd), Ok(()));
    }
}
