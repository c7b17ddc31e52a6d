//! Parcels: packets and flow-control messages that cross a cable to another partition.
//!
//! Parcels travel between two windows. All their effects lie in later windows.

use super::{Hop, Links, Transit};
use crate::pdes::timeline::Timeline;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};

/// A packet or message that crosses a cable to another partition.
pub struct Parcel(Content);

impl Parcel {
    /// Returns the earliest time at which the parcel has an effect.
    pub fn arrival(&self) -> SimTime {
        match &self.0 {
            Content::Packet { transit, .. } => transit.head,
            Content::FlowControl { arrival, .. } => *arrival,
        }
    }
}

pub(super) enum Content {
    /// A packet, and the port by which it left.
    Packet { by: u32, transit: Transit },
    /// A receiver's flow-control message, and the sending port that it addresses.
    FlowControl { to: u32, arrival: SimTime, message: FlowControlMessage },
}

/// A link-layer message of the receiver: it grants credits, or stops and resumes the sender.
#[derive(Clone, Copy, Debug)]
pub(super) enum FlowControlMessage {
    Credits { lane: VirtualLane, blocks: CreditBlocks },
    Pause { lane: VirtualLane, pauses: bool },
}

impl Links {
    /// Prepares the ports for a fabric of `partitions` partitions.
    pub(crate) fn take_partition(&mut self, partitions: u8, timeline: &Timeline) {
        self.outboxes = std::iter::repeat_with(Vec::new).take(usize::from(partitions)).collect();
        for id in 0..self.ports.len() {
            let sender = self.ports[id].cabling.map(|cabling| self.ports[cabling.peer as usize].node);
            self.ports[id].tells_sender |= sender.is_some_and(|node| !timeline.has_node(node));
        }
    }

    /// Returns the parcels for another partition, in send order.
    pub(crate) fn take_parcels(&mut self, partition: u8) -> Vec<Parcel> {
        self.outboxes.get_mut(usize::from(partition)).map(std::mem::take).unwrap_or_default()
    }

    /// Stores a parcel for the partition of a port.
    pub(super) fn send_parcel(&mut self, port: u32, content: Content, timeline: &Timeline) {
        let node = self.ports[port as usize].node;
        self.outboxes[timeline.partition_of(node)].push(Parcel(content));
    }
}

impl Hop<'_> {
    /// Accepts the parcels that another partition sent in the window that just ended.
    pub(crate) fn take_in(&mut self, parcels: Vec<Parcel>) {
        self.links.trains.note_heard(self.timeline.happened_until());
        for Parcel(content) in parcels {
            match content {
                Content::Packet { by, transit } => {
                    // The local copy of the sending port counts the packets that have arrived.
                    self.links.ports[by as usize].count_sent(transit.bytes, transit.dlid);
                    let packet = self.links.packets.insert(transit);
                    self.cross(packet, by);
                }
                Content::FlowControl { to, arrival, message } => self.tell_sender(to, arrival, message),
            }
        }
    }
}
