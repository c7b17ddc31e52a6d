//! An event in the queue.

use crate::SimTime;
use std::cmp::Ordering;

/// Order of the events of a day: time of day, node and class, from the highest bit down. One number
/// holds all three, because a queue mostly compares.
///
/// The rank depends on events at the node and on each way to it, never on the order in which other
/// nodes run. So nodes may run in turn or at once. First come the events that the node scheduled
/// itself. Events from elsewhere follow, by source. Last come the events that must see all others.
/// Events of equal rank keep the order in which they were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u64);

/// Class of an event at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Own,
    /// Event from elsewhere, with the number of its source, which is less than 65,534.
    From(u16),
    Last,
}

impl Rank {
    /// Bits of the time that a rank holds; no day is longer.
    pub(crate) const TIME_BITS: u32 = 16;
    const CLASS_BITS: u32 = 16;
    const FROM: u64 = 1;
    const LAST: u64 = (1 << Self::CLASS_BITS) - 1;

    /// Returns the rank of an event of a day that has 2^`day_bits` picoseconds.
    #[inline(always)]
    pub(crate) fn new(time: SimTime, day_bits: u32, node: u32, class: Class) -> Self {
        let class = match class {
            Class::Own => 0,
            Class::From(source) => {
                assert!(u64::from(source) < Self::LAST - Self::FROM, "a source has a smaller number");
                Self::FROM + u64::from(source)
            }
            Class::Last => Self::LAST,
        };
        let time = time.as_picos() & ((1 << day_bits) - 1);
        Self(time << (u64::BITS - Self::TIME_BITS) | u64::from(node) << Self::CLASS_BITS | class)
    }

    /// Returns the time since the start of the day, in picoseconds.
    pub(crate) fn time_of_day(self) -> u64 {
        self.0 >> (u64::BITS - Self::TIME_BITS)
    }

    pub(crate) fn node(self) -> u32 {
        (self.0 >> Self::CLASS_BITS) as u32
    }

    /// Returns the number of the class, as [`Self::number_from`].
    pub(crate) fn class(self) -> u16 {
        self.0 as u16
    }

    /// Returns the number that orders the class of events from a source.
    pub(crate) const fn number_from(source: u16) -> u16 {
        source + Self::FROM as u16
    }
}

/// Event of a known day.
#[derive(Clone, Copy)]
pub(crate) struct Entry<E> {
    pub rank: Rank,
    pub event: E,
}

/// Event outside the lists of days. Its count keeps the order in which events of equal rank were
/// scheduled.
pub(crate) struct Aside<E> {
    pub day: u64,
    pub entry: Entry<E>,
    pub count: u64,
}

impl<E> Aside<E> {
    fn key(&self) -> (u64, Rank, u64) {
        (self.day, self.entry.rank, self.count)
    }
}

impl<E> PartialEq for Aside<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Aside<E> {}
impl<E> PartialOrd for Aside<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Aside<E> {
    // Reversed: `BinaryHeap` gives the greatest first, and the earliest event must come first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}
