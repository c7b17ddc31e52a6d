//! Parameters of each part: one set of parameters per part, never per test.
//!
//! The values stand in `catalog/`, with unit, source and status. Here they are checked and plain.

mod bus;

pub use bus::{Bridge, BusPart, CardInterface, PciExpress, PciX, PciXClock, Slot};

use crate::transport::AckTimer;
use softband_sim::SimDuration;
use softband_types::{EthernetRate, LinkLayer, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls};
use std::fmt;

/// Message gaps of an HCA, by kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageGaps {
    /// Least time between two messages that one engine of an HCA starts, by operation.
    pub send: SimDuration,
    pub write: SimDuration,
    pub read: SimDuration,
    pub atomic: SimDuration,
    /// Each unreliable datagram takes an address handle.
    pub datagram: SimDuration,
}

/// Way in which an HCA hands arriving packets to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// The DMA write follows the bytes as they arrive.
    CutThrough,
    /// The DMA write starts when the whole packet has arrived.
    StoreAndForward,
}

/// Parameters of a part with Ethernet ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetPorts {
    pub rates: Vec<EthernetRate>,
    /// Receive buffer of one port, shared out among the priorities in use.
    pub buffer_bytes: u32,
    /// Time from a pause frame's arrival to the stop of its priority.
    pub pause_response: SimDuration,
}

/// An HCA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaPart {
    pub name: String,
    /// Prefix of the driver's device names, for example `mthca`.
    pub driver: String,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hardware_version: u32,
    pub firmware_version: String,
    pub board_id: String,
    pub ports: u8,
    pub mtu_max: Mtu,
    pub widths: Vec<LinkWidth>,
    pub speeds: Vec<LinkSpeed>,
    /// Data lanes that the port can operate.
    pub vl_cap: OperationalVls,
    /// Receive buffer of one port, shared out among the operational data lanes.
    pub port_buffer_bytes: u32,
    pub receive_mode: ReceiveMode,
    pub interface: CardInterface,
    /// Largest payload of a PCI Express packet that the card takes or sends. `None`: the slot's
    /// limit.
    pub max_payload_bytes: Option<u32>,
    /// DMA reads that may be outstanding on the bus.
    pub outstanding_reads: u32,
    /// Read request size that the driver's `tune_pci` option sets: the maximum of PCI Express, the
    /// byte count of PCI-X.
    pub tuned_read_request_bytes: Option<u32>,
    /// Engines that start messages side by side. A single engine starts all messages of a queue
    /// pair.
    pub processing_engines: u32,
    pub gaps: MessageGaps,
    /// Time from the CPU's doorbell write to the HCA's look at the work queue.
    pub doorbell: SimDuration,
    /// Processing of a send WQE before the HCA requests its payload, including the fetch over the
    /// bus.
    pub send_wqe_fetch: SimDuration,
    /// Fetch of a receive WQE. It is part of the latency of a send, not of a write.
    pub receive_wqe_fetch: SimDuration,
    /// Time from payload in the HCA to the first bit on the link.
    pub transmit_processing: SimDuration,
    /// Time from a packet's arrival to the start of its DMA write.
    pub receive_processing: SimDuration,
    /// Time from the last DMA write to a completion that the CPU can see.
    pub completion_write: SimDuration,
    /// Responder's work for an RDMA read before it requests the payload.
    pub read_response_processing: SimDuration,
    /// Execution of an atomic at the responder, beyond a read's work and the reading of its
    /// operand.
    pub atomic_execution: SimDuration,
    /// Time from the last packet of a message to its acknowledgement on the way.
    pub ack_processing: SimDuration,
    /// Time from a freed buffer to the flow-control packet.
    pub credit_return: SimDuration,
    /// Wait for an acknowledgement before the HCA sends again.
    pub ack_timer: AckTimer,
    /// Whether the HCA answers FECN with BECN and slows flows down on BECN. It requires congestion
    /// control in the subnet (IBTA annex A10).
    pub congestion_control: bool,
    /// Ethernet parameters, if the ports can be Ethernet ports as well.
    pub ethernet: Option<EthernetPorts>,
    /// Packets of payload that the HCA may read from the host ahead of the link, and their bytes.
    /// It reads no more while it holds as many.
    pub transmit_staging_packets: u32,
    pub transmit_staging_bytes: Option<u32>,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub max_sge: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_pd: u32,
    pub max_ah: u32,
    pub max_inline_bytes: u32,
    /// RDMA reads and atomics outstanding, both as requester and as responder.
    pub max_rd_atomic: u32,
    pub optional: OptionalVerbs,
}

/// Verbs that not every HCA offers. A count of 0 means that the HCA does not offer the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalVerbs {
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    /// Domains of extended reliable connections.
    pub max_xrcd: u32,
    /// Memory windows of types 1 and 2.
    pub max_mw: u32,
    pub max_multicast_groups: u32,
    /// Queue pairs of one multicast group.
    pub max_multicast_members: u32,
    /// Entries of a port's GID table. The first holds the port's own GID.
    pub gid_table_len: u32,
    /// Whether the HCA looks up pages of registered memory when they are touched.
    pub on_demand_paging: bool,
    /// Whether the HCA offers writes of eight bytes that readers see whole (IBTA 1.5).
    pub atomic_write: bool,
}

/// A host's memory behind its host bridge, as DMA finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// Time from a DMA read request to the first byte of its completion.
    pub read_latency: SimDuration,
    /// Time from the last byte of a posted write on the bus to its place in memory.
    pub write_latency: SimDuration,
    /// Rate of reads, of writes, and of both together. `None`: more than the bus.
    pub read_bytes_per_second: Option<u64>,
    pub write_bytes_per_second: Option<u64>,
    pub bytes_per_second: Option<u64>,
}

/// Host: the costs of programs on its CPU, and the delays that its chipset adds to DMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPart {
    pub name: String,
    pub cpu: String,
    /// Bus that an HCA sits in, unless the fabric file names another.
    pub bus: BusPart,
    /// Read request size that the BIOS sets: the maximum of PCI Express, the byte count of PCI-X.
    pub read_request_bytes: u32,
    pub memory: MemoryPart,
    pub post_send: SimDuration,
    /// Rate at which the CPU writes inline data to the HCA, beside `post_send`. `None`: in no time.
    pub inline_bytes_per_second: Option<u64>,
    pub post_receive: SimDuration,
    pub poll_cq: SimDuration,
    pub clock_read: SimDuration,
    /// Any verb that goes through the kernel: creation, modification, destruction.
    pub control_verb: SimDuration,
    /// Registration of memory, per page of 4 KiB.
    pub register_page: SimDuration,
    /// Time from an interrupt to a woken thread.
    pub event_wakeup: SimDuration,
    /// The management network between hosts (plain sockets): one-way latency and rate.
    pub ethernet_latency: SimDuration,
    pub ethernet_bytes_per_second: u64,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPart {
    pub name: String,
    pub ports: u8,
    pub mtu_max: Mtu,
    pub widths: Vec<LinkWidth>,
    pub speeds: Vec<LinkSpeed>,
    pub vl_cap: OperationalVls,
    /// Receive buffer of one port, shared out among the operational data lanes.
    pub port_buffer_bytes: u32,
    /// Time from first bit in to first bit out, by the speed of the ports.
    pub forward_latency: Vec<(LinkSpeed, SimDuration)>,
    /// Time for which a packet's input buffer stays taken after its last bit has entered the
    /// crossbar.
    pub buffer_hold: SimDuration,
    /// Time from a freed buffer to the flow-control packet.
    pub credit_return: SimDuration,
    /// Whether the switch can mark packets with FECN. It requires congestion control in the subnet
    /// (IBTA annex A10).
    pub congestion_control: bool,
    /// Parameters of an Ethernet switch. The widths, speeds, lanes and credits above do not apply
    /// to it.
    pub ethernet: Option<EthernetPorts>,
}

impl HostPart {
    /// Returns the CPU time for each byte of inline data.
    pub fn inline_byte(&self) -> SimDuration {
        SimDuration::from_picos(self.inline_bytes_per_second.map_or(0, |rate| 1_000_000_000_000 / rate))
    }
}

impl SwitchPart {
    pub fn link_layer(&self) -> LinkLayer {
        if self.ethernet.is_some() { LinkLayer::Ethernet } else { LinkLayer::Infiniband }
    }
}

/// Rating of a cable for Ethernet links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetCable {
    pub rate_max: EthernetRate,
    /// Delay that forward error correction of both ends adds: none for rates without a row.
    pub fec_latency: Vec<(EthernetRate, SimDuration)>,
}

/// A cable, with everything that sits in its connectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CablePart {
    pub name: String,
    pub medium: Medium,
    pub length_millimetres: u64,
    /// Propagation delay per metre.
    pub picos_per_metre: u64,
    /// Delay of both media converters together, if there are any.
    pub converter_delay: SimDuration,
    /// Fastest speed that the cable and its converters are rated for.
    pub speed_max: LinkSpeed,
    pub width_max: LinkWidth,
    /// Delay that forward error correction of both ends adds to a link over this cable, by its
    /// speed. None for speeds without a row.
    pub fec_latency: Vec<(LinkSpeed, SimDuration)>,
    /// Rating for Ethernet links. The speeds and widths above do not apply to them.
    pub ethernet: Option<EthernetCable>,
}

/// Material of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    Copper,
    Optical,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copper => "copper",
            Self::Optical => "optical fibre",
        })
    }
}

impl CablePart {
    pub fn link_layer(&self) -> LinkLayer {
        if self.ethernet.is_some() { LinkLayer::Ethernet } else { LinkLayer::Infiniband }
    }

    /// Returns the one-way delay from port to port of a link that trained to `rate`.
    pub fn delay(&self, rate: LinkRate) -> SimDuration {
        let correction = match &self.ethernet {
            None => self.fec_latency.iter().find(|(of, _)| *of == rate.speed).map(|(_, latency)| *latency),
            Some(cable) => cable.fec_latency.iter().find(|(of, _)| of.link_rate() == rate).map(|(_, latency)| *latency),
        };
        SimDuration::from_picos(self.length_millimetres * self.picos_per_metre / 1_000)
            + self.converter_delay
            + correction.unwrap_or(SimDuration::ZERO)
    }
}
