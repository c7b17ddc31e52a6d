use super::trace::collectives::Collective;
use super::trace::{Options, goal};
use super::*;
use crate::goal as reader;

const OPTIONS: Options = Options { protocol: None, eager_bytes: 1024, factor: 1.0 };

fn record(rank: u32, ranks: u32, calls: &str) -> RankRecord {
    let members: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let text = format!(
        "{{\"format\":\"softband-mpi-rank\",\"version\":1,\"rank\":{rank},\"ranks\":{ranks},\"library\":\"X\"}}\n\
         {{\"comm\":0,\"inter\":0,\"members\":[{}]}}\n{}{{\"end\":1}}\n",
        members.join(","),
        calls
    );
    RankRecord::parse("rank", &text).unwrap()
}

fn pair(bytes: u64, nanos: u64) -> Vec<RankRecord> {
    let send = format!("{{\"c\":\"MPI_Send\",\"t\":{nanos},\"comm\":0,\"to\":1,\"tag\":5,\"b\":{bytes}}}\n");
    let receive = format!(
        "{{\"c\":\"MPI_Irecv\",\"t\":0,\"comm\":0,\"from\":-1,\"rtag\":-1,\"rb\":4096,\"rq\":0}}\n\
         {{\"c\":\"MPI_Wait\",\"t\":30,\"done\":[[0,0,5,{bytes}]]}}\n"
    );
    vec![record(0, 2, &send), record(1, 2, &receive)]
}

#[test]
fn repetitions_merge_to_the_median_of_each_stretch() {
    let merged = merge(&[pair(8, 100), pair(8, 900), pair(8, 200)]).unwrap();
    assert_eq!((merged.nanos(0), merged.nanos(1), merged.repetitions), (200, 30, 3));
    assert_eq!(Recording::parse("x", &merged.text()).unwrap(), merged);
    assert_eq!(merged.times(0, 2.0), "400000 MPI_Send comm 0 to 1 tag 5 b 8\n");
}

#[test]
fn a_trace_begins_each_rank_as_late_as_its_recording() {
    let started = |at: &str, nanos: u64| format!("{{\"c\":\"MPI_Init\",\"t\":0{at}}}\n{{\"c\":\"MPI_Barrier\",\"t\":{nanos},\"comm\":0,\"b\":0}}\n");
    let of = |starts: [&str; 2]| merge(&[vec![record(0, 2, &started(starts[0], 10)), record(1, 2, &started(starts[1], 10))]]).unwrap();
    let merged = of([",\"at\":5000", ",\"at\":5700"]);
    assert_eq!(Recording::parse("x", &merged.text()).unwrap(), merged);
    let calcs = |recording: &Recording, factor: f64| {
        let text = goal(recording, &Options { factor, ..OPTIONS }).unwrap();
        text.lines().filter_map(|line| line.split_once("calc ")?.1.parse().ok()).collect::<Vec<u64>>()
    };
    assert_eq!(calcs(&merged, 0.0), [700], "the start is no computation");
    assert_eq!(calcs(&merged, 2.0), [20, 700, 20]);
    assert_eq!(calcs(&of(["", ",\"at\":5700"]), 0.0), [0; 0], "without all starts there is no common clock");
    let text = merged.text().replace("\"at\":700", "\"at\":99999999999999999");
    let error = Recording::parse("x", &text).unwrap_err();
    assert_eq!(error.message, "x: rank 1 starts after 99999999999999999 ns, more than a day");
}

#[test]
fn the_timed_part_lies_between_the_first_and_the_last_look_at_the_clock() {
    let clock = "{\"c\":\"MPI_Wtime\",\"t\":7}\n";
    let barrier = |nanos: u64| format!("{{\"c\":\"MPI_Barrier\",\"t\":{nanos},\"comm\":0,\"b\":0}}\n");
    let of = |calls: &str| merge(&[vec![record(0, 1, calls)]]).unwrap();
    let whole = of(&[&barrier(1), clock, &barrier(20), clock, &barrier(300), clock, &barrier(4000)].concat());
    let timed = whole.timed().unwrap();
    assert_eq!((timed.nanos(0), timed.calls(0)), (20 + 7 + 300 + 7, 4));
    assert_eq!(Recording::parse("x", &timed.text()).unwrap(), timed, "the communicator stays");
    let error = of(&[&barrier(1), clock].concat()).timed().unwrap_err();
    assert_eq!(error.message, "rank 0 calls MPI_Wtime once, so it times no part");
    assert_eq!(of(&barrier(1)).timed().unwrap_err().message, "rank 0 calls MPI_Wtime never, so it times no part");
}

#[test]
fn repetitions_with_other_calls_are_refused_by_rank_and_call() {
    let error = merge(&[pair(8, 1), pair(16, 1)]).unwrap_err();
    assert_eq!(
        error.message,
        "rank 0, call 0: `MPI_Send comm 0 to 1 tag 5 b 8` in repetition 0, and `MPI_Send comm 0 to 1 tag 5 b 16` in repetition 1"
    );
}

#[test]
fn successful_looks_keep_their_share_and_replays_do_not_count_them() {
    let look = |nanos: u64| {
        let calls =
            format!("{{\"c\":\"MPI_Test\",\"poll\":1,\"t\":{nanos},\"done\":[]}}\n{{\"c\":\"MPI_Barrier\",\"t\":{nanos},\"comm\":0,\"b\":0}}\n");
        vec![record(0, 1, &calls)]
    };
    let merged = merge(&[look(100), look(300), look(200)]).unwrap();
    let times: Vec<u64> = merged.ranks[0].iter().filter_map(Line::call).map(|call| call.nanos).collect();
    assert_eq!((times, merged.calls(0)), (vec![200, 200], 1));
    assert_eq!(merged.times(0, 1.0), "400000+ MPI_Barrier comm 0 b 0\n");
}

#[test]
fn an_eager_message_is_one_send_with_the_received_tag() {
    let text = goal(&merge(&[pair(8, 100)]).unwrap(), &OPTIONS).unwrap();
    assert_eq!(
        text,
        "num_ranks 2\nrank 0 {\nl0: calc 100\nl1: send 8b to 1 tag 0\nl1 requires l0\n}\nrank 1 {\nl0: recv 8b from 0 tag 0\nl1: calc 30\n}\n"
    );
    reader::parse(&text).unwrap();
}

#[test]
fn a_long_message_is_a_rendezvous_that_a_run_can_complete() {
    let text = goal(&merge(&[pair(4096, 0)]).unwrap(), &OPTIONS).unwrap();
    let schedule = reader::parse(&text).unwrap();
    let bytes: Vec<u64> = schedule.steps.iter().map(crate::schedule::Step::bytes).filter(|bytes| *bytes > 0).collect();
    assert_eq!(bytes, [64, 4096, 64]);
}

#[test]
fn calls_that_no_trace_can_express_are_named_with_rank_and_number() {
    let calls = "{\"c\":\"MPI_Barrier\",\"t\":1,\"comm\":0,\"b\":0}\n{\"c\":\"MPI_Win_fence\",\"t\":1}\n";
    let error = goal(&merge(&[vec![record(0, 1, calls)]]).unwrap(), &OPTIONS).unwrap_err();
    assert_eq!(error.message, "rank 0, call 1: a trace cannot express MPI_Win_fence");
}

#[test]
fn records_without_an_end_or_of_another_version_are_refused() {
    let merged = merge(&[pair(8, 1)]).unwrap();
    let text = merged.text();
    let cut = &text[..text.len() - "{\"end\":1}\n".len()];
    assert!(Recording::parse("x", cut).unwrap_err().message.contains("rank 1 has no end"));
    let newer = text.replace("\"version\":1", "\"version\":9");
    assert_eq!(Recording::parse("x", &newer).unwrap_err().message, "x:1: version 9 of the format is unknown");
    assert_eq!(Recording::parse("x", "").unwrap_err().message, "x:1: this is no softband-mpi-record file");
}

/// Plays the rounds of all ranks as a program of blocking rounds, and checks each message at both
/// ends.
fn check_rounds(of: impl Fn(u32) -> Collective, root: u32, ranks: u32) {
    let mut sent = BTreeMap::<(u32, u32), Vec<u64>>::new();
    let mut received = sent.clone();
    for own in 0..ranks {
        for round in of(own).rounds(own, root, ranks) {
            round.sends.iter().for_each(|(to, bytes)| sent.entry((own, *to)).or_default().push(*bytes));
            round.receives.iter().for_each(|(from, bytes)| received.entry((*from, own)).or_default().push(*bytes));
        }
    }
    assert_eq!(sent, received, "{:?} of {ranks} ranks", of(0));
    assert!(sent.keys().all(|(from, to)| from != to && *to < ranks));
}

#[test]
fn both_ends_of_each_message_of_a_collective_agree() {
    for ranks in [2, 3, 4, 5, 7, 8, 12, 16] {
        for bytes in [8, 3000, 20_000, 1_000_000] {
            let root = ranks - 1;
            let uneven: Vec<u64> = (1..=u64::from(ranks)).map(|rank| rank * bytes).collect();
            check_rounds(|_| Collective::Barrier, root, ranks);
            check_rounds(|_| Collective::Bcast(bytes), root, ranks);
            check_rounds(|_| Collective::Reduce(bytes), root, ranks);
            check_rounds(|_| Collective::Allreduce(bytes), root, ranks);
            check_rounds(|_| Collective::Allgather(bytes), root, ranks);
            check_rounds(|_| Collective::Allgatherv(uneven.clone()), root, ranks);
            check_rounds(|_| Collective::Alltoall(bytes), root, ranks);
            check_rounds(|_| Collective::Gather(bytes), root, ranks);
            check_rounds(|_| Collective::Scatter(bytes), root, ranks);
            check_rounds(|own| Collective::Gatherv(uneven[own as usize], uneven.clone()), root, ranks);
            check_rounds(|own| Collective::Scatterv(uneven[own as usize], uneven.clone()), root, ranks);
            check_rounds(|_| Collective::ReduceScatter(uneven.clone()), root, ranks);
            check_rounds(|_| Collective::ReduceScatterBlock(bytes), root, ranks);
            check_rounds(|_| Collective::Scan(bytes), root, ranks);
        }
    }
}

#[test]
fn a_collective_of_all_kinds_completes_on_a_power_of_two_and_beside_it() {
    for ranks in [4, 6] {
        let names = ["Barrier", "Bcast", "Reduce", "Allreduce", "Allgather", "Alltoall", "Gather", "Scatter", "Reduce_scatter_block", "Scan"];
        let line = |name: &str| format!("{{\"c\":\"MPI_{name}\",\"t\":5,\"comm\":0,\"b\":3000,\"root\":1}}\n");
        let calls: String = names.iter().map(|name| line(name)).collect();
        let records = (0..ranks).map(|rank| record(rank, ranks, &calls)).collect();
        let text = goal(&merge(&[records]).unwrap(), &OPTIONS).unwrap();
        reader::parse(&text).unwrap();
    }
}

#[test]
fn an_all_to_all_of_many_ranks_goes_in_batches_of_mpich() {
    const RANKS: u32 = 40;
    let of = |own| Collective::Alltoall(1024).rounds(own, 0, RANKS);
    let sizes: Vec<_> = of(3).iter().map(|round| (round.sends.len(), round.receives.len())).collect();
    assert_eq!(sizes, [(31, 31), (8, 8)], "the own block counts in the first batch");
    assert_eq!((of(3)[0].sends[0], of(3)[1].sends[0]), ((2, 1024), (11, 1024)));
    for (own, batch) in (0..RANKS).flat_map(|own| [(own, 0), (own, 1)]) {
        let is_received = |(to, _): &(u32, u64)| of(*to)[batch].receives.contains(&(own, 1024));
        assert!(of(own)[batch].sends.iter().all(is_received), "rank {own}, batch {batch}");
    }
}
