//! Multicast groups: members on HCAs.
//!
//! A process joins a group when it attaches a queue pair: the subnet manager here requires no
//! membership records.

use super::{Hcas, Hop};
use crate::subnet::Subnet;
use softband_model::packet::Packet;
use softband_model::verbs::Group;
use softband_model::verbs::api::VerbsError;
use softband_types::{Gid, HcaId, Lid, ProcessId, QpType, Qpn};
use std::collections::BTreeSet;

impl Hcas {
    /// Checks whether a queue pair may become a member of a group.
    pub(crate) fn check_attach(&self, owner: ProcessId, group: Group, qpn: Qpn) -> Result<(), VerbsError> {
        if self.query_qp(owner, group.hca, qpn)?.init.qp_type != QpType::Ud {
            return Err(VerbsError::Invalid);
        }
        self.verbs.check_attach(group, qpn)
    }

    /// Adds a queue pair to a group.
    pub(crate) fn attach_multicast(&mut self, owner: ProcessId, group: Group, qpn: Qpn) -> Result<(), VerbsError> {
        self.check_attach(owner, group, qpn)?;
        self.verbs.attach_multicast(group, qpn)
    }

    /// Removes a queue pair from a group.
    pub(crate) fn detach_multicast(&mut self, group: Group, qpn: Qpn) -> Result<(), VerbsError> {
        self.verbs.detach_multicast(group, qpn)
    }

    /// Checks whether a queue pair is a member of a group.
    pub(crate) fn is_member(&self, group: Group, qpn: Qpn) -> bool {
        self.verbs.multicast.members(group).contains(&qpn)
    }

    /// Checks whether a queue pair is a member of any group.
    pub(crate) fn is_in_group(&self, hca: HcaId, qpn: Qpn) -> bool {
        self.verbs.multicast.is_attached(hca, qpn)
    }

    /// Checks whether a process has a member of any group.
    pub(crate) fn has_member(&self, owner: ProcessId) -> bool {
        let mut members = self.verbs.multicast.all_members();
        members.any(|(hca, qpn)| self.find_qp(hca, qpn).is_some_and(|(of, _)| of == owner))
    }

    /// Returns the HCAs with members of a group.
    pub(crate) fn hcas_of_group(&self, mlid: Lid) -> BTreeSet<HcaId> {
        self.verbs.multicast.hcas(mlid).collect()
    }

    /// Returns the group members that receive a queue pair's packets, with their ports. The ports
    /// are in the sender's network.
    pub(crate) fn group_receivers(&self, subnet: &Subnet, (sender_hca, sender): (HcaId, Qpn), (mlid, mgid): (Lid, Gid)) -> Vec<(u32, Qpn)> {
        let members = |hca| self.verbs.multicast.members(Group { hca, mlid, mgid }).iter().map(move |qpn| (hca, *qpn));
        let network_of = |hca, port| self.port_index(hca, port).map(|port| subnet.network(port));
        let network = self.find_qp(sender_hca, sender).and_then(|(_, qp)| network_of(sender_hca, qp.port));
        let receives = |(hca, qpn): (HcaId, Qpn)| {
            let (_, qp) = self.find_qp(hca, qpn)?;
            let is_deaf = qp.init.block_own_multicast && (hca, qpn) == (sender_hca, sender);
            let port = self.port_index(hca, qp.port).filter(|_| !is_deaf && network_of(hca, qp.port) == network)?;
            Some((port, qpn))
        };
        self.hcas_of_group(mlid).into_iter().flat_map(members).filter_map(receives).collect()
    }

    /// Returns a copy of a packet for each member of its group on this HCA. A member may block its
    /// own packets.
    pub(super) fn copies_for_members(&self, hop: &Hop<'_>, packet: &Packet, hca: HcaId) -> Vec<Packet> {
        let Some(route) = &packet.grh else { return Vec::new() };
        let group = Group { hca, mlid: packet.dlid, mgid: route.dgid };
        let members = self.verbs.multicast.members(group).iter();
        members.filter(|qpn| !self.is_deaf_to(hop, packet, hca, **qpn)).map(|qpn| Packet { destination: *qpn, ..packet.clone() }).collect()
    }

    fn is_deaf_to(&self, hop: &Hop<'_>, packet: &Packet, hca: HcaId, qpn: Qpn) -> bool {
        let slot = self.qp_index(hca, qpn).and_then(|index| self.slot(index));
        slot.is_some_and(|slot| {
            let own_port = slot.port.is_some_and(|port| hop.subnet.lids(port).contains(packet.slid));
            slot.qp.attributes.init.block_own_multicast && packet.source == qpn && own_port
        })
    }
}
