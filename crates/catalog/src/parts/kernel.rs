//! Kernel parts: the constants of TCP/IP.

use softband_model::parts::{
    BufferSizes, CongestionControl, KernelPart, LossDetection, RateReduction, ReceiveGrowth, ReceiveWindowRule, SlowStart, SynCookies,
};
use softband_sim::SimDuration;

use crate::parts::{PartReader, PartSheet};
use crate::units::Dimension;

const YES_NO: [(&str, bool); 2] = [("no", false), ("yes", true)];

pub(crate) fn kernel(mut read: PartReader<'_>) -> Option<(KernelPart, PartSheet)> {
    let reductions = [("halving", RateReduction::Halving), ("proportional", RateReduction::Proportional)];
    let controls = [("reno", CongestionControl::Reno), ("bic", CongestionControl::Bic), ("cubic", CongestionControl::Cubic)];
    let window_rules = [("steps", ReceiveWindowRule::Steps), ("bytes", ReceiveWindowRule::Bytes)];
    let growths = [("doubling", ReceiveGrowth::Doubling), ("growth", ReceiveGrowth::Growth)];
    let starts = [("acknowledgements", SlowStart::Acknowledgements), ("packets", SlowStart::Packets)];
    let cookies = [("no", SynCookies::No), ("plain", SynCookies::Plain), ("options", SynCookies::Options)];
    let part = KernelPart {
        name: read.name(),
        initial_window: read.count("initial_window"),
        initial_window_bytes: read.optional_bytes("initial_window_bytes").filter(|bytes| *bytes > 0),
        initial_receive_window: read.optional_count("initial_receive_window").filter(|segments| *segments > 0),
        initial_receive_window_rule: read.choice("initial_receive_window_rule", Dimension::Name, &window_rules),
        rto_initial: read.duration("rto_initial"),
        rto_min: read.duration("rto_min"),
        rto_max: read.duration("rto_max"),
        syn_retries: read.count("syn_retries"),
        syn_linear_timeouts: read.count("syn_linear_timeouts"),
        syn_ack_retries: read.count("syn_ack_retries"),
        retries: read.count("retries"),
        delayed_ack_min: read.duration("delayed_ack_min"),
        delayed_ack_max: read.duration("delayed_ack_max"),
        quick_acks: read.count("quick_acks"),
        loss_detection: read.choice("loss_detection", Dimension::Name, &[("count", LossDetection::Count), ("rack", LossDetection::Rack)]),
        tail_loss_probe: read.choice("tail_loss_probe", Dimension::Name, &YES_NO),
        rate_reduction: read.choice("rate_reduction", Dimension::Name, &reductions),
        congestion_control: read.choice("congestion_control", Dimension::Name, &controls),
        slow_start: read.choice("slow_start", Dimension::Name, &starts),
        hybrid_slow_start: read.choice("hybrid_slow_start", Dimension::Name, &YES_NO),
        timestamps: read.choice("timestamps", Dimension::Name, &YES_NO),
        selective_ack: read.choice("selective_ack", Dimension::Name, &YES_NO),
        window_scaling: read.choice("window_scaling", Dimension::Name, &YES_NO),
        receive_buffer: buffer(&mut read, "receive_buffer", "receive_buffer_max"),
        receive_growth: read.choice("receive_buffer_growth", Dimension::Name, &growths),
        send_buffer: buffer(&mut read, "send_buffer", "send_buffer_max"),
        datagram_buffer: buffer(&mut read, "datagram_buffer", "datagram_buffer_max"),
        window_share_ppm: read.share_ppm("window_share"),
        small_queue_bytes: read.optional_bytes("small_queue").filter(|bytes| *bytes > 0),
        small_queue_time: read.optional_duration("small_queue_time").filter(|time| *time > SimDuration::ZERO),
        super_segment_bytes: read.bytes("super_segment"),
        super_segment_divisor: read.count("super_segment_divisor"),
        checksum_with_copy: read.choice("checksum_with_copy", Dimension::Name, &YES_NO),
        ipoib_offloads: read.choice("ipoib_offloads", Dimension::Name, &YES_NO),
        ipoib_aggregation: read.choice("ipoib_aggregation", Dimension::Name, &YES_NO),
        ipoib_backlog_packets: read.optional_count("ipoib_backlog").filter(|packets| *packets > 0),
        sdp_zcopy_threshold: read.optional_bytes("sdp_zcopy_threshold").filter(|least| *least > 0),
        transmit_queue_packets: read.count("transmit_queue"),
        fragment_memory_bytes: read.bytes("fragment_memory"),
        fragment_memory_low_bytes: read.optional_bytes("fragment_memory_low").filter(|bytes| *bytes > 0),
        backlog_max: read.count("backlog_max"),
        syn_backlog_max: read.count("syn_backlog_max"),
        syn_cookies: read.choice("syn_cookies", Dimension::Name, &cookies),
        time_wait: read.duration("time_wait"),
        tcp_memory_bytes: read.bytes("tcp_memory"),
        orphans_max: read.count("orphans_max"),
        time_wait_max: read.count("time_wait_max"),
        fin_timeout: read.duration("fin_timeout"),
        keepalive_idle: read.duration("keepalive_idle"),
        keepalive_interval: read.duration("keepalive_interval"),
        keepalive_probes: read.count("keepalive_probes"),
        ephemeral_first: port(&mut read, "ephemeral_first"),
        ephemeral_last: port(&mut read, "ephemeral_last"),
        neighbour_retransmit: read.duration("neighbour_retransmit"),
        neighbour_requests: read.count("neighbour_requests"),
        neighbour_queue_packets: read.count("neighbour_queue"),
        neighbour_reachable: read.duration("neighbour_reachable"),
    };
    check(&mut read, &part);
    read.finish().map(|sheet| (part, sheet))
}

fn check(read: &mut PartReader<'_>, part: &KernelPart) {
    check_counts(read, part);
    check_times(read, part);
    if part.fragment_memory_low_bytes.is_some_and(|low| low > part.fragment_memory_bytes) {
        let help = format!("write at most {} B", part.fragment_memory_bytes);
        read.refuse("fragment_memory_low", "the low mark is above fragment_memory".into(), Some(help));
    }
    if part.ipoib_aggregation && part.ipoib_backlog_packets.is_some() {
        // Linux joins segments in NAPI alone, which replaced the backlog.
        let help = "write 0, or `ipoib_aggregation = \"no\"`";
        read.refuse("ipoib_backlog", "a driver that joins received segments has no backlog".into(), Some(help.into()));
    }
    if part.ephemeral_first > part.ephemeral_last {
        let help = format!("write {} or more", part.ephemeral_first);
        read.refuse("ephemeral_last", "the range of ephemeral ports is empty".into(), Some(help));
    }
}

fn buffer(read: &mut PartReader<'_>, initial: &'static str, max: &'static str) -> BufferSizes {
    // Linux refuses smaller buffers of sockets (SOCK_MIN_RCVBUF).
    const BUFFER_BYTES_MIN: u32 = 2_304;
    // A window of 30 bits is the largest that TCP can state (RFC 7323, 2.3).
    const BUFFER_BYTES_MAX: u32 = 1 << 30;
    let sizes = BufferSizes { initial_bytes: read.bytes(initial), max_bytes: read.bytes(max) };
    if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&sizes.initial_bytes) {
        let help = format!("write {BUFFER_BYTES_MIN} B to {BUFFER_BYTES_MAX} B");
        read.refuse(initial, "no socket has such a buffer".into(), Some(help));
    }
    if !(sizes.initial_bytes..=BUFFER_BYTES_MAX).contains(&sizes.max_bytes) {
        let help = format!("write {} B to {BUFFER_BYTES_MAX} B", sizes.initial_bytes);
        read.refuse(max, format!("the size that a new socket has, {} B, is beyond it", sizes.initial_bytes), Some(help));
    }
    sizes
}

fn port(read: &mut PartReader<'_>, name: &'static str) -> u16 {
    let number = read.count(name);
    u16::try_from(number).ok().filter(|port| *port > 0).unwrap_or_else(|| {
        read.refuse(name, format!("there is no port {number}"), Some("write 1 to 65535".into()));
        1
    })
}

fn check_counts(read: &mut PartReader<'_>, part: &KernelPart) {
    // Doubled timeouts beyond these counts exceed simulated time.
    let counts = [
        ("initial_window", part.initial_window, 1, 1_000),
        ("syn_retries", part.syn_retries, 0, 127),
        ("syn_linear_timeouts", part.syn_linear_timeouts, 0, 127),
        ("syn_ack_retries", part.syn_ack_retries, 0, 127),
        ("retries", part.retries, 1, 127),
        ("window_share", part.window_share_ppm, 1, 1_000_000),
        ("super_segment", part.super_segment_bytes, 1, 1 << 20),
        ("transmit_queue", part.transmit_queue_packets, 1, 1 << 20),
        ("backlog_max", part.backlog_max, 1, 1 << 20),
        ("syn_backlog_max", part.syn_backlog_max, 1, 1 << 20),
        ("super_segment_divisor", part.super_segment_divisor, 0, 1_000),
        ("fragment_memory", part.fragment_memory_bytes, 1 << 16, 1 << 30),
        ("tcp_memory", part.tcp_memory_bytes, 1 << 20, u32::MAX),
        ("orphans_max", part.orphans_max, 1, 1 << 24),
        ("time_wait_max", part.time_wait_max, 1, 1 << 24),
        ("keepalive_probes", part.keepalive_probes, 1, 127),
        ("neighbour_requests", part.neighbour_requests, 1, 127),
        ("neighbour_queue", part.neighbour_queue_packets, 1, 1 << 16),
    ];
    for (name, count, least, most) in counts {
        if !(least..=most).contains(&count) {
            read.refuse(name, format!("{count} is not possible"), Some(format!("write {least} to {most}")));
        }
    }
}

fn check_times(read: &mut PartReader<'_>, part: &KernelPart) {
    // A timer of no length would fire for ever at one instant.
    let times = [
        ("rto_initial", part.rto_initial),
        ("rto_min", part.rto_min),
        ("delayed_ack_min", part.delayed_ack_min),
        ("keepalive_idle", part.keepalive_idle),
        ("keepalive_interval", part.keepalive_interval),
        ("neighbour_retransmit", part.neighbour_retransmit),
    ];
    for (name, time) in times {
        if time == SimDuration::ZERO {
            read.refuse(name, "a timer must take some time".into(), Some("write at least 1 ms".into()));
        }
    }
    let most = SimDuration::from_micros(32_767_000_000);
    let others = [("rto_max", part.rto_max), ("delayed_ack_max", part.delayed_ack_max), ("neighbour_reachable", part.neighbour_reachable)];
    for (name, time) in times.into_iter().chain(others) {
        // The longest timer that Linux takes (`MAX_TCP_KEEPIDLE`).
        if time > most {
            read.refuse(name, "no timer takes that long".into(), Some("write at most 32767 s".into()));
        }
    }
    for (name, least, time) in
        [("rto_max", part.rto_initial.max(part.rto_min), part.rto_max), ("delayed_ack_max", part.delayed_ack_min, part.delayed_ack_max)]
    {
        if time < least {
            read.refuse(name, "the largest value is less than the least".into(), None);
        }
    }
}
