//! Events of CQs into which programs put completions themselves, in wall pace. The program finds in
//! the [`Arming`] word whether an event is due. It then notifies the engine, which raises the
//! event.

use crate::engine::Engine;
use crate::process::image::{Mapped, Shared};
use rustix::fd::AsFd;
use softband_ipc::post::PostRecord;
use softband_model::verbs::api::QpSnapshot;
use softband_shm_transport::arming::Arming;
use softband_shm_transport::queues::{RemoteCqe, RemoteCqeRingHeader, remote_cqe_ring_bytes};
use softband_types::{CqHandle, HcaId, ProcessId, QpType, Qpn};
use std::sync::atomic::{Ordering, fence};

/// Most events of one queue that its program may leave unread. Only a lying peer causes more.
const UNREAD_MAX: u32 = 1024;
/// Most events that the engine makes up for at once. More than one is due only if a program arms a
/// queue again before it got the last event.
const MADE_UP_MAX: usize = 8;

/// Shared part of a CQ that raises events. The mapping lasts as long as the queue.
pub(crate) struct Armable {
    ring: Mapped,
    entries: u32,
}

impl Armable {
    /// Maps the ring of `entries` (a power of two) at `remote_cqe_ring`.
    pub(crate) fn new(shared: &Shared, remote_cqe_ring: u64, entries: u32) -> Option<Self> {
        let ring = Mapped::new(shared.memory_file()?.as_fd(), remote_cqe_ring, remote_cqe_ring_bytes(entries))?;
        Some(Self { ring, entries })
    }

    fn header(&self) -> &RemoteCqeRingHeader {
        // SAFETY: the mapping begins with the header, which consists of atomics.
        unsafe { &*self.ring.base().cast::<RemoteCqeRingHeader>() }
    }

    pub(crate) fn arming(&self) -> &Arming {
        &self.header().arming.0
    }

    /// Returns whether the ring holds a completion that the program has not taken.
    fn holds_any(&self) -> bool {
        let counter = self.header().consumed.0.load(Ordering::Relaxed);
        let at = size_of::<RemoteCqeRingHeader>() + (counter % self.entries) as usize * size_of::<RemoteCqe>();
        // SAFETY: the entry lies within the mapping. While others may write, the engine reads only
        // this atomic field of it.
        let sequence = unsafe { &(*self.ring.base().add(at).cast::<RemoteCqe>()).sequence };
        sequence.load(Ordering::Acquire) == counter.wrapping_add(1)
    }
}

impl Engine {
    /// Raises the event of a completion from the engine if the queue is armed for it.
    pub(crate) fn raise_if_armed(&mut self, process: ProcessId, cq: CqHandle, solicited_or_error: bool) {
        let Some(armable) = self.cqs.get(&cq.0).and_then(|record| record.armable.as_ref()) else { return };
        // The program arms the queue and then polls for completions. At least one side sees the
        // action of the other.
        fence(Ordering::SeqCst);
        if armable.arming().disarm(solicited_or_error) {
            self.cq_event(process, cq);
        }
    }

    /// Raises the event of an armed queue in which its own program completed work.
    pub(crate) fn notify_own(&mut self, process: usize, cq: u32) {
        if self.cqs.get(&cq).is_some_and(|record| record.process == process) {
            self.raise_due(CqHandle(cq));
        }
    }

    /// Raises the event of an armed queue of the peer, into which a program put a completion. Also
    /// checks the limit of a shared receive queue in which the program left few requests.
    pub(crate) fn notify_peer(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, record: &PostRecord) {
        let Ok(qp) = self.world.query_qp(owner, hca, qpn) else { return };
        let receiver = match qp.init.qp_type {
            QpType::Ud => self.receiver_of_datagram((hca, &qp), record).and_then(|(hca, qpn)| self.world.find_qp(hca, qpn)).map(|(_, to)| to),
            _ => self.peer_of(hca, &qp),
        };
        if let Some(receiver) = receiver {
            let (srq, cq) = match receiver.init.xrcd.and_then(|xrcd| self.world.queue_of_domain(xrcd, record.xrc_srq)) {
                Some((srq, cq)) => (Some(srq), cq),
                None => (receiver.init.srq, receiver.init.recv_cq),
            };
            self.raise_due(cq);
            srq.into_iter().for_each(|srq| self.look_at_limit(srq));
        }
    }

    /// Returns the peer of a queue pair, if the peer is connected to it.
    fn peer_of(&self, hca: HcaId, qp: &QpSnapshot) -> Option<QpSnapshot> {
        let (peer_hca, peer_qpn) = self.named_peer(hca, qp)?;
        let (_, peer) = self.world.find_qp(peer_hca, peer_qpn)?;
        (self.named_peer(peer_hca, &peer) == Some((hca, qp.qpn))).then_some(peer)
    }

    /// Raises an event that is due, and returns whether an event was due. Each event is due once,
    /// even if several programs report it.
    fn raise_due(&mut self, cq: CqHandle) -> bool {
        let Some(record) = self.cqs.get(&cq.0) else { return false };
        let is_due = record.armable.as_ref().is_some_and(|armable| armable.arming().redeem());
        if is_due && record.unread < UNREAD_MAX {
            let owner = self.processes[record.process].number;
            self.cq_event(owner, cq);
        }
        is_due
    }

    /// Returns the CQs in which a queue pair can cause due events: its receive CQ, that of its
    /// peer, and those of their XRC domain.
    pub(crate) fn queues_around(&self, hca: HcaId, qpn: Qpn) -> Vec<CqHandle> {
        let Some((_, qp)) = self.world.find_qp(hca, qpn) else { return Vec::new() };
        let peer = self.peer_of(hca, &qp);
        let domain = qp.init.xrcd.or(peer.as_ref().and_then(|peer| peer.init.xrcd)).map(|xrcd| self.world.completions_of_domain(xrcd));
        [qp.init.recv_cq].into_iter().chain(peer.map(|peer| peer.init.recv_cq)).chain(domain.into_iter().flatten()).collect()
    }

    /// Raises all due events of these queues after the end of a connection. The engine may no
    /// longer hear the program that had to report them.
    pub(crate) fn raise_all_due(&mut self, queues: &[CqHandle]) {
        for cq in queues {
            let _raised = (0..MADE_UP_MAX).take_while(|_| self.raise_due(*cq)).count();
        }
    }

    /// Raises events in place of an ended process that may have put completions into these queues.
    /// The process may have had no time to see that a queue was armed. The event may belong to an
    /// earlier completion.
    pub(crate) fn make_up_for_the_gone(&mut self, queues: &[CqHandle]) {
        self.raise_all_due(queues);
        for cq in queues {
            let Some(record) = self.cqs.get(&cq.0) else { continue };
            if record.armable.as_ref().is_some_and(|armable| armable.holds_any() && armable.arming().disarm(true)) {
                let owner = self.processes[record.process].number;
                self.cq_event(owner, *cq);
            }
        }
    }
}
