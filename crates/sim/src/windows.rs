//! Events of nodes that reach each other only after a while.
//!
//! Within a window no longer than that while, nothing that one node does can matter to another one, so they are worked through one after
//! the other. What happens at each node, and in which order, is the same as with one queue for all; but nothing has to be sorted beyond
//! the few events that a node has in a window.

use crate::queue::Order;
use crate::{SimDuration, SimTime};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Windows for which there is a place each; what is due later waits in a heap.
const SLOTS: u64 = 1 << 10;
const NONE: u32 = u32::MAX;
const WORD_BITS: usize = 64;

#[derive(Clone, Copy)]
struct Entry<E> {
    time: SimTime,
    order: Order,
    node: u32,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.order) == (other.time, other.order)
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    // Reversed, as in the queue for all.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

/// Some numbers from 0 on, by bits.
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(WORD_BITS)])
    }
    fn set(&mut self, number: usize) {
        self.0[number / WORD_BITS] |= 1 << (number % WORD_BITS);
    }
    fn clear(&mut self, number: usize) {
        self.0[number / WORD_BITS] &= !(1 << (number % WORD_BITS));
    }
    /// The first one from `from` on.
    fn next_from(&self, from: usize) -> Option<usize> {
        let (first, mask) = (from / WORD_BITS, u64::MAX << (from % WORD_BITS));
        let of = |word: usize, bits: u64| (bits != 0).then(|| word * WORD_BITS + bits.trailing_zeros() as usize);
        of(first, self.0.get(first)? & mask).or_else(|| (first + 1..self.0.len()).find_map(|word| of(word, self.0[word])))
    }
}

/// What is to come, by windows, and in the one at hand by nodes.
pub struct WindowQueue<E> {
    /// Length of a window, and the number of the next one: windows stand side by side from time zero on, whatever happens in them.
    lookahead: u64,
    next: u64,
    /// Of each window of the next ones its events, at its number modulo the count; those that have any; and room that is used again.
    slots: Vec<Vec<Entry<E>>>,
    filled: Bits,
    spare: Vec<Vec<Entry<E>>>,
    later: BinaryHeap<Entry<E>>,
    /// Of the window at hand: all its events, as lists by node from `first` on through `rest`, and nodes that have any.
    window: Vec<Entry<E>>,
    rest: Vec<u32>,
    first: Vec<u32>,
    busy: Bits,
    /// The node at hand, and what it has left to do, latest first.
    node: u32,
    today: Vec<Entry<E>>,
    count: u64,
    now: SimTime,
    latest: SimTime,
}

impl<E: Copy> WindowQueue<E> {
    /// For nodes that reach each other after `lookahead` at the earliest.
    ///
    /// # Panics
    /// When that is no time at all.
    pub fn new(nodes: usize, lookahead: SimDuration) -> Self {
        assert!(lookahead > SimDuration::ZERO, "nodes that reach each other at once cannot be worked through one by one");
        Self {
            lookahead: lookahead.as_picos(),
            next: 0,
            slots: std::iter::repeat_with(Vec::new).take(SLOTS as usize).collect(),
            filled: Bits::new(SLOTS as usize),
            spare: Vec::new(),
            later: BinaryHeap::new(),
            window: Vec::new(),
            rest: Vec::new(),
            first: vec![NONE; nodes],
            busy: Bits::new(nodes),
            node: NONE,
            today: Vec::new(),
            count: 0,
            now: SimTime::ZERO,
            latest: SimTime::ZERO,
        }
    }

    /// Schedules what a node does at `time` by itself.
    ///
    /// # Panics
    /// When another node would be reached within the window, as all that schedule.
    pub fn push(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(Entry { time, order: Order::own(self.count), node, event });
    }

    /// Schedules what comes to a node from `source`, a number for each way on which nothing overtakes.
    pub fn push_from(&mut self, time: SimTime, node: u32, source: u32, event: E) {
        self.insert(Entry { time, order: Order::arriving(source, self.count), node, event });
    }

    /// Schedules what is to see everything else of that instant at the node.
    pub fn push_last(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(Entry { time, order: Order::last(self.count), node, event });
    }

    fn insert(&mut self, entry: Entry<E>) {
        self.count += 1;
        let number = entry.time.as_picos() / self.lookahead;
        if number < self.next {
            return self.insert_today(entry);
        }
        if number - self.next >= SLOTS {
            return self.later.push(entry);
        }
        self.put(number, entry);
    }

    fn put(&mut self, number: u64, entry: Entry<E>) {
        let index = (number % SLOTS) as usize;
        let slot = &mut self.slots[index];
        if slot.is_empty() {
            if let Some(spare) = self.spare.pop() {
                *slot = spare;
            }
            self.filled.set(index);
        }
        slot.push(entry);
    }

    /// Within the window a node schedules only for itself.
    fn insert_today(&mut self, entry: Entry<E>) {
        assert!(entry.node == self.node && entry.time >= self.now, "node {} reached at {:?}, within the window", entry.node, entry.time);
        let place = self.today.iter().rposition(|other| *other < entry).map_or(0, |before| before + 1);
        self.today.insert(place, entry);
    }

    /// Takes out the next event of the node at hand, or of the next node that has one within the window.
    pub fn pop(&mut self) -> Option<(SimTime, u32, E)> {
        loop {
            if let Some(entry) = self.today.pop() {
                self.now = entry.time;
                self.latest = self.latest.max(entry.time);
                return Some((entry.time, entry.node, entry.event));
            }
            self.go_on()?;
        }
    }

    /// To the next node that has events in the window.
    fn go_on(&mut self) -> Option<()> {
        if self.node == NONE {
            return None;
        }
        let Some(node) = self.busy.next_from(self.node as usize) else {
            self.node = NONE;
            return None;
        };
        self.busy.clear(node);
        self.node = node as u32;
        self.now = SimTime::ZERO;
        let mut index = std::mem::replace(&mut self.first[node], NONE);
        while index != NONE {
            self.today.push(self.window[index as usize]);
            index = self.rest[index as usize];
        }
        self.today.sort_unstable();
        Some(())
    }

    /// A time in the window of the earliest event, not later than that.
    pub fn next_time(&self) -> Option<SimTime> {
        let start = (self.next % SLOTS) as usize;
        let slot = self.filled.next_from(start).or_else(|| self.filled.next_from(0));
        let number = slot.map(|slot| self.next + (slot as u64 + SLOTS - start as u64) % SLOTS);
        let near = number.map(|number| SimTime::from_picos(number * self.lookahead));
        near.into_iter().chain(self.later.peek().map(|entry| entry.time)).min()
    }

    /// Opens the window that `time` lies in, that of the earliest event of all nodes.
    pub fn open(&mut self, time: SimTime) {
        let number = time.as_picos() / self.lookahead;
        debug_assert!(self.node == NONE, "the window before is over");
        debug_assert!(number >= self.next, "windows follow each other");
        // All slots up to this one are empty: nothing comes before it.
        self.next = number;
        while self.later.peek().is_some_and(|entry| entry.time.as_picos() / self.lookahead - number < SLOTS) {
            let Some(entry) = self.later.pop() else { break };
            self.put(entry.time.as_picos() / self.lookahead, entry);
        }
        self.next = number + 1;
        let index = (number % SLOTS) as usize;
        let mut window = std::mem::replace(&mut self.window, std::mem::take(&mut self.slots[index]));
        window.clear();
        if window.capacity() > 0 {
            self.spare.push(window);
        }
        self.filled.clear(index);
        self.rest.clear();
        for (index, entry) in self.window.iter().enumerate() {
            let node = entry.node as usize;
            self.rest.push(std::mem::replace(&mut self.first[node], index as u32));
            self.busy.set(node);
        }
        self.node = 0;
    }

    /// Nothing before this is still to come.
    pub fn end(&self) -> SimTime {
        SimTime::from_picos(self.next.saturating_mul(self.lookahead))
    }

    /// The time of the event taken out last.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The time of the latest event taken out so far: of nodes that came before, it may be later than `now`.
    pub fn latest(&self) -> SimTime {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventQueue;
    use crate::RandomStream;

    const LOOKAHEAD: u64 = 100;

    /// What nodes do, with either queue: some of it by themselves, and messages to others that take a while.
    trait Queue {
        fn own(&mut self, at: SimTime, node: u32, depth: u32);
        fn send(&mut self, at: SimTime, node: u32, source: u32, depth: u32);
        fn take(&mut self) -> Option<(SimTime, u32, u32)>;
    }

    impl Queue for EventQueue<u32> {
        fn own(&mut self, at: SimTime, node: u32, depth: u32) {
            self.push(at, node, depth);
        }
        fn send(&mut self, at: SimTime, node: u32, source: u32, depth: u32) {
            self.push_from(at, node, source, depth);
        }
        fn take(&mut self) -> Option<(SimTime, u32, u32)> {
            self.pop().map(|(key, event)| (key.time, key.node, event))
        }
    }

    impl Queue for WindowQueue<u32> {
        fn own(&mut self, at: SimTime, node: u32, depth: u32) {
            self.push(at, node, depth);
        }
        fn send(&mut self, at: SimTime, node: u32, source: u32, depth: u32) {
            self.push_from(at, node, source, depth);
        }
        fn take(&mut self) -> Option<(SimTime, u32, u32)> {
            loop {
                if let Some(event) = self.pop() {
                    return Some(event);
                }
                let start = self.next_time()?;
                self.open(start);
            }
        }
    }

    /// What each node has seen, in its order: each event draws from its node's own stream what it leads to.
    fn lives(queue: &mut dyn Queue, nodes: u32) -> Vec<Vec<(SimTime, u32)>> {
        let mut streams: Vec<RandomStream> = (0..nodes).map(|node| RandomStream::new(7, u64::from(node))).collect();
        let mut lives = vec![Vec::new(); nodes as usize];
        for node in (0..nodes).step_by(3) {
            queue.own(SimTime::from_picos(u64::from(node % 5)), node, 0);
        }
        while let Some((at, node, depth)) = queue.take() {
            lives[node as usize].push((at, depth));
            let mut draw = |below: u64| streams[node as usize].next_u64() % below;
            if depth < 12 {
                let soon = at + SimDuration::from_picos(draw(30));
                queue.own(soon, node, depth + 1);
                let (to, later) = (draw(u64::from(nodes)) as u32, at + SimDuration::from_picos(LOOKAHEAD + draw(3) * 10));
                if draw(3) > 0 {
                    queue.send(later, to, node, depth + 1);
                }
            }
        }
        lives
    }

    #[test]
    fn each_node_sees_the_same_as_with_one_queue_for_all() {
        for nodes in [1, 2, 63, 64, 65, 200] {
            let mut windows = WindowQueue::new(nodes as usize, SimDuration::from_picos(LOOKAHEAD));
            let seen = lives(&mut windows, nodes);
            assert!(seen.iter().map(Vec::len).sum::<usize>() > 12);
            assert_eq!(seen, lives(&mut EventQueue::default(), nodes), "{nodes} nodes");
        }
    }

    #[test]
    #[should_panic(expected = "within the window")]
    fn a_node_that_is_reached_too_early_is_a_bug() {
        let mut queue = WindowQueue::new(2, SimDuration::from_picos(LOOKAHEAD));
        queue.push(SimTime::ZERO, 0, ());
        queue.open(SimTime::ZERO);
        queue.pop();
        queue.push_from(SimTime::from_picos(99), 1, 0, ());
    }
}
