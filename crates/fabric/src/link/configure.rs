//! Changes of a link by the subnet manager: its rate, MTU and lanes, and whether it carries data.

use super::Links;
use super::construct::set_congestion_threshold;
use super::port::{Cabling, Onward};
use super::tx_pending::Ready;
use crate::numbering::{Numbering, Owner};
use softband_model::link::{Arbiter, ArbitrationTables, Framing, Returns};
use softband_model::management::LinkSettings;
use softband_model::switch::{LifetimeCode, ready_at};
use softband_sim::SimDuration;
use softband_spec::{EndSettings, FabricSpec, end_settings};
use softband_types::{LinkRate, VirtualLane};
use std::sync::OnceLock;

impl Links {
    /// Lets a port send data, or makes it discard all.
    pub(crate) fn let_data_pass(&mut self, id: u32, passes: bool) {
        let port = &mut self.ports[id as usize];
        port.is_blocked = !passes;
        // Switches look at the kind of link before they forward.
        port.onward.kind = if passes { port.kind_of_link } else { Onward::NO_LINK };
    }

    /// Sets the largest packet and the lanes of a port. Does nothing without a change, or while
    /// packets of the port are under way or in the next buffer.
    pub(crate) fn configure(&mut self, spec: &FabricSpec, numbering: &Numbering, id: u32, settings: LinkSettings) {
        let LinkSettings { mtu, vls } = settings;
        let port = &self.ports[id as usize];
        let Some(cabling) = port.cabling.filter(|cabling| (cabling.mtu, cabling.vls) != (mtu, vls)) else { return };
        let ends = spec.cables.iter().find_map(|cable| {
            let side = cable.ends.iter().position(|end| numbering.port_of(*end) == id)?;
            Some((cable, side))
        });
        let Some((cable, side)) = ends.filter(|_| self.is_quiet(id)) else { return };
        let inputs = self.inputs_of(port.owner);
        let EndSettings { flow_control, .. } = end_settings(spec, cable, side, settings);
        self.ports[cabling.peer as usize].returns = Returns::default();
        let port = &mut self.ports[id as usize];
        port.flow_control = flow_control;
        port.arbiter = Arbiter::new(vls.data_lanes(), inputs);
        (port.onward.mtu_bytes, port.onward.vls) = (mtu.bytes() as u16, vls);
        if let Some(cabling) = &mut port.cabling {
            (cabling.mtu, cabling.vls) = (mtu, vls);
        }
        self.mtu_least = OnceLock::new();
        set_congestion_threshold(port, spec, cable, side);
    }

    /// Returns the limit of a port for packets at the head of a lane.
    pub(crate) fn head_lifetime(&self, id: u32) -> LifetimeCode {
        self.ports[id as usize].head_lifetime
    }

    /// Sets the limit of a switch's port for packets at the head of a lane.
    pub(crate) fn set_head_lifetime(&mut self, id: u32, limit: LifetimeCode) {
        if self.is_switch_port(id) && self.ports[id as usize].head_lifetime != limit {
            self.ports[id as usize].head_lifetime = limit;
            self.new_limits.push(id);
        }
    }

    /// Returns the limit for the stay of packets in a switch.
    pub(crate) fn packet_lifetime(&self, switch: usize) -> LifetimeCode {
        self.switches[switch].packet_lifetime
    }

    /// Sets the limit for the stay of packets in a switch.
    pub(crate) fn set_packet_lifetime(&mut self, switch: usize, limit: LifetimeCode) {
        if std::mem::replace(&mut self.switches[switch].packet_lifetime, limit) == limit {
            return;
        }
        let first = self.switches[switch].first_port;
        let ports = self.inputs_of(self.ports[first as usize].owner) as u32;
        self.new_limits.extend(first..first + ports);
    }

    /// Returns the rate to which a port's link trains if no manager restricts it.
    pub(crate) fn full_rate(&self, id: u32) -> Option<LinkRate> {
        let present = self.ports[id as usize].cabling?.rate;
        Some(self.retrained.get(&id).map_or(present, |retrained| retrained.full))
    }

    /// Lets a port send at another rate from now on. Nothing may be on its link.
    pub(crate) fn retrain(&mut self, spec: &FabricSpec, numbering: &Numbering, id: u32, rate: LinkRate) {
        let Some(cabling) = self.ports[id as usize].cabling.filter(|cabling| cabling.rate != rate) else { return };
        let cable = spec.cables.iter().find(|cable| cable.ends.iter().any(|end| numbering.port_of(*end) == id));
        let Some(delay) = cable.map(|cable| cable.part.delay(rate)) else { return };
        let kind = self.kind_of(rate, cabling.framing);
        let port = &self.ports[id as usize];
        let through = match port.owner {
            Owner::Hca { .. } => SimDuration::ZERO,
            Owner::Switch { switch, .. } => self.switches[switch as usize].switch.forward_latency(rate.speed),
        };
        let former = self.span_since_training(id, (cabling.rate, port.sent.bytes), &port.tally);
        self.retrained.insert(id, former);
        let port = &mut self.ports[id as usize];
        port.cabling = Some(Cabling { rate, delay, ..cabling });
        (port.cable_delay, port.onward.through, port.kind_of_link) = (delay, through, kind);
        port.onward.kind = if port.is_blocked { Onward::NO_LINK } else { kind };
        self.time_pending_again(id);
    }

    /// Gives packets that a switch accepted for an output shortly before its link trained the times
    /// of the new rate: they leave after the training, so none of their bits has the old rate.
    fn time_pending_again(&mut self, id: u32) {
        let port = &mut self.ports[id as usize];
        if matches!(port.owner, Owner::Hca { .. }) {
            return; // A port of an HCA computes the time when a packet starts.
        }
        let pending: Vec<Ready> = std::iter::from_fn(|| port.tx_pending.pop_first()).collect();
        for ready in pending {
            let transit = self.packets.get_mut(ready.packet);
            let time_out = port.serialisation(transit.bytes);
            transit.time_out = time_out.as_picos() as u32;
            let at = ready_at(transit.head, port.onward.through, transit.tail - transit.head, time_out);
            // The order of packets from an input stays: each was ready after the link came up.
            port.tx_pending.insert(Ready { at: at.max(ready.at), ..ready });
        }
    }

    /// Returns the number of the link kind with this rate and framing: that of a port, or a new one.
    fn kind_of(&self, rate: LinkRate, framing: Framing) -> u16 {
        let is_same = |port: &&super::Port| port.cabling.is_some_and(|cabling| (cabling.rate, cabling.framing) == (rate, framing));
        let known = self.ports.iter().find(is_same).map(|port| port.kind_of_link);
        let kinds = || self.ports.iter().map(|port| port.kind_of_link).filter(|kind| *kind != Onward::NO_LINK);
        known.unwrap_or_else(|| kinds().max().map_or(0, |last| last + 1))
    }

    /// Sets the arbitration tables of a port.
    pub(crate) fn set_weights(&mut self, id: u32, tables: &ArbitrationTables) {
        let port = &mut self.ports[id as usize];
        if let Some(cabling) = port.cabling {
            port.arbiter.weigh(tables, cabling.vls);
        }
    }

    fn inputs_of(&self, owner: Owner) -> usize {
        match owner {
            Owner::Hca { .. } => 1,
            Owner::Switch { switch, .. } => {
                let is_own = |port: &super::Port| matches!(port.owner, Owner::Switch { switch: of, .. } if of == switch);
                self.ports[self.switches[switch as usize].first_port as usize..].iter().take_while(|port| is_own(port)).count()
            }
        }
    }

    /// Checks that no packet waits at a port, and that all blocks of the next buffer are free.
    fn is_quiet(&self, id: u32) -> bool {
        let port = &self.ports[id as usize];
        let Some(peer) = self.ports.get(port.far_end as usize) else { return true };
        let is_back = |lane| port.flow_control.blocks_missing(lane, peer.returns.blocks(lane), || port.stored(lane)) == 0;
        port.arbiter.is_empty() && port.tx_pending.first().is_none() && (0..15).map(VirtualLane).all(is_back)
    }
}
