//! The parts of the model, field by field.

use std::collections::BTreeMap;

use softband_model::parts::{BusPart, CablePart, HcaPart, HostPart, Medium, MessageGaps, OptionalVerbs, ReceiveMode, SwitchPart};
use softband_model::transport::AckTimer;
use softband_sim::SimDuration;
use softband_types::{CreditBlocks, LinkRate, LinkSpeed, LinkWidth, Mtu, OperationalVls};

use crate::diagnostic::suggest;
use crate::parts::{CableTemplate, LengthLimit, PartReader, PartSheet};
use crate::units::Dimension;

/// What a packet carries beside its payload: LRH, BTH and both CRCs. Packets with more wait for an empty lane.
const PACKET_OVERHEAD_BYTES: u32 = 26;

pub(crate) fn bus(mut read: PartReader<'_>) -> Option<(BusPart, PartSheet)> {
    let part = BusPart {
        name: read.name(),
        raw_bytes_per_second: read.rate("raw_rate"),
        max_payload_bytes: read.bytes("max_payload"),
        write_header_bytes: read.bytes("write_header"),
        completion_bytes: read.bytes("completion"),
        completion_header_bytes: read.bytes("completion_header"),
        link_layer_ppm: read.share_ppm("link_layer_share"),
        duplex_bytes_per_second: read.optional_rate("duplex_rate"),
    };
    if part.link_layer_ppm >= 1_000_000 {
        read.refuse("link_layer_share", "nothing of the bus is left".into(), Some("write less than 100 %".into()));
    }
    for (name, bytes) in [("max_payload", part.max_payload_bytes), ("completion", part.completion_bytes)] {
        if bytes == 0 {
            read.refuse(name, "a packet carries at least one byte".into(), None);
        }
    }
    read.finish().map(|sheet| (part, sheet))
}

pub(crate) fn hca(mut read: PartReader<'_>) -> Option<(HcaPart, PartSheet)> {
    let part = HcaPart {
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
        outstanding_reads: read.count("outstanding_reads"),
        tuned_read_request_bytes: read.bytes("tuned_read_request"),
        gaps: gaps(&mut read),
        doorbell: read.duration("doorbell"),
        send_wqe_fetch: read.duration("send_wqe_fetch"),
        receive_wqe_fetch: read.duration("receive_wqe_fetch"),
        transmit_processing: read.duration("transmit_processing"),
        receive_processing: read.duration("receive_processing"),
        completion_write: read.duration("completion_write"),
        read_response_processing: read.duration("read_response_processing"),
        atomic_execution: read.duration("atomic_execution"),
        ack_processing: read.duration("ack_processing"),
        credit_return: read.duration("credit_return"),
        ack_timer: AckTimer { code_min: read.code("ack_timeout_min"), periods: read.count("ack_timer_periods") },
        congestion_control: read.optional_flag("congestion_control"),
        transmit_staging_packets: read.count("transmit_staging_packets"),
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
        optional: optional_verbs(&mut read),
    };
    check_buffer(&mut read, part.port_buffer_bytes, part.vl_cap, part.mtu_max);
    for (name, count) in [("outstanding_reads", part.outstanding_reads), ("transmit_staging_packets", part.transmit_staging_packets)] {
        if count == 0 {
            read.refuse(name, "nothing could ever be sent".into(), Some("write at least 1".into()));
        }
    }
    check_ack_timer(&mut read, part.ack_timer);
    check_read_request(&mut read, "tuned_read_request", part.tuned_read_request_bytes);
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
        atomic_write: read.choice("atomic_write", Dimension::Name, &[("no", false), ("yes", true)]),
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

/// A lane that cannot take one whole packet would never get the credits to send it.
fn check_buffer(read: &mut PartReader<'_>, buffer_bytes: u32, vls: OperationalVls, mtu: Mtu) {
    let lanes = u32::from(vls.data_lanes());
    let needed = CreditBlocks::for_packet(mtu.bytes() + PACKET_OVERHEAD_BYTES).0;
    let blocks = buffer_bytes / lanes / CreditBlocks::BLOCK_BYTES;
    if blocks < needed {
        let least = needed * CreditBlocks::BLOCK_BYTES * lanes;
        let message = format!("{lanes} lanes get {blocks} blocks of 64 B each, and a full packet takes {needed}");
        read.refuse("port_buffer", message, Some(format!("write at least {least} B")));
    }
}

/// What the specification leaves to HCAs (IBTA 9.7.6.1.3).
fn check_ack_timer(read: &mut PartReader<'_>, timer: AckTimer) {
    if timer.code_min > 31 {
        read.refuse("ack_timeout_min", format!("{} does not fit in five bits", timer.code_min), Some("write 0 to 31".into()));
    }
    if !(1..=4).contains(&timer.periods) {
        read.refuse("ack_timer_periods", "an HCA waits for one to four periods".into(), Some("write 1 to 4".into()));
    }
}

/// The sizes that the field of PCI Express can hold.
fn check_read_request(read: &mut PartReader<'_>, name: &'static str, bytes: u32) {
    if !(bytes.is_power_of_two() && (128..=4_096).contains(&bytes)) {
        let help = "write 128, 256, 512, 1024, 2048 or 4096 B";
        read.refuse(name, format!("{bytes} B is not a read request size of PCI Express"), Some(help.into()));
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
        memory_read_latency: read.duration("memory_read_latency"),
        memory_write_latency: read.duration("memory_write_latency"),
        post_send: read.duration("post_send"),
        post_receive: read.duration("post_receive"),
        poll_cq: read.duration("poll_cq"),
        clock_read: read.duration("clock_read"),
        control_verb: read.duration("control_verb"),
        register_page: read.duration("register_page"),
        event_wakeup: read.duration("event_wakeup"),
        ethernet_latency: read.duration("ethernet_latency"),
        ethernet_bytes_per_second: read.rate("ethernet_rate"),
    };
    check_read_request(&mut read, "read_request", part.read_request_bytes);
    // A call that costs nothing would let a program poll for ever at one instant.
    for (name, cost) in [("post_send", part.post_send), ("poll_cq", part.poll_cq), ("clock_read", part.clock_read)] {
        if cost == SimDuration::ZERO {
            read.refuse(name, "a call must take some time".into(), Some("write at least 1 ps".into()));
        }
    }
    read.finish().map(|sheet| (part, sheet))
}

fn no_bus() -> BusPart {
    BusPart {
        name: String::new(),
        raw_bytes_per_second: 1,
        max_payload_bytes: 1,
        write_header_bytes: 0,
        completion_bytes: 1,
        completion_header_bytes: 0,
        link_layer_ppm: 0,
        duplex_bytes_per_second: None,
    }
}

pub(crate) fn switch(mut read: PartReader<'_>) -> Option<(SwitchPart, PartSheet)> {
    let mut part = SwitchPart {
        name: read.name(),
        ports: read.ports(),
        mtu_max: read.mtu("mtu_max"),
        widths: read.widths(),
        speeds: read.speeds(),
        vl_cap: read.vls("vl_cap"),
        port_buffer_bytes: read.bytes("port_buffer"),
        forward_latency: Vec::new(),
        buffer_hold: read.duration("buffer_hold"),
        credit_return: read.duration("credit_return"),
        congestion_control: read.optional_flag("congestion_control"),
    };
    let latencies = [(LinkSpeed::Sdr, "forward_latency_sdr"), (LinkSpeed::Ddr, "forward_latency_ddr"), (LinkSpeed::Qdr, "forward_latency_qdr")];
    for (speed, name) in latencies {
        if part.speeds.contains(&speed) {
            part.forward_latency.push((speed, read.duration(name)));
        } else if read.writes(name) {
            read.refuse(name, format!("the switch does not run at {speed}"), Some(format!("add \"{speed}\" to `speeds` or remove `{name}`")));
        }
    }
    check_buffer(&mut read, part.port_buffer_bytes, part.vl_cap, part.mtu_max);
    read.finish().map(|sheet| (part, sheet))
}

pub(crate) fn cable(mut read: PartReader<'_>, limits: &BTreeMap<String, (Vec<LengthLimit>, PartSheet)>) -> Option<(CableTemplate, PartSheet)> {
    let name = read.name();
    let medium = read.choice("medium", Dimension::Name, &[("copper", Medium::Copper), ("optical", Medium::Optical)]);
    let length = read.optional_millimetres("length");
    let part = CablePart {
        name,
        medium,
        length_millimetres: length.unwrap_or(0),
        picos_per_metre: read.picos_per_metre("propagation"),
        converter_delay: read.duration("converter_delay"),
        speed_max: read.speed("speed_max"),
        width_max: read.width("width_max"),
    };
    let limit = read.optional_part("length_limits").map(|(name, _)| name);
    if let Some(name) = limit.as_ref().filter(|name| !limits.contains_key(*name)) {
        let names: Vec<&str> = limits.keys().map(String::as_str).collect();
        read.refuse("length_limits", format!("no usable length limits `{name}`"), Some(suggest(name, "length limits", &names)));
    }
    if length == Some(0) {
        read.refuse("length", "a cable has a length".into(), None);
    }
    if medium == Medium::Copper && limit.is_none() {
        read.refuse("medium", "a copper cable has length limits".into(), Some("add `length_limits`".into()));
    }
    read.finish().map(|sheet| (CableTemplate { part, adjustable: length.is_none(), limits: limit }, sheet))
}

const LIMIT_ROWS: [(&str, LinkWidth, LinkSpeed); 9] = [
    ("1x_sdr", LinkWidth::X1, LinkSpeed::Sdr),
    ("4x_sdr", LinkWidth::X4, LinkSpeed::Sdr),
    ("12x_sdr", LinkWidth::X12, LinkSpeed::Sdr),
    ("1x_ddr", LinkWidth::X1, LinkSpeed::Ddr),
    ("4x_ddr", LinkWidth::X4, LinkSpeed::Ddr),
    ("12x_ddr", LinkWidth::X12, LinkSpeed::Ddr),
    ("1x_qdr", LinkWidth::X1, LinkSpeed::Qdr),
    ("4x_qdr", LinkWidth::X4, LinkSpeed::Qdr),
    ("12x_qdr", LinkWidth::X12, LinkSpeed::Qdr),
];

pub(crate) fn length_limits(mut read: PartReader<'_>) -> Option<(Vec<LengthLimit>, PartSheet)> {
    let lengths: Vec<_> =
        LIMIT_ROWS.into_iter().filter_map(|(name, width, speed)| Some((name, LinkRate { width, speed }, read.optional_millimetres(name)?))).collect();
    let sheet = read.finish()?;
    let limits = lengths.into_iter().map(|(name, rate, millimetres)| {
        let row = sheet.parameters.iter().find(|parameter| parameter.name == name).expect("a length read is on the sheet");
        LengthLimit { rate, millimetres, source: row.source.clone(), status: row.status }
    });
    Some((limits.collect(), sheet))
}
