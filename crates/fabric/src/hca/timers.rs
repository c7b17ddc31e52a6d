//! Timers of requesters: the retransmission timeout, and the wait for a receiver (RNR).
//!
//! [`softband_model::transport`] computes the deadlines. This module turns them into events.

use super::{Hcas, Hop};
use crate::event::Event;
use crate::pdes::timeline::Timeline;
use softband_model::transport::Side;
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;

impl Hcas {
    pub(crate) fn on_ack_timer(&mut self, hop: &mut Hop<'_>, qp: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        if slot.timer_at != Some(now) {
            return; // An earlier deadline replaced this one.
        }
        slot.timer_at = None;
        slot.qp.requester.on_timer(&slot.qp.attributes, now);
        self.count_remark(qp);
        self.after_requester(hop, qp, memory, now);
    }

    pub(crate) fn on_receiver_waited(&mut self, hop: &mut Hop<'_>, qp_ref: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let (qp, epoch) = self.qp_refs.take(qp_ref);
        if let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch) {
            slot.qp.requester.on_receiver_waited_for();
            self.wake(hop, qp, Side::Requester, memory, now);
        }
    }

    /// Follows up on any input to a requester: retires requests, arms the timer, sends more.
    pub(super) fn after_requester(&mut self, hop: &mut Hop<'_>, qp: u32, memory: &mut dyn HostMemory, now: SimTime) {
        self.retire(hop.timeline, qp, now);
        self.arm_timer(hop.timeline, qp, now);
        self.wake(hop, qp, Side::Requester, memory, now);
    }

    /// Keeps one timer event no later than the requester's deadline. Deadlines that move later cost
    /// nothing until it fires.
    pub(super) fn arm_timer(&mut self, timeline: &mut Timeline, qp: u32, now: SimTime) {
        let Some(slot) = self.slot_mut(qp) else { return };
        let Some(deadline) = slot.qp.requester.deadline() else { return };
        if slot.timer_at.is_none_or(|at| at > deadline) {
            let at = deadline.max(now);
            slot.timer_at = Some(at);
            let node = slot.qp.hca.0;
            timeline.push(at, node, Event::AckTimer { qp });
        }
    }
}
