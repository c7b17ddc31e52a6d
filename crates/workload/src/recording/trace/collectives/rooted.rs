//! Collectives with a root. A place is a rank counted from the root.

use super::{ALLGATHER_LONG_BYTES, Round, symmetric};

fn at(place: u32, root: u32, ranks: u32) -> u32 {
    (place + root) % ranks
}

fn place_of(own: u32, root: u32, ranks: u32) -> u32 {
    (own + ranks - root) % ranks
}

/// Returns the distance to the parent in a binomial tree, and the ranks below a place.
fn branch(place: u32, ranks: u32) -> (u32, u64) {
    let distance = if place == 0 { ranks.next_power_of_two() } else { place & place.wrapping_neg() };
    (distance, u64::from(distance.min(ranks - place)))
}

/// Returns the children of a place, farthest first, with the ranks below each.
fn children(place: u32, ranks: u32) -> Vec<(u32, u64)> {
    let (mut distance, mut found) = (branch(place, ranks).0 / 2, Vec::new());
    while distance > 0 {
        if place + distance < ranks {
            found.push((place + distance, branch(place + distance, ranks).1));
        }
        distance /= 2;
    }
    found
}

/// Sends down a binomial tree. `bytes` gives the size for a number of ranks below.
pub(super) fn tree_down(own: u32, root: u32, ranks: u32, bytes: impl Fn(u64) -> u64) -> Vec<Round> {
    let place = place_of(own, root, ranks);
    let mut rounds = Vec::new();
    if place > 0 {
        let (distance, below) = branch(place, ranks);
        rounds.push(Round::receive(at(place - distance, root, ranks), bytes(below)));
    }
    rounds.extend(children(place, ranks).into_iter().map(|(child, below)| Round::send(at(child, root, ranks), bytes(below))));
    rounds
}

/// Sends up a binomial tree, nearest child first.
pub(super) fn tree_up(own: u32, root: u32, ranks: u32, bytes: impl Fn(u64) -> u64) -> Vec<Round> {
    let place = place_of(own, root, ranks);
    let mut rounds: Vec<Round> =
        children(place, ranks).into_iter().rev().map(|(child, below)| Round::receive(at(child, root, ranks), bytes(below))).collect();
    if place > 0 {
        let (distance, below) = branch(place, ranks);
        rounds.push(Round::send(at(place - distance, root, ranks), bytes(below)));
    }
    rounds
}

/// Scatters the blocks of a message down a tree, and gathers them at all ranks.
pub(super) fn scatter_and_allgather(own: u32, root: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    let block = bytes.div_ceil(u64::from(ranks));
    let mut rounds = tree_down(own, root, ranks, |below| block * below);
    if bytes < ALLGATHER_LONG_BYTES && ranks.is_power_of_two() {
        rounds.extend(symmetric::allgather_short(own, ranks, block));
    } else {
        rounds.extend(symmetric::ring(own, ranks, |_| block));
    }
    rounds
}

/// Reduces by halves, so that each rank has a block of the result, and gathers the blocks.
pub(super) fn halves_and_gather(own: u32, root: u32, ranks: u32, bytes: u64) -> Vec<Round> {
    if !ranks.is_power_of_two() {
        return tree_up(own, root, ranks, |_| bytes);
    }
    let block = bytes.div_ceil(u64::from(ranks));
    let mut rounds = symmetric::halves(own, ranks, bytes);
    rounds.extend(tree_up(own, root, ranks, |below| block * below));
    rounds
}

pub(super) fn linear_in(own: u32, root: u32, ranks: u32, bytes: u64, of: impl Fn(u32) -> u64) -> Vec<Round> {
    if own != root {
        return if bytes > 0 { vec![Round::send(root, bytes)] } else { Vec::new() };
    }
    let receives = (0..ranks).filter(|rank| *rank != root && of(*rank) > 0).map(|rank| (rank, of(rank))).collect();
    vec![Round { sends: Vec::new(), receives }]
}

pub(super) fn linear_out(own: u32, root: u32, ranks: u32, bytes: u64, of: impl Fn(u32) -> u64) -> Vec<Round> {
    if own != root {
        return if bytes > 0 { vec![Round::receive(root, bytes)] } else { Vec::new() };
    }
    let sends = (0..ranks).filter(|rank| *rank != root && of(*rank) > 0).map(|rank| (rank, of(rank))).collect();
    vec![Round { sends, receives: Vec::new() }]
}
