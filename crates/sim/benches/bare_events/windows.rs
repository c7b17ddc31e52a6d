//! Without a queue of events: sorted links, windows, and switches divided among threads.

use crate::tree::*;
use crate::{Arrival, Outcome, sent};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the threads of a run share.
struct Shared {
    /// What one thread has for another, by window of even and odd number.
    mail: Vec<[Mutex<Vec<Arrival>>; 2]>,
    /// Delivered so far, likewise.
    delivered: Vec<[AtomicUsize; 2]>,
    met: AtomicUsize,
}

impl Shared {
    /// Waits until all have come here for the time `number`.
    fn meet(&self, number: usize) {
        self.met.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0_u32;
        while self.met.load(Ordering::Acquire) < number * self.delivered.len() {
            looks += 1;
            if looks.is_multiple_of(2_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// The switches of one thread: its share of the pods with their hosts, and of the cores.
fn owner(node: usize, threads: usize) -> usize {
    match node.checked_sub(HOSTS) {
        None => node / (HALF * HALF) * threads / PORTS,
        Some(switch) if switch < core(0) => switch / PORTS * threads / PORTS,
        Some(switch) => (switch - core(0)) * threads / (HALF * HALF),
    }
}

/// The switches of one thread, the links that lead to them, and the output ports that they send by.
struct Part<'a> {
    tree: &'a Tree,
    shared: &'a Shared,
    own: usize,
    /// Of each link: whose it is at its receiving end, when its sender is free, what is on its way.
    owners: Vec<usize>,
    free_at: Vec<u64>,
    links: Vec<VecDeque<(u64, u32)>>,
    /// Of each host: packets that it has yet to send, and when the next of them has crossed its link.
    left: Vec<u32>,
    next: Vec<u64>,
    /// By output port of the switch in hand.
    bins: [Vec<Arrival>; PORTS],
    /// For other threads.
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

    /// What comes to a switch before the window's end, by the port that it leaves by.
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
                    // Nothing waits for it: it has arrived.
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

    /// Gives the other threads what is theirs, and takes what is its own; whether everything has been delivered.
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
