//! Paths through the switches, as their forwarding tables have them.

use super::Links;
use crate::faults::Faults;
use crate::numbering::Owner;
use softband_sim::SimTime;
use softband_types::{Lid, LinkRate, Mtu};

impl Links {
    /// Returns the path MTU from port `from` to port `to`, whose LID is `dlid`: the smallest MTU of
    /// the path's links. `None` without a route.
    pub(crate) fn path_mtu(&self, from: u32, to: (u32, Lid)) -> Option<Mtu> {
        self.path_limits(from, to).map(|(mtu, _)| mtu)
    }

    /// Returns the smallest MTU and the lowest rate of the links from port `from` to port `to`, whose
    /// LID is `dlid`. A port of a switch stands for the switch. `None` without a route.
    pub(crate) fn path_limits(&self, from: u32, (to, dlid): (u32, Lid)) -> Option<(Mtu, LinkRate)> {
        let (start, end) = (self.ports[from as usize].owner, self.ports[to as usize].owner);
        let mut at = match start {
            Owner::Hca { .. } => from,
            Owner::Switch { switch, .. } => self.output_towards(switch, dlid)?,
        };
        let mut cabling = self.ports[at as usize].cabling?;
        let mut least = (cabling.mtu, cabling.rate);
        // A message to its own port crosses no link.
        if from == to {
            return Some(least);
        }
        // No route passes a switch twice.
        for _ in 0..=self.switches.len() {
            least = (least.0.min(cabling.mtu), slower(least.1, cabling.rate));
            let switch = match (self.ports[cabling.peer as usize].owner, end) {
                (Owner::Hca { .. }, _) => return (cabling.peer == to).then_some(least),
                (Owner::Switch { switch, .. }, Owner::Switch { switch: last, .. }) if switch == last => return Some(least),
                (Owner::Switch { switch, .. }, _) => switch,
            };
            at = self.output_towards(switch, dlid)?;
            cabling = self.ports[at as usize].cabling?;
        }
        None
    }

    /// Returns the output port of a switch for a LID.
    fn output_towards(&self, switch: u32, dlid: Lid) -> Option<u32> {
        let node = &self.switches[switch as usize];
        node.switch.route(dlid).map(|output| node.first_port + output as u32)
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
            at = self.output_towards(switch, dlid);
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

/// Returns the slower of two rates. Equal times choose the first.
fn slower(one: LinkRate, other: LinkRate) -> LinkRate {
    const BYTES: u32 = 1_000_000;
    if other.picos_of_bytes(BYTES) > one.picos_of_bytes(BYTES) { other } else { one }
}
