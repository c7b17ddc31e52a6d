//! Ethernet: raw frames of a NIC, or of an HCA's Ethernet port.
//!
//! The rings are the card's. A full send ring holds frames back, and a full receive ring loses them.
//! ARP and neighbour discovery carry addresses of 6 bytes.

mod address;
mod frames;
mod receive;
mod send;

use super::Common;
use super::interrupts::Moderation;
use address::Mac;
use receive::Receiver;
use send::Sender;
use softband_fabric::World;
use softband_model::parts::{KernelPath, NicOffloads, NicPart};
use softband_net::{InterfaceId, LinkAddress};
use softband_sim::SimDuration;
use softband_types::{HcaId, PortNumber};

/// Packets in the send ring of an HCA's port, as `fabric` has places for.
const HCA_RING_PACKETS: u32 = 1_024;
/// Work that HCAs with Ethernet ports do for the kernel. Assumed: all of them are of 2011 or later.
const HCA_OFFLOADS: NicOffloads = NicOffloads { checksums: true, segmentation: true, aggregation: true };

/// The port of an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) interface: InterfaceId,
    pub(super) hca: HcaId,
    pub(super) port: PortNumber,
}

/// Properties of the card that its driver uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    pub(super) ring_packets: u32,
    pub(super) offloads: NicOffloads,
    moderation: Moderation,
    interrupt_interval: SimDuration,
}

impl Card {
    /// Returns those of a NIC. `None` stands for an HCA, which interrupts as the host's part says.
    pub(super) fn of(nic: Option<&NicPart>, path: &KernelPath) -> Self {
        match nic {
            Some(nic) => Self {
                ring_packets: nic.transmit_ring_frames,
                offloads: nic.offloads,
                moderation: Moderation { packets: nic.moderation_frames, time: nic.moderation_time },
                interrupt_interval: nic.interrupt_interval,
            },
            None => Self {
                ring_packets: HCA_RING_PACKETS,
                offloads: HCA_OFFLOADS,
                moderation: Moderation { packets: path.moderation_packets, time: path.moderation_time },
                interrupt_interval: SimDuration::ZERO,
            },
        }
    }
}

/// Interface on Ethernet.
pub(super) struct EthernetLink {
    place: Place,
    mac: Mac,
    offloads: NicOffloads,
    sender: Sender,
    receiver: Receiver,
}

impl EthernetLink {
    /// Creates the link of a port. Returns `None` if the port has no cable.
    pub(super) fn new(place: Place, card: &Card, world: &World, common: &mut Common) -> Option<Self> {
        let mac = world.mac(place.hca, place.port)?;
        common.ports.insert((place.hca, place.port), (place.host, place.interface));
        let receiver = Receiver::new(card.moderation, card.interrupt_interval);
        Some(Self { place, mac, offloads: card.offloads, sender: Sender::default(), receiver })
    }

    /// Returns the link address of the interface.
    pub(super) fn address(&self) -> Option<LinkAddress> {
        LinkAddress::new(&self.mac)
    }

    /// Returns whether the card joins received segments.
    pub(super) fn joins(&self) -> bool {
        self.offloads.aggregation
    }

    /// Returns whether the card computes checksums.
    pub(super) fn sums(&self) -> bool {
        self.offloads.checksums
    }
}
