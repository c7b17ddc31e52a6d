//! Trains change no result: random fabrics and workloads with trains, without them, and on several
//! threads.
//!
//! `SOFTBAND_TRAIN_CASES` is the number of cases, and `SOFTBAND_TRAIN_SEED` the first of them.
#![allow(clippy::disallowed_methods)] // a test may read the environment

#[path = "../../fabric/tests/common/mod.rs"]
mod common;

use common::{host_part, nanos, subnet, through_switch, vls};
use softband_fabric::HcaCounters;
use softband_model::parts::{ContextCache, QueueEntries, ReceiveMode};
use softband_parallel::ParallelRunner;
use softband_sim::RandomStream;
use softband_spec::{CableSpec, FabricSpec, PortRef, SwitchSpec};
use softband_types::{Guid, LinkSpeed, Mtu, PortNumber};
use softband_workload::{Action, Measurements, Schedule};
use std::ops::ControlFlow;
use std::sync::Arc;

const CASES: u64 = 80;

struct Dice(RandomStream);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Leaves with hosts, and spines above them; or switches in a row.
fn fabric(dice: &mut Dice) -> FabricSpec {
    let (leaves, each) = (1 + dice.below(4) as usize, 1 + dice.below(4) as usize);
    let hosts = (leaves * each).max(2);
    let each = hosts.div_ceil(leaves);
    let spines = if leaves > 1 { dice.below(3) as usize } else { 0 };
    let speed = dice.of(&[LinkSpeed::Sdr, LinkSpeed::Ddr, LinkSpeed::Qdr]);
    let mut part = host_part(200 + dice.below(800), dice.below(500));
    part.memory.bytes_per_second = dice.of(&[None, None, None, Some(1_500_000_000), Some(9_000_000_000)]);
    let code = dice.of(&[1, 1, 2, 3, 4]);
    let mut spec = through_switch(speed, &vec![1 + dice.below(30); hosts], code, part);
    let mut switch = spec.switches[0].part.clone();
    switch.port_buffer_bytes = (33 * 64 * 8) * (1 + dice.below(12) as u32) + 64 * dice.below(60) as u32;
    switch.buffer_hold = nanos(dice.of(&[0, 0, 30, 400]));
    switch.credit_return = nanos(dice.of(&[1, 20, 300]));
    switch.speeds = vec![LinkSpeed::Sdr, LinkSpeed::Ddr, LinkSpeed::Qdr];
    let (small, large, doorbell_carries_wqe) = (32 << dice.below(2), 64 << dice.below(2), dice.once_in(2));
    let entries =
        QueueEntries { send_wqe_bytes: large, datagram_wqe_bytes: large, receive_wqe_bytes: small, completion_bytes: small, doorbell_carries_wqe };
    let entries = if dice.once_in(2) { entries } else { QueueEntries::default() };
    let (pause, fetch) = (nanos(dice.of(&[0, 0, 200])), nanos(dice.of(&[0, 300])));
    let cache = ContextCache { contexts: 1 + dice.below(3) as u32, miss: nanos(400) };
    let context_cache = dice.once_in(4).then_some(cache);
    let receive_mode = dice.of(&[ReceiveMode::CutThrough, ReceiveMode::CutThrough, ReceiveMode::StoreAndForward]);
    for host in &mut spec.hosts {
        let hca = &mut host.hcas[0].part;
        (hca.entries, hca.receive_wqe_pause, hca.receive_wqe_fetch) = (entries.clone(), pause, fetch);
        (hca.context_cache, hca.receive_mode) = (context_cache, receive_mode);
        hca.speeds = switch.speeds.clone();
        hca.port_buffer_bytes = 33 * 64 * 8 * (1 + dice.below(10) as u32);
        hca.transmit_staging_packets = 1 + dice.below(8) as u32;
        hca.credit_return = nanos(dice.of(&[0, 50, 200]));
        hca.vl_cap = vls(4);
    }
    let named = |number: usize| SwitchSpec { name: format!("s{number}"), part: switch.clone(), node_guid: Guid(0x100 + number as u64) };
    spec.switches = (0..leaves + spines).map(named).collect();
    for (host, cable) in spec.cables.iter_mut().enumerate() {
        cable.ends[1] = PortRef::Switch { switch: host / each, port: PortNumber((host % each) as u8 + 1) };
    }
    let template = spec.cables[0].clone();
    let mut join = |a: (usize, usize), b: (usize, usize), metres: u64, slower: bool| {
        let end = |(switch, port): (usize, usize)| PortRef::Switch { switch, port: PortNumber(port as u8) };
        let mut cable = CableSpec { part: common::cable(metres), ends: [end(a), end(b)], ..template.clone() };
        if slower {
            cable.rate = common::rate(LinkSpeed::Sdr);
        }
        spec.cables.push(cable);
    };
    for leaf in 0..leaves {
        if spines == 0 && leaf + 1 < leaves {
            join((leaf, each + 1), (leaf + 1, each + 2), 1 + dice.below(20), dice.once_in(8));
        }
        for spine in 0..spines {
            join((leaf, each + 1 + spine), (leaves + spine, leaf + 1), 1 + dice.below(20), dice.once_in(12));
        }
    }
    spec.subnet = subnet(code);
    spec.subnet.mtu_max = dice.of(&[Mtu::B256, Mtu::B1024, Mtu::B2048, Mtu::B2048]);
    spec
}

/// Streams of messages that begin at their own times, and a few short messages beside them.
fn schedule(dice: &mut Dice, ranks: u32) -> Schedule {
    let mut schedule = Schedule::new(ranks);
    schedule.window = 1 + dice.below(16) as u32;
    schedule.completion_interval = 1 + dice.below(u64::from(schedule.window)) as u32;
    schedule.writes = dice.once_in(3);
    let busy = dice.of(&[1, 1, 2, 4]);
    let incast = dice.once_in(5);
    // Most flows of a fabric keep a distance, so that they meet seldom.
    let distance = 1 + dice.below(u64::from(ranks)) as u32;
    for rank in 0..ranks {
        for _ in 0..dice.below(1 + busy) {
            let any = if incast { 0 } else { dice.below(u64::from(ranks)) as u32 };
            let to = if dice.once_in(3) { any } else { (rank + distance) % ranks };
            if to == rank {
                continue;
            }
            let (bytes, messages) = match dice.below(5) {
                0 => (1 + dice.below(3_000) as u32, 1 + dice.below(8) as u32),
                1 => (40_000, 1 + dice.below(6) as u32),
                2 => (2_048 * (1 + dice.below(64) as u32), 1 + dice.below(3) as u32),
                3 => (2_000, 200),
                _ => (200_000 + dice.below(100_000) as u32, 1),
            };
            let wait = schedule.push(rank, Action::Calculate { nanos: 1 + dice.below(120_000), cpu: 0 });
            let send = schedule.push(rank, Action::Send { to, bytes, messages, tag: 0 });
            schedule.after(wait, send);
        }
    }
    schedule
}

#[derive(Clone, Copy)]
enum Packets {
    OneByOne,
    InTrains,
    InEagerTrains,
}

/// Runs a workload. Returns its results as text, the passages in trains, the silent arrivals, and all
/// passages.
fn run(spec: &FabricSpec, schedule: &Arc<Schedule>, (ranks, threads): (u32, u8), packets: Packets) -> (String, [u64; 3]) {
    let mut runner = ParallelRunner::new(spec, 1, schedule, (ranks, threads)).unwrap();
    match packets {
        Packets::OneByOne => runner.go_packet_by_packet(),
        Packets::InTrains => {}
        Packets::InEagerTrains => runner.seek_trains(),
    }
    runner.run(&mut |_| ControlFlow::Continue(())).unwrap();
    // The number of events depends on trains and threads.
    let measured = Measurements { events: 0, ..runner.measurements() };
    let hcas: Vec<HcaCounters> = runner.hca_counters();
    let text = format!("{measured:#?}\n{:#?}\n{hcas:#?}\n{:#?}", runner.port_reports(), runner.repeats());
    (text, [runner.passages_in_trains(), runner.silent_arrivals(), measured.packet_hops])
}

/// Returns the first line that differs, with its surroundings.
fn difference(one: &str, other: &str) -> String {
    let lines: Vec<&str> = one.lines().collect();
    let place = lines.iter().zip(other.lines()).position(|(one, other)| *one != other).unwrap_or(0);
    let near = lines[place.saturating_sub(12)..place].join("\n");
    format!("{near}\n- {}\n+ {}", lines.get(place).unwrap_or(&""), other.lines().nth(place).unwrap_or(""))
}

#[test]
fn trains_change_no_result() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, cases) = (number("SOFTBAND_TRAIN_SEED", 1), number("SOFTBAND_TRAIN_CASES", CASES));
    let (mut in_trains, mut silent, mut all) = (0, 0, 0);
    for seed in first..first + cases {
        // The test's output appears only if it fails.
        println!("seed {seed}");
        let mut dice = Dice(RandomStream::new(seed, 29));
        let spec = fabric(&mut dice);
        let ranks = if dice.once_in(4) { 2 } else { 1 };
        let schedule = schedule(&mut dice, spec.hosts.len() as u32 * ranks);
        if schedule.steps.is_empty() {
            continue;
        }
        let schedule = Arc::new(schedule);
        let (plain, [none, none_silent, hops]) = run(&spec, &schedule, (ranks, 1), Packets::OneByOne);
        assert_eq!(none + none_silent, 0, "seed {seed}");
        let threads = 1 + (seed % 3) as u8;
        for (threads, packets) in [(1, Packets::InTrains), (threads, Packets::InEagerTrains)] {
            let (text, [passages, arrivals, _]) = run(&spec, &schedule, (ranks, threads), packets);
            assert!(text == plain, "seed {seed}, {threads} threads:\n{}", difference(&plain, &text));
            (in_trains, silent, all) = (in_trains + passages, silent + arrivals, all + hops);
        }
    }
    println!("{in_trains} of {all} packet-hops in trains, {silent} silent arrivals");
    assert!(silent * 400 > all, "{silent} silent arrivals among {all} packet-hops are too few for a test");
    assert!(in_trains * 20 > all, "{in_trains} of {all} packet-hops in trains are too few for a test");
}
