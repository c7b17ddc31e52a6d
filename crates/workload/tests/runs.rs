//! Workloads on hand-made fabrics. Their times follow from the rates of the links.

#[path = "../../fabric/tests/common/mod.rs"]
mod common;

use common::{back_to_back, host_part, through_switch};
use softband_fabric::World;
use softband_sim::SimTime;
use softband_spec::{CableSpec, FabricSpec, PortRef, SwitchSpec};
use softband_types::{Guid, LinkSpeed, PortNumber};
use softband_workload::{Measurements, Operation, Pattern, RunError, Runner, Schedule, Settings, build, goal, hot_ports, port_reports};
use std::sync::Arc;

/// SDR 4X.
const BYTES_PER_SECOND: f64 = 1e9;
/// Overhead of a 2 KiB packet with its headers, and a share of an acknowledgement (IBTA 5.2).
const PACKET_SHARE: f64 = (2_048.0 + 26.0) / 2_048.0;

fn star(hosts: usize) -> FabricSpec {
    through_switch(LinkSpeed::Sdr, &vec![1; hosts], 1, host_part(600, 300))
}

/// Returns leaves with `hosts_a_leaf` hosts each, and spines with a cable to each leaf.
fn two_levels(leaves: u8, hosts_a_leaf: u8, spines: u8) -> FabricSpec {
    let mut spec = star(usize::from(leaves) * usize::from(hosts_a_leaf));
    let part = spec.switches[0].part.clone();
    let switch = |number: u8| SwitchSpec { name: format!("s{number}"), part: part.clone(), node_guid: Guid(0x100 + u64::from(number)) };
    spec.switches = (0..leaves + spines).map(switch).collect();
    for (host, cable) in spec.cables.iter_mut().enumerate() {
        let (leaf, place) = (host / usize::from(hosts_a_leaf), host % usize::from(hosts_a_leaf));
        cable.ends[1] = PortRef::Switch { switch: leaf, port: PortNumber(place as u8 + 1) };
    }
    let template = spec.cables[0].clone();
    for (leaf, spine) in (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine))) {
        let up = PortRef::Switch { switch: usize::from(leaf), port: PortNumber(hosts_a_leaf + spine + 1) };
        let down = PortRef::Switch { switch: usize::from(leaves + spine), port: PortNumber(leaf + 1) };
        spec.cables.push(CableSpec { ends: [up, down], ..template.clone() });
    }
    spec
}

fn finished(mut runner: Runner) -> Runner {
    while !runner.run(100_000).unwrap() {}
    runner
}

fn run(spec: &FabricSpec, pattern: Pattern, settings: &Settings) -> Runner {
    let schedule = build(pattern, spec.hosts.len() as u32, settings).unwrap();
    finished(Runner::new(World::new(spec, 1), Arc::new(schedule), 1).unwrap())
}

fn seconds(spec: &FabricSpec, pattern: Pattern, settings: &Settings) -> f64 {
    run(spec, pattern, settings).measurements().completion.as_secs_f64()
}

fn assert_near(found: f64, wanted: f64, share: f64) {
    assert!((found / wanted - 1.0).abs() < share, "{found} instead of {wanted}");
}

fn of(text: &str, spec: &FabricSpec, ranks_per_host: u32) -> Measurements {
    let schedule = goal::parse(text).unwrap();
    finished(Runner::new(World::new(spec, 1), Arc::new(schedule), ranks_per_host).unwrap()).measurements()
}

#[test]
fn a_stream_on_one_cable_takes_its_bytes_over_the_rate_of_the_link() {
    let spec = back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300));
    for operation in [Operation::Send, Operation::Write] {
        let settings = Settings { bytes: Some(1 << 20), messages: Some(20), operation, ..Settings::default() };
        assert_near(seconds(&spec, Pattern::Stream, &settings), 20.0 * f64::from(1 << 20) * PACKET_SHARE / BYTES_PER_SECOND, 0.01);
    }
}

#[test]
fn a_workload_has_the_mtu_that_it_is_given_and_no_more_than_the_way_carries() {
    let mut spec = back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300));
    let settings = |mtu| Settings { bytes: Some(65_536), messages: Some(20), mtu, ..Settings::default() };
    let hops = |mtu| run(&spec, Pattern::Stream, &settings(mtu)).world().packets_sent();
    // 128 packets per message instead of 32, and the same number of acknowledgements.
    assert_eq!(hops(Some(512)) - hops(None), 20 * 96);
    assert_eq!(hops(Some(2_048)), hops(None));
    spec.hosts[1].name = "far".into();
    let schedule = Arc::new(build(Pattern::Stream, 2, &settings(Some(4_096))).unwrap());
    let error = Runner::new(World::new(&spec, 1), schedule, 1).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("mtu = 4096 is more than the path between the hosts a and far carries, 2048\n  help: "), "{error}");
}

#[test]
fn a_permutation_on_a_star_takes_as_long_as_one_flow() {
    let settings = Settings { bytes: Some(1 << 20), messages: Some(8), ..Settings::default() };
    let taken = seconds(&star(8), Pattern::Permutation, &settings);
    // Acknowledgements of the flow that a host receives share the link with its own messages.
    assert_near(taken, 8.0 * f64::from(1 << 20) * PACKET_SHARE / BYTES_PER_SECOND, 0.03);
}

#[test]
fn an_incast_of_n_senders_takes_n_times_as_long_as_one() {
    let settings = |senders| Settings { bytes: Some(1 << 20), messages: Some(4), senders: Some(senders), ..Settings::default() };
    let one = seconds(&star(7), Pattern::Incast, &settings(1));
    for senders in [2, 3, 6] {
        assert_near(seconds(&star(7), Pattern::Incast, &settings(senders)), one * f64::from(senders), 0.02);
    }
}

#[test]
fn the_port_that_an_incast_fills_is_hot_and_its_senders_feed_it() {
    let spec = star(4);
    let runner = run(&spec, Pattern::Incast, &Settings { messages: Some(4), root: Some(2), ..Settings::default() });
    let ports = port_reports(runner.world().spec(), runner.world().counters().into_iter(), runner.measurements().completion);
    let hot = hot_ports(&ports);
    assert_eq!(hot[0].name, "switch/3");
    assert!(hot[0].utilisation > 0.95, "{hot:?}");
    let mut feeders: Vec<&str> = hot[0].feeders.iter().map(|feeder| feeder.name.as_str()).collect();
    feeders.sort_unstable();
    assert_eq!(feeders, ["a/test0/1", "b/test0/1", "d/test0/1"]);
}

#[test]
fn one_seed_gives_the_same_run_again() {
    let settings = Settings { seed: 5, messages: Some(8), ..Settings::default() };
    let whole = |seed| {
        let runner = run(&two_levels(3, 2, 2), Pattern::UniformRandom, &Settings { seed, ..settings });
        (runner.measurements().flows, runner.world().counters(), runner.measurements().events)
    };
    assert_eq!(whole(5), whole(5));
    assert_ne!(whole(5), whole(6));
}

#[test]
fn every_workload_comes_to_its_end_through_two_levels_of_switches() {
    let spec = two_levels(4, 4, 4);
    for (name, pattern) in Pattern::ALL {
        for operation in [Operation::Send, Operation::Write] {
            let settings = Settings { bytes: Some(20_000), repeat: Some(2), operation, ..Settings::default() };
            let measured = run(&spec, pattern, &settings).measurements();
            assert!(measured.completion > SimTime::ZERO && measured.rates().min > 0.0, "{name}");
        }
    }
}

#[test]
fn a_ring_allreduce_takes_two_vectors_less_two_parts_over_the_rate_of_a_link() {
    let (ranks, bytes) = (8, 8 << 20);
    let taken = seconds(&star(ranks), Pattern::RingAllreduce, &Settings { bytes: Some(bytes), ..Settings::default() });
    let moved = 2.0 * bytes as f64 * (ranks - 1) as f64 / ranks as f64;
    // Each turn adds its latency.
    assert_near(taken, moved * PACKET_SHARE / BYTES_PER_SECOND, 0.04);
}

#[test]
fn a_broadcast_of_a_large_vector_takes_a_vector_for_each_level_of_the_tree() {
    let bytes = 8 << 20;
    let vector = bytes as f64 * PACKET_SHARE / BYTES_PER_SECOND;
    for (ranks, levels) in [(2, 1.0), (4, 2.0), (8, 3.0)] {
        let settings = Settings { bytes: Some(bytes), ..Settings::default() };
        assert_near(seconds(&star(ranks), Pattern::Broadcast, &settings), levels * vector, 0.03);
        assert_near(seconds(&star(ranks), Pattern::TreeAllreduce, &settings), 2.0 * levels * vector, 0.03);
    }
    // A small vector goes to all children at once, so no subtree waits for another subtree's
    // acknowledgement.
    let small = |ranks| seconds(&star(ranks), Pattern::Broadcast, &Settings { bytes: Some(8), ..Settings::default() });
    assert!(small(8) < 3.0 * small(2), "{} and {}", small(8), small(2));
}

#[test]
fn progress_goes_on_within_a_message() {
    let settings = Settings { bytes: Some(8 << 20), messages: Some(1), ..Settings::default() };
    let schedule = build(Pattern::Stream, 2, &settings).unwrap();
    let mut runner = Runner::new(World::new(&star(2), 1), Arc::new(schedule), 1).unwrap();
    let mut seen = Vec::new();
    while !runner.run(200).unwrap() {
        let (done, total) = runner.progress();
        assert_eq!(total, 8 << 20);
        seen.push(done);
    }
    assert!(seen.len() > 5 && seen.is_sorted() && seen[0] > 0 && *seen.last().unwrap() < 8 << 20, "{seen:?}");
    assert_eq!(runner.progress(), (8 << 20, 8 << 20));
}

#[test]
fn ranks_of_one_host_reach_each_other_within_its_hca() {
    let spec = star(2);
    let schedule = build(Pattern::AllToAll, 4, &Settings::default()).unwrap();
    let measured = finished(Runner::new(World::new(&spec, 1), Arc::new(schedule), 2).unwrap()).measurements();
    assert_eq!(measured.flows.len(), 12);
    assert!(measured.flows.iter().all(|flow| flow.bytes == 65_536 && flow.ended > flow.begun));
}

#[test]
fn more_ranks_than_places_are_refused_before_the_run() {
    let schedule = build(Pattern::AllToAll, 5, &Settings::default()).unwrap();
    let refused = Runner::new(World::new(&star(2), 1), Arc::new(schedule), 2).err().unwrap();
    assert_eq!(refused, RunError::TooManyRanks { ranks: 5, places: 4, hosts: 2, ranks_per_host: 2, enough: 3 });
}

#[test]
fn a_trace_keeps_its_order_of_work_and_messages() {
    let spec = star(2);
    // Rank 1 works for 50 us before it answers. On the same processor, 20 us of earlier work come first.
    let text = "num_ranks 2\nrank 0 {\na: send 8b to 1 tag 1\nb: recv 8b from 1 tag 2\nb requires a\n}\n\
                rank 1 {\na: recv 8b from 0 tag 1\nw: calc 20000\nv: calc 50000\nb: send 8b to 0 tag 2\nv requires a\nb requires v\nb requires w\n}";
    let taken = of(text, &spec, 1).completion.as_nanos();
    assert!((70_000..90_000).contains(&taken), "{taken} ns");
    let side_by_side = of(&text.replace("calc 50000", "calc 50000 cpu 1"), &spec, 1).completion.as_nanos();
    assert!((50_000..70_000).contains(&side_by_side), "{side_by_side} ns");
}

#[test]
fn messages_of_a_trace_find_their_receives_by_source_and_tag() {
    let text = "num_ranks 3\nrank 0 {\nx: recv 8b from 2 tag 1\nc: calc 500000\nc requires x\ny: recv 8b from 1 tag 1\n}\n\
                rank 1 {\ns: send 8b to 0 tag 1\n}\nrank 2 {\nw: calc 100000\ns: send 8b to 0 tag 1\ns requires w\n}";
    // The message of rank 1 arrives first, but only the message of rank 2 starts the work.
    let taken = of(text, &star(3), 1).completion.as_nanos();
    assert!((600_000..620_000).contains(&taken), "{taken} ns");
}

#[test]
fn a_host_without_a_cable_is_missed_only_where_it_takes_part() {
    let mut spec = star(3);
    spec.cables.pop();
    let stream = Settings { from: Some(0), to: Some(1), messages: Some(5), ..Settings::default() };
    assert_eq!(run(&spec, Pattern::Stream, &stream).measurements().flows.len(), 1);
    let all = Arc::new(build(Pattern::AllToAll, 3, &Settings::default()).unwrap());
    let error = Runner::new(World::new(&spec, 1), all, 1).map(drop).unwrap_err();
    assert!(matches!(&error, RunError::NoPort { host } if *host == spec.hosts[2].name), "{error}");
}

#[test]
fn a_step_that_waits_for_a_beginning_does_not_wait_for_the_end() {
    let text = |order: &str| format!("num_ranks 1\nrank 0 {{\na: calc 5000 cpu 0\nb: calc 5000 cpu 1\nb {order} a\n}}");
    assert_eq!(of(&text("requires"), &star(1), 1).completion.as_nanos(), 10_000);
    assert_eq!(of(&text("irequires"), &star(1), 1).completion.as_nanos(), 5_000);
}

#[test]
fn ranks_that_wait_for_each_other_are_named_at_the_end() {
    // The first message goes to receive q, on which no step depends. The run decides which receive
    // a message matches.
    let text = "num_ranks 2\nrank 0 {\nq: recv 8b from 1 tag 3\nr: recv 8b from 1 tag 3\ns: send 8b to 1 tag 4\ns requires r\n}\n\
                rank 1 {\nr: recv 8b from 0 tag 4\nq: send 8b to 0 tag 3\ns: send 8b to 0 tag 3\ns requires r\n}";
    let mut runner = Runner::new(World::new(&star(2), 1), Arc::new(goal::parse(text).unwrap()), 1).unwrap();
    let mut stuck = runner.run(1_000_000).unwrap_err();
    if let RunError::Stuck { waiting } = &mut stuck {
        let places = goal::places(text).unwrap();
        waiting.at_places(|step| format!("{:?}", places.of(step)));
    }
    let error = stuck.to_string();
    assert!(error.contains("rank 0 (host a) for a message from rank 1, tag 3 ((4, \"r\"))"), "{error}");
    assert!(error.contains("rank 1 (host b) for a message from rank 0, tag 4 ((9, \"r\"))"), "{error}");
}

#[test]
fn more_messages_than_a_send_queue_holds_wait_for_room() {
    let lines = |verb: &str| (0..400).map(|number| format!("l{number}: {verb} tag {number}\n")).collect::<String>();
    let text = format!("num_ranks 2\nrank 0 {{\n{}}}\nrank 1 {{\n{}}}", lines("send 64b to 1"), lines("recv 64b from 0"));
    let measured = of(&text, &star(2), 1);
    assert_eq!((measured.flows.len(), measured.flows[0].messages), (1, 400));
}

#[test]
fn a_message_without_bytes_arrives_too_also_from_a_rank_to_itself() {
    let text = "num_ranks 2\nrank 0 {\na: send 0b to 1\nb: send 0b to 0\nc: recv 0b from 0\n}\nrank 1 {\na: recv 0b from 0\n}";
    assert_eq!(of(text, &star(2), 1).flows.iter().map(|flow| flow.messages).collect::<Vec<_>>(), [1, 1]);
}

/// Runs the schedule with or without windows.
fn with(spec: &FabricSpec, schedule: &Arc<Schedule>, in_windows: bool) -> Measurements {
    let mut world = World::new(spec, 1);
    if in_windows {
        world.work_in_windows();
    }
    finished(Runner::new(world, Arc::clone(schedule), 1).unwrap()).measurements()
}

#[test]
fn every_flow_has_the_same_life_with_and_without_windows() {
    for (leaves, hosts, spines) in [(3, 4, 2), (8, 8, 4)] {
        lives_are_the_same(&two_levels(leaves, hosts, spines));
    }
}

fn lives_are_the_same(spec: &FabricSpec) {
    let settings = Settings { bytes: Some(40_000), messages: Some(5), seed: 3, ..Settings::default() };
    for (name, pattern) in Pattern::ALL {
        let settings = match pattern {
            Pattern::RingAllreduce | Pattern::TreeAllreduce | Pattern::Broadcast => Settings { messages: None, ..settings },
            Pattern::AllToAll => Settings { messages: Some(2), ..settings },
            _ => settings,
        };
        let schedule = Arc::new(build(pattern, spec.hosts.len() as u32, &settings).unwrap());
        let (total, windows) = (with(spec, &schedule, false), with(spec, &schedule, true));
        assert_eq!((total.completion, &total.flows, &total.phases), (windows.completion, &windows.flows, &windows.phases), "{name}");
        assert!(total.completion > SimTime::ZERO);
    }
}

/// Returns a trace of one message from rank 0 to rank 1 by the protocol of UCX.
fn carried(limits: &str, bytes: u32) -> String {
    format!("// softband: protocol ucx{limits}\nnum_ranks 2\nrank 0 {{ send {bytes}b to 1 tag 3 }}\nrank 1 {{ recv {bytes}b from 0 tag 3 }}\n")
}

fn nanos(text: &str, spec: &FabricSpec) -> f64 {
    of(text, spec, 1).completion.as_picos() as f64 / 1e3
}

#[test]
fn a_protocol_sends_short_messages_inline_if_the_hca_takes_them() {
    let spec = back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300));
    let mut without = spec.clone();
    without.hosts.iter_mut().for_each(|host| host.hcas[0].part.max_inline_bytes = 0);
    let (inline, read) = (nanos(&carried("", 40), &spec), nanos(&carried("", 40), &without));
    // The HCA reads the payload from memory, which takes 600 ns.
    assert!(read - inline > 500.0, "{inline} {read}");
    assert_eq!(nanos(&carried("", 400), &spec), nanos(&carried("", 400), &without));
}

#[test]
fn a_copied_message_ends_at_its_post_and_a_direct_one_at_its_acknowledgement() {
    let spec = back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300));
    let text = |limits: &str| {
        format!(
            "// softband: protocol ucx {limits}\nnum_ranks 2\nrank 0 {{\na: send 4000b to 1 tag 3\nb: calc 1000000\nb requires a\n}}\n\
             rank 1 {{ recv 4000b from 0 tag 3 }}\n"
        )
    };
    let (copied, direct) = (nanos(&text("direct 5000"), &spec), nanos(&text("direct 1000"), &spec));
    assert!(copied < 1_001_000.0, "{copied}");
    // Four kilobytes take four microseconds on 4X SDR.
    assert!((1_004_000.0..1_020_000.0).contains(&direct), "{direct}");
}

#[test]
fn a_rendezvous_waits_for_the_receiver_who_makes_no_progress_while_it_computes() {
    let spec = back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300));
    let text = |limits: &str| {
        format!(
            "// softband: protocol ucx {limits}\nnum_ranks 2\nrank 0 {{\na: send 8000b to 1 tag 3\nb: calc 500000\nb requires a\n}}\n\
             rank 1 {{\na: calc 1000000\nb: recv 8000b from 0 tag 3\nb requires a\n}}\n"
        )
    };
    let (eager, late) = (nanos(&text("rendezvous 9000"), &spec), nanos(&text("rendezvous 8000"), &spec));
    assert!((1_000_000.0..1_001_000.0).contains(&eager), "{eager}");
    assert!((1_508_000.0..1_530_000.0).contains(&late), "{late}");
}

#[test]
fn each_size_of_a_protocol_arrives_in_both_directions_with_any_order_of_calls() {
    let spec = star(4);
    for bytes in [0, 1, 55, 56, 2_000, 8_247, 8_248, 30_000, 100_000, 1_000_000] {
        let mut text = "// softband: protocol ucx\nnum_ranks 4\n".to_owned();
        for rank in 0..4u32 {
            text += &format!("rank {rank} {{\n");
            for (step, peer) in (0..4).filter(|peer| *peer != rank).enumerate() {
                let (send, receive) = (format!("s{step}: send {bytes}b to {peer} tag 1\n"), format!("r{step}: recv {bytes}b from {peer} tag 1\n"));
                text += &if rank % 2 == 0 { format!("{send}{receive}") } else { format!("{receive}{send}") };
            }
            text += "}\n";
        }
        let flows = of(&text, &spec, 1).flows;
        assert_eq!(flows.len(), 12);
        assert!(flows.iter().all(|flow| (flow.messages, flow.bytes) == (1, bytes)), "{bytes}");
    }
}

#[test]
fn many_messages_of_a_protocol_wait_for_room_in_the_send_queue() {
    let spec = back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300));
    let line = |what: &str| format!("{what} tag 1\n").repeat(2_000);
    let text = format!("// softband: protocol ucx\nnum_ranks 2\nrank 0 {{\n{}}}\nrank 1 {{\n{}}}\n", line("send 9b to 1"), line("recv 9b from 0"));
    assert_eq!(of(&text, &spec, 1).flows[0].messages, 2_000);
}

#[test]
fn a_protocol_that_is_unknown_or_has_wrong_limits_is_refused_with_its_line() {
    let message = |words: &str| goal::parse(&format!("# first\n// softband: protocol {words}\nnum_ranks 1\nrank 0 {{ }}\n")).unwrap_err().to_string();
    assert!(message("tcp").starts_with("2: error: there is no protocol `tcp`"));
    assert!(message("ucx copies 4").starts_with("2: error: a protocol has no `copies`"));
    assert!(message("ucx direct").starts_with("2: error: `` is not a number of bytes for direct"));
    assert!(message("ucx rendezvous 0").starts_with("2: error: a rendezvous reads at least 1 byte, not 0"));
}
