//! Paths through the switches, as their forwarding tables have them.

use super::Links;
use crate::faults::Faults;
use crate::numbering::Owner;
use softband_sim::SimTime;
use softband_types::{Lid, Mtu};

impl Links {
    /// Returns the path MTU from port `from` to port `to`, whose LID is `dlid`: the smallest MTU of
    /// the path's links. `None` without a route.
    pub(crate) fn path_mtu(&self, from: u32, (to, dlid): (u32, Lid)) -> Option<Mtu> {
        let mut at = from;
        let mut least = self.ports[at as usize].cabling?.mtu;
        // A message to its own port crosses no link.
        if from == to {
            return Some(least);
        }
        // No route passes a switch twice.
        for _ in 0..=self.switches.len() {
            let cabling = self.ports[at as usize].cabling?;
            least = least.min(cabling.mtu);
            let Owner::Switch { switch, .. } = self.ports[cabling.peer as usize].owner else { return (cabling.peer == to).then_some(least) };
            let node = &self.switches[switch as usize];
            at = node.first_port + node.switch.route(dlid)? as u32;
        }
        None
    }

    /// Checks for a planned or active fault on the route from a port to `dlid`, now or later. False
    /// without a route.
    pub(crate) fn is_way_affected(&self, from: u32, dlid: Lid, faults: &Faults, now: SimTime) -> bool {
        let mut at = Some(from).filter(|_| faults.has_plan());
        // No route passes a switch twice.
        for _ in 0..=self.switches.len() {
            let Some(port) = at.filter(|port| self.ports[*port as usize].cabling.is_some()) else { return false };
            if faults.is_affected_from(port, now) {
                return true;
            }
            let Owner::Switch { switch, .. } = self.ports[self.ports[port as usize].far_end as usize].owner else { return false };
            let node = &self.switches[switch as usize];
            at = node.switch.route(dlid).map(|output| node.first_port + output as u32);
        }
        false
    }

    /// Checks for a fault, now or later, on any route that a port's packets may take.
    pub(crate) fn is_any_way_affected(&self, own: u32, faults: &Faults, now: SimTime) -> bool {
        let is_between_switches = |port: u32| {
            let far_end = self.ports[port as usize].far_end;
            self.is_switch_port(port) && (far_end as usize) < self.ports.len() && self.is_switch_port(far_end)
        };
        let mut ports = (0..self.ports.len() as u32).filter(|port| *port == own || is_between_switches(*port));
        faults.has_plan() && ports.any(|port| faults.is_affected_from(port, now))
    }
}
