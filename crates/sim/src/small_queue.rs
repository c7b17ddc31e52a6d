//! Queues, ordered by key, that are nearly always small. The first items stand in place, on the
//! cache line of their owner.

use std::collections::VecDeque;

/// Item with the key that orders it in a [`SmallQueue`].
pub trait Keyed {
    /// Type of the key. Its order is the order of the queue.
    type Key: Ord;

    /// Returns the key. It must not change while the item is in a queue.
    fn key(&self) -> Self::Key;
}

/// Queue in the order of the keys; items with equal keys keep the order in which they came. The
/// first `N` items, at most 255, stand in place. Later items stand in a list on the heap.
#[derive(Clone, Debug)]
pub struct SmallQueue<T, const N: usize> {
    near: [T; N],
    count: u8,
    /// Items behind a full `near`. They are seldom there, so the field takes one word. A queue that
    /// was longer once keeps the list.
    #[allow(clippy::box_collection)]
    far: Option<Box<VecDeque<T>>>,
}

impl<T: Copy + Default, const N: usize> Default for SmallQueue<T, N> {
    fn default() -> Self {
        Self { near: [T::default(); N], count: 0, far: None }
    }
}

impl<T: Copy + Default + Keyed, const N: usize> SmallQueue<T, N> {
    /// Inserts `item` behind all items with the same or a smaller key. Returns the number of those
    /// items, at most `N`.
    #[inline(always)]
    pub fn insert(&mut self, item: T) -> usize {
        let count = usize::from(self.count);
        if count < N && (count == 0 || self.near[count - 1].key() <= item.key()) {
            self.near[count] = item;
            self.count += 1;
            return count;
        }
        if count == N
            && let Some(far) = &mut self.far
            && far.back().unwrap_or(&self.near[N - 1]).key() <= item.key()
        {
            far.push_back(item);
            return N;
        }
        self.insert_between(item)
    }

    #[inline(never)]
    fn insert_between(&mut self, item: T) -> usize {
        let count = usize::from(self.count);
        let place = self.near[..count].partition_point(|other| other.key() <= item.key());
        if count == N {
            self.insert_beyond(place, item);
        } else {
            self.near.copy_within(place..count, place + 1);
            self.near[place] = item;
            self.count += 1;
        }
        place
    }

    fn insert_beyond(&mut self, place: usize, item: T) {
        if place < N {
            let last = self.near[N - 1];
            self.near.copy_within(place..N - 1, place + 1);
            self.near[place] = item;
            return self.far_mut().push_front(last);
        }
        let far = self.far_mut();
        far.insert(far.partition_point(|other| other.key() <= item.key()), item);
    }

    fn far_mut(&mut self) -> &mut VecDeque<T> {
        self.far.get_or_insert_default()
    }

    /// Returns the number of items, in place and on the heap.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count) + self.far.as_ref().map_or(0, |far| far.len())
    }

    /// Checks whether the queue has no item.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Checks whether all `N` places are taken. A full queue still accepts items, at a higher cost.
    #[inline]
    pub fn is_full(&self) -> bool {
        usize::from(self.count) == N
    }

    /// Returns the item with the smallest key that came first, or `None` if the queue is empty.
    #[inline]
    pub fn first(&self) -> Option<&T> {
        if self.count == 0 { None } else { Some(&self.near[0]) }
    }

    /// Takes out the item with the smallest key that came first. Returns `None` if the queue is
    /// empty.
    #[inline]
    pub fn pop_first(&mut self) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        let first = self.near[0];
        self.near.copy_within(1.., 0);
        match self.far.as_mut().and_then(|far| far.pop_front()) {
            Some(next) => self.near[N - 1] = next,
            None => self.count -= 1,
        }
        Some(first)
    }

    /// Returns all items in the order of the queue.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.near[..usize::from(self.count)].iter().chain(self.far.iter().flat_map(|far| far.iter()))
    }

    /// Returns the item at `index`, from 0, in the order of the queue, or `None` behind the last
    /// item. The caller must not change its key.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(N) {
            None if index < usize::from(self.count) => Some(&mut self.near[index]),
            None => None,
            Some(beyond) => self.far.as_mut()?.get_mut(beyond),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomStream;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Item(u64, u64);

    impl Keyed for Item {
        type Key = u64;

        fn key(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn items_come_out_by_key_and_then_as_they_came_however_many_there_are() {
        let mut random = RandomStream::new(11, 0);
        let mut queue = SmallQueue::<Item, 3>::default();
        let mut plain: Vec<Item> = Vec::new();
        let mut longest = 0;
        for number in 0..20_000 {
            // The queue grows and shrinks by turns.
            if random.next_u64() % 100 < if number / 50 % 2 == 0 { 70 } else { 30 } {
                let item = Item(number / 8 + random.next_u64() % 6, number);
                let place = plain.partition_point(|other| other.0 <= item.0);
                plain.insert(place, item);
                assert_eq!(queue.insert(item), place.min(3));
            } else {
                let first = if plain.is_empty() { None } else { Some(plain.remove(0)) };
                assert_eq!(queue.pop_first(), first);
            }
            longest = longest.max(plain.len());
            assert_eq!(queue.first(), plain.first());
            assert!(queue.iter().eq(&plain));
            let index = number as usize % (plain.len() + 1);
            assert_eq!(queue.get_mut(index).copied(), plain.get(index).copied());
        }
        assert!(longest > 10);
    }
}
