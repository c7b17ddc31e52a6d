//! Packets that leave an HCA, or stay in it.

use super::frames::FRAME;
use super::{Hcas, Hop};
use crate::link::{Departing, Transit};
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;

impl Hcas {
    /// Handles a packet that stays in its HCA: for the same port, or a multicast copy for members
    /// on this HCA. A packet without a cable, or on a lane that never sends, ends here.
    pub(crate) fn on_packet_ready(&mut self, hop: &mut Hop<'_>, id: u32, memory: &mut dyn HostMemory, now: SimTime) {
        let Transit { port, lane, dlid, .. } = *hop.links.in_flight(id);
        if dlid.is_multicast() {
            self.on_multicast_ready(hop, id, now);
        }
        let departing = if hop.subnet.lids(port).contains(dlid) {
            let transit = hop.links.in_flight(id);
            transit.head = now;
            transit.tail = now;
            let departing = transit.take_departing(lane);
            self.on_looped_back(hop, id, memory, now);
            departing
        } else {
            // The packet has no cable or a lane that never sends, or it is the local copy of a
            // packet that has left.
            let mut transit = hop.links.take(id);
            let never_sends = !hop.links.sends_on(port, lane);
            hop.links.count_discards(port, u64::from(never_sends));
            transit.take_departing(lane)
        };
        if let Some(departing) = departing {
            self.on_departed(hop, port, departing, memory, now);
        }
    }

    /// Handles a packet that has left the HCA: completes its message, and frees its place in the
    /// staging buffer.
    pub(crate) fn on_departed(&mut self, hop: &mut Hop<'_>, port: u32, departing: Departing, memory: &mut dyn HostMemory, now: SimTime) {
        let Departing { lane, bytes, completes } = departing;
        match completes {
            Some(FRAME) => self.report_sent(hop, port, now),
            Some((qp, epoch)) => {
                if let Some(slot) = self.slot_mut(qp).filter(|slot| slot.qp.epoch == epoch) {
                    slot.qp.requester.on_sent();
                    self.retire(hop.timeline, qp, now);
                }
            }
            None => {}
        }
        self.release_place(hop, port, (lane, bytes), memory, now);
    }
}
