//! The queues of one lane of an output, one per input. They are lists in one pool, so that a port
//! that holds little takes little memory.

use super::Waiting;
use softband_types::CreditBlocks;

const NONE: u32 = u32::MAX;
const WORD_BITS: usize = 64;
/// Words beside the first: ports have 8-bit numbers.
const OTHER_WORDS: usize = 3;

/// One queue for each input. Small and compact, because little of a large fabric's ports is in the
/// cache.
#[derive(Default)]
#[repr(C)]
pub(super) struct Inputs {
    /// Inputs with packets in their queues, by bit: the first 64, and the others if they ever had
    /// any.
    occupied: u64,
    others_occupied: Option<Box<[u64; OTHER_WORDS]>>,
    /// First the ends of each input's queue, then packets. Empty before the first packet: most
    /// lanes of a large fabric never have any.
    slots: Vec<Slot>,
    free: u32,
    len: u32,
}

/// Packet that waits, and the packet behind it. In an input's own slot, `next` is its first packet
/// and `packet` its last.
#[derive(Clone, Copy)]
struct Slot {
    packet: u32,
    blocks: CreditBlocks,
    next: u32,
}

impl Inputs {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a packet to the queue of one of `count` inputs.
    pub(super) fn push(&mut self, count: usize, input: usize, Waiting { packet, blocks }: Waiting) {
        if self.slots.is_empty() {
            self.slots.resize(count, Slot { packet: NONE, blocks: CreditBlocks(0), next: NONE });
            self.free = NONE;
        }
        let slot = Slot { packet, blocks, next: NONE };
        let index = match self.free {
            NONE => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
            index => {
                self.free = std::mem::replace(&mut self.slots[index as usize], slot).next;
                index
            }
        };
        let last = std::mem::replace(&mut self.slots[input].packet, index);
        if self.slots[input].next == NONE {
            self.slots[input].next = index;
            *self.word_mut(input / WORD_BITS) |= 1 << (input % WORD_BITS);
        } else {
            self.slots[last as usize].next = index;
        }
        self.len += 1;
    }

    /// Returns the first packet of an input.
    pub(super) fn front(&self, input: usize) -> Option<Waiting> {
        let first = self.slots.get(input)?.next;
        self.waiting(first)
    }

    /// Returns the packets of an input, in their order.
    pub(super) fn of(&self, input: usize) -> impl Iterator<Item = Waiting> {
        let next = |index: u32| self.slots.get(index as usize).map(|slot| slot.next);
        let first = next(input as u32).filter(|first| *first != NONE);
        std::iter::successors(first, move |index| next(*index).filter(|next| *next != NONE)).filter_map(|index| self.waiting(index))
    }

    fn waiting(&self, index: u32) -> Option<Waiting> {
        let Slot { packet, blocks, .. } = *self.slots.get(index as usize)?;
        Some(Waiting { packet, blocks })
    }

    pub(super) fn pop(&mut self, input: usize) -> Option<Waiting> {
        let index = self.slots.get(input)?.next;
        let waiting = self.waiting(index)?;
        let next = std::mem::replace(&mut self.slots[index as usize].next, self.free);
        self.free = index;
        self.slots[input].next = next;
        if next == NONE {
            *self.word_mut(input / WORD_BITS) &= !(1 << (input % WORD_BITS));
        }
        self.len -= 1;
        Some(waiting)
    }

    fn word(&self, word: usize) -> u64 {
        if word == 0 { self.occupied } else { self.others_occupied.as_ref().map_or(0, |others| others[word - 1]) }
    }

    fn word_mut(&mut self, word: usize) -> &mut u64 {
        if word == 0 { &mut self.occupied } else { &mut self.others_occupied.get_or_insert_default()[word - 1] }
    }

    /// Returns the first input with packets, from `start` on and round.
    pub(super) fn next_from(&self, start: usize) -> Option<usize> {
        let (word, bit) = (start / WORD_BITS, start % WORD_BITS);
        let of = |word: usize, bits: u64| (bits != 0).then(|| word * WORD_BITS + bits.trailing_zeros() as usize);
        let here = self.word(word);
        let has_others = word > 0 || self.others_occupied.is_some();
        let others = || (1..=OTHER_WORDS).map(|step| (word + step) % (OTHER_WORDS + 1)).find_map(|word| of(word, self.word(word)));
        of(word, here & (u64::MAX << bit)).or_else(|| if has_others { others() } else { None }).or_else(|| of(word, here))
    }

    /// Returns all packets, input by input.
    pub(super) fn iter(&self) -> impl Iterator<Item = Waiting> {
        let inputs =
            (0..self.slots.len().min((OTHER_WORDS + 1) * WORD_BITS)).filter(|input| self.word(input / WORD_BITS) & 1 << (input % WORD_BITS) != 0);
        let follow = |index: u32| (index != NONE).then(|| self.slots[index as usize]);
        inputs
            .flat_map(move |input| std::iter::successors(follow(self.slots[input].next), move |slot| follow(slot.next)))
            .map(|Slot { packet, blocks, .. }| Waiting { packet, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(packet: u32) -> Waiting {
        Waiting { packet, blocks: CreditBlocks(1) }
    }

    #[test]
    fn each_input_keeps_its_order_and_places_are_used_again() {
        let mut inputs = Inputs::default();
        assert!(inputs.is_empty() && inputs.next_from(0).is_none() && inputs.front(3).is_none());
        for round in 0..3 {
            for packet in 0..4 {
                inputs.push(130, if packet % 2 == 0 { 3 } else { 129 }, waiting(round * 4 + packet));
            }
            assert_eq!(inputs.iter().map(|waiting| waiting.packet % 4).collect::<Vec<_>>(), [0, 2, 1, 3]);
            assert_eq!([inputs.next_from(0), inputs.next_from(4), inputs.next_from(129)], [Some(3), Some(129), Some(129)]);
            let order = [129, 3, 3, 129].map(|input| inputs.pop(input).map(|waiting| waiting.packet % 4));
            assert_eq!(order, [Some(1), Some(0), Some(2), Some(3)]);
            assert!(inputs.is_empty() && inputs.pop(3).is_none());
        }
        assert_eq!(inputs.slots.len(), 130 + 4);
    }

    #[test]
    fn the_search_goes_round_to_below_its_start() {
        let mut inputs = Inputs::default();
        inputs.push(70, 5, waiting(0));
        assert_eq!([0, 5, 6, 64, 69].map(|start| inputs.next_from(start)), [Some(5); 5]);
    }
}
