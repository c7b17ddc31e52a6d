//! In wall pace a program may write anything into the memory and the queues that it shares with the
//! engine. The engine neither panics nor hangs, and other programs get their messages.

use proptest::prelude::*;
use softband_catalog::{Catalog, LoadOptions, load_fabric};
use softband_engine::wall_harness::{CLAIMS, PUTS, TELLS, WallHarness, deed};
use softband_spec::FabricSpec;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<FabricSpec> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    load_fabric(&root.join("fabrics/modern-pair.toml"), &catalog, &LoadOptions::default()).expect("a fabric").spec
});

type Lie = (u8, u16, Vec<u8>);

/// Generates words like counters, modes and times, and extremes.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![4 => 0..8u64, 2 => Just(u64::MAX), 1 => Just(u64::from(u32::MAX)), 1 => Just(1 << 62), 2 => any::<u64>(), 1 => (1..4u64).prop_map(handles)];
    prop::collection::vec(word, 0..8).prop_map(|words| words.into_iter().flat_map(u64::to_le_bytes).collect())
}

/// Returns two words that may be a handle.
fn handles(index: u64) -> u64 {
    index << 8 | index << 40
}

/// Generates the same words for one of several queues, which the first byte selects.
fn of_queue() -> impl Strategy<Value = Vec<u8>> {
    (0..4u8, words()).prop_map(|(whose, mut bytes)| {
        bytes.insert(0, whose);
        bytes
    })
}

/// Generates a place in a queue: mostly one of the counters at its head.
fn place() -> impl Strategy<Value = u16> {
    prop_oneof![4 => (0..52u16).prop_map(|word| word * 4), 1 => 0..1024u16]
}

fn lie() -> impl Strategy<Value = Lie> {
    prop_oneof![
        1 => (Just(deed::CALL), prop_oneof![3 => 100..132u16, 1 => 0..132u16], words()),
        1 => (Just(deed::POST), 0..1u16, words()),
        4 => (Just(deed::WORK), 0..4u16, prop::collection::vec(0..16u8, 4)),
        3 => (Just(deed::HEADER), 0..256u16, words()),
        3 => (Just(deed::RECEIVES), place(), of_queue()),
        2 => (Just(deed::REMOTE_CQES), place(), of_queue()),
        2 => (Just(deed::COMPLETIONS), place(), of_queue()),
        2 => (Just(deed::PEER), any::<u16>(), Just(Vec::new())),
        4 => (Just(deed::ROUND), 0..1u16, Just(Vec::new())),
        2 => (Just(deed::EVENT), 0..8u16, Just(Vec::new())),
    ]
}

fn survives(lies: &[Lie]) {
    let mut input = Vec::new();
    for (deed, place, bytes) in lies {
        let [low, high] = place.to_le_bytes();
        input.extend_from_slice(&[*deed, low, high, bytes.len() as u8]);
        input.extend_from_slice(bytes);
    }
    WallHarness::new(&SPEC).survive(&input);
}

proptest! {
    // PROPTEST_CASES=100000 for a longer run.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_else_is_harmed_by_what_a_program_writes_into_its_queues(lies in prop::collection::vec(lie(), 1..60)) {
        survives(&lies);
    }
}

#[test]
fn an_honest_pair_alone_gets_its_messages() {
    survives(&[]);
}

/// A queue's time decides which completions are too old. The engine once took it for its own clock.
#[test]
fn a_time_that_is_far_off_in_a_receive_queue_moves_nobody_elses_clock() {
    let far_off = [&[0u8][..], &(1u64 << 62).to_le_bytes()].concat();
    survives(&[(deed::RECEIVES, 8, far_off), (deed::WORK, 1, vec![1, 2, 2, 0]), (deed::ROUND, 0, vec![])]);
}

/// These calls belong to the other pace. They once moved the engine's clock to the time that they
/// name, or rang a timer for ever.
#[test]
fn sleeps_and_timers_move_no_clock_that_is_the_hosts() {
    let sleep = (1u64 << 62).to_le_bytes().to_vec();
    let timer: Vec<u8> = [1u64, 1, 1].into_iter().flat_map(u64::to_le_bytes).collect();
    survives(&[(deed::CALL, 3, sleep), (deed::CALL, 44, vec![0; 8]), (deed::CALL, 45, timer)]);
}

/// The queue itself names the process that takes a request. The engine checks with this process
/// whether that is true.
#[test]
fn a_shared_queue_that_somebody_is_said_to_take_from_goes_on() {
    let by_process = |pid: u64| [&[1u8][..], &pid.to_le_bytes()].concat();
    let moves = (deed::HEADER, 1, 1u64.to_le_bytes().to_vec());
    let message = (deed::WORK, 0, vec![1, 2, 2, 0]);
    let rounds = [(); 3].map(|()| (deed::ROUND, 0, vec![]));
    for pid in [1 << 30, (1 << 30) + 2, 1] {
        let lies = [moves.clone(), (deed::RECEIVES, 192, by_process(4 << 32 | pid)), message.clone()];
        survives(&lies.into_iter().chain(rounds.clone()).collect::<Vec<_>>());
    }
}

/// The engine once waited anew for each entry that it removed.
#[test]
fn a_transfer_that_never_ends_is_given_up() {
    // The first of the words that are odd during a transfer.
    survives(&[(deed::HEADER, 1, 1u64.to_le_bytes().to_vec()), (deed::WORK, 0, vec![1, 2, 2, 0]), (deed::ROUND, 0, vec![])]);
}

#[test]
fn an_event_that_is_due_is_raised_once_and_no_other() {
    let mut harness = WallHarness::new(&SPEC);
    harness.lie(deed::EVENT, TELLS, &[]);
    assert_eq!(harness.events_of_peer(), 0, "nothing is due");
    harness.lie(deed::EVENT, CLAIMS | TELLS, &[]);
    harness.lie(deed::EVENT, TELLS, &[]);
    assert_eq!(harness.events_of_peer(), 1, "it was due once, however often it is told of");
    harness.lie(deed::EVENT, CLAIMS, &[]);
    // The liar uses a queue pair that is not connected to the peer, and its own CQ.
    harness.lie(deed::WORK, 0, &[8, 0, 0, 0]);
    harness.lie(deed::WORK, 2, &[7, 0, 0, 0]);
    assert_eq!(harness.events_of_peer(), 0, "only peers are heard");
    harness.die();
    assert_eq!(harness.events_of_peer(), 1, "who was to tell of it is gone");
}

#[test]
fn who_ends_before_looking_whether_a_queue_is_armed_leaves_nobody_asleep() {
    let mut harness = WallHarness::new(&SPEC);
    harness.lie(deed::EVENT, PUTS, &[]);
    assert_eq!(harness.events_of_peer(), 0);
    harness.die();
    assert_eq!(harness.events_of_peer(), 1);
}

/// Initial inputs of the fuzzer: its former findings, and cases that it should not have to find.
#[test]
fn the_fuzzers_first_inputs_are_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/shared_queues");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty());
    for file in files {
        WallHarness::new(&SPEC).survive(&std::fs::read(file).expect("a file"));
    }
}
