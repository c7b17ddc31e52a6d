//! Costs of messages beside their payload: queue entries on the bus, receive WQEs, inline data, and
//! contexts outside of the cache.

use crate::common::*;
use softband_model::parts::{ContextCache, HcaPart, PciExpress, QueueEntries, Slot};
use softband_model::verbs::api::{PayloadSlice, SendOperation};
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_types::*;

const ENTRIES: QueueEntries =
    QueueEntries { send_wqe_bytes: 64, datagram_wqe_bytes: 128, receive_wqe_bytes: 16, completion_bytes: 64, doorbell_carries_wqe: false };

/// Bytes of a packet of PCI Express beside its payload, of a write and of a read completion.
const PACKET_BYTES: f64 = 24.0;
const COMPLETION_BYTES: f64 = 20.0;

/// Two hosts in slots of generation 1 with 8 lanes (2 GB/s), and links that are faster. `change`
/// changes both HCAs.
fn slow_bus(change: impl Fn(&mut HcaPart)) -> FabricSpec {
    let mut host = host_part(100, 50);
    host.bus.slot = Slot::PciExpress(PciExpress {
        generation: 1,
        lanes: 8,
        max_payload_bytes: 256,
        write_header_bytes: 16,
        completion_bytes: 256,
        completion_header_bytes: 12,
        link_layer_ppm: 0,
    });
    host.memory.bytes_per_second = None;
    let mut spec = back_to_back(LinkSpeed::Hdr, 1, 1, host);
    for host in &mut spec.hosts {
        let part = &mut host.hcas[0].part;
        (part.outstanding_reads, part.transmit_staging_packets, part.port_buffer_bytes) = (1_024, 1_024, 1 << 20);
        (part.receive_processing, part.transmit_processing) = (nanos(50), nanos(50));
        (part.doorbell, part.send_wqe_fetch, part.receive_wqe_fetch) = (nanos(10), nanos(10), nanos(10));
        (part.gaps.write, part.gaps.send, part.gaps.read) = (nanos(1), nanos(1), nanos(1));
        change(part);
    }
    spec
}

/// Returns the nanoseconds between messages of `size` bytes from a to b.
fn nanos_a_message(spec: &FabricSpec, operation: impl Fn(&Lab) -> SendOperation, size: u32) -> f64 {
    const COUNT: u64 = 1_000;
    let mut lab = Lab::new(spec);
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let operation = operation(&lab);
    for number in 0..COUNT {
        if matches!(operation, SendOperation::Send { .. }) {
            lab.receive(1, b, number, 0, 4_096);
        }
        let request = lab.request(0, number, operation.clone(), 0, size);
        lab.send(0, a, request);
    }
    lab.run();
    let times = lab.timed_completions(0);
    assert!(times.iter().all(|(_, completion)| completion.status == WcStatus::Success));
    // Programs post all messages at once, so that the doorbells come first.
    times.last().unwrap().0.as_secs_f64() * 1e9 / COUNT as f64
}

fn write(lab: &Lab) -> SendOperation {
    lab.write_to(1, 0)
}

fn send(_: &Lab) -> SendOperation {
    SendOperation::Send { immediate: None }
}

fn read(lab: &Lab) -> SendOperation {
    lab.read_from(1, 0)
}

#[track_caller]
fn assert_near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.02, "{value:.1} is not within 2 % of {expected:.1}");
}

#[test]
fn doorbells_and_wqes_take_their_share_of_the_slot() {
    let payload = (512.0 + 2.0 * COMPLETION_BYTES) / 2.0;
    assert_near(nanos_a_message(&slow_bus(|_| {}), write, 512), payload);
    let fetched = slow_bus(|part| part.entries = ENTRIES);
    assert_near(nanos_a_message(&fetched, write, 512), payload + (8.0 + PACKET_BYTES + 64.0 + PACKET_BYTES) / 2.0);
    let carried = slow_bus(|part| part.entries = QueueEntries { doorbell_carries_wqe: true, ..ENTRIES });
    assert_near(nanos_a_message(&carried, write, 512), payload + (64.0 + PACKET_BYTES) / 2.0);
}

#[test]
fn completions_and_requests_for_receives_take_their_share_of_the_slot() {
    // Towards the receiver's memory: the payload, the request for the WQE, and the completion.
    let spec = slow_bus(|part| part.entries = QueueEntries { send_wqe_bytes: 0, ..ENTRIES });
    assert_near(nanos_a_message(&spec, send, 512), (512.0 + 2.0 * PACKET_BYTES + PACKET_BYTES + 64.0 + PACKET_BYTES) / 2.0);
}

#[test]
fn a_pause_for_the_receive_wqe_limits_sends_and_spares_writes() {
    let spec = slow_bus(|part| part.receive_wqe_pause = nanos(500));
    assert_near(nanos_a_message(&spec, send, 8), 500.0 + (8.0 + 8.0 * PACKET_BYTES / 256.0) / 2.0);
    assert!(nanos_a_message(&spec, write, 8) < 50.0);
}

#[test]
fn reads_have_the_completions_that_their_responder_asks_for() {
    let small = slow_bus(|part| part.response_completion_bytes = Some(64));
    assert_near(nanos_a_message(&small, read, 4_096), 4_096.0 * (64.0 + COMPLETION_BYTES) / 64.0 / 2.0);
    assert_near(nanos_a_message(&slow_bus(|_| {}), read, 4_096), 4_096.0 * (256.0 + PACKET_BYTES) / 256.0 / 2.0);
    assert_near(nanos_a_message(&small, write, 4_096), 4_096.0 * (256.0 + PACKET_BYTES) / 256.0 / 2.0);
}

/// Returns the time at which the second of two writes completes. The first has 200 bytes of inline
/// data.
fn second_behind_inline(rate: Option<u64>) -> SimTime {
    let mut spec = slow_bus(|_| {});
    spec.hosts[0].part.inline_bytes_per_second = rate;
    let mut lab = Lab::new(&spec);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let mut first = lab.request(0, 0, lab.write_to(1, 0), 0, 200);
    first.inline = Some(PayloadSlice { buffer: Some(vec![7; 200].into()), offset: 0, len: 200 });
    first.entries.clear();
    lab.send(0, a, first);
    let second = lab.request(0, 1, lab.write_to(1, 0), 0, 8);
    lab.send(0, a, second);
    lab.run();
    assert_eq!(lab.completions(0).iter().map(|completion| completion.wr_id).collect::<Vec<_>>(), [0, 1]);
    lab.timed_completions(0)[1].0
}

#[test]
fn inline_data_delays_the_requests_of_its_queue_pair() {
    // 200 bytes at 200 MB/s take a microsecond.
    let (slow, fast) = (second_behind_inline(Some(200_000_000)), second_behind_inline(None));
    assert_eq!(slow, fast + nanos(1_000));
}

/// Returns the nanoseconds of a round in which each of `pairs` queue pairs writes 8 bytes.
fn nanos_a_round(pairs: usize, cache: Option<ContextCache>) -> f64 {
    const ROUNDS: u64 = 20;
    let mut spec = slow_bus(|_| {});
    spec.hosts[0].hcas[0].part.context_cache = cache;
    let mut lab = Lab::new(&spec);
    let pairs: Vec<Qpn> = (0..pairs).map(|_| lab.connect(0, 1, QpType::Rc).0).collect();
    let mut spent = SimDuration::ZERO;
    for number in 0..ROUNDS {
        let began = lab.world.now();
        for &qpn in &pairs {
            let request = lab.request(0, number, lab.write_to(1, 0), 0, 8);
            lab.send(0, qpn, request);
        }
        lab.run();
        // The first round fetches each context.
        if number > 0 {
            spent += lab.timed_completions(0).last().unwrap().0 - began;
        }
    }
    spent.as_picos() as f64 / 1e3 / (ROUNDS - 1) as f64
}

#[test]
fn contexts_beyond_the_cache_are_fetched_one_at_a_time() {
    let cache = Some(ContextCache { contexts: 8, miss: nanos(400) });
    let free = nanos_a_round(8, None);
    assert_near(nanos_a_round(8, cache), free);
    // The context used longest ago leaves, so in turns each is a miss.
    let round = nanos_a_round(9, cache);
    assert!(round > 9.0 * 400.0 && round < 9.0 * 400.0 + free + 400.0, "{round}");
}

#[test]
fn a_responder_fetches_the_contexts_of_its_requests() {
    let mut spec = slow_bus(|_| {});
    spec.hosts[1].hcas[0].part.context_cache = Some(ContextCache { contexts: 1, miss: nanos(400) });
    let mut lab = Lab::new(&spec);
    let pairs = [lab.connect(0, 1, QpType::Rc).0, lab.connect(0, 1, QpType::Rc).0];
    let end_of = |lab: &mut Lab, qpn: Qpn| {
        let began = lab.world.now();
        let request = lab.request(0, 0, lab.read_from(1, 0), 0, 8);
        lab.send(0, qpn, request);
        lab.run();
        lab.timed_completions(0).last().unwrap().0 - began
    };
    let cold = end_of(&mut lab, pairs[0]);
    let warm = end_of(&mut lab, pairs[0]);
    assert_eq!(cold, warm + nanos(400));
    assert_eq!(end_of(&mut lab, pairs[1]), cold);
    assert_eq!(end_of(&mut lab, pairs[0]), cold);
}
