//! The writes that carry a plan out.

use super::plan::{NO_PORT, Plan, place_of};
use super::problem::Problem;
use super::requests::{Data, Request};
use super::topology::{End, Topology, is_up};
use super::{Ask, Configuration, PortClasses, note};
use crate::link::WeightedLane;
use softband_types::{Lid, PKey, PortNumber, ServiceLevel, VirtualLane};
use softband_wire::mad::{
    AttributeId, Layout, LinearForwardingTable, LinkSpeedCode, LinkSpeedExtCode, LinkWidthCode, MKeyProtection, MulticastForwardingTable, PKeyTable,
    PhysicalState, PortInfo, PortState, SMP_DATA_BYTES, SlToVlMappingTable, SwitchInfo, VlArbitrationTable, VlWeight,
};
use std::collections::{BTreeMap, BTreeSet};

/// Entries of a block of a forwarding table.
const LINEAR_BLOCK: usize = 64;
/// Multicast LIDs of a block, and ports of a position.
const MULTICAST_BLOCK: u16 = 32;
const MULTICAST_PORTS: u8 = 16;
/// First multicast LID.
const MULTICAST_FIRST: u16 = 0xC000;
/// Entries of a block of partition keys, and of half an arbitration table.
const BLOCK: usize = 32;

/// Makes the writes of a plan.
pub(super) struct Writes<'a> {
    pub(super) topology: &'a Topology,
    pub(super) configuration: &'a Configuration,
    pub(super) plan: &'a Plan,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Writes<'_> {
    fn write(&self, end: End, attribute: AttributeId, modifier: u32, layout: &impl Layout) -> Option<Request<Ask>> {
        let mut data: Box<Data> = Box::new([0; SMP_DATA_BYTES]);
        layout.emit(&mut data[..]);
        let route = self.topology.port(end)?.route.clone();
        Some(Request { route, data: Some(data), attribute, modifier, purpose: Ask::Write(end) })
    }

    /// Returns all ports with a link that the manager uses.
    fn linked(&self) -> Vec<(End, End)> {
        let of_switches = self.plan.switches.iter().flat_map(|node| self.topology.nodes[*node].ports.keys().map(move |port| (*node, *port)));
        let all = self.plan.ends.iter().copied().chain(of_switches);
        all.filter_map(|end| Some((end, self.topology.linked(end)?))).collect()
    }

    /// Returns PortInfo of a port as the manager wants it, but for its state.
    fn port_info(&self, end: End, peer: Option<End>) -> Option<PortInfo> {
        let present = self.topology.port(end)?.info?;
        let is_switch = self.topology.nodes[end.0].is_switch();
        let mut info = PortInfo {
            m_key: self.configuration.m_key,
            m_key_lease_period: 0,
            m_key_protect_bits: if self.configuration.m_key == 0 { present.m_key_protect_bits } else { MKeyProtection::HIDE_KEY },
            port_state: PortState::NO_CHANGE,
            port_physical_state: PhysicalState::NO_CHANGE,
            link_down_default_state: PhysicalState::NO_CHANGE,
            link_width_enabled: LinkWidthCode(0),
            link_speed_enabled: LinkSpeedCode(0),
            link_speed_ext_enabled: LinkSpeedExtCode(0),
            lmc: if is_switch { 0 } else { self.configuration.lmc.value() },
            ..present
        };
        if let Some(lid) = self.plan.lids.get(&end) {
            (info.lid, info.master_sm_lid, info.master_sm_sl) = (*lid, self.plan.manager_lid, ServiceLevel(0));
        }
        if let Some(settings) = peer.and_then(|peer| Plan::settings(self.topology, self.configuration, end, peer)) {
            (info.neighbor_mtu, info.operational_vls) = (settings.mtu.into(), settings.vls.into());
            if is_switch {
                info.hoq_life = self.head_lifetime(peer);
            }
            if let Some(classes) = self.classes(is_switch) {
                info.vl_high_limit = classes.tables.high_limit;
            }
        }
        Some(info)
    }

    /// Returns HOQLife of a switch's port that leads to this end.
    fn head_lifetime(&self, peer: Option<End>) -> u8 {
        let lifetimes = &self.configuration.lifetimes;
        let leads_to_switch = peer.is_some_and(|peer| self.topology.nodes[peer.0].is_switch());
        if leads_to_switch { lifetimes.head_of_queue_lifetime } else { lifetimes.leaf_head_of_queue_lifetime }.code()
    }

    fn classes(&self, is_switch: bool) -> Option<&PortClasses> {
        if is_switch { self.configuration.switch.as_ref() } else { self.configuration.hca.as_ref() }
    }

    /// Writes addresses, lanes and MTU of all ports, and the size of the forwarding tables.
    pub(super) fn ports(&mut self) -> Vec<Request<Ask>> {
        let own = self.plan.switches.iter().map(|node| ((*node, 0), None));
        let all: Vec<(End, Option<End>)> = own.chain(self.linked().into_iter().map(|(end, peer)| (end, Some(peer)))).collect();
        let mut writes = Vec::new();
        for (end, peer) in all {
            let Some((info, present)) = self.port_info(end, peer).zip(self.topology.port(end).and_then(|port| port.info)) else { continue };
            if !states(&info, &present) || (info.m_key, info.hoq_life) != (present.m_key, present.hoq_life) {
                writes.extend(self.write(end, AttributeId::PORT_INFO, u32::from(end.1), &info));
            }
        }
        for node in &self.plan.switches {
            let Some(present) = self.topology.nodes[*node].switch_info else { continue };
            let (top, lifetime) = (self.plan.top().0, self.configuration.lifetimes.packet_life_time.code());
            if (present.linear_fdb_top, present.life_time_value) != (top, lifetime) || present.port_state_change {
                let info = SwitchInfo { linear_fdb_top: top, life_time_value: lifetime, ..present };
                writes.extend(self.write((*node, 0), AttributeId::SWITCH_INFO, 0, &info));
            }
        }
        writes
    }

    /// Writes the tables of all switches and ports.
    pub(super) fn tables(&mut self, groups: &BTreeMap<Lid, BTreeSet<End>>) -> Vec<Request<Ask>> {
        let mut writes = Vec::new();
        for (number, node) in self.plan.switches.iter().enumerate() {
            for (block, lids) in self.plan.tables[number].chunks(LINEAR_BLOCK).enumerate() {
                let port = |index: usize| PortNumber(lids.get(index).copied().unwrap_or(NO_PORT));
                let table = LinearForwardingTable { ports: std::array::from_fn(port) };
                writes.extend(self.write((*node, 0), AttributeId::LINEAR_FORWARDING_TABLE, block as u32, &table));
            }
            self.switch_lanes(*node, &mut writes);
        }
        for (end, _) in self.linked() {
            self.weights(end, &mut writes);
        }
        for end in &self.plan.ends {
            self.hca_lanes(*end, &mut writes);
        }
        for end in self.plan.ends.clone() {
            self.pkeys(end, &mut writes);
        }
        writes.extend(self.multicast(groups));
        writes
    }

    /// Writes the lanes of a switch's packets, by input and output.
    fn switch_lanes(&self, node: usize, writes: &mut Vec<Request<Ask>>) {
        if self.configuration.switch.is_none() && !self.plan.routes.choose_lanes() {
            return;
        }
        let ports: Vec<(u8, End)> =
            (self.topology.nodes[node].ports.keys()).filter_map(|port| Some((*port, self.topology.linked((node, *port))?))).collect();
        for (output, peer) in &ports {
            let Some(settings) = Plan::settings(self.topology, self.configuration, (node, *output), *peer) else { continue };
            for (input, _) in &ports {
                let lane = |level: usize| self.plan.routes.lane(input - 1, output - 1, ServiceLevel(level as u8), settings.vls);
                let table = SlToVlMappingTable { vls: std::array::from_fn(lane) };
                let modifier = u32::from(*input) << 8 | u32::from(*output);
                writes.extend(self.write((node, 0), AttributeId::SL_TO_VL_MAPPING_TABLE, modifier, &table));
            }
        }
    }

    fn hca_lanes(&self, end: End, writes: &mut Vec<Request<Ask>>) {
        let Some((classes, peer)) = self.configuration.hca.as_ref().zip(self.topology.linked(end)) else { return };
        let Some(settings) = Plan::settings(self.topology, self.configuration, end, peer) else { return };
        let lane = |level: usize| classes.sl2vl.lane(ServiceLevel(level as u8), settings.vls);
        let table = SlToVlMappingTable { vls: std::array::from_fn(lane) };
        writes.extend(self.write(end, AttributeId::SL_TO_VL_MAPPING_TABLE, 0, &table));
    }

    /// Writes the halves of both arbitration tables that a port has.
    fn weights(&self, end: End, writes: &mut Vec<Request<Ask>>) {
        let Some(classes) = self.classes(self.topology.nodes[end.0].is_switch()) else { return };
        let Some(info) = self.topology.port(end).and_then(|port| port.info) else { return };
        let tables = [(1, &classes.tables.low, info.vl_arbitration_low_cap), (3, &classes.tables.high, info.vl_arbitration_high_cap)];
        for (first, lines, room) in tables {
            for half in 0..usize::from(room).div_ceil(BLOCK).min(2) {
                let line = |index: usize| lines.get(half * BLOCK + index).copied().unwrap_or(WeightedLane { lane: VirtualLane(0), weight: 0 });
                let entry = |index: usize| VlWeight { vl: line(index).lane, weight: line(index).weight };
                let table = VlArbitrationTable { entries: std::array::from_fn(entry) };
                let modifier = (first + half as u32) << 16 | u32::from(end.1);
                writes.extend(self.write(end, AttributeId::VL_ARBITRATION_TABLE, modifier, &table));
            }
        }
    }

    fn pkeys(&mut self, end: End, writes: &mut Vec<Request<Ask>>) {
        let default = [PKey::DEFAULT_FULL];
        let Some(guid) = self.topology.port(end).map(|port| port.guid) else { return };
        let keys = self.configuration.pkeys.get(&guid).map_or(&default[..], |keys| keys);
        if keys.len() > usize::from(self.topology.nodes[end.0].info.partition_cap) {
            return note(self.problems, Problem::TooManyPKeys(place_of(self.topology, end)));
        }
        for (block, keys) in keys.chunks(BLOCK).enumerate() {
            let key = |index: usize| keys.get(index).copied().unwrap_or(PKey(0));
            let table = PKeyTable { p_keys: std::array::from_fn(key) };
            writes.extend(self.write(end, AttributeId::P_KEY_TABLE, block as u32, &table));
        }
    }

    /// Writes the multicast tables of the groups, and of those that have just lost all members.
    pub(super) fn multicast(&self, groups: &BTreeMap<Lid, BTreeSet<End>>) -> Vec<Request<Ask>> {
        let mut masks: BTreeMap<(usize, u8, u16), [u16; MULTICAST_BLOCK as usize]> = BTreeMap::new();
        for (mlid, members) in groups.iter().filter(|(mlid, _)| mlid.is_multicast()) {
            let members: Vec<End> = members.iter().copied().collect();
            let index = mlid.0 - MULTICAST_FIRST;
            let mut tree = self.plan.multicast_tree(self.topology, &members);
            for node in &self.plan.switches {
                let outputs = tree.remove(node).unwrap_or_default();
                for position in 0..=self.topology.nodes[*node].info.num_ports / MULTICAST_PORTS {
                    let block = masks.entry((*node, position, index / MULTICAST_BLOCK)).or_default();
                    for port in outputs.iter().filter(|port| **port / MULTICAST_PORTS == position) {
                        block[usize::from(index % MULTICAST_BLOCK)] |= 1 << (port % MULTICAST_PORTS);
                    }
                }
            }
        }
        let write = |((node, position, block), port_masks)| {
            let modifier = u32::from(position) << 28 | u32::from(block);
            self.write((node, 0), AttributeId::MULTICAST_FORWARDING_TABLE, modifier, &MulticastForwardingTable { port_masks })
        };
        masks.into_iter().filter_map(write).collect()
    }

    /// Writes the state of all ports that have not reached it.
    pub(super) fn states(&self, state: PortState) -> Vec<Request<Ask>> {
        let mut writes = Vec::new();
        for (end, peer) in self.linked() {
            let Some(present) = self.topology.port(end).and_then(|port| port.info).filter(is_up) else { continue };
            if present.port_state.0 < state.0
                && let Some(info) = self.port_info(end, Some(peer))
            {
                let info = PortInfo { port_state: state, ..info };
                writes.extend(self.write(end, AttributeId::PORT_INFO, u32::from(end.1), &info));
            }
        }
        writes
    }
}

/// Checks whether PortInfo states the values that the manager wants.
fn states(wanted: &PortInfo, info: &PortInfo) -> bool {
    let values = |info: &PortInfo| (info.lid, info.lmc, info.master_sm_lid, info.neighbor_mtu, info.operational_vls, info.vl_high_limit);
    values(wanted) == values(info) && (wanted.port_state == PortState::NO_CHANGE || wanted.port_state == info.port_state)
}

/// Checks whether the answer to a write states its values.
pub(super) fn is_done(attribute: AttributeId, wanted: &Data, answer: &Data) -> bool {
    match attribute {
        AttributeId::PORT_INFO => match (PortInfo::parse(wanted), PortInfo::parse(answer)) {
            (Ok(wanted), Ok(info)) => states(&wanted, &info),
            _ => false,
        },
        AttributeId::SWITCH_INFO => SwitchInfo::view(wanted).linear_fdb_top() == SwitchInfo::view(answer).linear_fdb_top(),
        _ => wanted == answer,
    }
}
