//! Converts parts to the types of the model, field by field.

use std::collections::BTreeMap;

use softband_model::parts::{
    BusPart, CablePart, CardInterface, ContextCache, DiskPart, EthernetCable, EthernetPorts, FileCosts, HcaPart, HostPart, IpoibOffloads, KernelPath,
    Medium, MemoryPart, MessageGaps, OptionalVerbs, QueueEntries, ReceiveMode, SwitchPart,
};
use softband_model::transport::AckTimer;
use softband_sim::SimDuration;
use softband_types::{CreditBlocks, EthernetRate, LinkLayer, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls, counted};
use softband_wire::ethernet::{FCS_BYTES, MAC_BYTES, OVERHEAD_BYTES, TAG_BYTES};

use crate::diagnostic::suggest;
use crate::parts::bus::{check_read_request, interface, max_payload, no_bus};
use crate::parts::{CableTemplate, LengthLimit, PartReader, PartSheet};
use crate::units::Dimension;

/// Size of a packet without payload: LRH, BTH and both CRCs. A packet with more headers waits for
/// an empty lane.
const PACKET_OVERHEAD_BYTES: u32 = 26;

#[expect(clippy::too_many_lines, reason = "a list: one line for each key of a part")]
pub(crate) fn hca(mut read: PartReader<'_>) -> Option<(HcaPart, PartSheet)> {
    let mut part = HcaPart {
        name: read.name(),
        driver: read.text("driver"),
        vendor_id: read.id("vendor_id"),
        vendor_part_id: read.id("vendor_part_id"),
        hardware_version: read.id("hardware_version"),
        firmware_version: read.text("firmware_version"),
        board_id: read.text("board_id"),
        ports: read.ports(),
        mtu_max: read.mtu("mtu_max"),
        widths: read.widths(),
        speeds: read.speeds(),
        vl_cap: read.vls("vl_cap"),
        port_buffer_bytes: read.bytes("port_buffer"),
        receive_mode: read.choice(
            "receive_mode",
            Dimension::Name,
            &[("cut-through", ReceiveMode::CutThrough), ("store-and-forward", ReceiveMode::StoreAndForward)],
        ),
        interface: interface(&mut read),
        max_payload_bytes: None,
        outstanding_reads: read.count("outstanding_reads"),
        tuned_read_request_bytes: read.optional_bytes("tuned_read_request"),
        processing_engines: read.optional_count("processing_engines").unwrap_or(1),
        gaps: gaps(&mut read),
        doorbell: read.duration("doorbell"),
        send_wqe_fetch: read.duration("send_wqe_fetch"),
        receive_wqe_fetch: read.duration("receive_wqe_fetch"),
        receive_wqe_pause: read.optional_duration("receive_wqe_pause").unwrap_or(SimDuration::ZERO),
        response_completion_bytes: read.optional_bytes("response_completion"),
        context_cache: context_cache(&mut read),
        entries: queue_entries(&mut read),
        transmit_processing: read.duration("transmit_processing"),
        receive_processing: read.duration("receive_processing"),
        completion_write: read.duration("completion_write"),
        read_response_processing: read.duration("read_response_processing"),
        atomic_execution: read.duration("atomic_execution"),
        ack_processing: read.duration("ack_processing"),
        credit_return: read.duration("credit_return"),
        management_processing: read.duration("management_processing"),
        ack_timer: AckTimer { code_min: read.code("ack_timeout_min"), periods: read.count("ack_timer_periods") },
        congestion_control: read.optional_flag("congestion_control"),
        ethernet: read.optional_link_layers().contains(&LinkLayer::Ethernet).then(|| ethernet_ports(&mut read)),
        transmit_staging_packets: read.count("transmit_staging_packets"),
        transmit_staging_bytes: read.optional_bytes("transmit_staging"),
        max_qp: read.count("max_qp"),
        max_qp_wr: read.count("max_qp_wr"),
        max_sge: read.count("max_sge"),
        max_cq: read.count("max_cq"),
        max_cqe: read.count("max_cqe"),
        max_mr: read.count("max_mr"),
        max_pd: read.count("max_pd"),
        max_ah: read.count("max_ah"),
        max_inline_bytes: read.bytes("max_inline"),
        max_rd_atomic: read.count("max_rd_atomic"),
        ipoib_offloads: IpoibOffloads { checksums: read.optional_flag("ipoib_checksums"), segmentation: read.optional_flag("ipoib_segmentation") },
        optional: optional_verbs(&mut read),
    };
    part.max_payload_bytes = max_payload(&mut read, part.interface);
    check_buffer(&mut read, part.port_buffer_bytes, part.vl_cap, part.mtu_max);
    const SENDS_NOTHING: &str = "nothing could ever be sent";
    const OF_NO_USE: &str = "no program could use such an HCA";
    let needed = [
        ("outstanding_reads", part.outstanding_reads, SENDS_NOTHING),
        ("transmit_staging_packets", part.transmit_staging_packets, SENDS_NOTHING),
        ("transmit_staging", part.transmit_staging_bytes.unwrap_or(1), SENDS_NOTHING),
        ("processing_engines", part.processing_engines, SENDS_NOTHING),
        ("max_qp", part.max_qp, OF_NO_USE),
        ("max_qp_wr", part.max_qp_wr, OF_NO_USE),
        ("max_sge", part.max_sge, OF_NO_USE),
        ("max_cq", part.max_cq, OF_NO_USE),
        ("max_cqe", part.max_cqe, OF_NO_USE),
        ("max_mr", part.max_mr, OF_NO_USE),
        ("max_pd", part.max_pd, OF_NO_USE),
    ];
    for (name, count, why) in needed {
        if count == 0 {
            read.refuse(name, why.into(), Some("write at least 1".into()));
        }
    }
    check_driver(&mut read, &part.driver);
    check_fields(&mut read, &part);
    check_ack_timer(&mut read, part.ack_timer);
    if matches!(part.interface, CardInterface::PciX { .. }) {
        let is_set =
            [("receive_wqe_pause", part.receive_wqe_pause > SimDuration::ZERO), ("response_completion", part.response_completion_bytes.is_some())];
        for (name, _) in is_set.into_iter().filter(|(_, is_set)| *is_set) {
            read.refuse(name, "only PCI Express models it".into(), Some("leave it out".into()));
        }
    }
    if part.response_completion_bytes.is_some_and(|bytes| !(64..=4096).contains(&bytes) || !bytes.is_power_of_two()) {
        read.refuse("response_completion", "no completion has this size".into(), Some("write a power of two from 64 to 4096".into()));
    }
    if let Some(bytes) = part.tuned_read_request_bytes {
        check_read_request(&mut read, "tuned_read_request", bytes, part.interface);
    }
    read.finish().map(|sheet| (part, sheet))
}

fn optional_verbs(read: &mut PartReader<'_>) -> OptionalVerbs {
    OptionalVerbs {
        max_srq: read.count("max_srq"),
        max_srq_wr: read.count("max_srq_wr"),
        max_srq_sge: read.count("max_srq_sge"),
        max_xrcd: read.count("max_xrcd"),
        max_mw: read.count("max_mw"),
        max_multicast_groups: read.count("max_multicast_groups"),
        max_multicast_members: read.count("max_multicast_members"),
        gid_table_len: read.count("gid_table_len"),
        on_demand_paging: read.choice("on_demand_paging", Dimension::Name, &[("no", false), ("yes", true)]),
        states_packet_type: read.optional_flag("states_packet_type"),
        atomic_write: read.choice("atomic_write", Dimension::Name, &[("no", false), ("yes", true)]),
    }
}

fn context_cache(read: &mut PartReader<'_>) -> Option<ContextCache> {
    let (contexts, miss) = (read.optional_count("context_cache"), read.optional_duration("context_miss"));
    match (contexts, miss) {
        (Some(0), _) => read.refuse("context_cache", "no queue pair could have a context".into(), Some("write at least 1".into())),
        (Some(_), None) => read.refuse("context_cache", "a cache has a time to fetch".into(), Some("add `context_miss`".into())),
        (None, Some(_)) => read.refuse("context_miss", "there is no cache".into(), Some("add `context_cache`".into())),
        _ => {}
    }
    Some(ContextCache { contexts: contexts?, miss: miss? })
}

fn queue_entries(read: &mut PartReader<'_>) -> QueueEntries {
    let mut bytes = |name| read.optional_bytes(name).unwrap_or(0);
    QueueEntries {
        send_wqe_bytes: bytes("send_wqe"),
        datagram_wqe_bytes: bytes("datagram_wqe"),
        receive_wqe_bytes: bytes("receive_wqe"),
        completion_bytes: bytes("completion"),
        doorbell_carries_wqe: read.optional_flag("doorbell_carries_wqe"),
    }
}

fn gaps(read: &mut PartReader<'_>) -> MessageGaps {
    MessageGaps {
        send: read.duration("gap_send"),
        write: read.duration("gap_write"),
        read: read.duration("gap_read"),
        atomic: read.duration("gap_atomic"),
        datagram: read.duration("gap_datagram"),
    }
}

/// Refuses a buffer with lanes too small for one whole packet. Those lanes would never get the
/// credits to send it.
fn check_buffer(read: &mut PartReader<'_>, buffer_bytes: u32, vls: OperationalVls, mtu: Mtu) {
    let lanes = u32::from(vls.data_lanes());
    let needed = CreditBlocks::for_packet(mtu.bytes() + PACKET_OVERHEAD_BYTES).0;
    let blocks = buffer_bytes / lanes / CreditBlocks::BLOCK_BYTES;
    if blocks < needed {
        let least = needed * CreditBlocks::BLOCK_BYTES * lanes;
        let (lanes, blocks) = (counted(lanes, "lane gets", "lanes get"), counted(blocks, "block", "blocks"));
        let message = format!("{lanes} {blocks} of 64 B each, and a full packet takes {needed}");
        read.refuse("port_buffer", message, Some(format!("write at least {least} B")));
    }
}

/// Checks the driver name, which is part of device names and file names.
fn check_driver(read: &mut PartReader<'_>, driver: &str) {
    const LENGTH_MAX: usize = 60;
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !((1..=LENGTH_MAX).contains(&driver.len()) && driver.bytes().all(good)) {
        let help = format!("write letters, digits, `-` and `_`, at most {LENGTH_MAX} of them, such as \"mlx5_\"");
        read.refuse("driver", format!("no device can be called after `{driver}`"), Some(help));
    }
}

/// Checks values that must fit into bit fields of programs and management.
fn check_fields(read: &mut PartReader<'_>, part: &HcaPart) {
    let fields = [
        // `max_rd_atomic` and `max_dest_rd_atomic` of `ibv_qp_attr`: outstanding requests of one QP
        // as requester and as responder.
        ("max_rd_atomic", part.max_rd_atomic, u32::from(u8::MAX), "programs ask for it in 8 bits"),
        // `sgid_index` of `ibv_global_route`, which counts from 0.
        ("gid_table_len", part.optional.gid_table_len, u32::from(u8::MAX) + 1, "programs name a place in the table in 8 bits"),
        // VendorID and DeviceID of NodeInfo (IBTA 14.2.5.3).
        ("vendor_id", part.vendor_id, (1 << 24) - 1, "it has 24 bits"),
        ("vendor_part_id", part.vendor_part_id, u32::from(u16::MAX), "it has 16 bits"),
    ];
    for (name, value, most, why) in fields {
        if value > most {
            read.refuse(name, format!("{value} is too large: {why}"), Some(format!("write 0 to {most}")));
        }
    }
}

/// Checks the freedoms that the specification leaves to HCAs (IBTA 9.7.6.1.3).
fn check_ack_timer(read: &mut PartReader<'_>, timer: AckTimer) {
    if timer.code_min > 31 {
        read.refuse("ack_timeout_min", format!("{} does not fit in five bits", timer.code_min), Some("write 0 to 31".into()));
    }
    if !(1..=4).contains(&timer.periods) {
        read.refuse("ack_timer_periods", "an HCA waits for one to four periods".into(), Some("write 1 to 4".into()));
    }
}

pub(crate) fn host(mut read: PartReader<'_>, buses: &BTreeMap<String, (BusPart, PartSheet)>) -> Option<(HostPart, PartSheet)> {
    let cpu = read.text("cpu");
    let (bus_name, _) = read.part("bus");
    let bus = buses.get(&bus_name).map(|(bus, _)| bus.clone());
    if bus.is_none() && !bus_name.is_empty() {
        let names: Vec<&str> = buses.keys().map(String::as_str).collect();
        read.refuse("bus", format!("no usable bus part `{bus_name}`"), Some(suggest(&bus_name, "bus parts", &names)));
    }
    let bus = bus.unwrap_or_else(no_bus);
    let part = HostPart {
        name: read.name(),
        cpu,
        bus,
        read_request_bytes: read.bytes("read_request"),
        memory: MemoryPart {
            read_latency: read.duration("memory_read_latency"),
            write_latency: read.duration("memory_write_latency"),
            read_bytes_per_second: read.optional_rate("memory_read_rate"),
            write_bytes_per_second: read.optional_rate("memory_write_rate"),
            bytes_per_second: read.optional_rate("memory_rate"),
        },
        post_send: read.duration("post_send"),
        write_combining_flush: read.optional_duration("write_combining_flush").unwrap_or(SimDuration::ZERO),
        post_address: read.optional_duration("post_address").unwrap_or(SimDuration::ZERO),
        inline_bytes_per_second: read.optional_rate("inline_rate"),
        post_receive: read.duration("post_receive"),
        poll_cq: read.duration("poll_cq"),
        take_completion: read.optional_duration("take_completion").unwrap_or(SimDuration::ZERO),
        clock_read: read.duration("clock_read"),
        cache_line_transfer: read.duration("cache_line_transfer"),
        copy_bytes_per_second: read.rate("copy_rate"),
        control_verb: read.duration("control_verb"),
        register_page: read.duration("register_page"),
        event_wakeup: read.duration("event_wakeup"),
        ethernet_latency: read.duration("ethernet_latency"),
        ethernet_bytes_per_second: read.rate("ethernet_rate"),
        kernel_path: kernel_path(&mut read),
        files: files(&mut read),
    };
    read.own_compute_rate("compute_floating_point", Dimension::Operations);
    read.own_compute_rate("compute_matrix_product", Dimension::Operations);
    read.own_compute_rate("compute_memory", Dimension::Rate);
    read.own_compute_rate("compute_memory_node", Dimension::Rate);
    read.own_compute_rate("compute_integer", Dimension::Operations);
    check_read_request(&mut read, "read_request", part.read_request_bytes, part.bus.slot.interface());
    // With a free call, a program could poll forever at one instant.
    let costs = [
        ("post_send", part.post_send),
        ("poll_cq", part.poll_cq),
        ("clock_read", part.clock_read),
        ("cache_line_transfer", part.cache_line_transfer),
    ];
    for (name, cost) in costs {
        if cost == SimDuration::ZERO {
            read.refuse(name, "a call must take some time".into(), Some("write at least 1 ps".into()));
        }
    }
    read.finish().map(|sheet| (part, sheet))
}

/// Reads the costs of files, which a host may leave out.
fn files(read: &mut PartReader<'_>) -> FileCosts {
    let copy_bytes_per_second = read.optional_rate("file_copy_rate");
    let (rate, seek) = (read.optional_rate("disk_rate"), read.optional_duration("disk_seek"));
    if rate.is_none() && seek.is_some() {
        read.refuse("disk_seek", "a disk that seeks has a rate".into(), Some("add `disk_rate`".into()));
    }
    if seek.is_some_and(|seek| seek > SimDuration::from_micros(1_000_000)) {
        read.refuse("disk_seek", "no disk seeks for longer than a second".into(), Some("write at most 1 s".into()));
    }
    let disk = rate.map(|bytes_per_second| DiskPart { bytes_per_second, seek: seek.unwrap_or(SimDuration::ZERO) });
    FileCosts { copy_bytes_per_second, disk }
}

fn kernel_path(read: &mut PartReader<'_>) -> KernelPath {
    let path = KernelPath {
        call: read.duration("socket_call"),
        send_packet: read.duration("packet_send"),
        receive_packet: read.duration("packet_receive"),
        join_packet: read.duration("packet_join"),
        interrupt: read.duration("packet_interrupt"),
        copy_bytes_per_second: read.rate("socket_copy_rate"),
        moderation_packets: read.count("moderation_packets"),
        moderation_time: read.duration("moderation_time"),
    };
    let times = [
        ("socket_call", path.call),
        ("packet_send", path.send_packet),
        ("packet_receive", path.receive_packet),
        ("packet_join", path.join_packet),
        ("packet_interrupt", path.interrupt),
        ("moderation_time", path.moderation_time),
    ];
    for (name, time) in times {
        // The times of many packets add up, and simulated time ends after 213 days.
        if time > SimDuration::from_micros(1_000_000) {
            read.refuse(name, "no kernel takes longer than a second".into(), Some("write at most 1 s".into()));
        }
    }
    if path.call == SimDuration::ZERO {
        read.refuse("socket_call", "a call must take some time".into(), Some("write at least 1 ps".into()));
    }
    if path.moderation_packets == 0 {
        read.refuse("moderation_packets", "a card interrupts after a packet at the earliest".into(), Some("write at least 1".into()));
    }
    path
}

pub(crate) fn switch(mut read: PartReader<'_>) -> Option<(SwitchPart, PartSheet)> {
    let part = match read.optional_link_layer() {
        LinkLayer::Infiniband => infiniband_switch(&mut read),
        LinkLayer::Ethernet => ethernet_switch(&mut read),
    };
    read.finish().map(|sheet| (part, sheet))
}

fn infiniband_switch(read: &mut PartReader<'_>) -> SwitchPart {
    let mut part = SwitchPart {
        name: read.name(),
        vendor_id: read.optional_id("vendor_id", 24),
        device_id: read.optional_id("device_id", 16) as u16,
        ports: read.ports(),
        mtu_max: read.mtu("mtu_max"),
        widths: read.widths(),
        speeds: read.speeds(),
        vl_cap: read.vls("vl_cap"),
        port_buffer_bytes: read.bytes("port_buffer"),
        forward_latency: Vec::new(),
        buffer_hold: read.duration("buffer_hold"),
        credit_return: read.duration("credit_return"),
        management_processing: read.duration("management_processing"),
        congestion_control: read.optional_flag("congestion_control"),
        ethernet: None,
    };
    let runs = |speed| part.speeds.contains(&speed);
    let mend = |speed| format!("add \"{speed}\" to `speeds`");
    part.forward_latency = read.durations_by(("forward_latency", &LinkSpeed::ALL), runs, |_| true, mend);
    check_buffer(read, part.port_buffer_bytes, part.vl_cap, part.mtu_max);
    part
}

/// Reads an Ethernet switch. It has one latency for all rates, as makers publish it.
fn ethernet_switch(read: &mut PartReader<'_>) -> SwitchPart {
    let (name, ports) = (read.name(), read.ports());
    let (ethernet, latency) = (ethernet_ports(read), read.duration("forward_latency"));
    let mut speeds: Vec<LinkSpeed> = ethernet.rates.iter().map(|rate| rate.link_rate().speed).collect();
    speeds.dedup();
    SwitchPart {
        name,
        vendor_id: 0,
        device_id: 0,
        ports,
        mtu_max: Mtu::B4096,
        widths: Vec::new(),
        speeds: Vec::new(),
        vl_cap: OperationalVls::from_code(4).expect("code 4 is eight lanes"),
        port_buffer_bytes: 0,
        forward_latency: speeds.into_iter().map(|speed| (speed, latency)).collect(),
        buffer_hold: read.duration("buffer_hold"),
        credit_return: SimDuration::ZERO,
        management_processing: SimDuration::ZERO,
        congestion_control: false,
        ethernet: Some(ethernet),
    }
}

fn ethernet_ports(read: &mut PartReader<'_>) -> EthernetPorts {
    // The largest RDMA packet with a tag.
    const FRAME_BYTES_MAX: u32 = 4_096 + OVERHEAD_BYTES + MAC_BYTES + TAG_BYTES + FCS_BYTES;
    let part =
        EthernetPorts { rates: read.ethernet_rates(), buffer_bytes: read.bytes("ethernet_buffer"), pause_response: read.duration("pause_response") };
    let (blocks, needed) = (part.buffer_bytes / CreditBlocks::BLOCK_BYTES, CreditBlocks::for_packet(FRAME_BYTES_MAX).0);
    if blocks < needed {
        let least = needed * CreditBlocks::BLOCK_BYTES;
        let help = format!("write at least {least} B, and more for each priority and its headroom");
        read.refuse(
            "ethernet_buffer",
            format!("{} of 64 B, and a full frame of {FRAME_BYTES_MAX} B takes {needed}", counted(blocks, "block", "blocks")),
            Some(help),
        );
    }
    part
}

pub(crate) fn cable(mut read: PartReader<'_>, limits: &BTreeMap<String, (Vec<LengthLimit>, PartSheet)>) -> Option<(CableTemplate, PartSheet)> {
    let name = read.name();
    let medium = read.choice("medium", Dimension::Name, &[("copper", Medium::Copper), ("optical", Medium::Optical)]);
    let length = read.optional_millimetres("length");
    let layer = read.optional_link_layer();
    let mut part = CablePart {
        name,
        medium,
        length_millimetres: length.unwrap_or(0),
        picos_per_metre: read.picos_per_metre("propagation"),
        converter_delay: read.duration("converter_delay"),
        speed_max: LinkSpeed::Sdr,
        width_max: LinkWidth::X1,
        fec_latency: Vec::new(),
        ethernet: None,
    };
    match layer {
        LinkLayer::Infiniband => {
            (part.speed_max, part.width_max) = (read.speed("speed_max"), read.width("width_max"));
            let (runs, mend) = (|speed| speed <= part.speed_max, |_| "raise `speed_max`".into());
            part.fec_latency = read.durations_by(("fec_latency", &LinkSpeed::ALL), runs, LinkSpeed::needs_error_correction, mend);
        }
        LinkLayer::Ethernet => part.ethernet = Some(ethernet_cable(&mut read)),
    }
    let limit = read.optional_part("length_limits").map(|(name, _)| name);
    if let Some(name) = limit.as_ref().filter(|name| !limits.contains_key(*name)) {
        let names: Vec<&str> = limits.keys().map(String::as_str).collect();
        read.refuse("length_limits", format!("no usable length limits `{name}`"), Some(suggest(name, "length limits", &names)));
    }
    // Light in vacuum takes 3335.64 ps.
    const PICOS_PER_METRE_MIN: u64 = 3_336;
    if part.picos_per_metre < PICOS_PER_METRE_MIN {
        let help = "write at least 3.34 ns/m, light in vacuum; copper and glass have about 5";
        read.refuse("propagation", "nothing goes faster than light".into(), Some(help.into()));
    }
    if length == Some(0) {
        read.refuse("length", "a cable has a length".into(), None);
    }
    if medium == Medium::Copper && limit.is_none() {
        read.refuse("medium", "a copper cable has length limits".into(), Some("add `length_limits`".into()));
    }
    read.finish().map(|sheet| (CableTemplate { part, adjustable: length.is_none(), limits: limit }, sheet))
}

fn ethernet_cable(read: &mut PartReader<'_>) -> EthernetCable {
    let rate_max = read.ethernet_rate("rate_max");
    let needs = |rate: EthernetRate| rate.link_rate().speed.needs_error_correction();
    let fec_latency = read.durations_by(("fec_latency", &EthernetRate::ALL), |rate| rate <= rate_max, needs, |_| "raise `rate_max`".into());
    EthernetCable { rate_max, fec_latency }
}

pub(crate) fn length_limits(mut read: PartReader<'_>) -> Option<(Vec<LengthLimit>, PartSheet)> {
    let infiniband = LinkSpeed::ALL.into_iter().flat_map(|speed| LinkWidth::ALL.map(|width| LinkRate { width, speed }));
    let infiniband = infiniband.map(|rate| (format!("{}_{}", rate.width, rate.speed), LinkLayer::Infiniband, rate));
    let ethernet = EthernetRate::ALL.into_iter().map(|rate| (rate.to_string(), LinkLayer::Ethernet, rate.link_rate()));
    let lengths: Vec<_> = infiniband
        .chain(ethernet)
        .filter_map(|(name, layer, rate)| {
            let name = name.to_lowercase();
            read.optional_millimetres(&name).map(|millimetres| (name, (layer, rate), millimetres))
        })
        .collect();
    let sheet = read.finish()?;
    let limits = lengths.into_iter().map(|(name, rate, millimetres)| {
        let row = sheet.parameters.iter().find(|parameter| parameter.name == name).expect("a length read is on the sheet");
        LengthLimit { rate, millimetres, source: row.source.clone(), status: row.status }
    });
    Some((limits.collect(), sheet))
}
