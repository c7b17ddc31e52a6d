//! The event queue: a total order of (time, node, order at the node).

use crate::SimTime;
use crate::days::{DAYS, Days};
use std::cell::Cell;
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
    pub event: E,
    pub node: u32,
}

impl<E> Entry<E> {
    fn key(&self) -> EventKey {
        EventKey { time: self.time, node: self.node, order: self.order }
    }

    /// What orders the events of a day, but for those of one instant at one node.
    fn within_day(&self, day_bits: u32) -> u64 {
        let time = self.time.as_picos() & ((1 << day_bits) - 1);
        time << u32::BITS | u64::from(self.node)
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

/// Events in the order in which they happen: a calendar. What is to come soon lies in days, unsorted; only the events of the day at hand
/// are sorted. What is to come late waits in a heap.
pub struct EventQueue<E> {
    /// A day has 2^this picoseconds.
    day_bits: u32,
    days: Days<E>,
    later: BinaryHeap<Entry<E>>,
    /// The day at hand (before the first one, that before day zero), its events, and what is left of them: latest first, by time of day and
    /// node, and where they stand.
    today: u64,
    events: Vec<Entry<E>>,
    left: Vec<(u64, u32)>,
    /// What has been scheduled for the day at hand behind many others.
    fresh: BinaryHeap<Entry<E>>,
    /// A day that has been looked at for its earliest event: how many it had then, and the time of that.
    peeked: Cell<(u64, usize, SimTime)>,
    count: u64,
    /// Of the event taken out last.
    now: SimTime,
    node: u32,
}

impl<E: Copy> Default for EventQueue<E> {
    /// For some nodes: up to a few dozen.
    fn default() -> Self {
        Self::for_nodes(16)
    }
}

impl<E: Copy> EventQueue<E> {
    /// Days from 2^8 to 2^16 picoseconds.
    const DAY_BITS: (u32, u32) = (8, 16);

    /// For so many nodes, each of which has an event every half microsecond or so: then a day has some four of them, or ten where many
    /// nodes do the same. With more or less all goes a little slower.
    pub fn for_nodes(nodes: usize) -> Self {
        let (shortest, longest) = Self::DAY_BITS;
        let day_bits = (21_u32).saturating_sub(nodes.max(1).ilog2()).clamp(shortest, longest);
        Self {
            day_bits,
            days: Days::new(),
            later: BinaryHeap::new(),
            today: u64::MAX,
            events: Vec::new(),
            left: Vec::new(),
            fresh: BinaryHeap::new(),
            peeked: Cell::new((0, 0, SimTime::MAX)),
            count: 0,
            now: SimTime::ZERO,
            node: 0,
        }
    }

    /// Schedules what a node does at `time` by itself.
    ///
    /// # Panics
    /// When `time` lies before the last event taken out, as all that schedule: time never moves back.
    #[inline]
    pub fn push(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(Entry { time, order: Order::own(self.count), event, node });
    }

    /// Schedules what comes to a node from `source`, a number for each way on which nothing overtakes.
    #[inline]
    pub fn push_from(&mut self, time: SimTime, node: u32, source: u32, event: E) {
        self.insert(Entry { time, order: Order::arriving(source, self.count), event, node });
    }

    /// Schedules what is to see everything else of that instant at the node.
    pub fn push_last(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(Entry { time, order: Order::last(self.count), event, node });
    }

    // Small as it is, and called from a few places only, it is worth having there.
    #[inline(always)]
    fn insert(&mut self, entry: Entry<E>) {
        assert!(entry.time >= self.now, "event at {:?} scheduled after {:?} was executed", entry.time, self.now);
        self.count += 1;
        let day = self.day_of(entry.time);
        if (1..DAYS).contains(&day.wrapping_sub(self.today)) {
            return self.days.put(day, entry);
        }
        self.insert_aside(day, entry);
    }

    #[inline(never)]
    fn insert_aside(&mut self, day: u64, entry: Entry<E>) {
        if day == self.today { self.insert_today(entry) } else { self.later.push(entry) }
    }

    fn insert_today(&mut self, entry: Entry<E>) {
        let (within, events) = (entry.within_day(self.day_bits), &self.events);
        let is_after = |(other, place): &(u64, u32)| *other > within || *other == within && events[*place as usize].order > entry.order;
        let beyond = self.left.len().saturating_sub(FEW);
        match self.left[beyond..].iter().rposition(is_after) {
            Some(after) => self.left.insert(beyond + after + 1, (within, self.events.len() as u32)),
            None if beyond == 0 => self.left.insert(0, (within, self.events.len() as u32)),
            None => return self.fresh.push(entry),
        }
        self.events.push(entry);
    }

    /// Brings the first of those that stood apart to the others, where it is before them.
    #[cold]
    fn bring_fresh(&mut self) {
        let first = self.left.last().map(|(_, place)| self.events[*place as usize]);
        // In the reversed order what is greater comes first.
        let Some(entry) = self.fresh.peek().copied().filter(|fresh| first.is_none_or(|first| *fresh > first)) else { return };
        self.fresh.pop();
        self.left.push((entry.within_day(self.day_bits), self.events.len() as u32));
        self.events.push(entry);
    }

    fn day_of(&self, time: SimTime) -> u64 {
        time.as_picos() >> self.day_bits
    }

    /// Takes out the earliest event and moves `now` to it.
    pub fn pop(&mut self) -> Option<(EventKey, E)> {
        self.pop_until(SimTime::MAX)
    }

    /// The same, of those not later than `last`.
    pub fn pop_until(&mut self, last: SimTime) -> Option<(EventKey, E)> {
        if !self.fresh.is_empty() {
            self.bring_fresh();
        }
        if self.left.is_empty() && !self.begin_day(last) {
            return None;
        }
        let (_, place) = *self.left.last()?;
        let entry = self.events[place as usize];
        if entry.time > last {
            return None;
        }
        self.left.pop();
        (self.now, self.node) = (entry.time, entry.node);
        Some((entry.key(), entry.event))
    }

    /// Goes on to the next day that has an event, if one of that is not later than `last`.
    fn begin_day(&mut self, last: SimTime) -> bool {
        let next = self.days.next_after(self.today);
        let later = self.later.peek().map(|entry| self.day_of(entry.time));
        let Some(day) = next.into_iter().chain(later).min() else { return false };
        if day > self.day_of(last) || day == self.day_of(last) && self.next_time() > Some(last) {
            return false;
        }
        self.today = day;
        while self.later.peek().is_some_and(|entry| self.day_of(entry.time) - day < DAYS) {
            let Some(entry) = self.later.pop() else { break };
            self.days.put(self.day_of(entry.time), entry);
        }
        self.events = self.days.exchange(day, std::mem::take(&mut self.events));
        let (events, day_bits) = (&self.events, self.day_bits);
        self.left.extend(events.iter().zip(0..).map(|(entry, place)| (entry.within_day(day_bits), place)));
        let order = |place: u32| events[place as usize].order;
        sort(&mut self.left, |a, b| b.0.cmp(&a.0).then_with(|| order(b.1).cmp(&order(a.1))));
        true
    }

    pub fn next_time(&self) -> Option<SimTime> {
        let left = self.left.last().map(|(_, place)| self.events[*place as usize].time);
        if let Some(time) = left.into_iter().chain(self.fresh.peek().map(|entry| entry.time)).min() {
            return Some(time);
        }
        let soon = self.days.next_after(self.today).map(|day| self.earliest_of(day));
        soon.into_iter().chain(self.later.peek().map(|entry| entry.time)).min()
    }

    /// Who asks again and again looks at each event of a day once.
    fn earliest_of(&self, day: u64) -> SimTime {
        let list = self.days.list(day);
        let (known, count, earliest) = self.peeked.get();
        let (count, earliest) = if known == day && count <= list.len() { (count, earliest) } else { (0, SimTime::MAX) };
        let earliest = list[count..].iter().map(|entry| entry.time).min().map_or(earliest, |time| time.min(earliest));
        self.peeked.set((day, list.len(), earliest));
        earliest
    }

    /// The time of the last event taken out.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The node that it happened at.
    pub fn node(&self) -> u32 {
        self.node
    }
}

/// As many events as are brought into order one by one.
const FEW: usize = 24;

/// Most days have a few events, for which nothing is faster than to look for each one's place.
fn sort<T: Copy>(events: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if events.len() > FEW {
        return events.sort_unstable_by(compare);
    }
    for end in 1..events.len() {
        let event = events[end];
        let mut place = end;
        while place > 0 && compare(&event, &events[place - 1]).is_lt() {
            events[place] = events[place - 1];
            place -= 1;
        }
        events[place] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RandomStream, SimDuration};
    use std::collections::BTreeSet;

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
    fn events_come_in_their_order_from_near_and_far() {
        for nodes in [1, 100, 100_000] {
            let mut queue = EventQueue::for_nodes(nodes);
            let mut random = RandomStream::new(3, nodes as u64);
            let mut draw = |below: u64| random.next_u64() % below;
            let mut left = BTreeSet::new();
            let mut count = 0;
            for _ in 0..20_000 {
                for _ in 0..draw(3) {
                    // The same instant, the same day, near days, far days, and what is always far.
                    let reach = [1, 200, 100_000, 1 << 28, 1 << 40][draw(5) as usize];
                    let span = draw(reach);
                    let (time, node, source) = (queue.now() + SimDuration::from_picos(span), draw(nodes as u64) as u32, draw(4) as u32);
                    let order = match draw(3) {
                        0 => {
                            queue.push(time, node, count);
                            Order::own(count)
                        }
                        1 => {
                            queue.push_from(time, node, source, count);
                            Order::arriving(source, count)
                        }
                        _ => {
                            queue.push_last(time, node, count);
                            Order::last(count)
                        }
                    };
                    left.insert((EventKey { time, node, order }, count));
                    count += 1;
                }
                let end = queue.now() + SimDuration::from_picos(draw(3) * 5_000);
                for last in [end, if draw(2) == 0 { SimTime::MAX } else { end }] {
                    let earliest = left.first().copied();
                    assert_eq!(queue.next_time(), earliest.map(|(key, _)| key.time));
                    let taken = queue.pop_until(last);
                    assert_eq!(taken, earliest.filter(|(key, _)| key.time <= last));
                    assert!(taken.is_none_or(|taken| left.remove(&taken)));
                }
            }
            assert!(count > 10_000 && left.len() < count as usize / 2);
        }
    }

    #[test]
    fn a_day_full_of_events_that_lead_to_others_keeps_its_order() {
        let mut queue = EventQueue::default();
        let mut random = RandomStream::new(5, 0);
        let mut left = BTreeSet::new();
        let mut schedule = |queue: &mut EventQueue<u64>, left: &mut BTreeSet<(SimTime, u64)>, number: u64, span: u64| {
            let time = queue.now() + SimDuration::from_picos(random.next_u64() % span);
            queue.push(time, 0, number);
            left.insert((time, number));
        };
        (0..3_000).for_each(|number| schedule(&mut queue, &mut left, number, 2));
        for number in 3_000..20_000 {
            assert_eq!(queue.next_time(), left.first().map(|first| first.0));
            let taken = queue.pop().map(|(key, event)| (key.time, event));
            assert_eq!(taken, left.pop_first());
            schedule(&mut queue, &mut left, number, 20_000);
        }
        assert_eq!(left.len(), 3_000);
        assert!(std::iter::from_fn(|| queue.pop()).map(|(key, event)| (key.time, event)).eq(left));
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
