//! The inputs' queues of one lane of an output: lists through one pool, so that a port which holds little takes little memory.

use super::Waiting;

const NONE: u32 = u32::MAX;
const WORD_BITS: usize = 64;
/// Ports have 8-bit numbers.
const WORDS: usize = 4;

/// A queue for each input.
#[derive(Default)]
pub(super) struct Inputs {
    /// None before the first packet: most lanes of a large fabric never have one.
    ends: Vec<Ends>,
    /// Inputs with something in their queues, by bit.
    occupied: [u64; WORDS],
    links: Vec<Link>,
    free: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Link {
    waiting: Waiting,
    next: u32,
}

impl Inputs {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a packet to the queue of one of `count` inputs.
    pub(super) fn push(&mut self, count: usize, input: usize, waiting: Waiting) {
        if self.ends.is_empty() {
            self.ends.resize(count, Ends { first: NONE, last: NONE });
            self.free = NONE;
        }
        let link = Link { waiting, next: NONE };
        let index = match self.free {
            NONE => {
                self.links.push(link);
                self.links.len() as u32 - 1
            }
            index => {
                self.free = std::mem::replace(&mut self.links[index as usize], link).next;
                index
            }
        };
        let ends = &mut self.ends[input];
        if ends.first == NONE {
            ends.first = index;
            self.occupied[input / WORD_BITS] |= 1 << (input % WORD_BITS);
        } else {
            self.links[ends.last as usize].next = index;
        }
        ends.last = index;
        self.len += 1;
    }

    /// The first packet of an input.
    pub(super) fn front(&self, input: usize) -> Option<Waiting> {
        let first = self.ends.get(input)?.first;
        (first != NONE).then(|| self.links[first as usize].waiting)
    }

    pub(super) fn pop(&mut self, input: usize) -> Option<Waiting> {
        let ends = self.ends.get_mut(input).filter(|ends| ends.first != NONE)?;
        let index = ends.first;
        let link = &mut self.links[index as usize];
        ends.first = std::mem::replace(&mut link.next, self.free);
        let waiting = link.waiting;
        self.free = index;
        if ends.first == NONE {
            self.occupied[input / WORD_BITS] &= !(1 << (input % WORD_BITS));
        }
        self.len -= 1;
        Some(waiting)
    }

    /// The first input with something, from `start` on and round.
    pub(super) fn next_from(&self, start: usize) -> Option<usize> {
        let (word, bit) = (start / WORD_BITS, start % WORD_BITS);
        let of = |word: usize, bits: u64| (bits != 0).then(|| word * WORD_BITS + bits.trailing_zeros() as usize);
        let here = self.occupied[word];
        of(word, here & (u64::MAX << bit))
            .or_else(|| (1..WORDS).map(|step| (word + step) % WORDS).find_map(|word| of(word, self.occupied[word])))
            .or_else(|| of(word, here))
    }

    /// All packets, input by input.
    pub(super) fn iter(&self) -> impl Iterator<Item = Waiting> {
        let follow = |index: u32| (index != NONE).then(|| self.links[index as usize]);
        self.ends.iter().flat_map(move |ends| std::iter::successors(follow(ends.first), move |link| follow(link.next))).map(|link| link.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::CreditBlocks;

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
        assert_eq!(inputs.links.len(), 4);
    }

    #[test]
    fn the_search_goes_round_to_below_its_start() {
        let mut inputs = Inputs::default();
        inputs.push(70, 5, waiting(0));
        assert_eq!([0, 5, 6, 64, 69].map(|start| inputs.next_from(start)), [Some(5); 5]);
    }
}
