//! Events of nodes that reach each other only after a while.
//!
//! Within a window no longer than that while, nothing that one node does can matter to another one, so they are worked through one after
//! the other: each has a small queue of its own, and what it needs stays in the cache. What happens at each node, and in which order, is
//! the same as with one queue for all.

use crate::queue::Order;
use crate::{SimDuration, SimTime};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Nodes whose earliest events are looked for together.
const BLOCK: usize = 64;

struct Entry<E> {
    time: SimTime,
    order: Order,
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

/// A queue for each node, and the window that they are in.
pub struct WindowQueue<E> {
    nodes: Vec<BinaryHeap<Entry<E>>>,
    /// When each node's next event is due, `SimTime::MAX` without any; and the least of each block of nodes, or less.
    next: Vec<SimTime>,
    block_next: Vec<SimTime>,
    lookahead: SimDuration,
    end: SimTime,
    node: usize,
    count: u64,
    now: SimTime,
    latest: SimTime,
}

impl<E> WindowQueue<E> {
    /// For nodes that reach each other after `lookahead` at the earliest.
    ///
    /// # Panics
    /// When that is no time at all.
    pub fn new(nodes: usize, lookahead: SimDuration) -> Self {
        assert!(lookahead > SimDuration::ZERO, "nodes that reach each other at once cannot be worked through one by one");
        Self {
            nodes: std::iter::repeat_with(BinaryHeap::new).take(nodes).collect(),
            next: vec![SimTime::MAX; nodes],
            block_next: vec![SimTime::MAX; nodes.div_ceil(BLOCK)],
            lookahead,
            end: SimTime::ZERO,
            node: nodes,
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
        self.insert(time, node, Order::own(self.count), event);
    }

    /// Schedules what comes to a node from `source`, a number for each way on which nothing overtakes.
    pub fn push_from(&mut self, time: SimTime, node: u32, source: u32, event: E) {
        self.insert(time, node, Order::arriving(source, self.count), event);
    }

    /// Schedules what is to see everything else of that instant at the node.
    pub fn push_last(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(time, node, Order::last(self.count), event);
    }

    fn insert(&mut self, time: SimTime, node: u32, order: Order, event: E) {
        let node = node as usize;
        assert!(time >= self.end || node == self.node, "node {node} reached at {time:?}, within the window up to {:?}", self.end);
        self.count += 1;
        self.nodes[node].push(Entry { time, order, event });
        self.next[node] = self.next[node].min(time);
        let block = &mut self.block_next[node / BLOCK];
        *block = time.min(*block);
    }

    /// Takes out the next event of the node at hand, or of the next node that has one within the window.
    pub fn pop(&mut self) -> Option<(SimTime, u32, E)> {
        while self.node < self.nodes.len() {
            if self.next[self.node] < self.end {
                let heap = &mut self.nodes[self.node];
                let entry = heap.pop()?;
                self.next[self.node] = heap.peek().map_or(SimTime::MAX, |entry| entry.time);
                self.now = entry.time;
                self.latest = self.latest.max(entry.time);
                return Some((entry.time, self.node as u32, entry.event));
            }
            self.go_on();
        }
        None
    }

    /// To the next node, leaving blocks out that have nothing in this window.
    fn go_on(&mut self) {
        self.node += 1;
        while self.node.is_multiple_of(BLOCK) || self.node == self.nodes.len() {
            let former = (self.node - 1) / BLOCK;
            let nodes = former * BLOCK..self.node;
            self.block_next[former] = self.next[nodes].iter().copied().min().unwrap_or(SimTime::MAX);
            if self.node == self.nodes.len() || self.block_next[self.node / BLOCK] < self.end {
                return;
            }
            self.node = (self.node + BLOCK).min(self.nodes.len());
        }
    }

    /// When the earliest event is due. Exact between windows.
    pub fn next_time(&self) -> Option<SimTime> {
        self.block_next.iter().copied().min().filter(|time| *time < SimTime::MAX)
    }

    /// Opens the window that `time` lies in, that of the earliest event of all nodes. Windows stand side by side from time zero on, whatever
    /// happens in them.
    pub fn open(&mut self, time: SimTime) {
        debug_assert!(self.node == self.nodes.len(), "the window before is over");
        debug_assert!(time >= self.end, "windows follow each other");
        let length = self.lookahead.as_picos();
        self.end = SimTime::from_picos((time.as_picos() / length * length).saturating_add(length));
        self.node = 0;
        if self.block_next.first().is_some_and(|time| *time >= self.end) {
            self.node = BLOCK.min(self.nodes.len()) - 1;
            self.go_on();
        }
    }

    /// Nothing before this is still to come.
    pub fn end(&self) -> SimTime {
        self.end
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
