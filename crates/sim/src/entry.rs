//! An event as it stands in the queue.

use crate::SimTime;
use std::cmp::Ordering;

/// What orders the events of a day: the time of day, the node, and what the event is to the node, from the highest bit down. All in one
/// number, since most of what a queue does is to compare.
///
/// It follows from what happens at a node and on each way to it, never from who was worked through first elsewhere: so nodes may be worked
/// through one after the other, or at once. First come the events that the node has scheduled itself; then those that come from
/// elsewhere, by their source; last what is to see all of them. Events that are alike in all that come as they were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u64);

/// What an event is to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Own,
    /// By the number of the source, which is less than 65,534.
    From(u16),
    Last,
}

impl Rank {
    /// So much of the time a rank can tell: days are not longer.
    pub(crate) const TIME_BITS: u32 = 16;
    const CLASS_BITS: u32 = 16;
    const FROM: u64 = 1;
    const LAST: u64 = (1 << Self::CLASS_BITS) - 1;

    /// Of an event of a day that has 2^`day_bits` picoseconds.
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

    /// The picoseconds of its day that are over then.
    pub(crate) fn time_of_day(self) -> u64 {
        self.0 >> (u64::BITS - Self::TIME_BITS)
    }

    pub(crate) fn node(self) -> u32 {
        (self.0 >> Self::CLASS_BITS) as u32
    }
}

/// An event of a known day.
#[derive(Clone, Copy)]
pub(crate) struct Entry<E> {
    pub rank: Rank,
    pub event: E,
}

/// An event that does not stand in a day's list, which tells in what order those were scheduled that are alike.
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
