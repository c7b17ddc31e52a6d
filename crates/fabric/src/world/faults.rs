//! Faults: their schedule, and the rooms that a link's change concerns.

use super::World;
use crate::event::Event;
use crate::faults::{LinkChange, Turn};
use crate::notice::Notice;
use crate::numbering::Owner;
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::{HcaId, Lid, PortNumber};

/// `IBV_EVENT_PORT_ACTIVE`.
const EVENT_PORT_ACTIVE: u32 = 9;
/// `IBV_EVENT_PORT_ERR`.
const EVENT_PORT_ERROR: u32 = 10;

impl World {
    /// Adds faults. All of them must lie in the future.
    ///
    /// # Panics
    /// Panics if a fault names an object that does not exist.
    pub fn add_faults(&mut self, faults: &[FaultSpec]) {
        if faults.is_empty() {
            return;
        }
        let changes = self.faults.add(&self.spec, &self.numbering, faults);
        self.review_trains();
        self.schedule_changes(&changes);
        self.schedule_deaths(faults);
    }

    /// Keeps a port's link off between two times by order of a manager, in place of the manager's
    /// former orders. Returns the times at which the link may change for that.
    pub(super) fn keep_link_off(&mut self, port: u32, times: (SimTime, SimTime)) -> Vec<SimTime> {
        let changes = self.faults.switch_off(&self.spec, &self.numbering, port, times);
        self.review_trains();
        self.schedule_changes(&changes);
        changes.into_iter().map(|(at, _)| at).collect()
    }

    /// Schedules all faults again after the partition of this World changed.
    pub(super) fn schedule_all_faults(&mut self) {
        self.schedule_changes(&self.faults.turns());
        let planned = self.faults.planned().to_vec();
        self.schedule_deaths(&planned);
    }

    /// Schedules an event for each change of a link, at the ends in this partition.
    fn schedule_changes(&mut self, changes: &[LinkChange]) {
        for (at, ends) in changes {
            for port in *ends {
                self.schedule_fault(*at, self.links.node(port), Event::LinkTurns { port });
            }
        }
    }

    fn schedule_deaths(&mut self, faults: &[FaultSpec]) {
        for fault in faults {
            if let FaultKind::HostDies { host } = fault.kind
                && let Some(hca) = self.hcas.first_of_host(host)
            {
                self.schedule_fault(fault.at, hca.0, Event::HostDies { host: host as u32 });
            }
        }
    }

    fn schedule_fault(&mut self, at: SimTime, node: u32, event: Event) {
        if self.timeline.has_node(node) {
            self.timeline.push(at, node, event);
        }
    }

    pub(super) fn on_link_turns(&mut self, port: u32, memory: &mut dyn HostMemory, now: SimTime) {
        self.take_trained_rate(port, now);
        let Turn { goes_down, recovers_until } = self.faults.turn(port, now);
        if let Some(goes_down) = goes_down {
            self.report_link_change(port, now);
            self.report_port(port, goes_down, now);
        }
        match goes_down {
            Some(true) => {
                self.report_port_event(port, EVENT_PORT_ERROR, now);
                let (hcas, mut hop) = self.split();
                for departing in hop.discard_all(port, now) {
                    hcas.on_departed(&mut hop, port, departing, memory, now);
                }
                hop.go_on(port, now);
            }
            // Otherwise the subnet manager makes the port Active.
            Some(false) if self.is_active(port) => self.report_port_event(port, EVENT_PORT_ACTIVE, now),
            Some(false) => {}
            None => {}
        }
        if let Some(until) = recovers_until {
            self.hop().pause_for_recovery(port, until, now);
        }
    }

    fn report_port_event(&mut self, port: u32, event: u32, now: SimTime) {
        if let Owner::Hca { hca, index } = self.numbering.owners()[port as usize] {
            let notice = Notice::PortEvent { hca: HcaId(hca), port: PortNumber(index + 1), event };
            self.timeline.report(now, hca, notice);
        }
    }

    /// Checks for a planned or active fault on the route from a port to `dlid`, now or later. False
    /// without a route.
    pub fn is_way_affected(&self, from: (HcaId, PortNumber), dlid: Lid, now: SimTime) -> bool {
        let port = self.hcas.port_index(from.0, from.1);
        port.is_some_and(|port| self.links.is_way_affected(port, dlid, &self.faults, now))
    }

    /// Checks for a fault, now or later, on any route that a port's packets may take.
    pub fn is_any_way_affected(&self, hca: HcaId, number: PortNumber, now: SimTime) -> bool {
        let port = self.hcas.port_index(hca, number);
        port.is_some_and(|port| self.links.is_any_way_affected(port, &self.faults, now))
    }

    /// Checks whether a host or switch at an end of a cable has died. Its link then never comes up
    /// again.
    pub fn has_dead_end(&self, cable: usize) -> bool {
        let now = self.now();
        let is_death = |fault: &FaultSpec| fault.at <= now && self.spec.cables_of(&fault.kind).contains(&cable);
        self.faults.planned().iter().any(is_death)
    }

    /// Checks whether a host has died.
    pub fn is_host_dead(&self, host: usize) -> bool {
        let now = self.now();
        let is_death = |fault: &FaultSpec| fault.kind == FaultKind::HostDies { host } && fault.at <= now;
        self.faults.planned().iter().any(is_death)
    }
}
