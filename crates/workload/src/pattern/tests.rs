use super::*;
use crate::schedule::Wait;

fn sends(schedule: &Schedule) -> Vec<(u32, u32, u32, u32)> {
    let send = |step: &crate::Step| match step.action {
        Action::Send { to, bytes, messages, .. } => Some((step.rank, to, bytes, messages)),
        _ => None,
    };
    schedule.steps.iter().filter_map(send).collect()
}

fn made(pattern: Pattern, ranks: u32, settings: Settings) -> Schedule {
    let schedule = build(pattern, ranks, &settings).unwrap();
    assert_eq!(schedule.check(), Ok(()), "{}", pattern.name());
    schedule
}

#[test]
fn every_workload_by_name_can_be_carried_out_on_any_number_of_ranks() {
    for (name, pattern) in Pattern::ALL {
        assert_eq!(Pattern::parse(name), Some(pattern));
        for ranks in [2, 3, 4, 7, 8, 13] {
            made(pattern, ranks, Settings { repeat: Some(2), ..Settings::default() });
        }
    }
}

#[test]
fn in_a_permutation_everybody_sends_to_somebody_else_and_receives_once() {
    for seed in 0..20 {
        let flows = sends(&made(Pattern::Permutation, 9, Settings { seed, ..Settings::default() }));
        let mut receivers: Vec<u32> = flows.iter().map(|flow| flow.1).collect();
        receivers.sort_unstable();
        assert_eq!(receivers, (0..9).collect::<Vec<_>>());
        assert!(flows.iter().all(|flow| flow.0 != flow.1), "seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_steps_again_and_another_one_others() {
    for pattern in [Pattern::Permutation, Pattern::UniformRandom] {
        let of = |seed| made(pattern, 16, Settings { seed, ..Settings::default() });
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}

#[test]
fn all_to_all_has_every_pair_once_and_begins_with_everybodys_neighbour() {
    let flows = sends(&made(Pattern::AllToAll, 4, Settings::default()));
    assert_eq!(flows.len(), 12);
    let first: Vec<_> = flows[..4].iter().map(|flow| (flow.0, flow.1)).collect();
    assert_eq!(first, [(0, 1), (1, 2), (2, 3), (3, 0)]);
}

#[test]
fn a_shift_goes_the_same_number_of_places_from_everybody() {
    let pairs = |settings| sends(&made(Pattern::Shift, 4, settings)).iter().map(|flow| (flow.0, flow.1)).collect::<Vec<_>>();
    assert_eq!(pairs(Settings::default()), [(0, 2), (1, 3), (2, 0), (3, 1)]);
    assert_eq!(pairs(Settings { distance: Some(3), ..Settings::default() }), [(0, 3), (1, 0), (2, 1), (3, 2)]);
}

#[test]
fn an_incast_has_as_many_senders_as_asked_for_and_never_the_root() {
    let flows = sends(&made(Pattern::Incast, 6, Settings { root: Some(1), senders: Some(3), ..Settings::default() }));
    assert_eq!(flows.iter().map(|flow| (flow.0, flow.1)).collect::<Vec<_>>(), [(0, 1), (2, 1), (3, 1)]);
}

#[test]
fn random_messages_wait_for_the_one_a_window_before() {
    let schedule = made(Pattern::UniformRandom, 2, Settings { messages: Some(5), window: Some(3), ..Settings::default() });
    let order = [(0, 3), (1, 4), (5, 8), (6, 9)].map(|(earlier, later)| (earlier, later, Wait::UntilDone));
    assert_eq!(schedule.order, order);
}

#[test]
fn a_ring_allreduce_moves_two_vectors_less_two_parts_from_every_rank() {
    let ranks = 5;
    let schedule = made(Pattern::RingAllreduce, ranks, Settings { bytes: Some(5_000), ..Settings::default() });
    let flows = sends(&schedule);
    assert_eq!(flows.len() as u32, 2 * (ranks - 1) * ranks);
    assert!(flows.iter().all(|flow| flow.1 == (flow.0 + 1) % ranks && flow.2 == 1_000));
    // All sends but those of the first turn wait for the part that they pass on.
    let waiting = schedule.order.iter().filter(|(_, later, _)| matches!(schedule.steps[*later as usize].action, Action::Send { .. })).count();
    assert_eq!(waiting as u32, (2 * (ranks - 1) - 1) * ranks);
    assert_eq!(schedule.phases, ["reduce-scatter", "allgather"]);
}

#[test]
fn a_tree_takes_one_message_up_and_one_down_for_each_rank_but_the_root() {
    for root in [0, 3] {
        let schedule = made(Pattern::TreeAllreduce, 6, Settings { root: Some(root), ..Settings::default() });
        let flows = sends(&schedule);
        let (up, down) = flows.split_at(5);
        let senders_up: Vec<u32> = up.iter().map(|flow| flow.0).collect();
        let receivers_down: Vec<u32> = down.iter().map(|flow| flow.1).collect();
        assert!(!senders_up.contains(&root) && !receivers_down.contains(&root));
        assert_eq!((senders_up.len(), receivers_down.len()), (5, 5));
    }
}

#[test]
fn a_stream_is_like_that_of_a_bandwidth_program() {
    let small = made(Pattern::Stream, 4, Settings { bytes: Some(4_096), from: Some(2), to: Some(3), ..Settings::default() });
    assert_eq!((small.window, small.completion_interval, small.reads_clock), (128, 100, true));
    assert_eq!(sends(&small), [(2, 3, 4_096, 1_000)]);
    let large = made(Pattern::Stream, 4, Settings { messages: Some(20_001), ..Settings::default() });
    assert_eq!((large.completion_interval, large.reads_clock), (1, false));
}

#[test]
fn settings_that_are_wrong_or_mean_nothing_are_refused_by_their_name() {
    let refused = |pattern, settings: Settings| build(pattern, 4, &settings).unwrap_err().to_string();
    let plain = Settings::default();
    assert!(refused(Pattern::Incast, Settings { senders: Some(4), ..plain }).contains("senders = 4 is out of range: from 1 to 3"));
    assert!(refused(Pattern::Permutation, Settings { senders: Some(2), ..plain }).contains("senders has no effect on permutation"));
    assert!(refused(Pattern::Stream, Settings { bytes: Some(0), ..plain }).contains("bytes = 0"));
    assert!(refused(Pattern::Stream, Settings { mtu: Some(1_500), ..plain }).contains("mtu = 1500 is out of range: 256, 512, 1024, 2048 or 4096"));
    assert!(refused(Pattern::Stream, Settings { service_level: Some(16), ..plain }).contains("service_level = 16 is out of range: from 0 to 15"));
    assert!(refused(Pattern::Broadcast, Settings { root: Some(9), ..plain }).contains("root = 9"));
    assert_eq!(build(Pattern::AllToAll, 1, &plain), Err(PatternError::TooFewRanks(1)));
}
