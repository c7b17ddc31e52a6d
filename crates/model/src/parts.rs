//! Parameters of each part: one set of parameters per part, never per test.
//!
//! The values stand in `catalog/`, with unit, source and status. Here they are checked and plain.

mod bus;
mod file_costs;
mod ideal;
mod kernel;
mod kernel_path;
mod nic;

pub use bus::{Bridge, BusPart, CardInterface, PciExpress, PciX, PciXClock, Slot};
pub use file_costs::{DiskPart, FileCosts};
pub use kernel::{BufferSizes, CongestionControl, KernelPart, LossDetection, RateReduction, ReceiveGrowth, ReceiveWindowRule, SlowStart, SynCookies};
pub use kernel_path::KernelPath;
pub use nic::{IpoibOffloads, NicOffloads, NicPart};

use crate::transport::AckTimer;
use softband_sim::SimDuration;
use softband_types::{EthernetRate, LinkLayer, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls};
use std::fmt;

/// Message gaps of an HCA: the least time between two messages that a processing engine starts, by
/// operation. A gap of 1 us limits an engine to a million messages per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageGaps {
    /// Gap after a send.
    pub send: SimDuration,
    /// Gap after an RDMA write.
    pub write: SimDuration,
    /// Gap after an RDMA read.
    pub read: SimDuration,
    /// Gap after an atomic operation.
    pub atomic: SimDuration,
    /// Gap after an unreliable datagram, which takes an address handle.
    pub datagram: SimDuration,
}

/// Bytes of an HCA's queue entries on a PCI Express bus, beside payload. The default costs nothing.
///
/// On PCI-X, they are part of the bus's clocks for each burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueEntries {
    /// Send WQE without inline data, as the HCA fetches or receives it.
    pub send_wqe_bytes: u32,
    /// Send WQE of a datagram, which holds the address.
    pub datagram_wqe_bytes: u32,
    /// Receive WQE, as the HCA fetches it.
    pub receive_wqe_bytes: u32,
    /// Entry of a completion queue.
    pub completion_bytes: u32,
    /// Whether the CPU writes the WQE to the HCA together with the doorbell. Otherwise the HCA
    /// fetches it.
    pub doorbell_carries_wqe: bool,
}

/// Cache of an HCA for the contexts of queue pairs, which lie in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextCache {
    /// Contexts that the cache holds, at least 1. The one used longest ago leaves first.
    pub contexts: u32,
    /// Time to fetch a context. The HCA fetches one at a time.
    pub miss: SimDuration,
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
    /// Rates that a port can train to.
    pub rates: Vec<EthernetRate>,
    /// Receive buffer of a port in bytes, divided among the priorities in use. It must hold a frame
    /// of 4,096 bytes of payload.
    pub buffer_bytes: u32,
    /// Time from a pause frame's arrival to the stop of its priority.
    pub pause_response: SimDuration,
}

/// Parameters of an HCA. The tables of the catalogue list these parameters with units, sources and
/// statuses for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaPart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// Prefix of the driver's device names, for example `mthca`: 1 to 60 letters, digits, `-` and
    /// `_`.
    pub driver: String,
    /// VendorID of NodeInfo: 24 bits, the maker's OUI (IBTA 14.2.5.3).
    pub vendor_id: u32,
    /// DeviceID of NodeInfo: 16 bits (IBTA 14.2.5.3).
    pub vendor_part_id: u32,
    /// Revision of the hardware, as `ibv_query_device` reports it.
    pub hardware_version: u32,
    /// Version of the firmware, as `ibv_query_device` reports it.
    pub firmware_version: String,
    /// Name of the board in sysfs (`board_id`).
    pub board_id: String,
    /// Number of ports, from 1 to 254.
    pub ports: u8,
    /// Largest MTU of each port.
    pub mtu_max: Mtu,
    /// Link widths that a port can train to.
    pub widths: Vec<LinkWidth>,
    /// Link speeds that a port can train to.
    pub speeds: Vec<LinkSpeed>,
    /// Data lanes that a port can operate (VLCap).
    pub vl_cap: OperationalVls,
    /// Receive buffer of a port in bytes, divided among the operational data lanes. Each lane must
    /// hold a packet of `mtu_max`.
    pub port_buffer_bytes: u32,
    /// Begin of DMA writes of arriving packets.
    pub receive_mode: ReceiveMode,
    /// Edge of the card.
    pub interface: CardInterface,
    /// Largest payload of a PCI Express packet that the card takes or sends: a power of two from
    /// 128 to 4096. `None`: the slot's limit.
    pub max_payload_bytes: Option<u32>,
    /// DMA reads that may be outstanding on the bus, at least 1.
    pub outstanding_reads: u32,
    /// Read request size in bytes that the driver's `tune_pci` option sets: the maximum of PCI
    /// Express, the byte count of PCI-X. `None`: the driver has no such option.
    pub tuned_read_request_bytes: Option<u32>,
    /// Engines that start messages in parallel, at least 1. A single engine starts all messages of
    /// a queue pair.
    pub processing_engines: u32,
    /// Least time between messages of a processing engine.
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
    /// Time for which DMA writes pause while the HCA looks at the receive WQE of a new message. It
    /// limits the rate of messages that take a receive request.
    pub receive_wqe_pause: SimDuration,
    /// Largest completion of the DMA reads for RDMA read responses, in bytes: a power of two from 64
    /// to 4096. `None`: as for other DMA reads.
    pub response_completion_bytes: Option<u32>,
    /// Cache of contexts. `None`: the HCA holds all contexts.
    pub context_cache: Option<ContextCache>,
    /// Bytes of its queue entries on the bus.
    pub entries: QueueEntries,
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
    /// Time in which an agent handles a management datagram, one after the other.
    pub management_processing: SimDuration,
    /// Wait for an acknowledgement before the HCA sends again, beyond the local ACK timeout of the
    /// QP.
    pub ack_timer: AckTimer,
    /// Whether the HCA answers FECN with BECN and slows flows down on BECN. It requires congestion
    /// control in the subnet (IBTA annex A10).
    pub congestion_control: bool,
    /// Ethernet parameters, if the ports can be Ethernet ports as well.
    pub ethernet: Option<EthernetPorts>,
    /// Packets of payload that the HCA may read from the host ahead of the link, at least 1. It
    /// reads no more while it holds as many.
    pub transmit_staging_packets: u32,
    /// Bytes of payload that the HCA may read ahead of the link, at least 1. `None`: no limit in
    /// bytes.
    pub transmit_staging_bytes: Option<u32>,
    /// Largest number of queue pairs, at least 1.
    pub max_qp: u32,
    /// Largest number of outstanding work requests of a queue, at least 1.
    pub max_qp_wr: u32,
    /// Largest number of scatter/gather entries of a work request, at least 1.
    pub max_sge: u32,
    /// Largest number of completion queues, at least 1.
    pub max_cq: u32,
    /// Largest number of entries of a completion queue, at least 1.
    pub max_cqe: u32,
    /// Largest number of memory regions, at least 1.
    pub max_mr: u32,
    /// Largest number of protection domains, at least 1.
    pub max_pd: u32,
    /// Largest number of address handles.
    pub max_ah: u32,
    /// Largest inline payload of a send request in bytes.
    pub max_inline_bytes: u32,
    /// RDMA reads and atomics outstanding at a QP, both as requester and as responder: 0 to 255.
    pub max_rd_atomic: u32,
    /// Work that the HCA does for IP over InfiniBand in datagram mode.
    pub ipoib_offloads: IpoibOffloads,
    /// Verbs that not every HCA offers.
    pub optional: OptionalVerbs,
}

/// Verbs that not every HCA offers. A count of 0 means that the HCA does not offer the object. The
/// default offers nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalVerbs {
    /// Largest number of shared receive queues.
    pub max_srq: u32,
    /// Largest number of receive requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Largest number of scatter entries of a request to a shared receive queue.
    pub max_srq_sge: u32,
    /// Largest number of domains of extended reliable connections.
    pub max_xrcd: u32,
    /// Largest number of memory windows, of types 1 and 2 together.
    pub max_mw: u32,
    /// Largest number of multicast groups with members on the HCA.
    pub max_multicast_groups: u32,
    /// Largest number of queue pairs of a multicast group on the HCA.
    pub max_multicast_members: u32,
    /// Entries of a port's GID table, up to 256. The first holds the port's own GID.
    pub gid_table_len: u32,
    /// Whether the HCA looks up pages of registered memory when they are touched.
    pub on_demand_paging: bool,
    /// Whether completions of datagrams over Ethernet state their packet type in place of the service
    /// level ([`softband_types::Gid::datagram_type`]).
    pub states_packet_type: bool,
    /// Whether the HCA offers writes of eight bytes that readers see whole (IBTA 1.5).
    pub atomic_write: bool,
}

/// Memory of a host behind its host bridge, as DMA finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// Time from a DMA read request to the first byte of its completion.
    pub read_latency: SimDuration,
    /// Time from the last byte of a posted write on the bus to its place in memory.
    pub write_latency: SimDuration,
    /// Rate of DMA reads in bytes per second. `None`: more than the bus.
    pub read_bytes_per_second: Option<u64>,
    /// Rate of DMA writes in bytes per second. `None`: more than the bus.
    pub write_bytes_per_second: Option<u64>,
    /// Rate of reads and writes together, of all HCAs of the host, in bytes per second. `None`:
    /// more than the bus.
    pub bytes_per_second: Option<u64>,
}

/// Parameters of a host: the costs of programs on its CPU, and the delays that its chipset adds to
/// DMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// Name of the CPU, for reports.
    pub cpu: String,
    /// Bus that an HCA sits in, unless the fabric file names another.
    pub bus: BusPart,
    /// Read request size in bytes that the BIOS sets: the maximum of PCI Express, the byte count of
    /// PCI-X.
    pub read_request_bytes: u32,
    /// Latencies and rates of memory.
    pub memory: MemoryPart,
    /// CPU time of `ibv_post_send` for each request of its list, at least 1 ps.
    pub post_send: SimDuration,
    /// CPU time of `ibv_post_send` for each list beside its requests, if the doorbell carries the
    /// WQE: the flush of the write-combining buffers. The requests are on their way meanwhile.
    pub write_combining_flush: SimDuration,
    /// CPU time of `ibv_post_send` for each datagram beside `post_send`: the address in its WQE.
    pub post_address: SimDuration,
    /// Rate at which inline data of a queue pair reaches the HCA, in bytes per second. The CPU goes
    /// on meanwhile. `None`: inline data takes no time.
    pub inline_bytes_per_second: Option<u64>,
    /// CPU time of `ibv_post_recv` for a request.
    pub post_receive: SimDuration,
    /// CPU time of `ibv_poll_cq`, at least 1 ps.
    pub poll_cq: SimDuration,
    /// CPU time of `ibv_poll_cq` for each completion that it returns.
    pub take_completion: SimDuration,
    /// CPU time to read a clock, at least 1 ps.
    pub clock_read: SimDuration,
    /// Time from a store of a core until a polling core of the same host has the new value, at least
    /// 1 ps.
    pub cache_line_transfer: SimDuration,
    /// Rate at which a core copies memory, in bytes per second.
    pub copy_bytes_per_second: u64,
    /// CPU time of a verb that goes through the kernel: creation, modification, destruction.
    pub control_verb: SimDuration,
    /// CPU time to register memory, per page of 4 KiB.
    pub register_page: SimDuration,
    /// Time from an interrupt to a woken thread.
    pub event_wakeup: SimDuration,
    /// One-way latency of the management network between hosts, which carries plain sockets.
    pub ethernet_latency: SimDuration,
    /// Rate of the management network in bytes per second.
    pub ethernet_bytes_per_second: u64,
    /// Costs of the kernel between sockets and cards, for modelled network interfaces.
    pub kernel_path: KernelPath,
    /// Costs of reads and writes of files.
    pub files: FileCosts,
}

/// Parameters of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// VendorID of NodeInfo: 24 bits, the maker's OUI (IBTA 14.2.5.3). 0 if unknown.
    pub vendor_id: u32,
    /// DeviceID of NodeInfo (IBTA 14.2.5.3). 0 if unknown.
    pub device_id: u16,
    /// Number of ports beside the management port, from 1 to 254.
    pub ports: u8,
    /// Largest MTU of each port.
    pub mtu_max: Mtu,
    /// Link widths that a port can train to.
    pub widths: Vec<LinkWidth>,
    /// Link speeds that a port can train to.
    pub speeds: Vec<LinkSpeed>,
    /// Data lanes that a port can operate (VLCap).
    pub vl_cap: OperationalVls,
    /// Receive buffer of a port in bytes, divided among the operational data lanes. Each lane must
    /// hold a packet of `mtu_max`.
    pub port_buffer_bytes: u32,
    /// Time from first bit in to first bit out, by the speed of the ports. A speed without a row
    /// has the last row's time.
    pub forward_latency: Vec<(LinkSpeed, SimDuration)>,
    /// Time for which a packet's input buffer stays taken after its last bit has entered the
    /// crossbar.
    pub buffer_hold: SimDuration,
    /// Time from a freed buffer to the flow-control packet.
    pub credit_return: SimDuration,
    /// Time in which an agent handles a management datagram, one after the other; directed-route
    /// packets on their way count as well.
    pub management_processing: SimDuration,
    /// Whether the switch can mark packets with FECN. It requires congestion control in the subnet
    /// (IBTA annex A10).
    pub congestion_control: bool,
    /// Parameters of an Ethernet switch, or `None` for an InfiniBand switch. The widths, speeds,
    /// lanes and credits above do not apply to an Ethernet switch.
    pub ethernet: Option<EthernetPorts>,
}

impl HostPart {
    /// Returns the time in which a core copies a mebibyte, rounded down to a picosecond.
    pub fn copy_mebibyte(&self) -> SimDuration {
        let picos = (1_000_000_000_000u128 << 20) / u128::from(self.copy_bytes_per_second.max(1));
        SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

impl SwitchPart {
    /// Returns Ethernet if the part has Ethernet parameters, and otherwise InfiniBand.
    pub fn link_layer(&self) -> LinkLayer {
        if self.ethernet.is_some() { LinkLayer::Ethernet } else { LinkLayer::Infiniband }
    }
}

/// Rating of a cable for Ethernet links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetCable {
    /// Fastest rate that the cable and its converters are rated for.
    pub rate_max: EthernetRate,
    /// Delay that forward error correction of both ends adds: none for rates without a row.
    pub fec_latency: Vec<(EthernetRate, SimDuration)>,
}

/// Parameters of a cable, with everything that sits in its connectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CablePart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// Material, for reports.
    pub medium: Medium,
    /// Length in millimetres.
    pub length_millimetres: u64,
    /// Propagation delay in picoseconds per metre. Light in vacuum takes 3,336; copper and glass
    /// take about 5,000.
    pub picos_per_metre: u64,
    /// Delay of both media converters together, or zero without converters.
    pub converter_delay: SimDuration,
    /// Fastest speed that the cable and its converters are rated for.
    pub speed_max: LinkSpeed,
    /// Most lanes that the cable and its converters are rated for.
    pub width_max: LinkWidth,
    /// Delay that forward error correction of both ends adds to a link over this cable, by its
    /// speed. It is zero for speeds without a row.
    pub fec_latency: Vec<(LinkSpeed, SimDuration)>,
    /// Rating for Ethernet links, or `None` for an InfiniBand cable. The speeds and widths above do
    /// not apply to Ethernet links.
    pub ethernet: Option<EthernetCable>,
}

/// Material of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Copper.
    Copper,
    /// Optical fibre.
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
    /// Returns Ethernet if the part has an Ethernet rating, and otherwise InfiniBand.
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
