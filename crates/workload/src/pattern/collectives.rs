//! Collectives as sequences of messages, as MPI libraries implement them. Host computation on the
//! data takes no time.

use crate::schedule::{Action, Schedule};

/// Largest message of an eager MPI send, in bytes: the send completes at once and the library
/// transfers the data. (MVAPICH2 and Open MPI over InfiniBand: 12 to 17 KiB.)
const EAGER_BYTES_MAX: u32 = 16_384;

fn message(schedule: &mut Schedule, (from, to): (u32, u32), bytes: u32, tag: u32) -> (u32, u32) {
    let send = schedule.push(from, Action::Send { to, bytes, messages: 1, tag });
    let receive = schedule.push(to, Action::Receive { from, tag });
    (send, receive)
}

/// Adds reduce-scatter and allgather around a ring (Patarasuk and Yuan 2009). The vector has as
/// many parts as there are ranks.
/// In each turn, every rank sends a part to the next rank, once it has that part from the previous rank.
pub(super) fn ring_allreduce(schedule: &mut Schedule, prefix: &str, bytes: u32, round: u32) {
    let ranks = schedule.ranks;
    let part = bytes.div_ceil(ranks);
    let mut received: Vec<Option<u32>> = vec![None; ranks as usize];
    for phase in ["reduce-scatter", "allgather"] {
        schedule.phase(format!("{prefix}{phase}"));
        for _ in 1..ranks {
            let mut fresh = vec![None; ranks as usize];
            for from in 0..ranks {
                let to = (from + 1) % ranks;
                let (send, receive) = message(schedule, (from, to), part, round);
                if let Some(before) = received[from as usize] {
                    schedule.after(before, send);
                }
                if let Some(before) = received[to as usize] {
                    schedule.after(before, receive);
                }
                fresh[to as usize] = Some(receive);
            }
            received = fresh;
        }
    }
}

/// Adds messages up a binomial tree to the root, and down again.
pub(super) fn tree_allreduce(schedule: &mut Schedule, prefix: &str, (bytes, root): (u32, u32), round: u32) {
    schedule.phase(format!("{prefix}reduce"));
    let ranks = schedule.ranks;
    // Last receive of each rank. A rank sends on once it has the vectors of all its children.
    let mut last: Vec<Option<u32>> = vec![None; ranks as usize];
    let mut distance = 1;
    while distance < ranks {
        for place in (0..ranks).filter(|place| place % (2 * distance) == distance) {
            let (from, to) = (at(place, root, ranks), at(place - distance, root, ranks));
            let (send, receive) = message(schedule, (from, to), bytes, round);
            if let Some(before) = last[from as usize] {
                schedule.after(before, send);
            }
            if let Some(before) = last[to as usize].replace(receive) {
                schedule.after(before, receive);
            }
        }
        distance *= 2;
    }
    schedule.phase(format!("{prefix}broadcast"));
    broadcast(schedule, (bytes, root), round, &mut last);
}

/// Adds messages down a binomial tree from the root, to the farthest rank first.
pub(super) fn broadcast(schedule: &mut Schedule, (bytes, root): (u32, u32), round: u32, last: &mut [Option<u32>]) {
    let ranks = schedule.ranks;
    let mut sent: Vec<Option<u32>> = vec![None; ranks as usize];
    let mut distance = ranks.next_power_of_two() / 2;
    while distance > 0 {
        for place in (0..ranks).filter(|place| place % (2 * distance) == distance) {
            let (from, to) = (at(place - distance, root, ranks), at(place, root, ranks));
            let (send, receive) = message(schedule, (from, to), bytes, round);
            if let Some(before) = last[from as usize] {
                schedule.after(before, send);
            }
            // A blocking send of a large message ends on arrival, so the subtrees use the link one
            // after another.
            if let Some(before) = sent[from as usize].replace(send).filter(|_| bytes > EAGER_BYTES_MAX) {
                schedule.after(before, send);
            }
            last[to as usize] = Some(receive);
        }
        distance /= 2;
    }
}

/// Returns the rank at a place of a tree whose root need not be rank 0.
fn at(place: u32, root: u32, ranks: u32) -> u32 {
    (place + root) % ranks
}
