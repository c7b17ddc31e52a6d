//! Congestion control at HCAs: receivers of marked packets notify the source, and sources throttle
//! their flows (IBTA annex A10).

use super::send_engine::transit;
use super::{Hcas, Hop, Work};
use crate::event::Event;
use crate::link::Links;
use crate::pdes::timeline::Timeline;
use softband_model::packet::Packet;
use softband_model::transport::{Flow, InjectionSettings, Side, Throttle, congestion_notification};
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;
use softband_types::{HcaId, ServiceLevel};

/// A flow, for both ways of telling flows apart.
#[derive(Clone, Copy)]
pub(super) struct FlowOf {
    pub qp: u32,
    pub port: u32,
    pub service_level: ServiceLevel,
}

impl Hcas {
    /// Returns the congestion notice of a marked packet to its source. The requested
    /// acknowledgement carries it; without a request a separate packet does.
    pub(super) fn on_fecn(&mut self, hop: &mut Hop<'_>, qp: u32, packet: &Packet, port: u32, tail: SimTime) {
        // A datagram of a group came to no LID of the port.
        let slid = if packet.dlid.is_multicast() { hop.subnet.lid(port) } else { packet.dlid };
        let Some(slot) = self.qps[qp as usize].as_deref_mut() else { return };
        let part = &self.nodes[slot.qp.hca.0 as usize].part;
        if !part.congestion_control {
            return;
        }
        hop.links.count_fecn(port);
        if packet.ack_request {
            slot.becn_due = true;
            return;
        }
        let at = tail + part.ack_processing;
        let notification = congestion_notification(packet, slid);
        let lane = self.lane_at(hop.links, port, notification.service_level);
        let notification = hop.links.packet_pool().place(notification);
        let transit = transit(hop.links, notification, port, lane);
        self.ready_at(hop, Work { qp, side: Side::Responder }, transit, at);
    }

    /// Throttles a flow after its receiver reported congestion.
    pub(super) fn on_becn(&mut self, links: &mut Links, hca: u32, packet: &Packet, port: u32, now: SimTime) {
        let Some(qp) = self.qp_index(HcaId(hca), packet.destination).filter(|_| self.nodes[hca as usize].part.congestion_control) else { return };
        links.count_becn(port);
        let flow = FlowOf { qp, port, service_level: packet.service_level };
        self.with_throttle(flow, |throttle, settings| throttle.on_becn(settings, now));
    }

    /// Returns the earliest time of a flow's next packet, if the flow must wait.
    pub(super) fn held_back_until(&mut self, hca: u32, flow: FlowOf, now: SimTime) -> Option<SimTime> {
        if self.injection.is_none() || !self.nodes[hca as usize].part.congestion_control {
            return None;
        }
        self.with_throttle(flow, |throttle, _| throttle.not_before()).filter(|at| *at > now)
    }

    /// Counts a packet of `bytes` bytes that a flow hands to the link.
    pub(super) fn note_injected(&mut self, links: &Links, hca: u32, flow: FlowOf, bytes: u32, now: SimTime) {
        if self.injection.is_none() || !self.nodes[hca as usize].part.congestion_control {
            return;
        }
        let Some(cabling) = links.cabling(flow.port) else { return };
        let time = cabling.serialisation(bytes);
        self.with_throttle(flow, |throttle, settings| throttle.on_injected(settings, time, now));
    }

    fn with_throttle<T>(&mut self, flow: FlowOf, act: impl FnOnce(&mut Throttle, &InjectionSettings) -> T) -> Option<T> {
        let settings = self.injection.as_ref()?;
        let throttle = match settings.flow {
            Flow::QueuePair => &mut self.qps[flow.qp as usize].as_deref_mut()?.throttle,
            Flow::ServiceLevel => &mut self.ports[flow.port as usize].throttles[usize::from(flow.service_level.0 & 15)],
        };
        Some(act(throttle, settings))
    }

    /// Takes work out of the engine's queue until its flow may continue.
    pub(super) fn hold_back(&mut self, timeline: &mut Timeline, hca: u32, work: Work, flow: FlowOf, until: SimTime) {
        if self.injection.as_ref().is_some_and(|settings| settings.flow == Flow::QueuePair) {
            return timeline.push(until, hca, Event::InjectionDue { qp: work.qp, side: work.side });
        }
        // First come, first served: the queue pairs of a level take turns.
        let level = flow.service_level.0 & 15;
        let held = &mut self.ports[flow.port as usize].held_back[usize::from(level)];
        held.push_back(work);
        if held.len() == 1 {
            timeline.push(until, hca, Event::LevelDue { port: flow.port, level });
        }
    }

    pub(crate) fn on_injection_due(&mut self, hop: &mut Hop<'_>, work: Work, memory: &mut dyn HostMemory, now: SimTime) {
        let Some(slot) = self.slot(work.qp) else { return };
        let hca = slot.qp.hca.0;
        self.nodes[hca as usize].ready.push_back(work);
        self.pump(hop, hca, memory, now);
    }

    pub(crate) fn on_level_due(&mut self, hop: &mut Hop<'_>, port: u32, level: u8, memory: &mut dyn HostMemory, now: SimTime) {
        let at = &mut self.ports[port as usize];
        let hca = at.hca;
        let held = std::mem::take(&mut at.held_back[usize::from(level)]);
        self.nodes[hca as usize].ready.extend(held);
        self.pump(hop, hca, memory, now);
    }
}
