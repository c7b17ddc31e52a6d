//! Ideal parts: the limits of a model without any hardware.

use super::{
    BusPart, CablePart, CardInterface, FileCosts, HcaPart, HostPart, IpoibOffloads, KernelPath, Medium, MemoryPart, MessageGaps, OptionalVerbs,
    PciExpress, QueueEntries, ReceiveMode, Slot, SwitchPart,
};
use crate::transport::AckTimer;
use softband_sim::SimDuration;
use softband_types::{LinkSpeed, LinkWidth, Mtu, OperationalVls};

/// Receive buffer of an ideal port: a lane of 15 holds more than 1 MB, the data of 2 km of cable in
/// both directions at 400 Gb/s.
const BUFFER_BYTES: u32 = 16 << 20;
/// Objects and queue entries of an ideal HCA.
const MANY: u32 = 1 << 20;
/// Least cost of a call. With a free call, a program could poll forever at a single instant.
const LEAST: SimDuration = SimDuration::from_picos(1);

fn all_lanes() -> OperationalVls {
    OperationalVls::from_code(5).expect("code 5 is VL0-14")
}

impl HcaPart {
    /// Returns an ideal HCA: each delay and gap is zero, and each limit is large. Its results are
    /// bounds that follow from links and slots, not predictions for any hardware.
    ///
    /// It has a port, all widths and speeds, 15 data lanes, 16 MiB of receive buffer, an MTU of
    /// 4,096 bytes, a PCI Express card of generation 6 with 16 lanes, and no Ethernet.
    ///
    /// ```
    /// use softband_model::parts::HcaPart;
    /// use softband_sim::SimDuration;
    ///
    /// let part = HcaPart { ports: 2, doorbell: SimDuration::from_nanos(100), ..HcaPart::ideal() };
    /// assert_eq!(part.send_wqe_fetch, SimDuration::ZERO);
    /// ```
    pub fn ideal() -> Self {
        let none = SimDuration::ZERO;
        Self {
            name: "ideal HCA".into(),
            driver: "ideal".into(),
            vendor_id: 0,
            vendor_part_id: 0,
            hardware_version: 0,
            firmware_version: "0".into(),
            board_id: "ideal".into(),
            ports: 1,
            mtu_max: Mtu::B4096,
            widths: LinkWidth::ALL.to_vec(),
            speeds: LinkSpeed::ALL.to_vec(),
            vl_cap: all_lanes(),
            port_buffer_bytes: BUFFER_BYTES,
            receive_mode: ReceiveMode::CutThrough,
            interface: CardInterface::PciExpress { generation: 6, lanes: 16 },
            max_payload_bytes: None,
            outstanding_reads: 256,
            tuned_read_request_bytes: None,
            processing_engines: 1,
            gaps: MessageGaps { send: none, write: none, read: none, atomic: none, datagram: none },
            doorbell: none,
            send_wqe_fetch: none,
            receive_wqe_fetch: none,
            receive_wqe_pause: SimDuration::ZERO,
            response_completion_bytes: None,
            context_cache: None,
            entries: QueueEntries::default(),
            transmit_processing: none,
            receive_processing: none,
            completion_write: none,
            read_response_processing: none,
            atomic_execution: none,
            ack_processing: none,
            credit_return: none,
            management_processing: none,
            ack_timer: AckTimer::SHORTEST,
            congestion_control: true,
            ethernet: None,
            transmit_staging_packets: 256,
            transmit_staging_bytes: None,
            max_qp: MANY,
            max_qp_wr: MANY,
            max_sge: 256,
            max_cq: MANY,
            max_cqe: MANY,
            max_mr: MANY,
            max_pd: MANY,
            max_ah: MANY,
            max_inline_bytes: 4_096,
            max_rd_atomic: 255,
            ipoib_offloads: IpoibOffloads { checksums: true, segmentation: true },
            optional: OptionalVerbs {
                max_srq: MANY,
                max_srq_wr: MANY,
                max_srq_sge: 256,
                max_xrcd: MANY,
                max_mw: MANY,
                max_multicast_groups: MANY,
                max_multicast_members: MANY,
                gid_table_len: 256,
                states_packet_type: false,
                on_demand_paging: true,
                atomic_write: true,
            },
        }
    }
}

impl HostPart {
    /// Returns an ideal host: memory without delays or limits, and a PCI Express slot of generation
    /// 6 with 16 lanes. Posts, polls and reads of a clock take 1 ps; all else takes no time.
    pub fn ideal() -> Self {
        let none = SimDuration::ZERO;
        let slot = PciExpress {
            generation: 6,
            lanes: 16,
            max_payload_bytes: 4_096,
            write_header_bytes: 16,
            completion_bytes: 4_096,
            completion_header_bytes: 12,
            link_layer_ppm: 0,
        };
        Self {
            name: "ideal host".into(),
            cpu: "ideal".into(),
            bus: BusPart { name: "ideal slot".into(), slot: Slot::PciExpress(slot), bridge: None },
            read_request_bytes: 4_096,
            memory: MemoryPart {
                read_latency: none,
                write_latency: none,
                read_bytes_per_second: None,
                write_bytes_per_second: None,
                bytes_per_second: None,
            },
            post_send: LEAST,
            write_combining_flush: SimDuration::ZERO,
            post_address: SimDuration::ZERO,
            inline_bytes_per_second: None,
            post_receive: LEAST,
            poll_cq: LEAST,
            take_completion: SimDuration::ZERO,
            clock_read: LEAST,
            cache_line_transfer: LEAST,
            copy_bytes_per_second: 1_000_000_000_000,
            control_verb: none,
            register_page: none,
            event_wakeup: none,
            ethernet_latency: none,
            ethernet_bytes_per_second: 1_000_000_000_000,
            kernel_path: KernelPath::free(),
            files: FileCosts::default(),
        }
    }
}

impl SwitchPart {
    /// Returns an ideal InfiniBand switch with `ports` ports, from 1 to 254. It forwards packets
    /// without delay, as they arrive (cut-through).
    ///
    /// It has all widths and speeds, 15 data lanes, 16 MiB of receive buffer per port, and an MTU
    /// of 4,096 bytes.
    pub fn ideal(ports: u8) -> Self {
        Self {
            name: "ideal switch".into(),
            vendor_id: 0,
            device_id: 0,
            ports,
            mtu_max: Mtu::B4096,
            widths: LinkWidth::ALL.to_vec(),
            speeds: LinkSpeed::ALL.to_vec(),
            vl_cap: all_lanes(),
            port_buffer_bytes: BUFFER_BYTES,
            forward_latency: Vec::new(),
            buffer_hold: SimDuration::ZERO,
            credit_return: SimDuration::ZERO,
            management_processing: SimDuration::ZERO,
            congestion_control: true,
            ethernet: None,
        }
    }
}

impl CablePart {
    /// Returns an ideal InfiniBand cable of a length in millimetres: optical fibre with 5 ns per
    /// metre, without converters and without forward error correction. It carries each width and
    /// speed.
    pub fn ideal(length_millimetres: u64) -> Self {
        Self {
            name: "ideal cable".into(),
            medium: Medium::Optical,
            length_millimetres,
            picos_per_metre: 5_000,
            converter_delay: SimDuration::ZERO,
            speed_max: LinkSpeed::Xdr,
            width_max: LinkWidth::X12,
            fec_latency: Vec::new(),
            ethernet: None,
        }
    }
}
