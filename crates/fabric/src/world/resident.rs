//! The subnet manager that works by packets inside the fabric: its packets, timers and findings.

use super::World;
use crate::event::Event;
use crate::management::Resident;
use crate::numbering::Owner;
use softband_model::management::ManagementPacket;
use softband_model::management::manager::Manager;
use softband_sim::SimTime;
use softband_spec::manager_configuration;
use softband_types::{Lid, PortNumber};
use std::collections::BTreeSet;

impl World {
    /// Gives the model's own manager a port in each network: the first cabled port of an HCA there.
    /// It begins at time zero.
    pub(super) fn house_manager(&mut self) {
        let mut networks = BTreeSet::new();
        let ports = 0..self.numbering.owners().len() as u32;
        let ports = ports.filter(|port| !self.is_switch(*port) && self.links.cabling(*port).is_some());
        let ports: Vec<u32> = ports.filter(|port| networks.insert(self.subnet.network(*port))).collect();
        let resident = Resident::new(Manager::new(manager_configuration(&self.spec), ports.len()), ports);
        if let Some(port) = resident.first_port() {
            self.describe_manager(port);
            self.timeline.push(SimTime::ZERO, self.links.node(port), Event::ManagerDue);
            self.agents.set_resident(resident);
        }
    }

    pub(super) fn on_manager_due(&mut self, now: SimTime) {
        if let Some(resident) = self.agents.resident_mut() {
            resident.go_on(now);
        }
        self.serve_manager(now);
    }

    /// Hands a packet to the manager. Returns false if it is for other software of the host.
    pub(super) fn is_for_manager(&mut self, port: u32, packet: &ManagementPacket) -> bool {
        let now = self.timeline.now();
        let is_taken = self.agents.resident_mut().is_some_and(|resident| resident.take(port, packet, now));
        if is_taken {
            self.serve_manager(now);
        }
        is_taken
    }

    /// Lets the manager sweep after a change of its own port. Changes of other ports reach it as
    /// traps of switches.
    pub(super) fn tell_manager(&mut self, port: u32, now: SimTime) {
        if let Some(resident) = self.agents.resident_mut().filter(|resident| resident.has(port)) {
            resident.manager_mut().start(now);
            self.serve_manager(now);
        }
    }

    /// Reports the members of a multicast group to the manager.
    pub(super) fn report_members(&mut self, mlid: Lid) {
        let now = self.timeline.now();
        let hcas = self.members_of_group(mlid);
        let mut members = Vec::new();
        for port in 0..self.numbering.owners().len() as u32 {
            if let Owner::Hca { hca, index } = self.numbering.owners()[port as usize]
                && let Some(hca) = hcas.iter().find(|member| member.0 == hca)
                && self.links.cabling(port).is_some()
            {
                members.push((self.node_guid(*hca), PortNumber(index + 1)));
            }
        }
        if let Some(resident) = self.agents.resident_mut() {
            resident.manager_mut().set_members(mlid, members, now);
        }
        self.serve_manager(now);
    }

    /// Sends the manager's packets, schedules its next event, and takes over paths of a sweep that
    /// has ended.
    fn serve_manager(&mut self, now: SimTime) {
        let Some(resident) = self.agents.resident_mut() else { return };
        while let Some((port, packet)) = resident.next_packet() {
            let packet = self.links.keep_management(port, packet);
            self.timeline.push(now, self.links.node(port), Event::ManagementPosted { packet });
        }
        if let (Some(due), Some(port)) = (resident.next_event(), resident.first_port()) {
            self.timeline.push(due, self.links.node(port), Event::ManagerDue);
        }
        if let Some(paths) = resident.take_paths() {
            self.subnet.adopt(paths.manager_lid, paths.routes, &paths.leaves);
        }
    }
}
