//! Simulation without an event queue: sorted links, windows, and switches divided among threads.

use crate::tree::*;
use crate::{Arrival, Outcome, sent};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// State that the threads of a run share.
struct Shared {
    /// Packets for each thread from the others, for windows of even and odd number.
    mail: Vec<[Mutex<Vec<Arrival>>; 2]>,
    /// Packets that each thread has delivered so far, for windows of even and odd number.
    delivered: Vec<[AtomicUsize; 2]>,
    met: AtomicUsize,
}

impl Shared {
    /// Waits until all threads have come here `number` times.
    fn meet(&self, number: usize) {
        self.met.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0_u32;
        while self.met.load(Ordering::Acquire) < number * self.delivered.len() {
            looks += 1;
            if looks.is_multiple_of(2_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Returns the thread that owns a node. Each thread owns a share of the pods with their hosts, and
/// a share of the cores.
fn owner(node: usize, threads: usize) -> usize {
    match node.checked_sub(HOSTS) {
        None => node / (HALF * HALF) * threads / PORTS,
        Some(switch) if switch < core(0) => switch / PORTS * threads / PORTS,
        Some(switch) => (switch - core(0)) * threads / (HALF * HALF),
    }
}

/// Share of one thread: its switches, the links that lead to them, and their output ports.
struct Part<'a> {
    tree: &'a Tree,
    shared: &'a Shared,
    own: usize,
    /// Of each link: the thread at its receiving end, the time when its sender is free, and the
    /// packets on their way.
    owners: Vec<usize>,
    free_at: Vec<u64>,
    links: Vec<VecDeque<(u64, u32)>>,
    /// Of each host: the packets left to send, and the time when the next packet has crossed its
    /// link.
    left: Vec<u32>,
    next: Vec<u64>,
    /// Arrivals at the current switch, by output port.
    bins: [Vec<Arrival>; PORTS],
    /// Packets for other threads.
    away: Vec<Vec<Arrival>>,
    outcome: Outcome,
}

impl<'a> Part<'a> {
    fn new(tree: &'a Tree, shared: &'a Shared, own: usize) -> Self {
        let threads = shared.mail.len();
        Self {
            tree,
            shared,
            own,
            owners: tree.to.iter().map(|to| owner(*to as usize, threads)).collect(),
            free_at: vec![0; LINKS],
            links: vec![VecDeque::new(); LINKS],
            left: vec![PACKETS; HOSTS],
            next: tree.starts.clone(),
            bins: [const { Vec::new() }; PORTS],
            away: vec![Vec::new(); threads],
            outcome: Outcome::default(),
        }
    }

    fn run(mut self) -> Outcome {
        let owned: Vec<usize> = (0..SWITCHES).filter(|switch| owner(HOSTS + switch, self.shared.mail.len()) == self.own).collect();
        for window in 0.. {
            for &switch in &owned {
                self.bin(switch, (window as u64 + 1) * (SERIAL + LATENCY));
                self.send(switch);
            }
            if self.exchange(window) {
                break;
            }
        }
        self.outcome
    }

    /// Bins the packets that arrive at a switch before the window's end, by output port.
    fn bin(&mut self, switch: usize, end: u64) {
        let ways = &self.tree.ways[switch * HOSTS..][..HOSTS];
        for &link in &self.tree.inputs[switch] {
            let mut bin = |arrival: Arrival| {
                self.outcome.arrived(arrival);
                self.bins[usize::from(ways[arrival.2 as usize])].push(arrival);
            };
            let index = link as usize;
            while index < HOSTS && self.left[index] > 0 && self.next[index] < end {
                bin((self.next[index], link, self.tree.destinations[index]));
                self.next[index] += SERIAL;
                self.left[index] -= 1;
            }
            while let Some((at, to)) = self.links[index].front().copied().filter(|(at, _)| *at < end) {
                self.links[index].pop_front();
                bin((at, link, to));
            }
        }
    }

    fn send(&mut self, switch: usize) {
        for (port, bin) in self.bins.iter_mut().enumerate() {
            bin.sort_unstable();
            let out = output(switch, port);
            for (at, _, to) in bin.drain(..) {
                let at = sent(&mut self.free_at[out], at);
                if (self.tree.to[out] as usize) < HOSTS {
                    // The packet has reached its host, and nothing waits for it.
                    self.outcome.arrived((at, out as u32, to));
                    self.outcome.delivered += 1;
                } else if self.owners[out] == self.own {
                    self.links[out].push_back((at, to));
                } else {
                    self.away[self.owners[out]].push((at, out as u32, to));
                }
            }
        }
    }

    /// Hands the other threads their packets and takes those of this thread. Returns whether all
    /// packets have been delivered.
    fn exchange(&mut self, window: usize) -> bool {
        let (shared, turn) = (self.shared, window % 2);
        for (mail, away) in shared.mail.iter().zip(&mut self.away).filter(|(_, away)| !away.is_empty()) {
            mail[turn].lock().unwrap_or_else(PoisonError::into_inner).append(away);
        }
        shared.delivered[self.own][turn].store(self.outcome.delivered, Ordering::Release);
        shared.meet(window + 1);
        for (at, link, to) in shared.mail[self.own][turn].lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.links[link as usize].push_back((at, to));
        }
        shared.delivered.iter().map(|count| count[turn].load(Ordering::Acquire)).sum::<usize>() == HOSTS * PACKETS as usize
    }
}

pub(crate) fn run(tree: &Tree, threads: usize) -> Outcome {
    let shared = Shared {
        mail: (0..threads).map(|_| Default::default()).collect(),
        delivered: (0..threads).map(|_| Default::default()).collect(),
        met: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        let part = |own| Part::new(tree, &shared, own);
        let others: Vec<_> = (1..threads).map(|own| scope.spawn(move || part(own).run())).collect();
        let first = part(0).run();
        others.into_iter().fold(first, |sum, other| sum.and(other.join().expect("a thread that does not panic")))
    })
}
