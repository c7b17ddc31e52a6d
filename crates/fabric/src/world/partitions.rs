//! A fabric in partitions: what a World exchanges with the Worlds of the other nodes.

use super::World;
use crate::link::{Parcel, Starved};
use crate::pdes::partition::Partitioning;
use softband_types::HcaId;

impl World {
    /// Executes only the events of partition `own` from now on. The call needs windows, and comes
    /// before the first event.
    ///
    /// # Panics
    /// Panics if the World does not work in windows.
    pub fn take_partition(&mut self, partitioning: &Partitioning, own: u8) {
        self.timeline.take_partition(partitioning, own);
        if self.faults.has_plan() {
            // Events of other partitions do not belong in this queue.
            self.timeline.clear(self.numbering.nodes());
            self.schedule_all_faults();
        }
        self.links.take_partition(partitioning.partitions(), &self.timeline);
    }

    /// Checks whether this World executes an HCA's events.
    pub fn has_hca(&self, hca: HcaId) -> bool {
        self.timeline.has_node(hca.0)
    }

    /// Returns the parcels for another partition, in send order.
    pub fn take_parcels(&mut self, partition: u8) -> Vec<Parcel> {
        self.links.take_parcels(partition)
    }

    /// Accepts the parcels that another partition sent in the window that just ended.
    pub fn take_in(&mut self, parcels: Vec<Parcel>) {
        self.hop().take_in(parcels);
        let moment = self.timeline.happened_moment();
        let (hcas, mut hop) = self.split();
        while let Some(id) = hop.take_ending() {
            hcas.end_train(&mut hop, id, moment);
        }
    }

    /// Checks whether a port of this partition has waited so long that the lanes of all partitions
    /// need a check.
    pub fn wants_deadlock_check(&self) -> bool {
        self.links.wants_deadlock_check()
    }

    /// Returns every lane between two switches whose next packet lacks credits.
    pub fn starved_lanes(&self) -> Vec<Starved> {
        self.links.starved_lanes()
    }

    /// Checks the starved lanes of all partitions, in the order of their ports, at the end of a
    /// window.
    pub fn check_deadlock(&mut self, starved: Vec<Starved>) {
        self.hop().check_deadlock(starved);
    }

    /// Checks the whole fabric for deadlock, if a lane has waited long. The delay is harmless: a
    /// deadlock persists.
    pub(super) fn check_deadlock_where_asked(&mut self) {
        if self.wants_deadlock_check() {
            self.check_deadlock(self.starved_lanes());
        }
    }
}
