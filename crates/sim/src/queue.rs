//! The event queue: a total order of (time, node, order at the node).

use crate::SimTime;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What orders events of one instant at one node. It follows from what happens at that node and on each way to it, never from who was
/// worked through first elsewhere: so nodes may be worked through one after the other, or at once.
///
/// First come those that the node has scheduled itself, in the order of scheduling; then those that come from elsewhere, by their source
/// and then as they were sent; last what is to see all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order(u64);

impl Order {
    const COUNT_BITS: u32 = 38;
    const SOURCE_BITS: u32 = 24;

    fn new(class: u64, source: u32, count: u64) -> Self {
        assert!(source < 1 << Self::SOURCE_BITS, "no fabric has four million ports");
        Self(class << (Self::COUNT_BITS + Self::SOURCE_BITS) | u64::from(source) << Self::COUNT_BITS | count & ((1 << Self::COUNT_BITS) - 1))
    }
    pub(crate) fn own(count: u64) -> Self {
        Self::new(0, 0, count)
    }
    pub(crate) fn arriving(source: u32, count: u64) -> Self {
        Self::new(1, source, count)
    }
    pub(crate) fn last(count: u64) -> Self {
        Self::new(2, 0, count)
    }
}

/// What orders two events: time first, then the node they happen at, then their order there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    pub time: SimTime,
    pub node: u32,
    pub order: Order,
}

/// An event and what orders it, flat: with a key of its own it would take a quarter more.
#[derive(Clone, Copy)]
pub(crate) struct Entry<E> {
    pub time: SimTime,
    pub order: Order,
    pub node: u32,
    pub event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> EventKey {
        EventKey { time: self.time, node: self.node, order: self.order }
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    // Reversed: `BinaryHeap` gives the greatest first, and the earliest event must come first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events in the order in which they happen.
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    count: u64,
    now: SimTime,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), count: 0, now: SimTime::ZERO }
    }
}

impl<E> EventQueue<E> {
    /// Schedules what a node does at `time` by itself.
    ///
    /// # Panics
    /// When `time` lies before the last event taken out, as all that schedule: time never moves back.
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
        assert!(time >= self.now, "event at {time:?} scheduled after {:?} was executed", self.now);
        self.count += 1;
        self.heap.push(Entry { time, order, node, event });
    }

    /// Takes out the earliest event and moves `now` to it.
    pub fn pop(&mut self) -> Option<(EventKey, E)> {
        let entry = self.heap.pop()?;
        assert!(entry.time >= self.now, "time never moves back");
        self.now = entry.time;
        Some((entry.key(), entry.event))
    }

    pub fn next_time(&self) -> Option<SimTime> {
        self.heap.peek().map(|entry| entry.time)
    }

    /// The time of the last event taken out.
    pub fn now(&self) -> SimTime {
        self.now
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_keep_the_order_of_node_then_scheduling() {
        let mut queue = EventQueue::default();
        let at = SimTime::from_picos(5);
        queue.push(at, 2, "c");
        queue.push(at, 1, "a");
        queue.push(at, 1, "b");
        queue.push(SimTime::from_picos(1), 9, "first");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, ["first", "a", "b", "c"]);
    }

    #[test]
    fn what_comes_from_elsewhere_follows_by_its_source_whoever_was_first() {
        let mut queue = EventQueue::default();
        let at = SimTime::from_picos(5);
        queue.push_last(at, 1, "program");
        queue.push_from(at, 1, 8, "from 8");
        queue.push_from(at, 1, 3, "from 3");
        queue.push_from(at, 1, 3, "and then");
        queue.push(at, 1, "own");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, ["own", "from 3", "and then", "from 8", "program"]);
    }

    #[test]
    #[should_panic(expected = "scheduled after")]
    fn an_event_in_the_past_is_a_bug() {
        let mut queue = EventQueue::default();
        queue.push(SimTime::from_picos(5), 0, ());
        queue.pop();
        queue.push(SimTime::from_picos(4), 0, ());
    }
}
