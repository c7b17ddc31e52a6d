//! Ports, addresses, paths and multicast groups, as programs ask for them.

use super::World;
use crate::numbering::Owner;
use softband_model::management::agent::LinkState;
use softband_model::parts::HcaPart;
use softband_model::verbs::Group;
use softband_model::verbs::api::{AddressVector, PortSnapshot, VerbsError};
use softband_spec::SubnetManager;
use softband_types::{Gid, Guid, HcaId, Lid, LinkLayer, LinkRate, LinkSpeed, LinkWidth, Mtu, PKey, PortNumber, ProcessId, Qpn};
use std::collections::BTreeSet;

impl World {
    /// Returns the HCA with this index in the host with this index, both from 0.
    ///
    /// # Panics
    /// If the fabric has no such HCA.
    pub fn hca_id(&self, host: usize, hca_index: usize) -> HcaId {
        self.hcas.find(host, hca_index).expect("the caller knows the fabric file")
    }

    /// Returns the index of an HCA's host, and the HCA's index within that host.
    ///
    /// # Panics
    /// If `hca` is not part of this fabric.
    pub fn place_of(&self, hca: HcaId) -> (usize, usize) {
        self.hcas.place_of(hca)
    }

    /// Returns the parameters of an HCA.
    ///
    /// # Panics
    /// If `hca` is not part of this fabric.
    pub fn hca_part(&self, hca: HcaId) -> &HcaPart {
        self.hcas.part(hca)
    }

    /// Returns the P_Key table of an HCA's ports, as the subnet manager wrote it.
    pub fn pkeys(&self, hca: HcaId) -> &[PKey] {
        self.hcas.pkeys(hca)
    }

    /// Returns the GUID of an HCA. Port n has this GUID plus n.
    ///
    /// # Panics
    /// If `hca` is not part of this fabric.
    pub fn node_guid(&self, hca: HcaId) -> Guid {
        let (host, index) = self.hcas.place_of(hca);
        self.spec.hosts[host].hcas[index].node_guid
    }

    /// Returns the link layer of an HCA's ports.
    ///
    /// # Panics
    /// If `hca` is not part of this fabric.
    pub fn link_layer(&self, hca: HcaId) -> LinkLayer {
        let (host, index) = self.hcas.place_of(hca);
        self.spec.hosts[host].hcas[index].link_layer
    }

    /// Returns the state of a port; `None` if the HCA has no such port.
    pub fn port(&self, hca: HcaId, number: PortNumber) -> Option<PortSnapshot> {
        let port = self.hcas.port_index(hca, number)?;
        let (part, cabling) = (self.hcas.part(hca), self.links.cabling(port));
        Some(PortSnapshot {
            hca,
            active: self.is_active(port),
            state: self.link_state(port),
            is_disabled: self.agents.agent(hca.0).is_disabled(number),
            lid: self.subnet.lid(port),
            lmc: self.subnet.lids(port).lmc,
            sm_lid: if cabling.is_some() { self.agents.agent(hca.0).manager_lid(number) } else { Lid::NONE },
            mtu_max: part.mtu_max,
            mtu_active: self.hcas.mtu_active(&self.links, hca, number)?,
            vl_cap: part.vl_cap,
            rate: cabling.map_or(LinkRate { width: LinkWidth::X1, speed: LinkSpeed::Sdr }, |cabling| cabling.rate),
            link_layer: self.links.framing(port).link_layer(),
            gids: self.subnet.gids(port),
        })
    }

    /// Returns the port of an HCA with this GID: of InfiniBand, or of Ethernet by its IPv4 address.
    pub fn port_with_gid(&self, gid: Gid) -> Option<(HcaId, PortNumber)> {
        let port = self.subnet.port_with_gid(gid).or_else(|| self.subnet.port_with_ipv4(gid))?;
        match self.numbering.owners()[port as usize] {
            Owner::Hca { hca, index } => Some((HcaId(hca), PortNumber(index + 1))),
            // Switches of Ethernet have no addresses, and those of InfiniBand no queue pairs.
            Owner::Switch { .. } => None,
        }
    }

    /// Returns the path bits of a LID: its difference from the first LID of its port.
    pub fn path_bits(&self, lid: Lid) -> u8 {
        self.subnet.port_with_lid(lid).map_or(0, |port| self.subnet.lids(port).path_bits(lid))
    }

    pub(super) fn is_active(&self, port: u32) -> bool {
        self.link_state(port) == Some(LinkState::Active)
    }

    /// Returns the state of a port; `None` without a link.
    pub(super) fn link_state(&self, port: u32) -> Option<LinkState> {
        let is_up = self.links.cabling(port).is_some() && !self.faults.is_link_down(port);
        is_up.then(|| self.agents.agent(self.links.node(port)).link_state(self.links.number(port)))
    }

    /// Returns a program's address vector with the destination's LID filled in. InfiniBand vectors
    /// keep every field except the service level, which the routing engine may set per path. On
    /// real fabrics programs query the subnet manager for it; here they need no query. Ethernet
    /// vectors always have a global route (`IB_QP_AV` of RoCE in the kernel's
    /// `ib_resolve_eth_dmac`).
    ///
    /// # Errors
    /// `Invalid` for a vector without a global route, or for a GID index that does not match the
    /// destination. `Unresolved` if no host has the IPv4 address. A link-local address needs no
    /// resolution: packets to an unknown link-local address are lost.
    pub fn resolve(&self, hca: HcaId, vector: &AddressVector) -> Result<AddressVector, VerbsError> {
        self.hcas.resolve(&self.subnet, hca, vector)
    }

    /// Returns the HCA that packets with this LID reach from a port; `None` without an HCA or a
    /// route.
    pub fn hca_reached(&self, from: (HcaId, PortNumber), lid: Lid) -> Option<HcaId> {
        self.subnet.hca_reached(self.hcas.port_index(from.0, from.1)?, lid)
    }

    /// Returns the smallest MTU of all links.
    pub fn mtu_least(&self) -> Option<Mtu> {
        self.links.mtu_least()
    }

    /// Returns the path MTU from a port to another, as a path record states it: the smallest MTU of
    /// the path's links. `None` without a route.
    pub fn path_mtu(&self, from: (HcaId, PortNumber), to: (HcaId, PortNumber)) -> Option<Mtu> {
        let [from, to] = [from, to].map(|(hca, number)| self.hcas.port_index(hca, number));
        let to = to?;
        self.links.path_mtu(from?, (to, self.subnet.lid(to)))
    }

    /// Attaches a UD QP to a multicast group. A second time changes nothing.
    ///
    /// # Errors
    /// `Invalid` for a QP that is not UD, or for an address that is not a group's. `Unsupported` on
    /// an HCA without multicast, `NoMemory` beyond the HCA's limits.
    pub fn attach_multicast(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, mgid: Gid, mlid: Lid) -> Result<(), VerbsError> {
        // Checked first, because the LID below exists only for an HCA of this fabric.
        self.hcas.query_qp(owner, hca, qpn)?;
        let mlid = self.subnet.lid_of_group(self.link_layer(hca), mgid, mlid);
        self.hcas.attach_multicast(owner, Group { hca, mlid, mgid }, qpn)?;
        self.grow_trees([mlid]);
        Ok(())
    }

    /// Checks whether [`Self::attach_multicast`] would add a member to a group. Changes nothing.
    pub fn would_attach(&self, owner: ProcessId, hca: HcaId, qpn: Qpn, mgid: Gid, mlid: Lid) -> bool {
        self.hcas.query_qp(owner, hca, qpn).is_ok() && {
            let group = Group { hca, mlid: self.subnet.lid_of_group(self.link_layer(hca), mgid, mlid), mgid };
            !self.hcas.is_member(group, qpn) && self.hcas.check_attach(owner, group, qpn).is_ok()
        }
    }

    /// Checks whether [`Self::detach_multicast`] would take a member from a group. Changes nothing.
    pub fn would_detach(&self, owner: ProcessId, hca: HcaId, qpn: Qpn, mgid: Gid, mlid: Lid) -> bool {
        self.hcas.query_qp(owner, hca, qpn).is_ok() && {
            let mlid = self.subnet.lid_of_group(self.link_layer(hca), mgid, mlid);
            self.hcas.is_member(Group { hca, mlid, mgid }, qpn)
        }
    }

    /// Detaches a QP from a multicast group.
    ///
    /// # Errors
    /// `Invalid` if the QP is not attached.
    pub fn detach_multicast(&mut self, owner: ProcessId, hca: HcaId, qpn: Qpn, mgid: Gid, mlid: Lid) -> Result<(), VerbsError> {
        self.hcas.query_qp(owner, hca, qpn)?;
        let mlid = self.subnet.lid_of_group(self.link_layer(hca), mgid, mlid);
        self.hcas.detach_multicast(Group { hca, mlid, mgid }, qpn)?;
        self.grow_trees([mlid]);
        Ok(())
    }

    /// Returns the HCAs with queue pairs in a multicast group, and those whose ports have joined it.
    pub(super) fn members_of_group(&self, mlid: Lid) -> BTreeSet<HcaId> {
        self.hcas.hcas_of_group(mlid).into_iter().chain(self.hcas_that_joined(mlid)).collect()
    }

    /// Sets the multicast forwarding tables of all switches for groups with new members.
    pub(super) fn grow_trees(&mut self, groups: impl IntoIterator<Item = Lid>) {
        for mlid in groups {
            match self.spec.subnet.manager {
                SubnetManager::Builtin => {
                    let members = self.members_of_group(mlid);
                    self.links.grow_tree(mlid, &members, &self.subnet);
                }
                SubnetManager::BuiltinByPackets => self.report_members(mlid),
                // OpenSM builds the trees of the groups that hosts join.
                SubnetManager::OpenSm => {}
            }
        }
    }

    /// Checks whether a queue pair is a member of any group.
    pub fn is_in_group(&self, hca: HcaId, qpn: Qpn) -> bool {
        self.hcas.is_in_group(hca, qpn)
    }

    /// Checks whether a process has a queue pair in any multicast group.
    pub fn has_member(&self, owner: ProcessId) -> bool {
        self.hcas.has_member(owner)
    }

    /// Returns the group members that receive a queue pair's packets, with their ports' LIDs.
    /// Members with a down port are left out.
    pub fn group_receivers(&self, sender: (HcaId, Qpn), mlid: Lid, mgid: Gid) -> Vec<(Lid, Qpn)> {
        let group_receivers = self.hcas.group_receivers(&self.subnet, sender, (mlid, mgid)).into_iter();
        group_receivers.filter(|(port, _)| self.is_active(*port)).map(|(port, qpn)| (self.subnet.lid(port), qpn)).collect()
    }
}
