use super::*;
use crate::parts::{Bridge, CardInterface, MemoryPart, PciExpress, PciX, PciXClock};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const GEN1_X8: PciExpress = PciExpress {
    generation: 1,
    lanes: 8,
    max_payload_bytes: 128,
    write_header_bytes: 16,
    completion_bytes: 64,
    completion_header_bytes: 12,
    link_layer_ppm: 20_000,
};

const PCI_X_133: PciX = PciX { clock: PciXClock::Mhz133, width_bytes: 8, request_clocks: 4, burst_clocks: 6, write_burst_bytes: 512 };

/// Card on a bus, with its host's memory.
struct Path {
    bus: Bus,
    shared: SharedBus,
    memory: MemoryController,
}

fn path(slot: Slot, latency_nanos: u64, request: u32, outstanding: u32, bytes_per_second: Option<u64>) -> Path {
    with_bridge(slot, None, latency_nanos, request, outstanding, bytes_per_second)
}

fn with_bridge(slot: Slot, bridge: Option<Bridge>, latency_nanos: u64, request: u32, outstanding: u32, bytes_per_second: Option<u64>) -> Path {
    let memory = MemoryPart {
        read_latency: SimDuration::from_nanos(latency_nanos),
        write_latency: SimDuration::from_nanos(300),
        read_bytes_per_second: None,
        write_bytes_per_second: None,
        bytes_per_second,
    };
    let part = BusPart { name: "test".into(), slot, bridge };
    Path { bus: Bus::new(&part, request, outstanding, None), shared: SharedBus::new(&part), memory: MemoryController::new(&memory) }
}

fn gen1(latency_nanos: u64, request: u32, duplex: Option<u64>) -> Path {
    path(Slot::PciExpress(GEN1_X8), latency_nanos, request, 4, duplex)
}

impl Path {
    fn read(&mut self, now: SimTime, bytes: u32) -> SimTime {
        self.bus.read(&mut self.shared, &mut self.memory, now, bytes, ReadPurpose::Request)
    }

    fn write(&mut self, now: SimTime, bytes: u32) -> SimTime {
        self.bus.write(&mut self.shared, &mut self.memory, now, now, now, bytes)
    }

    /// Returns the rate of back-to-back 2 KiB reads, in megabytes per second.
    fn read_rate(mut self) -> u64 {
        let end = (0..1_000).map(|_| self.read(SimTime::ZERO, 2_048)).last().unwrap();
        2_048_000 * 1_000_000 / end.as_picos()
    }

    /// Returns the rate of 2 KiB reads and as many writes, in megabytes per second. Each begins at
    /// the end of the one before it.
    fn both_rates(mut self) -> u64 {
        let (mut read, mut write, mut bytes) = (SimTime::ZERO, SimTime::ZERO, 0);
        while read.max(write) < SimTime::from_picos(10_000_000_000) {
            // In the order of time, as the fabric's events are.
            if read <= write {
                read = self.read(read, 2_048);
            } else {
                write = self.write(write, 2_048);
            }
            bytes += 2_048;
        }
        bytes * 1_000_000 / read.max(write).as_picos()
    }
}

#[test]
fn reads_run_at_the_buses_efficiency_when_enough_are_outstanding() {
    assert_eq!(gen1(600, 512, None).read_rate(), 1_492);
}

#[test]
fn a_long_memory_latency_limits_reads_until_the_requests_grow() {
    assert_eq!(gen1(1_955, 512, None).read_rate(), 890);
    assert!(gen1(1_955, 2_048, None).read_rate() > 1_480);
}

#[test]
fn a_completion_carries_no_more_than_its_request_asks_for() {
    let rate = |completion_bytes, request| {
        let slot = PciExpress { generation: 3, max_payload_bytes: 4_096, completion_bytes, ..GEN1_X8 };
        path(Slot::PciExpress(slot), 100, request, 256, None).read_rate()
    };
    // A host that would join 256 B answers requests of 128 B like a host that joins 128 B. It
    // answers larger requests as before.
    assert_eq!(rate(256, 128), rate(128, 128));
    assert_eq!((rate(256, 128), rate(256, 256), rate(256, 512)), (6_674, 7_157, 7_157));
    // The last request of 300 B asks for 44 B. It pays its own share of a header, not that of 128
    // B.
    let slot = |completion_bytes| Slot::PciExpress(PciExpress { completion_bytes, ..GEN1_X8 });
    let end = |completion, bytes| path(slot(completion), 100, 128, 256, None).read(SimTime::ZERO, bytes).as_picos();
    assert_eq!(end(256, 300), end(128, 300));
    assert!(end(256, 256) < end(256, 300) && end(256, 300) < end(256, 384));
}

#[test]
fn both_directions_share_what_the_host_bridge_can_move() {
    let mut path = gen1(600, 512, Some(2_727_000_000));
    let (mut read, mut write, mut bytes) = (SimTime::ZERO, SimTime::ZERO, 0);
    while read.max(write) < SimTime::from_picos(10_000_000_000) {
        read = path.read(read, 2_048);
        write = path.write(write, 2_048);
        bytes += 4_096;
    }
    let rate = bytes * 1_000_000 / read.max(write).as_picos();
    assert!(rate <= 2_727, "{rate}");
}

#[test]
fn a_cut_through_write_ends_a_bus_packet_after_the_tail() {
    let mut path = gen1(600, 512, None);
    let tail = SimTime::from_picos(2_082_000);
    let in_memory = path.bus.write(&mut path.shared, &mut path.memory, SimTime::ZERO, SimTime::ZERO, tail, 2_048);
    // 128 bytes at 1,650 MB/s take 77.5 ns; then 300 ns to memory.
    assert_eq!((in_memory - tail).as_nanos(), 377);
}

#[test]
fn raw_rates_follow_from_generation_and_lanes() {
    let raw = |generation, lanes| PciExpress { generation, lanes, ..GEN1_X8 }.raw_bytes_per_second();
    let of_x16: Vec<u64> = (1..=6).map(|generation| raw(generation, 16)).collect();
    assert_eq!(of_x16, [4_000_000_000, 8_000_000_000, 15_753_846_153, 31_507_692_307, 63_015_384_615, 118_000_000_000]);
    assert_eq!((raw(1, 8), raw(2, 8), raw(3, 1)), (2_000_000_000, 4_000_000_000, 984_615_384));
}

#[test]
fn pci_x_moves_reads_and_writes_one_after_the_other() {
    let slot = Slot::PciX(PCI_X_133);
    // At 1,066.7 MB/s, data take 64 of 74 clocks for a read of 512 B, and 64 of 70 for a write.
    assert_eq!(path(slot, 100, 512, 8, None).read_rate(), 922);
    let mut writes = path(slot, 100, 512, 8, None);
    let end = (0..1_000).map(|_| writes.write(SimTime::ZERO, 2_048)).last().unwrap();
    assert_eq!(2_048_000 * 1_000_000 / end.as_picos(), 975);
    let both = path(slot, 100, 512, 8, None).both_rates();
    assert!((930..=948).contains(&both), "{both}");
    let slower = PciX { clock: PciXClock::Mhz100, ..PCI_X_133 };
    assert_eq!(path(Slot::PciX(slower), 100, 512, 8, None).read_rate(), 691);
}

#[test]
fn pci_x_is_free_for_writes_while_reads_wait_for_memory() {
    let slow = || path(Slot::PciX(PCI_X_133), 762, 512, 2, None);
    assert_eq!(slow().read_rate(), 777);
    assert_eq!(path(Slot::PciX(PCI_X_133), 762, 4_096, 2, None).read_rate(), 1_026);
    // Reads alone leave a quarter of the bus free; writes use it.
    let (mut path, mut bytes) = (slow(), 0);
    let mut reads = [SimTime::ZERO; 4];
    let mut writes = [SimTime::ZERO; 4];
    let end = SimTime::from_picos(5_000_000_000);
    while let Some(at) = reads.iter().chain(&writes).min().copied().filter(|at| *at < end) {
        if let Some(next) = reads.iter_mut().find(|next| **next == at) {
            *next = path.bus.read(&mut path.shared, &mut path.memory, at, 1_024, ReadPurpose::Request);
        } else {
            *writes.iter_mut().find(|next| **next == at).unwrap() = path.write(at, 1_024);
        }
        bytes += 1_024;
    }
    let rate = bytes * 1_000_000 / end.as_picos();
    assert!((935..=955).contains(&rate), "{rate}");
}

#[test]
fn a_bridge_is_passed_twice_by_reads_and_once_by_writes() {
    let slot = Slot::PciX(PCI_X_133);
    let bridge = Bridge { delay: SimDuration::from_nanos(180), bytes_per_second: None };
    let [mut far, mut near] = [Some(bridge), None].map(|bridge| with_bridge(slot, bridge, 400, 512, 4, None));
    assert_eq!((far.read(SimTime::ZERO, 64) - near.read(SimTime::ZERO, 64)).as_nanos(), 360);
    let later = SimTime::from_picos(1_000_000_000);
    assert_eq!((far.write(later, 64) - near.write(later, 64)).as_nanos(), 180);
}

#[test]
fn a_bridge_may_move_less_than_its_slot() {
    let bridge = Bridge { delay: SimDuration::from_nanos(100), bytes_per_second: Some(1_000_000_000) };
    let both = with_bridge(Slot::PciExpress(GEN1_X8), Some(bridge), 400, 512, 4, None).both_rates();
    assert!((970..=1_000).contains(&both), "{both}");
}

#[test]
fn card_and_slot_train_to_the_lesser_of_both() {
    let x8 = Slot::PciExpress(GEN1_X8);
    let card = |generation, lanes| CardInterface::PciExpress { generation, lanes };
    assert_eq!(x8.train(card(3, 16)).map(Slot::interface), Some(card(1, 8)));
    assert_eq!(x8.train(card(1, 4)).map(Slot::interface), Some(card(1, 4)));
    let pci_x = Slot::PciX(PciX { clock: PciXClock::Mhz100, ..PCI_X_133 });
    let card = |clock| CardInterface::PciX { clock };
    assert_eq!(pci_x.train(card(PciXClock::Mhz133)).map(Slot::interface), Some(card(PciXClock::Mhz100)));
    assert_eq!(x8.train(card(PciXClock::Mhz66)), None);
}

fn slots() -> impl Strategy<Value = Slot> {
    let pcie = (1..=6_u8, 0..5_u32, 0..3_u32, 0..2_u32).prop_map(|(generation, lanes, payload, completion)| {
        let (max_payload_bytes, completion_bytes) = (128 << payload, 64 << completion);
        Slot::PciExpress(PciExpress { generation, lanes: 1 << lanes, max_payload_bytes, completion_bytes, ..GEN1_X8 })
    });
    let pci_x = (0..3_usize, 1..8_u32, 1..8_u32, 0..4_u32).prop_map(|(clock, request_clocks, burst_clocks, burst)| {
        Slot::PciX(PciX { clock: PciXClock::ALL[clock], width_bytes: 8, request_clocks, burst_clocks, write_burst_bytes: 512 << burst })
    });
    prop_oneof![pcie, pci_x]
}

/// Returns the rate of one direction, or of both if they share, in bytes per second without any
/// overhead.
fn raw_rate(slot: Slot) -> u64 {
    match slot {
        Slot::PciExpress(slot) => slot.raw_bytes_per_second(),
        Slot::PciX(slot) => u64::from(slot.width_bytes) * 1_000_000_000_000 / slot.clock.period().as_picos(),
    }
}

/// Generates transfers in the order of time: nanoseconds since the transfer before, bytes, and
/// whether it is a read.
fn transfers() -> impl Strategy<Value = Vec<(u64, u32, bool)>> {
    prop::collection::vec((0..2_000_u64, 1..4_097_u32, any::<bool>()), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, rng_seed: RngSeed::Fixed(4), ..ProptestConfig::default() })]

    #[test]
    fn nothing_moves_faster_than_the_raw_rate(slot in slots(), latency in 0..3_000_u64, outstanding in 1..32_u32, work in transfers()) {
        let limit = 2_000_000_000;
        let mut path = path(slot, latency, 512, outstanding, Some(limit));
        let mut now = SimTime::ZERO;
        let (mut read, mut written, mut last) = (0_u64, 0_u64, SimTime::ZERO);
        let (mut ends, mut waited_most) = (Vec::new(), 0);
        for (pause, bytes, reads) in work {
            now += SimDuration::from_nanos(pause);
            let end = if reads { path.read(now, bytes) } else { path.write(now, bytes) };
            last = last.max(end);
            *(if reads { &mut read } else { &mut written }) += u64::from(bytes);
            ends.push((end, reads, u64::from(bytes)));
            // If both directions share, the second gets its turns before waiting work has made
            // room: half of that at most.
            let waits = |way: bool| ends.iter().filter(|(end, reads, _)| *end > now && *reads == way).map(|(.., bytes)| bytes).sum::<u64>();
            waited_most = waited_most.max(waits(true)).max(waits(false));
            let in_advance = u128::from(if read.min(written) > 0 { waited_most } else { 0 });
            let moved = |rate: u64| u128::from(rate) * u128::from(last.as_picos()) / 1_000_000_000_000 + 1 + in_advance;
            let on_one_way = if matches!(slot, Slot::PciX(_)) { read + written } else { read.max(written) };
            prop_assert!(u128::from(on_one_way) <= moved(raw_rate(slot)), "{on_one_way} B by {last:?}");
            prop_assert!(u128::from(read + written) <= moved(limit), "{} B by {last:?}", read + written);
        }
    }

    #[test]
    fn a_longer_transfer_never_ends_earlier_and_later_ones_never_overtake(slot in slots(), latency in 0..3_000_u64, work in transfers(), more in 0..4_096_u32) {
        let [mut short, mut long] = [0, more].map(|_| path(slot, latency, 512, 4, None));
        let (mut now, mut ends) = (SimTime::ZERO, [SimTime::ZERO; 2]);
        for (index, (pause, bytes, reads)) in work.into_iter().enumerate() {
            now += SimDuration::from_nanos(pause);
            let longer = if index == 0 { bytes + more } else { bytes };
            let of = |path: &mut Path, bytes| if reads { path.read(now, bytes) } else { path.write(now, bytes) };
            let (end, end_longer) = (of(&mut short, bytes), of(&mut long, longer));
            prop_assert!(now < end, "{end:?}");
            // If both directions share the lines, the direction that waits less gets its turns
            // first. A longer transfer may change which direction that is.
            let is_shared = matches!(slot, Slot::PciX(_)) && index > 0;
            prop_assert!(is_shared || end <= end_longer, "{end:?} {end_longer:?}");
            let last = &mut ends[usize::from(reads)];
            prop_assert!(*last <= end);
            *last = end;
        }
    }
}

/// Returns the rate of all cards on one bus together, in megabytes per second. Each card requests 4
/// KiB of reads and of writes when it has got the last.
fn together(slot: Slot, bridge: Option<Bridge>, cards: usize, reads: bool, writes: bool) -> u64 {
    let part = BusPart { name: "test".into(), slot, bridge };
    let memory = MemoryPart {
        read_latency: SimDuration::from_nanos(400),
        write_latency: SimDuration::from_nanos(300),
        read_bytes_per_second: None,
        write_bytes_per_second: None,
        bytes_per_second: None,
    };
    let (mut shared, mut memory) = (SharedBus::new(&part), MemoryController::new(&memory));
    let mut cards: Vec<Bus> = (0..cards).map(|_| Bus::new(&part, 512, 4, None)).collect();
    // Streams in the order of time, as the fabric's events are.
    let mut streams: Vec<(SimTime, usize, bool)> = Vec::new();
    for card in 0..cards.len() {
        streams.extend(reads.then_some((SimTime::ZERO, card, true)));
        streams.extend(writes.then_some((SimTime::ZERO, card, false)));
    }
    let mut bytes = 0;
    while let Some(stream) = streams.iter_mut().min_by_key(|(at, ..)| *at).filter(|(at, ..)| *at < SimTime::from_picos(10_000_000_000)) {
        let (now, card, read) = *stream;
        let bus = &mut cards[card];
        stream.0 = if read {
            bus.read(&mut shared, &mut memory, now, 4_096, ReadPurpose::Request)
        } else {
            bus.write(&mut shared, &mut memory, now, now, now, 4_096)
        };
        bytes += 4_096;
    }
    let end = streams.iter().map(|(at, ..)| *at).max().unwrap();
    bytes * 1_000_000 / end.as_picos()
}

/// Returns the rates of reads and writes of 4 KiB, in megabytes per second. Both share the bus's
/// lines, bridge or memory; `reads` and `writes` of them run at a time.
fn shares(mut path: Path, reads: usize, writes: usize) -> [u64; 2] {
    let (end, mut bytes) = (SimTime::from_picos(100_000_000_000), [0; 2]);
    let mut streams: Vec<(SimTime, usize)> = [vec![(SimTime::ZERO, 0); reads], vec![(SimTime::ZERO, 1); writes]].concat();
    while let Some(stream) = streams.iter_mut().min().filter(|(at, _)| *at < end) {
        let (now, direction) = *stream;
        stream.0 = if direction == 0 { path.read(now, 4_096) } else { path.write(now, 4_096) };
        bytes[direction] += 4_096;
    }
    bytes.map(|bytes| bytes / 100_000)
}

#[test]
fn reads_and_writes_have_equal_turns_however_many_of_each_wait() {
    let bridge = Bridge { delay: SimDuration::ZERO, bytes_per_second: Some(1_000_000_000) };
    let kinds: [fn(Bridge) -> Path; 3] = [
        |_| path(Slot::PciX(PCI_X_133), 400, 512, 8, None),
        |bridge| with_bridge(Slot::PciExpress(GEN1_X8), Some(bridge), 400, 512, 8, None),
        |_| gen1(400, 512, Some(1_000_000_000)),
    ];
    for kind in kinds {
        for (reads, writes) in [(32, 4), (4, 32), (16, 16), (3, 64)] {
            let [read, written] = shares(kind(bridge), reads, writes);
            assert!(read.abs_diff(written) * 100 < (read + written) * 10, "{read} MB/s read, {written} MB/s written: {reads} and {writes} at a time");
            assert!((900..=1_006).contains(&(read + written)), "{read} MB/s and {written} MB/s");
        }
        // A direction alone has all turns.
        assert!(shares(kind(bridge), 8, 0)[0] > 900 && shares(kind(bridge), 0, 8)[1] > 950);
    }
}

#[test]
fn two_cards_on_one_pci_x_bus_get_together_what_one_gets() {
    let pci_x = Slot::PciX(PCI_X_133);
    let [one, two] = [1, 2].map(|cards| together(pci_x, None, cards, true, true));
    assert!(one > 800 && two.abs_diff(one) * 100 < one * 12, "{one} and {two} MB/s both ways");
    assert!(two < 950, "{two} MB/s are more than the bus carries");
    // A single card waits for memory between its reads. A second card uses the bus meanwhile.
    let [one, two] = [1, 2].map(|cards| together(pci_x, None, cards, true, false));
    assert!(one < two && two < 925, "{one} and {two} MB/s of reads");
}

#[test]
fn cards_behind_one_bridge_share_its_rate_and_those_without_one_nothing() {
    let slot = Slot::PciExpress(GEN1_X8);
    let bridge = Bridge { delay: SimDuration::ZERO, bytes_per_second: Some(1_000_000_000) };
    let [one, two] = [1, 2].map(|cards| together(slot, Some(bridge), cards, false, true));
    assert!(one > 900 && (one..=1_000).contains(&two), "{one} and {two} MB/s behind a bridge of 1,000");
    let [one, two] = [1, 2].map(|cards| together(slot, None, cards, false, true));
    assert!(two > one * 19 / 10, "{one} and {two} MB/s in slots of their own");
}

#[test]
fn reads_ahead_of_time_end_like_others_and_can_be_taken_back() {
    let make = || path(Slot::PciExpress(GEN1_X8), 600, 512, 6, None);
    let (mut plain, mut ahead) = (make(), make());
    let mut now = SimTime::ZERO;
    for round in 0..200_u64 {
        now += SimDuration::from_nanos(100 + round * 37 % 900);
        let bytes = 256 + (round * 911 % 1_792) as u32;
        assert!(ahead.bus.reads_ahead(&ahead.shared, &ahead.memory, bytes));
        // Two reads come and go; then one stays.
        let marks = [bytes, 700].map(|bytes| (ahead.bus.read_ahead(&ahead.memory, now, bytes).1, bytes));
        for (mark, bytes) in marks.iter().rev() {
            ahead.bus.go_back(mark, *bytes);
        }
        let (end, _) = ahead.bus.read_ahead(&ahead.memory, now, bytes);
        ahead.bus.ask_host(now, ahead.bus.requests(bytes));
        assert_eq!(end, plain.read(now, bytes));
        assert_eq!(ahead.write(now, 300), plain.write(now, 300));
        assert_eq!(ahead.bus.usage(&ahead.shared), plain.bus.usage(&plain.shared));
    }
}

#[test]
fn reads_with_a_shared_limit_are_not_computed_ahead() {
    let can = |path: Path, bytes| path.bus.reads_ahead(&path.shared, &path.memory, bytes);
    assert!(can(gen1(600, 512, None), 2_048));
    assert!(!can(gen1(600, 512, None), 4_096), "it has four requests, and eight are too many");
    assert!(!can(gen1(600, 512, Some(2_727_000_000)), 2_048));
    assert!(!can(path(Slot::PciX(PCI_X_133), 600, 512, 8, None), 2_048));
    let bridge = Bridge { delay: SimDuration::from_nanos(100), bytes_per_second: Some(1_000_000_000) };
    assert!(!can(with_bridge(Slot::PciExpress(GEN1_X8), Some(bridge), 400, 512, 4, None), 512));
}
