//! Builds the links of a fabric: ports, switches, and trained cables.

use super::port::{Cabling, Onward, Port};
use super::{Links, SwitchNode};
use crate::numbering::Numbering;
use crate::slab::Slab;
use softband_model::link::{Arbiter, Framing, blocks_per_lane};
use softband_model::packet::PacketPool;
use softband_model::switch::Switch;
use softband_sim::SimDuration;
use softband_spec::{CableSpec, EndSettings, FabricSpec, PortRef, end_settings, framing_of, largest_packet, settings_of, weights_of};
use softband_types::LinkRate;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Rates and framings of the links, indexed by link kind.
type KindsOfLinks = Vec<(LinkRate, Framing)>;

impl Links {
    /// Builds the ports and switches of a fabric, and trains its cables.
    ///
    /// # Panics
    /// Panics if a cable names a port that does not exist. The loader refuses such files.
    pub(crate) fn new(spec: &FabricSpec, numbering: &Numbering) -> Self {
        let parts = credit_returns(spec);
        let ports = numbering.owners().iter().map(|owner| {
            let node = numbering.node_of(*owner);
            let (framing, credit_return) = parts[node];
            Port::new(node as u32, *owner, framing, framing.credit_return(credit_return))
        });
        let mut links = Self {
            ports: ports.collect(),
            switches: switches(spec, numbering),
            packets: Slab::default(),
            packet_pool: PacketPool::default(),
            trains: super::trains::Trains::new(),
            lane15: super::lane15::Lane15::default(),
            copies_left: Slab::default(),
            deadlock_checks: Vec::new(),
            new_limits: Vec::new(),
            deadlocks_told: Vec::new(),
            outboxes: Vec::new(),
            marking: spec.subnet.congestion_control.as_ref().map(|control| control.marking),
            capture: None,
            elsewhere: Default::default(),
            enforcing: Vec::new(),
            unforwarded: BTreeMap::new(),
            retrained: BTreeMap::new(),
            foreign: Slab::default(),
            mtu_least: OnceLock::new(),
            names: names(spec),
        };
        let mut kinds = KindsOfLinks::new();
        for cable in &spec.cables {
            links.train(spec, numbering, &mut kinds, cable);
        }
        links
    }

    /// Brings a link up: both ports learn rate, lanes, MTU and each other's buffer.
    fn train(&mut self, spec: &FabricSpec, numbering: &Numbering, kinds: &mut KindsOfLinks, cable: &CableSpec) {
        let settings = settings_of(spec, cable);
        let framing = framing_of(spec, cable.ends[0]);
        let indices = cable.ends.map(|end| numbering.port_of(end));
        let kind = kind_of_link(kinds, cable.rate, framing);
        for side in 0..2 {
            let inputs = match cable.ends[side] {
                PortRef::Hca { .. } => 1,
                PortRef::Switch { switch, .. } => usize::from(spec.switches[switch].part.ports),
            };
            let port = &mut self.ports[indices[side] as usize];
            assert!(port.cabling.is_none(), "a checked fabric cables no port twice");
            port.far_end = indices[1 - side];
            port.cable_delay = cable.part.delay(cable.rate);
            port.cabling = Some(Cabling {
                peer: indices[1 - side],
                rate: cable.rate,
                framing,
                delay: cable.part.delay(cable.rate),
                vls: settings.vls,
                mtu: settings.mtu,
            });
            let through = match cable.ends[side] {
                PortRef::Hca { .. } => SimDuration::ZERO,
                PortRef::Switch { switch, .. } => self.switches[switch].switch.forward_latency(cable.rate.speed),
            };
            port.kind_of_link = kind;
            port.onward = Onward { through, kind, mtu_bytes: settings.mtu.bytes() as u16, vls: settings.vls };
            port.arbiter = Arbiter::new(settings.vls.data_lanes(), inputs);
            if let Some(tables) = weights_of(spec, cable.ends[side]) {
                port.arbiter.weigh(tables, settings.vls);
            }
            set_congestion_threshold(port, spec, cable, side);
            let EndSettings { flow_control, head_lifetime, arrivals } = end_settings(spec, cable, side, settings);
            (port.flow_control, port.head_lifetime) = (flow_control, head_lifetime);
            port.decide_over_arrivals(arrivals);
        }
    }
}

/// Returns each node's framing, and its delay from freed buffer to flow-control packet.
fn credit_returns(spec: &FabricSpec) -> Vec<(Framing, SimDuration)> {
    let hcas = spec.hosts.iter().flat_map(|host| &host.hcas).map(|hca| (hca.link_layer, hca.part.credit_return));
    let switches = spec.switches.iter().map(|switch| (switch.part.link_layer(), switch.part.credit_return));
    hcas.chain(switches).map(|(layer, credit_return)| (spec.framing(layer), credit_return)).collect()
}

fn switches(spec: &FabricSpec, numbering: &Numbering) -> Vec<SwitchNode> {
    let node = |(index, part): (usize, &softband_model::parts::SwitchPart)| SwitchNode {
        switch: Switch::new(part),
        first_port: numbering.first_port_of_switch(index),
        buffer_hold: part.buffer_hold,
        packet_lifetime: spec.subnet.lifetimes.packet_life_time,
    };
    spec.switches.iter().map(|switch| &switch.part).enumerate().map(node).collect()
}

fn names(spec: &FabricSpec) -> Vec<String> {
    let hcas = spec.hosts.iter().flat_map(|host| host.hcas.iter().map(move |hca| format!("{}/{}", host.name, hca.device)));
    hcas.chain(spec.switches.iter().map(|switch| switch.name.clone())).collect()
}

/// Returns the number of the link kind with this rate and framing.
fn kind_of_link(kinds: &mut KindsOfLinks, rate: LinkRate, framing: Framing) -> u16 {
    let known = kinds.iter().position(|kind| *kind == (rate, framing));
    known.unwrap_or_else(|| {
        kinds.push((rate, framing));
        kinds.len() - 1
    }) as u16
}

/// Gives a switch port its congestion threshold.
///
/// Ports to HCAs detect congestion even while they wait for credits, like ports with the annex's
/// Victim_Mask set. No other switch behind them could detect it.
///
/// A lane stays congested until its queue has fallen below the threshold by the largest packet.
/// Without this hysteresis a greedy input escapes the marks: its packets wait behind each packet of
/// another input, and fewer packets wait behind its own. Gran and others found that the hysteresis
/// must exceed one MTU ("On the Relation Between Congestion Control, Switch Arbitration and
/// Fairness", CCGrid 2011).
pub(super) fn set_congestion_threshold(port: &mut Port, spec: &FabricSpec, cable: &CableSpec, side: usize) {
    let (Some(control), Some(cabling)) = (&spec.subnet.congestion_control, port.cabling) else { return };
    let PortRef::Switch { switch, .. } = cable.ends[side] else { return };
    let part = &spec.switches[switch].part;
    let above = control.marking.congested_above(blocks_per_lane(part.port_buffer_bytes, cabling.vls));
    if let Some(above) = above.filter(|_| part.congestion_control) {
        port.arbiter.detect_congestion(above, largest_packet(cabling.mtu), matches!(cable.ends[1 - side], PortRef::Hca { .. }));
    }
}
