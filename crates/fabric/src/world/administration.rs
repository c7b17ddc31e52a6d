//! Subnet administration of the built-in manager, at the port with its LID.

use super::World;
use crate::event::Event;
use crate::numbering::Owner;
use softband_model::management::ManagementPacket;
use softband_model::management::administration::{Administration, Inventory, Node, Path, PathEnd, Paths};
use softband_model::verbs::api::AddressVector;
use softband_sim::SimTime;
use softband_spec::SubnetManager;
use softband_types::{Gid, HcaId, Lid, LinkRate, Mtu, PortLids, PortNumber};
use softband_wire::mad::{AttributeId, GmpNotice, Layout, Notice, SMP_DATA_BYTES, Smp, TrapNumber};
use std::collections::BTreeSet;

impl World {
    /// Checks whether a packet is for the built-in manager's subnet administration.
    pub(super) fn administers(&self, port: u32, packet: &ManagementPacket) -> bool {
        let lid = self.subnet.manager_lid();
        let is_here = self.spec.subnet.manager != SubnetManager::OpenSm && lid != Lid::NONE && self.subnet.lid(port) == lid;
        is_here && Administration::wants(packet)
    }

    /// Returns the answers of the built-in manager to a packet for subnet administration, at once:
    /// they belong to the time before the run, as the manager's configuration does. Returns none if
    /// the manager works by packets.
    pub fn ask_administration(&mut self, packet: ManagementPacket) -> Vec<ManagementPacket> {
        if self.spec.subnet.manager.works_by_packets() || self.subnet.manager_lid() == Lid::NONE || !Administration::wants(&packet) {
            return Vec::new();
        }
        self.administer(packet, self.timeline.now())
    }

    /// Returns the answers to a packet for subnet administration.
    pub(super) fn administer(&mut self, packet: ManagementPacket, now: SimTime) -> Vec<ManagementPacket> {
        let mut administration = std::mem::take(self.agents.administration_mut());
        let answers = administration.answer(packet, self, now);
        let changed = administration.take_changed_groups();
        *self.agents.administration_mut() = administration;
        self.grow_trees(changed);
        answers
    }

    /// Reports a port that has come or gone to the subscribers of the built-in manager.
    pub(super) fn report_port(&mut self, port: u32, has_gone: bool, now: SimTime) {
        if !self.links.framing(port).has_lane_15() || self.is_switch(port) || self.spec.subnet.manager == SubnetManager::OpenSm {
            return;
        }
        let number = if has_gone { TrapNumber::GID_OUT_OF_SERVICE } else { TrapNumber::GID_IN_SERVICE };
        let Some(gid) = self.subnet.gids(port)[0] else { return };
        if has_gone {
            self.agents.administration_mut().end_subscriptions_of(gid);
        }
        let Some(manager) = self.with_lid(self.subnet.manager_lid()) else { return };
        let reports = self.agents.administration_mut().report_about(number, gid, manager);
        self.send_reports(reports, now);
    }

    /// Forwards a trap to the subscribers of the built-in manager.
    pub(super) fn forward_trap(&mut self, trap: &ManagementPacket, now: SimTime) {
        let Some(issuer) = self.with_lid(trap.slid) else { return };
        let notice = Notice::parse(&Smp::view(&trap.mad[..]).data()).unwrap_or_default();
        let reports = self.agents.administration_mut().report(&GmpNotice { notice, issuer_gid: issuer.gid }, self.subnet.manager_lid());
        self.send_reports(reports, now);
    }

    fn send_reports(&mut self, reports: Vec<ManagementPacket>, now: SimTime) {
        let Some(port) = self.subnet.port_with_lid(self.subnet.manager_lid()) else { return };
        for report in reports {
            let packet = self.links.keep_management(port, Box::new(report));
            self.timeline.push(now, self.links.node(port), Event::ManagementPosted { packet });
        }
    }

    /// Returns the HCAs whose ports have joined the group with this LID.
    pub(super) fn hcas_that_joined(&self, mlid: Lid) -> BTreeSet<HcaId> {
        let ports = self.agents.administration().receivers(mlid).into_iter().filter_map(|gid| self.port_of(self.with_gid(gid)?));
        let hca_of = |port: u32| match self.numbering.owners()[port as usize] {
            Owner::Hca { hca, .. } => Some(HcaId(hca)),
            Owner::Switch { .. } => None,
        };
        ports.filter_map(hca_of).collect()
    }

    /// Returns the port of an end.
    fn port_of(&self, end: PathEnd) -> Option<u32> {
        self.subnet.port_with_lid(end.lid)
    }
}

impl Inventory for World {
    fn nodes(&self) -> Vec<Node> {
        (0..self.numbering.nodes() as u32).map(|number| self.node(number)).collect()
    }

    fn attribute(&mut self, node: u32, port: PortNumber, attribute: AttributeId, modifier: u32) -> Option<[u8; SMP_DATA_BYTES]> {
        let first = self.numbering.first_port_of_node(node);
        // PortInfo of a switch states the port by which the manager's request comes (IBTA 14.2.5.6).
        let towards = || self.links.output_for(first, self.subnet.manager_lid()).map(|output| self.links.number(output));
        let is_named_by_way = attribute == AttributeId::PORT_INFO && self.is_switch(first);
        let port = if is_named_by_way { towards().unwrap_or(port) } else { port };
        let (hardware, agents) = self.hardware(first);
        agents.agent(node).attribute(port, attribute, modifier, &hardware)
    }

    fn neighbour(&self, node: u32, port: PortNumber) -> Option<(Lid, PortNumber)> {
        let port = self.links.sibling(self.numbering.first_port_of_node(node), port.0)?;
        let peer = self.links.cabling(port).filter(|_| !self.faults.is_link_down(port))?.peer;
        Some((self.lid_of_node(peer), self.links.number(peer)))
    }
}

impl World {
    fn node(&self, number: u32) -> Node {
        let (first, ports) = (self.numbering.first_port_of_node(number), self.agents.agent(number).ports());
        let is_switch = self.is_switch(first);
        let lids = if is_switch {
            vec![(PortNumber(0), self.subnet.lid(first))]
        } else {
            (1..=ports).map(|port| (PortNumber(port), self.subnet.lid(first + u32::from(port) - 1))).collect()
        };
        Node { number, is_switch, ports, lids: lids.into_iter().filter(|(_, lid)| *lid != Lid::NONE).collect() }
    }
}

impl World {
    /// Returns the limits of a path from a switch to itself, which crosses no link: those of the
    /// fabric's links.
    fn own_limits(&self, source: u32, destination: u32) -> Option<(Mtu, LinkRate)> {
        (source == destination && self.is_switch(source)).then(|| self.least())?
    }
}

impl Paths for World {
    fn ends(&self) -> Vec<PathEnd> {
        let lids = (0..self.numbering.owners().len() as u32).map(|port| self.subnet.lid(port));
        lids.filter(|lid| *lid != Lid::NONE).filter_map(|lid| self.with_lid(lid)).collect()
    }

    fn with_gid(&self, gid: Gid) -> Option<PathEnd> {
        let lid = self.subnet.port_with_gid(gid).map(|port| self.subnet.lid(port))?;
        (lid != Lid::NONE).then_some(PathEnd { lid, gid })
    }

    fn with_lid(&self, lid: Lid) -> Option<PathEnd> {
        let port = self.subnet.port_with_lid(lid)?;
        self.subnet.gids(port)[0].map(|gid| PathEnd { lid, gid })
    }

    fn lids_of(&self, end: PathEnd) -> PortLids {
        self.port_of(end).map(|port| self.subnet.lids(port)).unwrap_or_default()
    }

    fn path(&self, from: PathEnd, to: PathEnd) -> Option<Path> {
        let (source, destination) = (self.port_of(from)?, self.port_of(to)?);
        let (mtu, rate) = self.links.path_limits(source, (destination, to.lid)).or_else(|| self.own_limits(source, destination))?;
        let vector = AddressVector { dlid: to.lid, ..AddressVector::default() };
        Some(Path { mtu, rate, service_level: self.subnet.level_of_path(from.lid, &vector) })
    }

    fn least(&self) -> Option<(Mtu, LinkRate)> {
        let ends = (0..self.numbering.owners().len() as u32).filter(|port| !self.is_switch(*port));
        let slowest = ends.filter_map(|port| self.links.cabling(port)).map(|cabling| cabling.rate).max_by_key(|rate| rate.picos_of_bytes(1_000_000));
        self.links.mtu_least().zip(slowest)
    }
}
