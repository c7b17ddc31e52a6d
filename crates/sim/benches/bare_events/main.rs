//! Lower bound of the cost of any packet simulation. Minimal packets cross a fat tree of 1,024
//! hosts, with one event for each link that a packet crosses. Nothing else happens: no credits,
//! lanes, acknowledgements or hosts. Three ways keep the events in order:
//!
//! - a binary heap of the standard library;
//! - a radix heap: the highest bit in which an event's time differs from now selects its bucket;
//! - no event queue: every directed link is a first-in first-out queue, which is sorted by itself.
//!   A packet never arrives in the window that sends it, so each switch bins the arrivals of a
//!   window by output port. Threads may divide the switches among them; they wait for each other
//!   after each window.
//!
//! All ways must compute the same sum over all arrivals.
#![allow(clippy::disallowed_methods)] // A benchmark reads the clock; the model never does.

mod tree;
mod windows;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;
use tree::*;

const ROUNDS: usize = 5;

/// Arrival of a packet: time, link, destination host.
pub(crate) type Arrival = (u64, u32, u32);

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    hops: u64,
    delivered: usize,
    sum: u64,
}

impl Outcome {
    pub(crate) fn arrived(&mut self, (at, link, _): Arrival) {
        self.hops += 1;
        self.sum = self.sum.wrapping_add(at.wrapping_mul(u64::from(link) + 1));
    }
    pub(crate) fn and(self, other: Self) -> Self {
        Self { hops: self.hops + other.hops, delivered: self.delivered + other.delivered, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// Returns the time when the packet leaves the other end of the link. Until then, less the latency,
/// the packet occupies the link.
pub(crate) fn sent(free_at: &mut u64, at: u64) -> u64 {
    *free_at = at.max(*free_at) + SERIAL;
    *free_at + LATENCY
}

trait Queue: Default {
    fn push(&mut self, arrival: Arrival);
    fn pop(&mut self) -> Option<Arrival>;
}

impl Queue for BinaryHeap<Reverse<Arrival>> {
    fn push(&mut self, arrival: Arrival) {
        self.push(Reverse(arrival));
    }
    fn pop(&mut self) -> Option<Arrival> {
        self.pop().map(|Reverse(arrival)| arrival)
    }
}

struct Radix {
    buckets: [Vec<Arrival>; 65],
    now: u64,
}

impl Default for Radix {
    fn default() -> Self {
        Self { buckets: [const { Vec::new() }; 65], now: 0 }
    }
}

impl Queue for Radix {
    fn push(&mut self, arrival: Arrival) {
        self.buckets[64 - (arrival.0 ^ self.now).leading_zeros() as usize].push(arrival);
    }
    fn pop(&mut self) -> Option<Arrival> {
        if self.buckets[0].is_empty() {
            let first = self.buckets.iter().position(|bucket| !bucket.is_empty())?;
            let mut moved = std::mem::take(&mut self.buckets[first]);
            self.now = moved.iter().map(|arrival| arrival.0).min()?;
            moved.drain(..).for_each(|arrival| self.push(arrival));
            self.buckets[first] = moved; // Keeps its memory for reuse.
            self.buckets[0].sort_unstable_by(|a, b| b.cmp(a));
        }
        self.buckets[0].pop()
    }
}

/// Runs the simulation with all events in one queue.
fn with_queue<Q: Queue>(tree: &Tree) -> Outcome {
    let mut queue = Q::default();
    let (mut free_at, mut left, mut outcome) = (vec![0; LINKS], [PACKETS; HOSTS], Outcome::default());
    for host in 0..HOSTS {
        queue.push((tree.starts[host], host as u32, tree.destinations[host]));
    }
    while let Some(arrival) = queue.pop() {
        let (at, link, to) = arrival;
        outcome.arrived(arrival);
        if let Some(left) = left.get_mut(link as usize) {
            *left -= 1;
            if *left > 0 {
                queue.push((at + SERIAL, link, to));
            }
        }
        match (tree.to[link as usize] as usize).checked_sub(HOSTS) {
            Some(switch) => {
                let out = output(switch, usize::from(tree.ways[switch * HOSTS + to as usize]));
                queue.push((sent(&mut free_at[out], at), out as u32, to));
            }
            None => outcome.delivered += 1,
        }
    }
    outcome
}

/// Returns the processor time of this thread in seconds, from the kernel. Other threads may use the
/// processor meanwhile.
fn processor_seconds() -> Option<f64> {
    let nanoseconds = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(nanoseconds.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

fn main() {
    let tree = Tree::new();
    let ways: [(&str, &dyn Fn() -> Outcome); 4] = [
        ("binary-heap one-core", &|| with_queue::<BinaryHeap<Reverse<Arrival>>>(&tree)),
        ("radix-heap one-core", &|| with_queue::<Radix>(&tree)),
        ("link-queues one-core", &|| windows::run(&tree, 1)),
        ("link-queues two-core", &|| windows::run(&tree, 2)),
    ];
    let expected = ways[0].1();
    for (name, run) in ways {
        let mut speeds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let (begun, processor_begun) = (Instant::now(), processor_seconds());
                let outcome = run();
                assert_eq!(outcome, expected, "{name} has another order");
                let wall = begun.elapsed().as_secs_f64();
                let processor = processor_begun.zip(processor_seconds()).map(|(begun, ended)| ended - begun);
                outcome.hops as f64 / processor.filter(|_| !name.ends_with("two-core")).unwrap_or(wall)
            })
            .collect();
        speeds.sort_by(f64::total_cmp);
        println!("bare-events {name} {:.1} M packet-hops/s", speeds[ROUNDS / 2] / 1e6);
    }
}
