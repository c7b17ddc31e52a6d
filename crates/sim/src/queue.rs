//! The event queue: a total order of (time, node, sequence).

use crate::SimTime;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What orders two events: time first, then the node they happen at, then the order of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    pub time: SimTime,
    pub node: u32,
    pub sequence: u64,
}

struct Entry<E> {
    key: EventKey,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
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
        other.key.cmp(&self.key)
    }
}

/// Events in the order in which they happen.
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence_next: u64,
    now: SimTime,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence_next: 0, now: SimTime::ZERO }
    }
}

impl<E> EventQueue<E> {
    /// Schedules `event` at `time` on `node`.
    ///
    /// # Panics
    /// When `time` lies before the last event taken out: time never moves back.
    pub fn push(&mut self, time: SimTime, node: u32, event: E) {
        assert!(time >= self.now, "event at {time:?} scheduled after {:?} was executed", self.now);
        let key = EventKey { time, node, sequence: self.sequence_next };
        self.sequence_next += 1;
        self.heap.push(Entry { key, event });
    }

    /// Takes out the earliest event and moves `now` to it.
    pub fn pop(&mut self) -> Option<(EventKey, E)> {
        let entry = self.heap.pop()?;
        assert!(entry.key.time >= self.now, "time never moves back");
        self.now = entry.key.time;
        Some((entry.key, entry.event))
    }

    pub fn next_time(&self) -> Option<SimTime> {
        self.heap.peek().map(|entry| entry.key.time)
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
    #[should_panic(expected = "scheduled after")]
    fn an_event_in_the_past_is_a_bug() {
        let mut queue = EventQueue::default();
        queue.push(SimTime::from_picos(5), 0, ());
        queue.pop();
        queue.push(SimTime::from_picos(4), 0, ());
    }
}
