//! Events of nodes that reach each other only after a while.
//!
//! Within a window no longer than that while, nothing that one node does can matter to another one, so they are worked through one after
//! the other. What happens at each node, and in which order, is the same as with one queue for all; but nothing has to be sorted beyond
//! the few events that a node has in a window.

use crate::queue::{Entry, Order};
use crate::{SimDuration, SimTime};
use std::collections::BinaryHeap;

/// Windows for which there is a place each; what is due later waits in a heap.
const SLOTS: u64 = 1 << 10;
const NONE: u32 = u32::MAX;
const WORD_BITS: usize = 64;

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
    /// 2^64 divided by it: a multiplication takes less than a division.
    reciprocal: u64,
    next: u64,
    /// Of each window of the next ones its events, at its number modulo the count; those that have any; and room that is used again.
    slots: Vec<Vec<Entry<E>>>,
    filled: Bits,
    spare: Vec<Vec<Entry<E>>>,
    later: BinaryHeap<Entry<E>>,
    /// To bring the events of a window into the order of their nodes: lists from `first` on through `rest`, and nodes that have any.
    rest: Vec<u32>,
    first: Vec<u32>,
    busy: Bits,
    /// The window at hand: its events in the order in which they happen, as far as they are known when it opens; and those done.
    window: Vec<Entry<E>>,
    done: usize,
    /// The node at hand, and what it has scheduled for itself within the window, latest first.
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
            reciprocal: u64::MAX / lookahead.as_picos(),
            next: 0,
            slots: std::iter::repeat_with(Vec::new).take(SLOTS as usize).collect(),
            filled: Bits::new(SLOTS as usize),
            spare: Vec::new(),
            later: BinaryHeap::new(),
            window: Vec::new(),
            done: 0,
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
        let number = self.window_of(entry.time);
        if number < self.next {
            return self.insert_today(entry);
        }
        if number - self.next >= SLOTS {
            return self.later.push(entry);
        }
        self.put(number, entry);
    }

    /// The number of the window that a time lies in.
    fn window_of(&self, time: SimTime) -> u64 {
        let picos = time.as_picos();
        // Rounded down, the reciprocal gives too little by up to two.
        let mut number = ((u128::from(picos) * u128::from(self.reciprocal)) >> 64) as u64;
        while picos - number * self.lookahead >= self.lookahead {
            number += 1;
        }
        number
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
        let next = self.window.get(self.done);
        // In the reversed order what is greater comes first.
        let is_own_first = self.today.last().is_some_and(|own| next.is_none_or(|next| next.node != self.node || own > next));
        let entry = if is_own_first { self.today.pop() } else { next.copied() };
        let Some(entry) = entry else {
            self.node = NONE;
            return None;
        };
        self.done += usize::from(!is_own_first);
        self.node = entry.node;
        self.now = entry.time;
        self.latest = self.latest.max(entry.time);
        Some((entry.time, entry.node, entry.event))
    }

    /// What will be taken out after `count` others, as far as is known: for those who want to be prepared.
    pub fn upcoming(&self, count: usize) -> Option<E> {
        self.window.get(self.done + count).map(|entry| entry.event)
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
        let number = self.window_of(time);
        debug_assert!(self.done == self.window.len() && self.today.is_empty(), "the window before is over");
        debug_assert!(number >= self.next, "windows follow each other");
        // All slots up to this one are empty: nothing comes before it.
        self.next = number;
        while self.later.peek().is_some_and(|entry| self.window_of(entry.time) - number < SLOTS) {
            let Some(entry) = self.later.pop() else { break };
            self.put(self.window_of(entry.time), entry);
        }
        self.next = number + 1;
        let index = (number % SLOTS) as usize;
        let mut unordered = std::mem::take(&mut self.slots[index]);
        self.filled.clear(index);
        self.order(&unordered);
        unordered.clear();
        if unordered.capacity() > 0 {
            self.spare.push(unordered);
        }
    }

    /// Brings the events of a window into the order of their nodes, and of their times at each.
    fn order(&mut self, unordered: &[Entry<E>]) {
        self.rest.clear();
        for (index, entry) in unordered.iter().enumerate() {
            let node = entry.node as usize;
            self.rest.push(std::mem::replace(&mut self.first[node], index as u32));
            self.busy.set(node);
        }
        self.window.clear();
        self.done = 0;
        let mut from = 0;
        while let Some(node) = self.busy.next_from(from) {
            self.busy.clear(node);
            let mut index = std::mem::replace(&mut self.first[node], NONE);
            let begin = self.window.len();
            while index != NONE {
                self.window.push(unordered[index as usize]);
                index = self.rest[index as usize];
            }
            let own = &mut self.window[begin..];
            if own.len() > 1 {
                own.sort_unstable_by(|a, b| b.cmp(a));
            }
            from = node;
        }
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
    fn every_time_lies_in_the_window_that_a_division_says() {
        for lookahead in [1, 2, 3, 7, 31_500, 1 << 20, (1 << 40) - 1] {
            let queue: WindowQueue<()> = WindowQueue::new(1, SimDuration::from_picos(lookahead));
            for time in [0, 1, lookahead - 1, lookahead, lookahead + 1, 5 * lookahead - 1, 5 * lookahead, 123_456_789_012_345, u64::MAX / 2, u64::MAX]
            {
                assert_eq!(queue.window_of(SimTime::from_picos(time)), time / lookahead, "{time} / {lookahead}");
            }
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
