//! What is to come within the next days, by days.

use crate::queue::Entry;

/// For so many days there is a place each.
pub(crate) const DAYS: u64 = 1 << 10;
const WORD_BITS: usize = 64;
/// Room for so many events is kept whatever days need.
const ROOM_KEPT: usize = 256;
const WORDS: usize = DAYS as usize / WORD_BITS;

/// Events in lists, one for each of the next days. Lists, since what is read in a row is there when it is needed.
pub(crate) struct Days<E> {
    /// At a day's number modulo the count; and days that have any, by bits.
    lists: Box<[Vec<Entry<E>>]>,
    filled: Box<[u64; WORDS]>,
    /// Room that is used again, what was used last first.
    spare: Vec<Vec<Entry<E>>>,
}

impl<E: Copy> Days<E> {
    pub(crate) fn new() -> Self {
        Self { lists: std::iter::repeat_with(Vec::new).take(DAYS as usize).collect(), filled: Box::new([0; WORDS]), spare: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, day: u64, entry: Entry<E>) {
        let list = &mut self.lists[(day % DAYS) as usize];
        if list.len() == list.capacity() {
            Self::make_room(&mut self.spare, list);
        }
        list.push(entry);
        let index = (day % DAYS) as usize;
        self.filled[index / WORD_BITS] |= 1 << (index % WORD_BITS);
    }

    #[inline(never)]
    fn make_room(spare: &mut Vec<Vec<Entry<E>>>, list: &mut Vec<Entry<E>>) {
        match spare.pop() {
            Some(spare) if list.is_empty() => *list = spare,
            other => {
                spare.extend(other);
                list.reserve(8);
            }
        }
    }

    /// Empties a day's list: what was in it, for the room of another one.
    pub(crate) fn exchange(&mut self, day: u64, mut room: Vec<Entry<E>>) -> Vec<Entry<E>> {
        let index = (day % DAYS) as usize;
        self.filled[index / WORD_BITS] &= !(1 << (index % WORD_BITS));
        let list = std::mem::take(&mut self.lists[index]);
        // Not what a day with far more than others had: all days would come to have as much.
        if room.capacity() <= ROOM_KEPT.max(2 * list.len()) {
            room.clear();
            self.spare.push(room);
        }
        list
    }

    /// The first day after `today` that has an event.
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
