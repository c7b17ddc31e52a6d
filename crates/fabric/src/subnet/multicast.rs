//! Multicast: groups, the forwarding tree of the switches, and copies.
//!
//! A process joins a group when it attaches a queue pair: the subnet manager here requires no
//! membership records. The tree consists of the routes from all members to the first member. A
//! packet from a non-member follows its route to that member until it meets the tree.

use crate::event::Event;
use crate::link::port::{Cabling, Owner};
use crate::link::tx_pending::Ready;
use crate::pdes::timeline::Source;
use crate::world::{Transit, World};
use softband_model::packet::Packet;
use softband_model::switch::ready_at;
use softband_model::verbs::Group;
use softband_model::verbs::api::VerbsError;
use softband_sim::SimDuration;
use softband_types::{Gid, HcaId, Lid, ProcessId, QpType, Qpn};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

impl World {
    /// # Errors
    /// `Invalid` for a queue pair that is not UD, or for an address that is not a group's.
    /// `Unsupported` on an HCA without multicast, `NoMemory` beyond the HCA's limits.
    pub fn attach_multicast(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, mgid: Gid, mlid: Lid) -> Result<(), VerbsError> {
        if self.query_qp(owner, hca, qpn)?.init.qp_type != QpType::Ud {
            return Err(VerbsError::Invalid);
        }
        let mlid = self.lid_of_group(hca, mgid, mlid);
        self.verbs.attach_multicast(Group { hca, mlid, mgid }, qpn)?;
        self.grow_tree(mlid);
        Ok(())
    }

    /// # Errors
    /// `Invalid` if the queue pair is not attached.
    pub fn detach_multicast(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, mgid: Gid, mlid: Lid) -> Result<(), VerbsError> {
        self.query_qp(owner, hca, qpn)?;
        let mlid = self.lid_of_group(hca, mgid, mlid);
        self.verbs.detach_multicast(Group { hca, mlid, mgid }, qpn)?;
        self.grow_tree(mlid);
        Ok(())
    }

    /// Checks whether a queue pair is a member of any group.
    pub fn is_in_group(&self, hca: HcaId, qpn: Qpn) -> bool {
        self.verbs.multicast.is_attached(hca, qpn)
    }

    /// Returns the group members that receive a queue pair's packets, with their ports' LIDs.
    /// Members with a down port are left out.
    pub fn hearers(&self, (sender_hca, sender): (HcaId, Qpn), mlid: Lid, mgid: Gid) -> Vec<(Lid, Qpn)> {
        let members = |hca| self.verbs.multicast.members(Group { hca, mlid, mgid }).iter().map(move |qpn| (hca, *qpn));
        let hcas: BTreeSet<HcaId> = self.verbs.multicast.hcas(mlid).collect();
        let network_of = |hca, port| self.port_index(hca, port).map(|port| self.ports[port as usize].network);
        let network = self.find_qp(sender_hca, sender).and_then(|(_, qp)| network_of(sender_hca, qp.port));
        let hears = |(hca, qpn): (HcaId, Qpn)| {
            let (_, qp) = self.find_qp(hca, qpn)?;
            let is_deaf = qp.init.block_own_multicast && (hca, qpn) == (sender_hca, sender);
            let port = self.port(hca, qp.port).filter(|port| port.active && !is_deaf && network_of(hca, qp.port) == network)?;
            Some((port.lid, qpn))
        };
        hcas.into_iter().flat_map(members).filter_map(hears).collect()
    }

    /// Detaches a destroyed queue pair from all groups.
    pub(crate) fn leave_groups(&mut self, hca: HcaId, qpn: Qpn) {
        for mlid in self.verbs.multicast.detach_all(hca, qpn) {
            self.grow_tree(mlid);
        }
    }

    /// Sets the multicast forwarding tables of all switches for one LID.
    fn grow_tree(&mut self, mlid: Lid) {
        let hcas: BTreeSet<u32> = self.verbs.multicast.hcas(mlid).map(|hca| hca.0).collect();
        let is_member = |owner: Owner| matches!(owner, Owner::Hca { hca, .. } if hcas.contains(&hca));
        let members: Vec<u32> = (0..self.ports.len() as u32)
            .filter(|port| is_member(self.ports[*port as usize].owner) && self.ports[*port as usize].cabling.is_some())
            .collect();
        for node in &mut self.switches {
            node.switch.clear_multicast(mlid);
        }
        // Each network with members has its own tree.
        let mut roots: BTreeMap<u32, Lid> = BTreeMap::new();
        for member in members {
            let port = &self.ports[member as usize];
            let root = *roots.entry(port.network).or_insert(port.lid);
            self.mark_route(member, root, mlid);
        }
        for node in &mut self.switches {
            if let Some(root) = roots.get(&self.ports[node.first_port as usize].network) {
                node.switch.set_multicast_root(mlid, *root);
            }
        }
    }

    /// Adds both directions of the route from a member's port to the root.
    fn mark_route(&mut self, member: u32, root: Lid, mlid: Lid) {
        let mut at = self.ports[member as usize].cabling.map(|cabling| cabling.peer);
        // A route passes at most all switches.
        for _ in 0..=self.switches.len() {
            let Some(input) = at else { return };
            let Owner::Switch { switch, index } = self.ports[input as usize].owner else { return };
            let node = &mut self.switches[switch as usize];
            node.switch.add_multicast_output(mlid, index);
            let Some(output) = node.switch.route(root) else { return };
            node.switch.add_multicast_output(mlid, output as u8);
            let output = node.first_port + output as u32;
            at = self.ports[output as usize].cabling.map(|cabling| cabling.peer);
        }
    }

    /// Returns a copy of a packet for each member of its group on this HCA. A member may block its
    /// own packets.
    pub(crate) fn copies_for_members(&self, packet: &Packet, hca: HcaId) -> Vec<Packet> {
        let Some(route) = &packet.grh else { return Vec::new() };
        let group = Group { hca, mlid: packet.dlid, mgid: route.dgid };
        let members = self.verbs.multicast.members(group).iter();
        members.filter(|qpn| !self.is_deaf_to(packet, hca, **qpn)).map(|qpn| Packet { destination: *qpn, ..packet.clone() }).collect()
    }

    fn is_deaf_to(&self, packet: &Packet, hca: HcaId, qpn: Qpn) -> bool {
        let slot = self.qp_index(hca, qpn).and_then(|index| self.slot(index));
        slot.is_some_and(|slot| {
            let own_port = slot.port.is_some_and(|port| self.ports[port as usize].lid == packet.slid);
            slot.qp.attributes.init.block_own_multicast && packet.source == qpn && own_port
        })
    }

    /// Forwards a multicast packet through a switch: a copy for each output that leads to members,
    /// except the input.
    pub(crate) fn fork_at_switch(&mut self, packet: u32, switch: u32, input_index: u8, time_in: SimDuration) {
        let node = &self.switches[switch as usize];
        let (first_port, node_number) = (node.first_port, self.ports[node.first_port as usize].node);
        let transit = self.packets.get_mut(packet);
        let (payload_bytes, bytes, head, tail) = (u32::from(transit.payload_bytes), transit.bytes, transit.head, transit.tail);
        let outputs = node.switch.multicast_outputs(transit.dlid);
        let branches: Vec<(u32, Cabling)> = (outputs.into_iter().filter(|output| *output != input_index))
            .map(|output| first_port + u32::from(output))
            .filter_map(|output| self.ports[output as usize].cabling.map(|cabling| (output, cabling)))
            .filter(|(_, onward)| payload_bytes <= onward.mtu.bytes())
            .collect();
        let branches = if self.faults.is_some() { self.open_branches(branches, head) } else { branches };
        if branches.is_empty() {
            return self.queue.push_arrival(tail, node_number, (input_index, Source::Packets), Event::SwitchDiscard { packet });
        }
        // The numbers start at 1, because a packet without copies has none.
        self.count_received(first_port + u32::from(input_index), bytes);
        let copies = NonZeroU32::new(self.copies_left.insert(branches.len() as u32) + 1);
        for (number, (output, onward)) in branches.into_iter().enumerate() {
            let id = if number == 0 {
                packet
            } else {
                let copy = self.packets.get_mut(packet).copy();
                self.packets.insert(copy)
            };
            let transit = self.packets.get_mut(id);
            transit.copies = copies;
            let (head, time_out) = (transit.head, onward.serialisation(transit.bytes));
            transit.time_out = time_out.as_picos() as u32;
            let at = ready_at(head, self.ports[output as usize].onward.through, time_in, time_out);
            let (service_level, blocks) = (transit.service_level, transit.blocks);
            let port = &self.ports[output as usize];
            let lane = self.routes.lane(input_index, port.owner.index(), service_level, port.onward.vls);
            self.await_ready(output, Ready { at, packet: id, input: input_index, lane, blocks });
        }
    }

    /// Checks whether the copy that now leaves a switch is the last of its packet. The last copy
    /// frees the shared input buffer.
    pub(crate) fn last_copy_leaves(&mut self, copies: Option<NonZeroU32>) -> bool {
        let Some(id) = copies.map(|copies| copies.get() - 1) else { return true };
        let left = self.copies_left.get_mut(id);
        *left -= 1;
        if *left > 0 {
            return false;
        }
        self.copies_left.take(id);
        true
    }
}

impl Transit {
    /// Copies the packet on the same hop, for another output.
    pub(crate) fn copy(&self) -> Self {
        Self { packet: self.packet.clone(), staged: false, completes: None, ..*self }
    }
}
