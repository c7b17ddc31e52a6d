//! Events of CQs into which programs put completions themselves, in wall pace. The program finds in
//! the `Arming` word whether an event is due. It then notifies the engine, which raises the
//! event.

use crate::completion::record::CqRecord;
use crate::realtime::datagrams::receiver_of_datagram;
use crate::realtime::direct::named_peer;
use crate::realtime::room::DataPlane;
use softband_ipc::post::PostRecord;
use softband_model::verbs::api::QpSnapshot;
use softband_types::{CqHandle, HcaId, ProcessId, QpType, Qpn};
use std::sync::atomic::{Ordering, fence};

/// Most events that the engine makes up for at once. More than one is due only if a program arms a
/// queue again before it got the last event.
const MADE_UP_MAX: usize = 8;

impl DataPlane<'_> {
    /// Raises the event of a completion from the engine if the queue is armed for it.
    pub(crate) fn raise_if_armed(&mut self, process: ProcessId, cq: CqHandle, solicited_or_error: bool) {
        let Some(armable) = self.cqs.get(cq.0).and_then(CqRecord::armable) else { return };
        // The program arms the queue and then polls for completions. At least one side sees the
        // action of the other.
        fence(Ordering::SeqCst);
        if armable.arming().disarm(solicited_or_error) {
            self.cq_event(process, cq);
        }
    }

    /// Raises the event of an armed queue in which its own program completed work.
    pub(crate) fn notify_own(&mut self, process: usize, cq: u32) {
        if self.cqs.get(cq).is_some_and(|record| record.process() == process) {
            self.raise_due(CqHandle(cq));
        }
    }

    /// Raises the event of an armed queue of the peer, into which a program put a completion. Also
    /// checks the limit of a shared receive queue in which the program left few requests.
    pub(crate) fn notify_peer(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, record: &PostRecord) {
        let Ok(qp) = self.world.query_qp(owner, hca, qpn) else { return };
        let receiver = match qp.init.qp_type {
            QpType::Ud => receiver_of_datagram(self.world, (hca, &qp), record).and_then(|(hca, qpn)| self.world.find_qp(hca, qpn)).map(|(_, to)| to),
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
        let (peer_hca, peer_qpn) = named_peer(self.world, hca, qp)?;
        let (_, peer) = self.world.find_qp(peer_hca, peer_qpn)?;
        (named_peer(self.world, peer_hca, &peer) == Some((hca, qp.qpn))).then_some(peer)
    }

    /// Raises an event that is due, and returns whether an event was due. Each event is due once,
    /// even if several programs report it.
    fn raise_due(&mut self, cq: CqHandle) -> bool {
        let Some(record) = self.cqs.get(cq.0) else { return false };
        let is_due = record.armable().is_some_and(|armable| armable.arming().redeem());
        if is_due && record.has_room_for_events() {
            let owner = self.processes[record.process()].number();
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
    pub(crate) fn raise_events_of_ended_producers(&mut self, queues: &[CqHandle]) {
        self.raise_all_due(queues);
        for cq in queues {
            let Some(record) = self.cqs.get(cq.0) else { continue };
            if record.armable().is_some_and(|armable| armable.holds_any() && armable.arming().disarm(true)) {
                let owner = self.processes[record.process()].number();
                self.cq_event(owner, *cq);
            }
        }
    }
}
