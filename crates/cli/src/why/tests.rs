use super::*;
use softband_fabric::{EthernetCounters, Repeats};
use softband_sim::SimDuration;
use softband_types::{HcaId, PortNumber, Qpn};

/// The transfer time of all tests, in picoseconds.
const WHOLE: u64 = 1_000_000;

fn evidence() -> Evidence {
    let cables = [("a/h/1", "sw/1"), ("sw/2", "b/h/1")];
    let both_ways = cables.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
    let peers = both_ways.map(|(one, other)| (one.to_owned(), other.to_owned())).collect();
    Evidence { whole_picos: WHOLE, peers, ..Evidence::default() }
}

fn port(node: &str, number: u8) -> PortCounters {
    PortCounters { node: node.into(), port: PortNumber(number), ..PortCounters::default() }
}

fn hca(node: &str) -> HcaCounters {
    HcaCounters { node: node.into(), ..HcaCounters::default() }
}

fn repeats(repeats: Repeats) -> QueuePairRepeats {
    QueuePairRepeats { hca: HcaId(0), node: "a/h".into(), qpn: Qpn(0x404), repeats }
}

fn texts(evidence: &Evidence) -> Vec<String> {
    bottlenecks(evidence).into_iter().map(|found| found.text).collect()
}

fn kinds(evidence: &Evidence) -> Vec<&'static str> {
    bottlenecks(evidence).iter().map(|found| found.kind.name()).collect()
}

#[test]
fn a_wait_for_credits_names_the_far_end_and_the_lane() {
    let stalls = vec![0, 370_000, 49_999, 50_000];
    let evidence = Evidence { ports: vec![PortCounters { credit_stall_picos: stalls, ..port("b/h", 1) }], ..evidence() };
    let wanted =
        ["b/h/1 waited 37 % of the transfer time for credits of sw/2 on VL 1", "b/h/1 waited 5 % of the transfer time for credits of sw/2 on VL 3"];
    assert_eq!(texts(&evidence), wanted);
    let first = bottlenecks(&evidence).remove(0).to_json();
    assert_eq!(first, json!({ "part": "b/h/1", "kind": "credits", "share": 37, "text": wanted[0] }));
}

#[test]
fn on_ethernet_it_is_a_wait_for_the_end_of_pauses() {
    let paused = PortCounters { credit_stall_picos: vec![0, 200_000], ethernet: Some(EthernetCounters::default()), ..port("sw", 1) };
    let evidence = Evidence { ports: vec![paused], ..evidence() };
    assert_eq!(texts(&evidence), ["sw/1 waited 20 % of the transfer time for the end of pauses by a/h/1 on priority 1"]);
}

#[test]
fn a_link_counts_from_its_threshold_on() {
    for (busy, wanted) in [(599_999, &[][..]), (600_000, &["the link a/h/1 to sw/1 was busy for 60 % of the transfer time"][..])] {
        let evidence = Evidence { ports: vec![PortCounters { xmit_busy_picos: busy, ..port("a/h", 1) }], ..evidence() };
        assert_eq!(texts(&evidence), wanted);
    }
}

#[test]
fn each_limit_of_an_hca_has_its_words_and_the_kind_that_what_if_has() {
    let limits = HcaCounters {
        slot_read_picos: 940_000,
        slot_write_picos: 900_000,
        memory_picos: 800_000,
        read_wait_picos: 700_000,
        message_gap_picos: 650_000,
        ..hca("a/h")
    };
    let evidence = Evidence { hcas: vec![limits, hca("b/h")], ..evidence() };
    let wanted = [
        "reads over the slot of a/h were under way for 94 % of the transfer time",
        "writes over the slot of a/h were under way for 90 % of the transfer time",
        "the memory of host a was busy for 80 % of the transfer time",
        "all read requests of a/h waited for the latency of memory for 70 % of the transfer time",
        "the message rate of a/h was at its limit for 65 % of the transfer time",
    ];
    assert_eq!(texts(&evidence), wanted);
    assert_eq!(kinds(&evidence), ["bus", "bus", "bus", "bus", "HCA"]);
}

#[test]
fn reads_that_wait_for_a_full_slot_do_not_wait_for_latency() {
    let waiting = HcaCounters { read_wait_picos: 950_000, ..hca("a/h") };
    let alone = Evidence { hcas: vec![waiting.clone()], ..evidence() };
    assert_eq!(texts(&alone), ["all read requests of a/h waited for the latency of memory for 95 % of the transfer time"]);
    for full in [
        HcaCounters { slot_read_picos: 950_000, ..waiting.clone() },
        HcaCounters { shared_bus_picos: 950_000, ..waiting.clone() },
        HcaCounters { memory_picos: 950_000, ..waiting },
    ] {
        let found = texts(&Evidence { hcas: vec![full], ..evidence() });
        assert!(found.len() == 1 && !found[0].contains("latency"), "{found:?}");
    }
}

#[test]
fn a_bus_and_a_memory_that_hcas_share_are_named_once() {
    let shared = |node| HcaCounters { shared_bus_picos: 900_000, memory_picos: 700_000, ..hca(node) };
    let mut evidence = Evidence { hcas: vec![shared("a/h0"), shared("a/h1"), shared("b/h0")], ..evidence() };
    for node in ["a/h0", "a/h1"] {
        evidence.shared_buses.insert(node.into(), "bus riser of a".into());
    }
    let wanted = [
        "the bus of b/h0 was busy for 90 % of the transfer time",
        "the bus riser of a was busy for 90 % of the transfer time",
        "the memory of host a was busy for 70 % of the transfer time",
        "the memory of host b was busy for 70 % of the transfer time",
    ];
    assert_eq!(texts(&evidence), wanted);
}

#[test]
fn queue_pairs_wait_for_receivers_and_for_timeouts() {
    let waits = Repeats { rnr_naks: 12, rnr_waits: SimDuration::from_picos(400_000), ..Repeats::default() };
    let lost = Repeats { retransmissions: 3, ..Repeats::default() };
    let timed_out = Repeats { retransmissions: 1, timeouts: 1, timeout_waits: SimDuration::from_picos(20_000), ..Repeats::default() };
    let short = Repeats { rnr_naks: 1, rnr_waits: SimDuration::from_picos(49_999), ..Repeats::default() };
    let evidence = Evidence { repeats: [waits, lost, timed_out, short].map(repeats).to_vec(), ..evidence() };
    let wanted = [
        "queue pair 0x404 of a/h waited 40 % of the transfer time for receive requests of its peer (12 RNR NAKs)",
        "queue pair 0x404 of a/h sent again 1 time and waited 2 % of the transfer time for 1 timeout",
        "queue pair 0x404 of a/h sent again 3 times because packets were lost",
    ];
    assert_eq!(texts(&evidence), wanted);
    assert_eq!(kinds(&evidence), ["receiver", "retransmission", "retransmission"]);
}

#[test]
fn a_processor_counts_when_it_is_busy_for_most_of_the_time() {
    let thread = |name: &str, busy_picos| ThreadWork { name: name.into(), busy_picos };
    let evidence =
        Evidence { work: vec![thread("a: 'x' (process 1000, thread 0)", 970_000), thread("b: 'x' (process 1001, thread 0)", 500_000)], ..evidence() };
    assert_eq!(texts(&evidence), ["the processor of a: 'x' (process 1000, thread 0) was busy with its calls for 97 % of the transfer time"]);
}

#[test]
fn five_are_named_largest_first_and_equal_ones_by_kind_and_name() {
    let busy = |node: &str, number, xmit_busy_picos| PortCounters { xmit_busy_picos, ..port(node, number) };
    let ports = vec![busy("z", 1, 700_000), busy("b", 2, 900_000), busy("b", 1, 900_000), busy("c", 1, 610_000), busy("d", 1, 620_000)];
    let hcas = vec![HcaCounters { message_gap_picos: 900_000, ..hca("a/h") }];
    let mut evidence = Evidence { ports, hcas, ..evidence() };
    let parts = |evidence: &Evidence| bottlenecks(evidence).into_iter().map(|found| found.part).collect::<Vec<_>>();
    let wanted = ["b/1", "b/2", "a/h", "z/1", "d/1"];
    assert_eq!(parts(&evidence), wanted);
    evidence.ports.reverse();
    assert_eq!(parts(&evidence), wanted);
}

#[test]
fn waits_and_full_parts_come_before_busy_parts_with_time_left() {
    let busy = |node: &str, xmit_busy_picos| PortCounters { xmit_busy_picos, ..port(node, 1) };
    let waits = PortCounters { xmit_busy_picos: 660_000, credit_stall_picos: vec![500_000], ..port("b/h", 1) };
    let evidence = Evidence { ports: vec![busy("z", 940_000), waits, busy("c", 950_000)], ..evidence() };
    let found: Vec<_> = bottlenecks(&evidence).into_iter().map(|found| (found.part, found.share)).collect();
    assert_eq!(found, [("c/1", 95), ("b/h/1", 50), ("z/1", 94), ("b/h/1", 66)].map(|(part, share)| (part.to_owned(), share)));
}

#[test]
fn a_share_is_at_most_all_of_the_time_and_large_numbers_do_not_overflow() {
    let ports = vec![PortCounters { xmit_busy_picos: u64::MAX, ..port("a/h", 1) }];
    let evidence = Evidence { ports, whole_picos: u64::MAX / 2, ..evidence() };
    assert_eq!(bottlenecks(&evidence)[0].share, 100);
}

#[test]
fn workloads_have_shares_of_their_run() {
    let ports = vec![PortCounters { credit_stall_picos: vec![500_000], ..port("b/h", 1) }];
    assert_eq!(texts(&Evidence { ports, whole: Whole::Run, ..evidence() }), ["b/h/1 waited 50 % of the run for credits of sw/2 on VL 0"]);
}

#[test]
fn a_run_that_sends_nothing_has_no_bottleneck() {
    let ports = vec![PortCounters { xmit_busy_picos: 5, credit_stall_picos: vec![7], ..port("a/h", 1) }];
    assert_eq!(texts(&Evidence { ports, whole_picos: 0, ..evidence() }), [""; 0]);
    assert_eq!(texts(&Evidence { ports: vec![port("a/h", 1)], hcas: vec![hca("a/h")], ..evidence() }), [""; 0]);
}
