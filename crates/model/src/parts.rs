//! What the model knows of each part: one set of parameters per part, never per test.
//!
//! The values live in `catalog/`, with unit, source and status; here they are checked and plain.

mod bus;

pub use bus::{Bridge, BusPart, CardInterface, PciExpress, PciX, PciXClock, Slot};

use crate::transport::AckTimer;
use softband_sim::SimDuration;
use softband_types::{EthernetRate, LinkLayer, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls};
use std::fmt;

/// How long an adapter or switch takes for each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageGaps {
    /// Least time between two messages that one engine of an HCA starts, by operation.
    pub send: SimDuration,
    pub write: SimDuration,
    pub read: SimDuration,
    pub atomic: SimDuration,
    /// Unreliable datagrams take an address handle each.
    pub datagram: SimDuration,
}

/// How an HCA hands arriving packets to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// The DMA write follows the bytes as they arrive.
    CutThrough,
    /// The DMA write starts when the whole packet is there.
    StoreAndForward,
}

/// What a part is like where its ports are Ethernet's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetPorts {
    pub rates: Vec<EthernetRate>,
    /// Receive buffer of one port, shared out among the priorities in use.
    pub buffer_bytes: u32,
    /// From a pause frame's arrival to the stop of its priority.
    pub pause_response: SimDuration,
}

/// An HCA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaPart {
    pub name: String,
    /// Prefix of the driver's device names, such as `mthca`.
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
    /// Largest payload of a PCI Express packet that the card takes or sends; `None`: its slot's.
    pub max_payload_bytes: Option<u32>,
    /// DMA reads that may be outstanding on the bus.
    pub outstanding_reads: u32,
    /// What the driver's `tune_pci` option sets the read request to: the maximum of PCI Express, the byte count of PCI-X.
    pub tuned_read_request_bytes: Option<u32>,
    /// Engines that start messages side by side; those of one queue pair are started by one of them.
    pub processing_engines: u32,
    pub gaps: MessageGaps,
    /// From the CPU's doorbell write to the HCA's look at the work queue.
    pub doorbell: SimDuration,
    /// Processing of a send WQE before its payload is asked for, the fetch over the bus included.
    pub send_wqe_fetch: SimDuration,
    /// Fetch of a receive WQE; part of the latency of a send, not of a write.
    pub receive_wqe_fetch: SimDuration,
    /// From payload in the HCA to the first bit on the link.
    pub transmit_processing: SimDuration,
    /// From a packet's arrival to the start of its DMA write.
    pub receive_processing: SimDuration,
    /// From the last DMA write to a completion that the CPU can see.
    pub completion_write: SimDuration,
    /// Responder's work for an RDMA read before it asks for the payload.
    pub read_response_processing: SimDuration,
    /// Execution of an atomic at the responder, beyond a read's work and the reading of its operand.
    pub atomic_execution: SimDuration,
    /// From the last packet of a message to its acknowledgement on the way.
    pub ack_processing: SimDuration,
    /// From freed buffer to the flow-control packet.
    pub credit_return: SimDuration,
    /// How long it waits for an acknowledgement before it sends again.
    pub ack_timer: AckTimer,
    /// It answers FECN with BECN and slows flows down on BECN, where the subnet has congestion control (IBTA annex A10).
    pub congestion_control: bool,
    /// Its ports can be Ethernet's as well.
    pub ethernet: Option<EthernetPorts>,
    /// Packets of payload that may be read from the host ahead of the link, and their bytes: no more are read while it holds as many.
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

/// What an HCA offers of the verbs that not every one has. A count of 0: not offered.
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
    /// Entries of a port's GID table; the first holds the port's own.
    pub gid_table_len: u32,
    /// Pages of registered memory are looked up when they are touched.
    pub on_demand_paging: bool,
    /// Writes of eight bytes that are seen whole (IBTA 1.5).
    pub atomic_write: bool,
}

/// A host's memory behind its host bridge, as DMA finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// From a DMA read request to the first byte of its completion.
    pub read_latency: SimDuration,
    /// From the last byte of a posted write on the bus to its place in memory.
    pub write_latency: SimDuration,
    /// The rate each way, and both ways together; `None`: more than the bus.
    pub read_bytes_per_second: Option<u64>,
    pub write_bytes_per_second: Option<u64>,
    pub bytes_per_second: Option<u64>,
}

/// A host: what programs pay on its CPU and what its chipset adds to DMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPart {
    pub name: String,
    pub cpu: String,
    /// What an HCA sits in, unless the fabric file says otherwise.
    pub bus: BusPart,
    /// Read request size that the BIOS sets: the maximum of PCI Express, the byte count of PCI-X.
    pub read_request_bytes: u32,
    pub memory: MemoryPart,
    pub post_send: SimDuration,
    /// How fast the CPU writes inline data to the HCA, beside that; `None`: in no time.
    pub inline_bytes_per_second: Option<u64>,
    pub post_receive: SimDuration,
    pub poll_cq: SimDuration,
    pub clock_read: SimDuration,
    /// Any verb that goes through the kernel: creating, modifying, destroying.
    pub control_verb: SimDuration,
    /// Registering memory, per page of 4 KiB.
    pub register_page: SimDuration,
    /// From an interrupt to a woken thread.
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
    /// First bit in to first bit out, by the speed of the ports.
    pub forward_latency: Vec<(LinkSpeed, SimDuration)>,
    /// How long a packet's input buffer stays taken after its last bit has entered the crossbar.
    pub buffer_hold: SimDuration,
    /// From freed buffer to the flow-control packet.
    pub credit_return: SimDuration,
    /// It can mark packets with FECN, where the subnet has congestion control (IBTA annex A10).
    pub congestion_control: bool,
    /// An Ethernet switch: what stands above of widths, speeds, lanes and credits is not its.
    pub ethernet: Option<EthernetPorts>,
}

impl HostPart {
    /// What each byte of inline data costs the CPU.
    pub fn inline_byte(&self) -> SimDuration {
        SimDuration::from_picos(self.inline_bytes_per_second.map_or(0, |rate| 1_000_000_000_000 / rate))
    }
}

impl SwitchPart {
    pub fn link_layer(&self) -> LinkLayer {
        if self.ethernet.is_some() { LinkLayer::Ethernet } else { LinkLayer::Infiniband }
    }
}

/// What a cable of Ethernet links is rated for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetCable {
    pub rate_max: EthernetRate,
    /// What forward error correction of both ends adds: none where there is no row.
    pub fec_latency: Vec<(EthernetRate, SimDuration)>,
}

/// A cable, with everything that sits in its connectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CablePart {
    pub name: String,
    pub medium: Medium,
    pub length_millimetres: u64,
    /// Propagation, per metre.
    pub picos_per_metre: u64,
    /// Both media converters together, where there are any.
    pub converter_delay: SimDuration,
    /// Fastest speed that the cable and its converters are rated for.
    pub speed_max: LinkSpeed,
    pub width_max: LinkWidth,
    /// What forward error correction of both ends adds to a link over this cable, by its speed: none where there is no row.
    pub fec_latency: Vec<(LinkSpeed, SimDuration)>,
    /// It is for Ethernet links: what stands above of speeds and widths is not its.
    pub ethernet: Option<EthernetCable>,
}

/// What a cable is made of.
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

    /// One-way delay from port to port of a link that trained to `rate`.
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
