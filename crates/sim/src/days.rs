//! Events of the next days, in one list per day.

use crate::entry::{Entry, Rank};

/// Number of days that have a list each.
pub(crate) const DAYS: u64 = 1 << 10;
const WORD_BITS: usize = 64;
/// Capacity, in events, that most days need in fabrics with many nodes.
const ROOM_AT_FIRST: usize = 16;
/// Capacity, in events, up to which an empty list is always kept.
const ROOM_KEPT: usize = 256;
const WORDS: usize = DAYS as usize / WORD_BITS;

/// Events of the next days, in one list per day. A list is read in a row, so each event is in the
/// cache when it is needed.
pub(crate) struct Days<E> {
    /// Lists at the day's number modulo `DAYS`, and one bit for each day that has events.
    lists: Box<[Vec<Entry<E>>; DAYS as usize]>,
    filled: Box<[u64; WORDS]>,
    /// Empty lists for reuse; the list used last comes first.
    spare: Vec<Vec<Entry<E>>>,
}

impl<E: Copy> Days<E> {
    pub(crate) fn new() -> Self {
        Self { lists: Box::new([const { Vec::new() }; DAYS as usize]), filled: Box::new([0; WORDS]), spare: Vec::new() }
    }

    // The event goes from registers to its place. A read of the whole would wait for writes in
    // halves.
    #[inline(always)]
    pub(crate) fn put(&mut self, day: u64, rank: Rank, event: E) {
        let index = (day % DAYS) as usize;
        let list = &mut self.lists[index];
        if list.len() == list.capacity() {
            return self.put_to_full(index, rank, event);
        }
        list.push(Entry { rank, event });
        self.filled[index / WORD_BITS] |= 1 << (index % WORD_BITS);
    }

    #[inline(never)]
    fn put_to_full(&mut self, index: usize, rank: Rank, event: E) {
        let list = &mut self.lists[index];
        if list.is_empty()
            && let Some(spare) = self.spare.pop()
        {
            *list = spare;
        } else if list.is_empty() {
            list.reserve(ROOM_AT_FIRST);
        }
        list.push(Entry { rank, event });
        self.filled[index / WORD_BITS] |= 1 << (index % WORD_BITS);
    }

    /// Empties the list of a day and returns its events. Keeps `room` for reuse.
    pub(crate) fn exchange(&mut self, day: u64, mut room: Vec<Entry<E>>) -> Vec<Entry<E>> {
        let index = (day % DAYS) as usize;
        self.filled[index / WORD_BITS] &= !(1 << (index % WORD_BITS));
        let list = std::mem::take(&mut self.lists[index]);
        // Drops a list that is far larger than others: otherwise the lists of all days would grow
        // as large.
        if room.capacity() <= ROOM_KEPT.max(2 * list.len()) {
            room.clear();
            self.spare.push(room);
        }
        list
    }

    /// Returns the first day after `today` that has an event.
    pub(crate) fn next_after(&self, today: u64) -> Option<u64> {
        let tomorrow = today.wrapping_add(1);
        let start = (tomorrow % DAYS) as usize;
        let index = self.filled_from(start).or_else(|| self.filled_from(0))? as u64;
        Some(tomorrow + (index + DAYS - start as u64) % DAYS)
    }

    fn filled_from(&self, from: usize) -> Option<usize> {
        let (first, mask) = (from / WORD_BITS, u64::MAX << (from % WORD_BITS));
        let of = |word: usize, bits: u64| (bits != 0).then(|| word * WORD_BITS + bits.trailing_zeros() as usize);
        of(first, self.filled[first] & mask).or_else(|| (first + 1..WORDS).find_map(|word| of(word, self.filled[word])))
    }

    pub(crate) fn list(&self, day: u64) -> &[Entry<E>] {
        &self.lists[(day % DAYS) as usize]
    }
}
