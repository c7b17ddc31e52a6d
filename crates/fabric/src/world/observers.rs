//! Counters, names and checks for observers of a fabric.

use super::World;
use crate::hca::{HcaCounters, QueuePairRepeats, QueuePairView};
use crate::link::{CarriedElsewhere, PacketSink, PortCounters};
use crate::numbering::Owner;
use softband_sim::SimTime;
use softband_spec::PortRef;
use softband_types::{HcaId, Lid, PortNumber, ProcessId, Qpn};

impl World {
    /// Returns the counters of every cabled port of this partition, HCAs first, in the order of the
    /// fabric file.
    pub fn counters(&self) -> Vec<PortCounters> {
        self.links.counters(&self.timeline, &self.faults)
    }

    /// Counts packets from a port of an HCA to `dlid` that crossed the fabric outside the model, at
    /// all ports of the way by its present routes. Ignores a port that does not exist.
    pub fn count_elsewhere(&mut self, (hca, port): (HcaId, PortNumber), dlid: Lid, carried: &CarriedElsewhere) {
        if let Some(port) = self.hcas.port_index(hca, port)
            && let Some(to) = self.links.count_elsewhere(port, (self.subnet.lids(port), dlid), carried)
        {
            self.hcas.note_elsewhere(to, carried);
        }
    }

    /// Moves [`Self::now`] to `time`, for a caller that looks at the fabric or calls verbs then.
    /// Counters include all up to `time`. All events up to then must have run. Does nothing if
    /// `time` has passed.
    pub fn look_at(&mut self, time: SimTime) {
        self.timeline.look_at(time);
    }

    /// Returns the counters of every HCA of this partition, in the order of the fabric file.
    pub fn hca_counters(&self) -> Vec<HcaCounters> {
        self.hcas.hca_counters(&self.timeline)
    }

    /// Returns the transfer time in picoseconds: the time since the fabric began with at least one
    /// send request in flight.
    ///
    /// Covers only the nodes of this partition. The times of several partitions overlap.
    pub fn transfer_picos(&self) -> u64 {
        self.hcas.transfer_picos(&self.timeline)
    }

    /// Checks whether a send request is in flight.
    pub fn has_transfers(&self) -> bool {
        self.hcas.has_transfers()
    }

    /// Captures packets from now on, until [`Self::end_capture`] or until `sink` wants no more. With
    /// `ports` it takes the packets that pass these ports, in both directions. Without them it takes
    /// each packet once, at the node that made it. A capture changes nothing else.
    ///
    /// Only for a World without partitions. Flow control is no packet of the model, and a message to
    /// the same port crosses no link.
    ///
    /// # Panics
    /// If a port does not exist. [`FabricSpec::find_port`](softband_spec::FabricSpec::find_port)
    /// returns ports that do.
    pub fn capture(&mut self, ports: Option<&[PortRef]>, sink: Box<dyn PacketSink>) {
        let ports = ports.map(|ports| ports.iter().map(|port| self.numbering.port_of(*port)).collect());
        self.end_trains();
        self.links.capture(ports, sink);
    }

    /// Ends the capture, if any, with the packets that are still on cables.
    pub fn end_capture(&mut self) {
        self.links.end_capture();
    }

    /// Returns all queue pairs that ever had to resend or wait, by HCA and number.
    pub fn repeats(&self) -> Vec<QueuePairRepeats> {
        self.hcas.repeats()
    }

    /// Returns the payload bytes of messages and responses that the HCAs here have accepted.
    pub fn delivered_bytes(&self) -> u64 {
        self.hcas.delivered_bytes()
    }

    /// Returns the number of packets in flight. Tests check that none remain.
    pub fn packets_under_way(&self) -> usize {
        self.links.packets_under_way()
    }

    /// Returns the number of packets that started to cross a link here, summed over links.
    pub fn packets_sent(&self) -> u64 {
        self.links.packets_sent(&self.timeline)
    }

    /// Returns the number of passages of packets through switches without an event of their own: see
    /// [`Self::go_packet_by_packet`].
    pub fn passages_in_trains(&self) -> u64 {
        self.links.passages_in_trains()
    }

    /// Returns the number of packets of trains that came to their HCA without an event of their own.
    pub fn silent_arrivals(&self) -> u64 {
        self.links.silent_arrivals()
    }

    /// Returns the queue pairs that a process owns or has opened, by HCA and number.
    pub fn queue_pairs_of(&self, owner: ProcessId) -> Vec<QueuePairView> {
        self.hcas.queue_pairs_of(owner)
    }

    /// Returns a device's name in the fabric file's notation: `a/mthca0`.
    pub fn device_name(&self, hca: HcaId) -> String {
        self.hcas.device_name(hca).to_owned()
    }

    /// Returns the port of a LID in the fabric file's notation (`b/mthca0/1`); `None` for an
    /// unknown LID.
    pub fn name_of_lid(&self, lid: Lid) -> Option<String> {
        self.subnet.port_with_lid(lid).map(|port| self.links.name_of_port(port))
    }

    /// Checks whether the port with this LID belongs to an HCA with this queue pair.
    pub fn has_queue_pair(&self, lid: Lid, qpn: Qpn) -> bool {
        matches!(self.subnet.owner_of_lid(lid), Some(Owner::Hca { hca, .. }) if self.hcas.find_qp(HcaId(hca), qpn).is_some())
    }

    /// Checks between two events that credits are conserved, that staging buffers have a place for
    /// each of their packets, and that each requester agrees with itself. Leaves out the credits of
    /// links that a train uses. Only for a World without partitions, whose links are all within it.
    ///
    /// # Errors
    /// A description of the first link or requester that does not add up.
    pub fn audit(&self) -> Result<(), String> {
        self.links.audit(|port, lane| self.hcas.places_taken(port, lane))?;
        self.hcas.audit()
    }

    /// Takes a block away from a link with credits, so that a test can show that [`Self::audit`]
    /// notices it. Returns whether there was a link with credits.
    #[doc(hidden)]
    pub fn lose_credits(&mut self) -> bool {
        self.links.lose_credits()
    }

    /// Checks for tests that nothing is left on links and in staging buffers.
    ///
    /// # Panics
    /// Panics if a link's sender lacks credits although nothing is in flight, or if a staging place
    /// is still taken.
    pub fn assert_credits_are_back(&self) {
        self.links.assert_credits_are_back();
        self.hcas.assert_nothing_is_staged();
    }
}
