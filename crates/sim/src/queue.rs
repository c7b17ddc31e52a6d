//! The event queue: events by time, then by node, then by class.

use crate::SimTime;
use crate::days::{DAYS, Days};
use crate::entry::{Aside, Class, Entry, Rank};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Calendar of events in the order in which they happen. Lists of days hold near events, unsorted;
/// only the events of the current day are sorted. A heap holds later events.
///
/// Events of one instant come by node. At a node, the events that it scheduled itself come first,
/// then those from elsewhere, by source. Last come the events that must see all others. Events
/// alike in all this keep the order in which they were scheduled.
pub struct EventQueue<E> {
    /// A day has 2^`day_bits` picoseconds.
    day_bits: u32,
    /// Events of the next days. Each list keeps the order in which its events were scheduled.
    days: Days<E>,
    later: BinaryHeap<Aside<E>>,
    /// The current day, and its remaining events, latest first. Before the first day, `today` is
    /// the day before day zero.
    today: u64,
    left: Vec<Entry<E>>,
    /// Events scheduled for the current day behind many others. Events of equal rank in `left` were
    /// scheduled before them.
    fresh: BinaryHeap<Aside<E>>,
    /// Number of events put into either heap so far.
    aside: u64,
    /// Day that was searched for its earliest event, its number of events then, and the earliest
    /// time.
    peeked: Cell<(u64, usize, SimTime)>,
    /// Time and node of the event taken out last.
    now: SimTime,
    node: u32,
    /// Place of the event that came last in the order of all events. A later event of the same instant
    /// may belong before it.
    moment: Moment,
}

/// Place of an event in the order of all events, without those alike in all this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Time of the event.
    pub time: SimTime,
    node: u32,
    class: u16,
}

impl Moment {
    /// Returns the place of an event that comes to a node from `source`, as for
    /// [`EventQueue::push_from`].
    pub const fn from(time: SimTime, node: u32, source: u16) -> Self {
        Self { time, node, class: Rank::number_from(source) }
    }

    /// Returns a place behind all events of an instant.
    pub const fn after(time: SimTime) -> Self {
        Self { time, node: u32::MAX, class: u16::MAX }
    }
}

impl<E: Copy> Default for EventQueue<E> {
    /// Creates a queue for up to a few dozen nodes.
    fn default() -> Self {
        Self::for_nodes(16)
    }
}

impl<E: Copy> EventQueue<E> {
    /// Shortest and longest day: 2^8 and 2^16 picoseconds.
    const DAY_BITS: (u32, u32) = (8, Rank::TIME_BITS);

    /// Creates a queue for `nodes` nodes, each with an event about every half microsecond. Other
    /// numbers of nodes and events are correct, but slower.
    ///
    /// A day of the calendar then has about eight events, or twenty if many nodes do the same. With
    /// fewer events per day, the lists of a large fabric fill too many cache lines.
    pub fn for_nodes(nodes: usize) -> Self {
        let (shortest, longest) = Self::DAY_BITS;
        let day_bits = (22_u32).saturating_sub(nodes.max(1).ilog2()).clamp(shortest, longest);
        Self {
            day_bits,
            days: Days::new(),
            later: BinaryHeap::new(),
            today: u64::MAX,
            left: Vec::new(),
            fresh: BinaryHeap::new(),
            aside: 0,
            peeked: Cell::new((0, 0, SimTime::MAX)),
            now: SimTime::ZERO,
            node: 0,
            moment: Moment { time: SimTime::ZERO, node: 0, class: 0 },
        }
    }

    /// Schedules an event of the node's own at `time`.
    ///
    /// # Panics
    /// If `time` lies before the last event taken out: time never moves back. All functions that
    /// schedule panic alike.
    #[inline]
    pub fn push(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(time, node, Class::Own, event);
    }

    /// Schedules an event that comes to a node from `source`, a number below 65,534. Each node
    /// numbers the ways to it on which nothing overtakes.
    ///
    /// # Panics
    /// Like [`push`](Self::push), or if `source` is 65,534 or more.
    #[inline]
    pub fn push_from(&mut self, time: SimTime, node: u32, source: u16, event: E) {
        self.insert(time, node, Class::From(source), event);
    }

    /// Schedules an event that must see all other events of that instant at the node.
    ///
    /// # Panics
    /// Like [`push`](Self::push).
    pub fn push_last(&mut self, time: SimTime, node: u32, event: E) {
        self.insert(time, node, Class::Last, event);
    }

    // Inlined, because it is small and few places call it.
    #[inline(always)]
    fn insert(&mut self, time: SimTime, node: u32, class: Class, event: E) {
        assert!(time >= self.now, "event at {time:?} scheduled after {:?} was executed", self.now);
        let rank = Rank::new(time, self.day_bits, node, class);
        let day = self.day_of(time);
        if (1..DAYS).contains(&day.wrapping_sub(self.today)) {
            return self.days.put(day, rank, event);
        }
        self.insert_aside(day, rank, event);
    }

    #[inline(never)]
    fn insert_aside(&mut self, day: u64, rank: Rank, event: E) {
        let entry = Entry { rank, event };
        if day != self.today || !self.insert_today(entry) {
            let heap = if day == self.today { &mut self.fresh } else { &mut self.later };
            heap.push(Aside { day, entry, count: self.aside });
            self.aside += 1;
        }
    }

    /// Inserts an event into those of today. Returns `false` if it lies behind too many of them, or
    /// behind an event in `fresh`.
    fn insert_today(&mut self, entry: Entry<E>) -> bool {
        if self.fresh.peek().is_some_and(|fresh| fresh.entry.rank <= entry.rank) {
            return false;
        }
        let beyond = self.left.len().saturating_sub(FEW);
        let place = match self.left[beyond..].iter().rposition(|other| other.rank > entry.rank) {
            Some(after) => beyond + after + 1,
            None if beyond == 0 => 0,
            None => return false,
        };
        self.left.insert(place, entry);
        true
    }

    fn day_of(&self, time: SimTime) -> u64 {
        time.as_picos() >> self.day_bits
    }

    fn time_at(&self, day: u64, rank: Rank) -> SimTime {
        SimTime::from_picos(day << self.day_bits | rank.time_of_day())
    }

    /// Takes out the earliest event and moves `now` to its time. Returns `None` if no event is
    /// left.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        self.pop_until(SimTime::MAX)
    }

    /// Takes out the earliest event, if it is not later than `last`, and moves `now` to its time.
    /// Otherwise it changes nothing and returns `None`.
    #[inline]
    pub fn pop_until(&mut self, last: SimTime) -> Option<(SimTime, E)> {
        if !self.fresh.is_empty() {
            self.bring_fresh();
        }
        if self.left.is_empty() && !self.begin_day(last) {
            return None;
        }
        let entry = *self.left.last()?;
        let time = self.time_at(self.today, entry.rank);
        if time > last {
            return None;
        }
        self.left.pop();
        (self.now, self.node) = (time, entry.rank.node());
        self.moment = self.moment.max(Moment { time, node: self.node, class: entry.rank.class() });
        Some((time, entry.event))
    }

    /// Moves the first event of `fresh` to `left` if it precedes the events there.
    #[cold]
    fn bring_fresh(&mut self) {
        let first = self.left.last().map(|entry| entry.rank);
        if self.fresh.peek().is_some_and(|fresh| first.is_none_or(|first| fresh.entry.rank < first)) {
            self.left.extend(self.fresh.pop().map(|fresh| fresh.entry));
        }
    }

    /// Begins the next day that has an event. Returns `false` if no event is due by `last`.
    #[inline(never)]
    fn begin_day(&mut self, last: SimTime) -> bool {
        let next = self.days.next_after(self.today);
        let later = self.later.peek().map(|aside| aside.day);
        let Some(day) = next.into_iter().chain(later).min() else { return false };
        if day > self.day_of(last) || day == self.day_of(last) && self.next_time() > Some(last) {
            return false;
        }
        self.today = day;
        // These days were out of reach, so no list holds an event of equal rank yet.
        while self.later.peek().is_some_and(|aside| aside.day - day < DAYS) {
            let Some(aside) = self.later.pop() else { break };
            self.days.put(aside.day, aside.entry.rank, aside.entry.event);
        }
        self.left = self.days.exchange(day, std::mem::take(&mut self.left));
        // The queue takes events from the end. The event scheduled first must come out first.
        self.left.reverse();
        self.left.sort_by_key(|entry| Reverse(entry.rank));
        true
    }

    /// Returns the time of the earliest event, or `None` if no event is left.
    pub fn next_time(&self) -> Option<SimTime> {
        let of_today = self.left.last().into_iter().chain(self.fresh.peek().map(|fresh| &fresh.entry));
        if let Some(first) = of_today.min_by_key(|entry| entry.rank) {
            return Some(self.time_at(self.today, first.rank));
        }
        let soon = self.days.next_after(self.today).map(|day| self.earliest_of(day));
        let late = self.later.peek().map(|aside| self.time_at(aside.day, aside.entry.rank));
        soon.into_iter().chain(late).min()
    }

    /// Returns the earliest time of a day. Repeated calls look at each event once.
    fn earliest_of(&self, day: u64) -> SimTime {
        let list = self.days.list(day);
        let (known, count, earliest) = self.peeked.get();
        let (count, earliest) = if known == day && count <= list.len() { (count, earliest) } else { (0, SimTime::MAX) };
        let first = list[count..].iter().map(|entry| entry.rank).min();
        let earliest = first.map_or(earliest, |rank| self.time_at(day, rank).min(earliest));
        self.peeked.set((day, list.len(), earliest));
        earliest
    }

    /// Returns the time of the last event taken out, or zero before the first.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the node of the last event taken out, or 0 before the first.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Returns the place in the order of all events up to which they have happened: that of the last
    /// event taken out, or of one before it that belongs behind it.
    pub fn moment(&self) -> Moment {
        self.moment
    }
}

/// Number of events that an insertion compares one by one.
const FEW: usize = 24;

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
                    // The same instant, the same day, near days, far days, and times that are
                    // always far.
                    let reach = [1, 200, 100_000, 1 << 28, 1 << 40][draw(5) as usize];
                    let span = draw(reach);
                    let (time, node, source) = (queue.now() + SimDuration::from_picos(span), draw(nodes as u64) as u32, draw(4) as u16);
                    let class = match draw(3) {
                        0 => {
                            queue.push(time, node, count);
                            Class::Own
                        }
                        1 => {
                            queue.push_from(time, node, source, count);
                            Class::From(source)
                        }
                        _ => {
                            queue.push_last(time, node, count);
                            Class::Last
                        }
                    };
                    left.insert((time, node, class, count));
                    count += 1;
                }
                let end = queue.now() + SimDuration::from_picos(draw(3) * 5_000);
                for last in [end, if draw(2) == 0 { SimTime::MAX } else { end }] {
                    let earliest = left.first().copied();
                    assert_eq!(queue.next_time(), earliest.map(|(time, ..)| time));
                    let taken = queue.pop_until(last).map(|(time, event)| (time, queue.node(), event));
                    let due = earliest.filter(|(time, ..)| *time <= last);
                    assert_eq!(taken, due.map(|(time, node, _, event)| (time, node, event)));
                    assert!(due.is_none_or(|due| left.remove(&due)));
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
            assert_eq!(queue.pop(), left.pop_first());
            schedule(&mut queue, &mut left, number, 20_000);
        }
        assert_eq!(left.len(), 3_000);
        assert!(std::iter::from_fn(|| queue.pop()).eq(left));
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
