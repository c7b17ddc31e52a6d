//! State that a loop carries from round to round. Pure logic.

use super::effect::{Effect, Place, Set};
use super::emulate::Registers;

const WORD_BYTES: usize = 8;
/// Most words of a [`Words`].
const WORDS_MAX: usize = 64;

/// Returns the aligned words that a place touches. So each byte has one word, however it is accessed.
pub fn words_of(place: Place) -> impl Iterator<Item = usize> {
    let first = place.address & !(WORD_BYTES - 1);
    (first..place.address.saturating_add(place.len)).step_by(WORD_BYTES)
}

fn covers(place: Place, word: usize) -> bool {
    place.address <= word && word + WORD_BYTES <= place.address + place.len
}

/// A few aligned words of memory, by address.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    all: [usize; WORDS_MAX],
    count: usize,
    /// Whether a word found no room.
    pub is_full: bool,
}

impl Default for Words {
    fn default() -> Self {
        Self::new()
    }
}

impl Words {
    pub const fn new() -> Self {
        Self { all: [0; WORDS_MAX], count: 0, is_full: false }
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.all[..self.count].iter().copied()
    }

    pub fn size(&self) -> usize {
        self.count
    }

    pub fn contains(&self, word: usize) -> bool {
        self.all[..self.count].contains(&word)
    }

    pub fn add(&mut self, word: usize) {
        if self.contains(word) {
            return;
        }
        if self.count == WORDS_MAX {
            self.is_full = true;
            return;
        }
        self.all[self.count] = word;
        self.count += 1;
    }

    pub fn remove(&mut self, word: usize) {
        if let Some(at) = self.all[..self.count].iter().position(|known| *known == word) {
            self.count -= 1;
            self.all[at] = self.all[self.count];
        }
    }
}

/// What depends on some values.
#[derive(Clone, Copy, Debug)]
pub struct Dependent {
    registers: Set,
    words: Words,
    /// Whether a branch depends on them.
    pub is_tested: bool,
}

impl Default for Dependent {
    fn default() -> Self {
        Self::new()
    }
}

impl Dependent {
    pub const fn new() -> Self {
        Self { registers: Set::new(), words: Words::new(), is_tested: false }
    }

    /// Begins a round, in which these registers and words are the values.
    pub fn begin_round(&mut self, registers: Set, words: &Words) {
        (self.registers, self.words) = (registers, *words);
    }

    /// Follows an instruction. `is_source` states which other places hold the values.
    pub fn step(&mut self, effect: &Effect, is_source: impl Fn(usize) -> bool) {
        let holds = |place: Place| is_source(place.address) || words_of(place).any(|word| self.words.contains(word));
        let depends = effect.read.overlaps(self.registers) || effect.uses().iter().any(|used| used.is_read && holds(used.place));
        self.is_tested |= depends && effect.branches;
        if depends {
            self.registers.add_all(effect.written);
        } else {
            self.registers.remove_all(effect.replaced);
        }
        for used in effect.uses().iter().filter(|used| used.is_write) {
            for word in words_of(used.place) {
                if depends {
                    self.words.add(word);
                } else if covers(used.place, word) {
                    self.words.remove(word);
                }
            }
        }
        // Some branch probably depends on what found no room.
        self.is_tested |= self.words.is_full;
    }
}

/// Registers and words that a round reads before it sets them, that it writes, and that change.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Set in this round so far.
    set: Set,
    set_words: Words,
    /// Read before they were set, in any round.
    read: Set,
    read_words: Words,
    written: Set,
    changed: Set,
    changed_words: Words,
}

impl Default for Carried {
    fn default() -> Self {
        Self::new()
    }
}

impl Carried {
    pub const fn new() -> Self {
        let (none, no_words) = (Set::new(), Words::new());
        Self { set: none, set_words: no_words, read: none, read_words: no_words, written: none, changed: none, changed_words: no_words }
    }

    pub fn step(&mut self, effect: &Effect) {
        let mut kept = effect.written;
        kept.remove_all(effect.replaced);
        let mut first = effect.read;
        first.add_all(kept);
        first.remove_all(self.set);
        self.read.add_all(first);
        self.set.add_all(effect.replaced);
        self.written.add_all(effect.written);
        for used in effect.uses() {
            for word in words_of(used.place) {
                let is_set = used.is_write && covers(used.place, word);
                if (used.is_read || !is_set) && !self.set_words.contains(word) {
                    self.read_words.add(word);
                }
                if is_set && !used.is_read {
                    self.set_words.add(word);
                }
            }
        }
    }

    /// Ends a round, at whose ends the general registers were these.
    pub fn end_round(&mut self, former: &Registers, now: &Registers) {
        self.changed.add_all(Set::of_different(former, now));
        (self.set, self.set_words) = (Set::new(), Words::new());
    }

    pub fn note_changed(&mut self, word: usize) {
        self.changed_words.add(word);
    }

    /// Returns the state: registers and words. Vectors and flags count if they are written, because
    /// their values are not known.
    pub fn state(&self) -> (Set, Words) {
        let mut changed = self.written.shared(Set::NOT_GENERAL);
        changed.add_all(self.changed);
        let registers = self.read.shared(changed);
        let mut words = Words::new();
        // Words that found no room may be read, too.
        self.changed_words.iter().filter(|word| self.read_words.is_full || self.read_words.contains(*word)).for_each(|word| words.add(word));
        words.is_full = self.changed_words.is_full;
        (registers, words)
    }
}
