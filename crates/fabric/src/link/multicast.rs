//! Multicast in switches: the forwarding tree, and copies.
//!
//! The tree consists of the routes from all members to the first member. A packet from a non-member
//! follows its route to that member until it meets the tree.

use super::enforcement::refuses;
use super::tx_pending::Ready;
use super::{Cabling, Hop, Links};
use crate::event::Event;
use crate::numbering::Owner;
use crate::pdes::timeline::Source;
use crate::subnet::Subnet;
use softband_model::switch::ready_at;
use softband_sim::SimDuration;
use softband_types::{HcaId, Lid};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

impl Links {
    /// Sets the multicast forwarding tables of all switches for one LID. `hcas` have the members.
    pub(crate) fn grow_tree(&mut self, mlid: Lid, hcas: &BTreeSet<HcaId>, subnet: &Subnet) {
        let is_member = |owner: Owner| matches!(owner, Owner::Hca { hca, .. } if hcas.contains(&HcaId(hca)));
        let members: Vec<u32> = (0..self.ports.len() as u32)
            .filter(|port| is_member(self.ports[*port as usize].owner) && self.ports[*port as usize].cabling.is_some())
            .collect();
        for node in &mut self.switches {
            node.switch.clear_multicast(mlid);
        }
        // Each network with members has its own tree.
        let mut roots: BTreeMap<u32, Lid> = BTreeMap::new();
        for member in members {
            let root = *roots.entry(subnet.network(member)).or_insert(subnet.lid(member));
            self.mark_route(member, root, mlid);
        }
        for node in &mut self.switches {
            if let Some(root) = roots.get(&subnet.network(node.first_port)) {
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

    /// Checks whether the copy that now leaves a switch is the last of its packet. The last copy
    /// frees the shared input buffer.
    pub(super) fn last_copy_leaves(&mut self, copies: Option<NonZeroU32>) -> bool {
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

impl Hop<'_> {
    /// Forwards a multicast packet through a switch: a copy for each output that leads to members,
    /// except the input.
    pub(super) fn fork_at_switch(&mut self, packet: u32, switch: u32, input_index: u8, time_in: SimDuration) {
        let node = &self.links.switches[switch as usize];
        let (first_port, node_number) = (node.first_port, self.links.ports[node.first_port as usize].node);
        let transit = self.links.packets.get_mut(packet);
        let (payload_bytes, bytes, head, tail) = (u32::from(transit.payload_bytes), transit.bytes, transit.head, transit.tail);
        let (input, dlid, pkey) = (first_port + u32::from(input_index), transit.dlid, transit.packet.pkey);
        let outputs = self.links.switches[switch as usize].switch.multicast_outputs(dlid);
        let branches: Vec<(u32, Cabling)> = (outputs.into_iter().filter(|output| *output != input_index))
            .map(|output| first_port + u32::from(output))
            .filter_map(|output| self.links.ports[output as usize].cabling.map(|cabling| (output, cabling)))
            .filter(|(_, onward)| payload_bytes <= onward.mtu.bytes())
            .filter(|(output, _)| !refuses(&self.links.enforcing, input, *output, pkey))
            .collect();
        let branches = if self.faults.has_plan() { self.open_branches(branches, head) } else { branches };
        if branches.is_empty() {
            return self.timeline.push_arrival(tail, node_number, (input_index, Source::Packets), Event::SwitchDiscard { packet });
        }
        // The numbers start at 1, because a packet without copies has none.
        self.links.count_received(input, bytes, dlid);
        let copies = NonZeroU32::new(self.links.copies_left.insert(branches.len() as u32) + 1);
        for (number, (output, onward)) in branches.into_iter().enumerate() {
            let id = if number == 0 {
                packet
            } else {
                let copy = self.links.packets.get_mut(packet).copy();
                self.links.packets.insert(copy)
            };
            let transit = self.links.packets.get_mut(id);
            transit.copies = copies;
            let (head, time_out) = (transit.head, onward.serialisation(transit.bytes));
            transit.time_out = time_out.as_picos() as u32;
            let at = ready_at(head, self.links.ports[output as usize].onward.through, time_in, time_out);
            let (service_level, blocks) = (transit.service_level, transit.blocks);
            let port = &self.links.ports[output as usize];
            let lane = self.subnet.lane((switch, input_index, port.owner.index()), service_level, port.onward.vls);
            self.await_ready(output, Ready { at, packet: id, input: input_index, lane, blocks });
        }
    }
}
