//! Completions, errors and flushes.

use super::Hcas;
use crate::event::Event;
use crate::notice::Notice;
use crate::pdes::timeline::Timeline;
use softband_model::transport::Retired;
use softband_model::verbs::api::Completion;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CqHandle, Lid, QpState, Qpn, WcOpcode, WcStatus};

const SEND: usize = 0;
const RECEIVE: usize = 1;

/// `IBV_EVENT_QP_FATAL`.
const EVENT_FATAL: u32 = 1;
/// `IBV_EVENT_SQ_DRAINED`.
const EVENT_SEND_QUEUE_DRAINED: u32 = 5;
/// `IBV_EVENT_QP_LAST_WQE_REACHED`.
const EVENT_LAST_WQE_REACHED: u32 = 16;

impl Hcas {
    /// Schedules a completion at `at`, but not before earlier completions of the same work queue.
    fn complete(&mut self, timeline: &mut Timeline, qp: u32, queue: usize, at: SimTime, completion: Completion) {
        let Some(slot) = self.slot_mut(qp) else { return };
        let at = if completion.status == WcStatus::Success {
            slot.completed_last[queue] = at.max(slot.completed_last[queue]);
            slot.completed_last[queue]
        } else {
            // A failure comes after the last success, which still arrives at its own time. The HCA
            // also must not write to a buffer of a receive, a read or an atomic that the program
            // already has back.
            let lands = queue == RECEIVE || matches!(completion.opcode, WcOpcode::RdmaRead | WcOpcode::CompareSwap | WcOpcode::FetchAdd);
            let written = if lands { slot.in_memory_last } else { SimTime::ZERO };
            let on_bus = if queue == RECEIVE { slot.on_bus_completes } else { SimTime::ZERO };
            let behind = slot.completed_last[queue].max(written).max(on_bus) + SimDuration::from_picos(1);
            slot.failed_last[queue] = at.max(behind).max(slot.failed_last[queue]);
            slot.failed_last[queue]
        };
        self.enter(timeline, qp, queue, at, completion);
    }

    /// Schedules the entry of a completion into its completion queue.
    fn enter(&mut self, timeline: &mut Timeline, qp: u32, queue: usize, at: SimTime, completion: Completion) {
        let Some(slot) = self.slot(qp) else { return };
        let init = slot.qp.attributes.init;
        let (mut owner, node) = (slot.qp.owner, slot.qp.hca.0);
        let mut cq = if queue == SEND { init.send_cq } else { init.recv_cq };
        if let Some(srq) = completion.srq.and_then(|srq| self.verbs.srqs.get(srq.0))
            && let Some(xrc) = srq.init.xrc
        {
            (owner, cq) = (srq.owner, xrc.cq);
        }
        if completion.status != WcStatus::Success
            && let Some(counters) = self.hardware_of(qp)
        {
            if queue == SEND { counters.note_sent(completion.status) } else { counters.note_received(completion.status) }
        }
        self.nodes[node as usize].write_completion(timeline.now());
        let completion = self.completions.insert((owner, cq, completion));
        timeline.push(at, node, Event::Completed { completion });
    }

    /// Fails a receive whose payload is on the bus. In the error state the queue is already
    /// flushed, and the flushes wait for all receives on the bus: this completion stays before
    /// them.
    pub(super) fn fail_on_bus(&mut self, timeline: &mut Timeline, qp: u32, completion: Completion, status: WcStatus, at: SimTime) {
        let completion = Completion { status, ..completion };
        let Some(slot) = self.slot_mut(qp) else { return };
        if slot.qp.attributes.state != QpState::Error {
            return self.complete_receive(timeline, qp, at, completion);
        }
        slot.completed_last[RECEIVE] = at.max(slot.completed_last[RECEIVE]);
        let at = slot.completed_last[RECEIVE];
        self.enter(timeline, qp, RECEIVE, at, completion);
    }

    pub(super) fn complete_receive(&mut self, timeline: &mut Timeline, qp: u32, at: SimTime, completion: Completion) {
        self.complete(timeline, qp, RECEIVE, at, completion);
    }

    pub(crate) fn on_completed(&mut self, completion: u32, notices: &mut Vec<Notice>, now: SimTime) {
        let (process, cq, completion) = self.completions.take(completion);
        let Some(queue) = self.verbs.cqs.get(cq.0).filter(|queue| !queue.failed) else { return };
        // The late completion of a destroyed queue pair takes no room and is dropped. A shared
        // queue's program relies on its completion, which stays.
        if completion.srq.is_none() && self.qp_index(queue.hca, completion.qpn).is_none() {
            return;
        }
        let Some(queue) = self.verbs.cqs.get_mut(cq.0) else { return };
        let solicited_or_error = completion.solicited || completion.status != WcStatus::Success;
        let event = queue.take_event(now, solicited_or_error);
        notices.push(Notice::Completed { process, cq, completion });
        if event {
            notices.push(Notice::CqEvent { process, cq });
        }
    }

    /// Retires finished requests at the front of the send queue. The first failed request puts the
    /// queue pair into error.
    pub(super) fn retire(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        let Some(slot) = self.slot(qp) else { return };
        let at = now + self.nodes[slot.qp.hca.0 as usize].part.completion_write;
        while let Some(slot) = self.slot_mut(qp) {
            let Some(retired) = slot.qp.requester.retire(&slot.qp.attributes) else { break };
            self.transfers.end(1, now);
            self.complete_send(timeline, qp, at, retired);
            if retired.status != WcStatus::Success {
                self.on_send_error(timeline, qp, at);
                break;
            }
        }
        self.note_drained(timeline, qp, now);
    }

    /// Reports that a draining send queue has finished its started work, if the program requested
    /// it.
    pub(super) fn note_drained(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        let drained = slot.qp.attributes.state == QpState::Sqd && slot.qp.requester.is_drained();
        if drained && std::mem::take(&mut slot.tells_drained) {
            let at = slot.completed_last[SEND].max(now);
            self.report_qp_event(timeline, qp, EVENT_SEND_QUEUE_DRAINED, at);
        }
    }

    fn complete_send(&mut self, timeline: &mut Timeline, qp: u32, at: SimTime, retired: Retired) {
        if retired.opcode == WcOpcode::LocalInvalidate
            && let Some(slot) = self.slot_mut(qp)
        {
            // Payload that came through the window may still be on the bus. The program learns of
            // the invalidation, by this completion or a later one, when the payload has landed.
            slot.completed_last[SEND] = slot.completed_last[SEND].max(slot.in_memory_last);
        }
        if !retired.signaled {
            return;
        }
        let Some(slot) = self.slot(qp) else { return };
        let a = &slot.qp.attributes;
        let completion = Completion {
            status: retired.status,
            opcode: retired.opcode,
            byte_len: retired.byte_len,
            send_retired: retired.count,
            ..blank(a.qpn, retired.wr_id)
        };
        self.complete(timeline, qp, SEND, at, completion);
    }

    /// Puts a reliable queue pair into error; an unreliable queue pair loses only its send queue
    /// (IBTA 10.3.1.6).
    fn on_send_error(&mut self, timeline: &mut Timeline, qp: u32, at: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        if slot.qp.attributes.init.qp_type.is_reliable() {
            self.put_into_error(timeline, qp, at);
        } else {
            slot.qp.attributes.state = QpState::Sqe;
            self.flush_sends(timeline, qp, at);
        }
    }

    /// Puts a queue pair into error and flushes both its queues in order.
    pub(super) fn put_into_error(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        let former = std::mem::replace(&mut slot.qp.attributes.state, QpState::Error);
        slot.fetching = false;
        self.flush_sends(timeline, qp, now);
        self.flush_receives(timeline, qp, now);
        let Some(slot) = self.slot(qp).filter(|slot| slot.qp.attributes.init.srq.is_some()) else { return };
        if former != QpState::Error {
            // The queue pair takes no more requests from the shared queue, and its own have
            // completed (IBTA 11.6.3.1).
            let at = slot.completed_last[RECEIVE].max(slot.on_bus_completes).max(slot.failed_last[RECEIVE]).max(now);
            self.report_qp_event(timeline, qp, EVENT_LAST_WQE_REACHED, at);
        }
    }

    /// Puts a queue pair into error after a failure that only an event can report.
    pub(super) fn fail_fatally(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        self.report_qp_event(timeline, qp, EVENT_FATAL, now);
        self.put_into_error(timeline, qp, now);
    }

    /// Handles a full program ring of `cq`: completions are lost, so its queue pairs go to error
    /// (IBTA 10.4.2.1).
    pub(crate) fn overflow_cq(&mut self, timeline: &mut Timeline, now: SimTime, cq: CqHandle) {
        let Some(queue) = self.verbs.cqs.get_mut(cq.0) else { return };
        if std::mem::replace(&mut queue.failed, true) {
            return;
        }
        let (process, node) = (queue.owner, queue.hca.0);
        timeline.report(now, node, Notice::CqError { process, cq });
        for index in 0..self.qps.len() {
            let Some(slot) = &self.qps[index] else { continue };
            let init = slot.qp.attributes.init;
            if (init.send_cq == cq || init.recv_cq == cq) && slot.qp.attributes.state != QpState::Reset {
                self.fail_fatally(timeline, index as u32, now);
            }
        }
    }

    pub(super) fn flush_sends(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        while let Some(slot) = self.slot_mut(qp) {
            let Some(retired) = slot.qp.requester.flush(&slot.qp.attributes) else { break };
            self.transfers.end(1, now);
            self.complete_send(timeline, qp, now, retired);
        }
    }

    pub(super) fn flush_receives(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        while let Some(slot) = self.slot_mut(qp) {
            let Some(request) = slot.qp.responder.flush() else { break };
            let qpn = slot.qp.attributes.qpn;
            let completion = Completion { status: WcStatus::FlushError, srq: request.srq, ..blank(qpn, request.wr_id) };
            let completion = Completion { opcode: WcOpcode::Receive, ..completion };
            self.complete_receive(timeline, qp, now, completion);
        }
    }
}

fn blank(qpn: Qpn, wr_id: u64) -> Completion {
    Completion {
        wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Send,
        byte_len: 0,
        immediate: None,
        invalidated: None,
        qpn,
        source_qpn: Qpn(0),
        source_lid: Lid::NONE,
        destination_lid: Lid::NONE,
        service_level: softband_types::ServiceLevel(0),
        pkey_index: 0,
        has_grh: false,
        solicited: false,
        srq: None,
        send_retired: 0,
    }
}
