//! The published behaviour of cables, buses, lanes and credits, with hand-made parts.

use crate::common::*;
use softband_model::parts::{HostPart, PciExpress, Slot};
use softband_model::verbs::api::{PayloadSlice, SendOperation, SendRequest};
use softband_spec::FabricSpec;
use softband_types::*;

fn se7520() -> HostPart {
    host_part(600, 300)
}

fn woodcrest() -> HostPart {
    host_part(1_955, 1_800)
}

/// Returns the megabytes per second of messages of `size` bytes from a to b, and also back if
/// `both`.
fn stream_of(spec: &FabricSpec, qp_type: QpType, both: bool, size: u32, count: u64) -> f64 {
    let mut lab = Lab::new(spec);
    let (a, b) = lab.connect(0, 1, qp_type);
    let directions: &[(usize, Qpn)] = if both { &[(0, a), (1, b)] } else { &[(0, a)] };
    for &(who, qpn) in directions {
        for number in 0..count {
            let request = lab.request(who, number, lab.write_to(1 - who, 0), 0, size);
            lab.send(who, qpn, request);
        }
    }
    lab.run();
    assert!(lab.completions(0).iter().all(|completion| completion.status == WcStatus::Success));
    let times = lab.timed_completions(0);
    assert_eq!(times.len() as u64, count);
    let warm = times.len() / 10;
    let span = times.last().unwrap().0 - times[warm].0;
    let bytes = (times.len() - 1 - warm) as f64 * f64::from(size) * directions.len() as f64;
    bytes / span.as_secs_f64() / 1e6
}

fn stream(spec: &FabricSpec, qp_type: QpType) -> f64 {
    stream_of(spec, qp_type, false, 65_536, 200)
}

#[track_caller]
fn assert_near(value: f64, expected: f64, percent: f64) {
    assert!((value / expected - 1.0).abs() * 100.0 <= percent, "{value:.1} is not within {percent} % of {expected}");
}

#[test]
fn sdr_fills_the_link_at_any_length_to_100_metres() {
    for (metres, qp_type) in [(1, QpType::Rc), (10, QpType::Uc), (100, QpType::Rc), (100, QpType::Uc)] {
        assert_near(stream(&back_to_back(LinkSpeed::Sdr, metres, 5, se7520()), qp_type), 983.7, 0.3);
    }
}

#[test]
fn ddr_back_to_back_is_bound_by_pcie_reads_at_any_length_to_100_metres() {
    for metres in [8, 100] {
        assert_near(stream(&back_to_back(LinkSpeed::Ddr, metres, 5, se7520()), QpType::Rc), 1_490.0, 1.0);
    }
}

#[test]
fn ddr_into_a_switch_over_100_metres_gets_one_packet_a_loop_until_lanes_are_few() {
    // 2,048 B in 1.041 us of serialisation, 1.0 us of cable, and the switch's time for the buffer
    // and the credit.
    assert_near(stream(&through_switch(LinkSpeed::Ddr, &[100, 8], 5, se7520()), QpType::Rc), 2_048.0 / (1.041 + 1.0 + 0.02), 0.3);
    assert_near(stream(&through_switch(LinkSpeed::Ddr, &[10, 10], 5, se7520()), QpType::Rc), 1_490.0, 1.0);
    assert_near(stream(&through_switch(LinkSpeed::Ddr, &[100, 100], 1, se7520()), QpType::Rc), 1_490.0, 1.0);
}

#[test]
fn a_slow_host_lengthens_the_credit_loop() {
    assert_near(stream(&back_to_back(LinkSpeed::Sdr, 8, 5, woodcrest()), QpType::Rc), 891.0, 1.0);
    assert_near(stream(&back_to_back(LinkSpeed::Sdr, 100, 5, woodcrest()), QpType::Rc), 797.0, 1.5);
    assert_near(stream(&back_to_back(LinkSpeed::Sdr, 100, 1, woodcrest()), QpType::Rc), 891.0, 1.0);
}

#[test]
fn larger_read_requests_cure_a_long_memory_latency() {
    let mut spec = back_to_back(LinkSpeed::Sdr, 8, 5, woodcrest());
    for host in &mut spec.hosts {
        host.hcas[0].tune_pci = true;
    }
    assert_near(stream(&spec, QpType::Rc), 980.0, 0.5);
}

#[test]
fn both_directions_share_the_host_bridge() {
    assert_near(stream_of(&back_to_back(LinkSpeed::Ddr, 8, 5, se7520()), QpType::Rc, true, 65_536, 400), 2_727.0, 2.0);
}

/// Two hosts whose buses and HCAs are faster than any link.
fn faster_than_the_link(speed: LinkSpeed) -> FabricSpec {
    let mut host = host_part(100, 50);
    host.bus.slot = Slot::PciExpress(PciExpress {
        generation: 6,
        lanes: 16,
        max_payload_bytes: 4_096,
        write_header_bytes: 16,
        completion_bytes: 4_096,
        completion_header_bytes: 12,
        link_layer_ppm: 0,
    });
    host.memory.bytes_per_second = None;
    let mut spec = back_to_back(speed, 1, 1, host);
    for host in &mut spec.hosts {
        let part = &mut host.hcas[0].part;
        (part.outstanding_reads, part.transmit_staging_packets, part.port_buffer_bytes) = (1_024, 1_024, 1 << 20);
        (part.receive_processing, part.transmit_processing) = (nanos(50), nanos(50));
    }
    spec
}

#[test]
fn every_generation_carries_its_rate_less_the_headers() {
    let rates = [1_000.0, 2_000.0, 4_000.0, 5_000.0, 6_818.2, 12_500.0, 25_000.0, 50_000.0, 100_000.0];
    for (speed, rate) in LinkSpeed::ALL.into_iter().zip(rates) {
        assert_near(stream(&faster_than_the_link(speed), QpType::Rc), rate * 2_048.0 / 2_082.0, 0.3);
    }
}

#[test]
fn forward_error_correction_delays_a_link_and_its_credits() {
    let mut spec = faster_than_the_link(LinkSpeed::Hdr);
    let at = |speed| LinkRate { width: LinkWidth::X4, speed };
    let plain = spec.cables[0].part.delay(at(LinkSpeed::Hdr));
    spec.cables[0].part.fec_latency = vec![(LinkSpeed::Hdr, nanos(1_000))];
    assert_eq!(spec.cables[0].part.delay(at(LinkSpeed::Hdr)), plain + nanos(1_000));
    assert_eq!(spec.cables[0].part.delay(at(LinkSpeed::Edr)), plain);
    for host in &mut spec.hosts {
        host.hcas[0].part.port_buffer_bytes = 8 * 33 * 64;
    }
    // Eight packets in a loop of two corrections, two passages of 5 ns, the receiver and the packet
    // itself.
    let rate = stream(&spec, QpType::Rc);
    assert!(rate < 8.0 * 2_048.0 / 2.0 && rate > 8.0 * 2_048.0 / 2.6, "{rate}");
}

#[test]
fn short_messages_come_at_the_gap_of_their_operation() {
    let rate = stream_of(&back_to_back(LinkSpeed::Sdr, 8, 5, se7520()), QpType::Rc, false, 8, 1_000);
    assert_near(rate, 8.0 / 0.3, 1.0);
}

/// Returns the megabytes per second of short writes from two queue pairs of host a.
fn two_queue_pairs(engines: u32) -> f64 {
    let mut spec = faster_than_the_link(LinkSpeed::Ndr);
    spec.hosts[0].hcas[0].part.processing_engines = engines;
    let mut lab = Lab::new(&spec);
    let pairs = [lab.connect(0, 1, QpType::Rc).0, lab.connect(0, 1, QpType::Rc).0];
    for number in 0..1_000 {
        for qpn in pairs {
            let request = lab.request(0, number, lab.write_to(1, 0), 0, 8);
            lab.send(0, qpn, request);
        }
    }
    lab.run();
    let times = lab.timed_completions(0);
    let span = times.last().unwrap().0 - times[0].0;
    (times.len() - 1) as f64 * 8.0 / span.as_secs_f64() / 1e6
}

#[test]
fn queue_pairs_of_different_engines_do_not_wait_for_each_other() {
    assert_near(two_queue_pairs(1), 8.0 / 0.3, 1.0);
    assert_near(two_queue_pairs(2), 2.0 * 8.0 / 0.3, 1.0);
}

#[test]
fn the_wait_for_credits_shows_in_the_counters() {
    let spec = through_switch(LinkSpeed::Ddr, &[100, 8], 5, se7520());
    let mut lab = Lab::new(&spec);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let request = lab.request(0, 1, lab.write_to(1, 0), 0, 65_536);
    lab.send(0, a, request);
    lab.run();
    let counters = lab.world.counters();
    let hca = &counters[0];
    assert_eq!((hca.node.as_str(), hca.port_xmit_pkts, hca.port_rcv_pkts), ("a/test0", 32, 1));
    // 32 packets of payload with 24 bytes each, and one RETH; the acknowledgement has 28 bytes. The
    // VCRC does not count.
    assert_eq!(hca.port_xmit_data, (65_536 + 32 * 24 + 16) / 4);
    assert_eq!(hca.port_rcv_data, 28 / 4);
    let stalled: u64 = hca.credit_stall_picos.iter().sum();
    assert!(stalled > 25_000_000, "{stalled}");
    assert_eq!(hca.port_xmit_wait, stalled / 2_000);
}

/// Returns the one-way latency including the CPU's share: from a small inline message to its sight
/// by the peer's program.
fn latency_nanos(operation: impl Fn(&Lab) -> SendOperation, len: u32) -> u64 {
    let spec = through_switch(LinkSpeed::Sdr, &[8, 8], 5, se7520());
    let mut lab = Lab::new(&spec);
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.receive(1, b, 0, 0, 4_096);
    lab.run();
    let operation = operation(&lab);
    let write = matches!(operation, SendOperation::RdmaWrite { .. });
    let request: SendRequest = lab.request(0, 1, operation, 0, len);
    let start = lab.world.now();
    lab.fill(0, 0, 64, 3);
    lab.send(0, a, request);
    while lab.memory.blocks[1][1] == 0 || !write && lab.completions(1).is_empty() {
        assert!(lab.step());
    }
    let cpu = se7520().post_send + if write { nanos(50) } else { se7520().poll_cq };
    (lab.world.now() - start + cpu).as_nanos()
}

#[test]
fn a_send_takes_about_a_microsecond_longer_than_a_write() {
    let send = latency_nanos(|_| SendOperation::Send { immediate: None }, 8);
    let write = latency_nanos(|lab| lab.write_to(1, 0), 8);
    assert_near(send as f64, 4_800.0, 5.0);
    assert_near(write as f64, 3_800.0, 5.0);
    // A send adds the receive WQE's fetch, partly behind the packet's arrival, the completion, and
    // a poll.
    assert_near((send - write) as f64, 1_000.0, 10.0);
}

#[test]
fn an_atomic_reads_its_operand_from_where_a_read_has_its_payload() {
    let took = |memory_latency: u64, operation: fn(u64, RKey) -> SendOperation| {
        let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(memory_latency, 300)));
        let (a, _) = lab.connect(0, 1, QpType::Rc);
        let request = lab.request(0, 1, operation(BASE + 64, lab.programs[1].rkey), 0, 8);
        let begun = lab.world.now();
        lab.send(0, a, request);
        while lab.completions(0).is_empty() {
            assert!(lab.step());
        }
        lab.world.now() - begun
    };
    let read: fn(u64, RKey) -> SendOperation = |remote_address, rkey| SendOperation::RdmaRead { remote_address, rkey };
    let add: fn(u64, RKey) -> SendOperation = |remote_address, rkey| SendOperation::FetchAdd { remote_address, rkey, add: 2 };
    for operation in [read, add] {
        assert_eq!(took(1_500, operation) - took(500, operation), nanos(1_000));
    }
    assert!(took(500, add) > took(500, read));
}

#[test]
fn a_receive_completes_after_its_own_payload_and_not_after_that_behind_it() {
    let mut part = host_part(600, 300);
    part.memory.bytes_per_second = Some(200_000_000);
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 1, 1, part));
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let inline = Some(PayloadSlice { buffer: Some(vec![7; 64].into()), offset: 0, len: 64 });
    for number in 0..4 {
        lab.receive(1, b, number, number * 64, 64);
        let request = lab.request(0, number, SendOperation::Send { immediate: None }, 0, 64);
        lab.send(0, a, SendRequest { inline: inline.clone(), ..request });
    }
    lab.run();
    let times: Vec<_> = lab.timed_completions(1).iter().map(|(at, _)| *at).collect();
    assert!(times.is_sorted_by(|before, after| before < after), "{times:?}");
}
