//! Collectives in which all ranks do the same.

use super::{ALLGATHER_LONG_BYTES, BATCH_RANKS, Round};

/// Distances 1, 2, 4 and so on, below the number of ranks.
fn distances(ranks: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|bit| 1u32 << bit).take_while(move |distance| *distance < ranks)
}

pub(super) fn dissemination(own: u32, ranks: u32) -> Vec<Round> {
    distances(ranks).map(|distance| Round::exchange((own + distance) % ranks, (own + ranks - distance) % ranks, 0)).collect()
}

/// Exchanges the whole vector with ever farther partners.
pub(super) fn doubling(own: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    distances(ranks).map(|distance| Round::exchange(own ^ distance, own ^ distance, bytes)).collect()
}

/// Exchanges half the vector, then a quarter, and so on: each rank reduces one block.
pub(super) fn halves(own: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    let block = bytes.div_ceil(u64::from(ranks));
    let mut all: Vec<u32> = distances(ranks).collect();
    all.reverse();
    all.into_iter().map(|distance| Round::exchange(own ^ distance, own ^ distance, block * u64::from(distance))).collect()
}

/// Reduces by halves, and gathers the blocks on the way back.
pub(super) fn halves_and_back(own: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    let mut rounds = halves(own, ranks, bytes);
    rounds.extend(rounds.clone().into_iter().rev());
    rounds
}

/// Applies an algorithm for powers of two. The ranks beyond give their vectors to a neighbour, and
/// get the result back.
pub(super) fn folded(own: u32, ranks: u32, bytes: u64, algorithm: fn(u32, u32, u64) -> Vec<Round>) -> Vec<Round> {
    let power = 1 << ranks.ilog2();
    let beyond = ranks - power;
    let real = |rank: u32| if rank < beyond { rank * 2 + 1 } else { rank + beyond };
    if own < 2 * beyond && own.is_multiple_of(2) {
        return vec![Round::send(own + 1, bytes), Round::receive(own + 1, bytes)];
    }
    let place = if own < 2 * beyond { own / 2 } else { own - beyond };
    let mut rounds = algorithm(place, power, bytes);
    for round in &mut rounds {
        round.sends.iter_mut().chain(&mut round.receives).for_each(|(peer, _)| *peer = real(*peer));
    }
    if own < 2 * beyond {
        rounds.insert(0, Round::receive(own - 1, bytes));
        rounds.push(Round::send(own - 1, bytes));
    }
    rounds
}

/// Gathers blocks by recursive doubling, or by Bruck's algorithm if no power of two ranks take part.
pub(super) fn allgather_short(own: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    let exchange = |distance: u32| {
        let blocks = u64::from(distance.min(ranks - distance));
        if ranks.is_power_of_two() {
            Round::exchange(own ^ distance, own ^ distance, bytes * blocks)
        } else {
            Round::exchange((own + ranks - distance) % ranks, (own + distance) % ranks, bytes * blocks)
        }
    };
    distances(ranks).map(exchange).collect()
}

/// Passes the blocks around: in each round the block that came in the last one. `bytes` gives the
/// size of a rank's block.
pub(super) fn ring(own: u32, ranks: u32, bytes: impl Fn(u32) -> u64) -> Vec<Round> {
    let (next, former) = ((own + 1) % ranks, (own + ranks - 1) % ranks);
    let block = |back: u32| bytes((own + ranks - back) % ranks);
    (0..ranks - 1).map(|round| Round { sends: vec![(next, block(round))], receives: vec![(former, block(round + 1))] }).collect()
}

/// Sends in each round all blocks whose number has the bit of the round.
pub(super) fn bruck_alltoall(own: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    let blocks = |distance: u32| (0..ranks).filter(|block| block & distance != 0).count() as u64;
    distances(ranks).map(|distance| Round::exchange((own + distance) % ranks, (own + ranks - distance) % ranks, bytes * blocks(distance))).collect()
}

/// Sends to all ranks in batches. The messages of a batch begin together, and those of the next batch
/// after all of them. A rank's own block counts in the first batch. Messages without data are left
/// out.
pub(super) fn batches(own: u32, ranks: u32, to: impl Fn(u32) -> u64, from: impl Fn(u32) -> u64) -> Vec<Round> {
    let batch = |first: u32| {
        let distances = || (first.max(1)..ranks.min(first + BATCH_RANKS)).map(u64::from);
        let with_data = |(_, bytes): &(u32, u64)| *bytes > 0;
        let (own, ranks) = (u64::from(own), u64::from(ranks));
        let sends = distances().map(|distance| ((own + ranks - distance) % ranks) as u32).map(|peer| (peer, to(peer)));
        let receives = distances().map(|distance| ((own + distance) % ranks) as u32).map(|peer| (peer, from(peer)));
        Round { sends: sends.filter(with_data).collect(), receives: receives.filter(with_data).collect() }
    };
    (0..ranks).step_by(BATCH_RANKS as usize).map(batch).collect()
}

/// Exchanges with one partner in each round.
pub(super) fn pairs(own: u32, ranks: u32, to: impl Fn(u32) -> u64, from: impl Fn(u32) -> u64) -> Vec<Round> {
    let partners = |distance: u32| match ranks.is_power_of_two() {
        true => (own ^ distance, own ^ distance),
        false => ((own + distance) % ranks, (own + ranks - distance) % ranks),
    };
    (1..ranks).map(partners).map(|(next, former)| Round { sends: vec![(next, to(next))], receives: vec![(former, from(former))] }).collect()
}

pub(super) fn reduce_scatter(own: u32, ranks: u32, bytes: impl Fn(u32) -> u64) -> Vec<Round> {
    let whole: u64 = (0..ranks).fold(0, |sum: u64, rank| sum.saturating_add(bytes(rank)));
    if ranks.is_power_of_two() && whole < ALLGATHER_LONG_BYTES { halves(own, ranks, whole) } else { pairs(own, ranks, &bytes, |_| bytes(own)) }
}

/// Exchanges with ever farther partners, as far as they exist.
pub(super) fn scan(own: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    distances(ranks).map(|distance| own ^ distance).filter(|peer| *peer < ranks).map(|peer| Round::exchange(peer, peer, bytes)).collect()
}
