//! Parameters of a NIC: an Ethernet card without RDMA.

use super::{CardInterface, EthernetPorts, HcaPart, OptionalVerbs};
use softband_sim::SimDuration;
use softband_types::{EthernetRate, LinkSpeed};

/// Work of TCP/IP that a card does in place of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicOffloads {
    /// The card computes and checks the checksums of IP, TCP and UDP.
    pub checksums: bool,
    /// The card cuts super-segments into segments (TSO).
    pub segmentation: bool,
    /// The card (LRO) or its driver (GRO) joins segments of a connection before TCP sees them.
    pub aggregation: bool,
}

/// Work of TCP/IP over InfiniBand that an HCA does in place of the kernel, for datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpoibOffloads {
    /// The HCA computes and checks the checksums of IP, TCP and UDP.
    pub checksums: bool,
    /// The HCA cuts super-segments into datagrams (LSO).
    pub segmentation: bool,
}

/// Parameters of a NIC. The tables of the catalogue list these parameters with units, sources
/// and statuses for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicPart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// Name of the driver, as `ethtool -i` reports it: 1 to 60 letters, digits, `-` and `_`.
    pub driver: String,
    /// Number of ports, from 1 to 254.
    pub ports: u8,
    /// Rates that a port can train to.
    pub rates: Vec<EthernetRate>,
    /// Largest IP packet of a port in bytes.
    pub mtu_max_bytes: u32,
    /// Edge of the card.
    pub interface: CardInterface,
    /// DMA reads that may be outstanding on the bus, at least 1.
    pub outstanding_reads: u32,
    /// Frames that a port holds between the kernel and the link, at least 1.
    pub transmit_ring_frames: u32,
    /// Buffers for frames that have arrived, until the kernel takes them, at least 1.
    pub receive_ring_frames: u32,
    /// Receive buffer of a port in bytes.
    pub buffer_bytes: u32,
    /// Time from a pause frame's arrival to the stop of its priority.
    pub pause_response: SimDuration,
    /// Time from the CPU's doorbell write to the card's look at the ring.
    pub doorbell: SimDuration,
    /// Fetch of a descriptor over the bus.
    pub descriptor_fetch: SimDuration,
    /// Time from a frame in the card to its first bit on the link.
    pub transmit_processing: SimDuration,
    /// Time from a frame's last bit to the start of its DMA write.
    pub receive_processing: SimDuration,
    /// Time from the last DMA write to a descriptor that the CPU can see.
    pub descriptor_write: SimDuration,
    /// Work that the card does for the kernel.
    pub offloads: NicOffloads,
    /// Frames after which the card interrupts before `moderation_time` is over, at least 1.
    pub moderation_frames: u32,
    /// Time for which the card collects frames before it interrupts. Zero: it interrupts at once.
    pub moderation_time: SimDuration,
    /// Least time between two interrupts. Zero: the card keeps none.
    pub interrupt_interval: SimDuration,
}

impl NicPart {
    /// Returns the card as a node of the fabric: Ethernet ports, a bus, and no verbs.
    pub fn as_hca(&self) -> HcaPart {
        let ethernet = EthernetPorts { rates: self.rates.clone(), buffer_bytes: self.buffer_bytes, pause_response: self.pause_response };
        let mut speeds: Vec<LinkSpeed> = self.rates.iter().map(|rate| rate.link_rate().speed).collect();
        speeds.dedup();
        HcaPart {
            name: self.name.clone(),
            driver: self.driver.clone(),
            ports: self.ports,
            speeds,
            port_buffer_bytes: self.buffer_bytes,
            interface: self.interface,
            outstanding_reads: self.outstanding_reads,
            doorbell: self.doorbell,
            send_wqe_fetch: self.descriptor_fetch,
            transmit_processing: self.transmit_processing,
            receive_processing: self.receive_processing,
            completion_write: self.descriptor_write,
            congestion_control: false,
            ethernet: Some(ethernet),
            max_qp: 0,
            max_cq: 0,
            max_mr: 0,
            max_pd: 0,
            max_ah: 0,
            optional: OptionalVerbs::default(),
            ..HcaPart::ideal()
        }
    }
}
