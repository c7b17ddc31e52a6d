//! Judges a loop by rounds of single steps. Pure logic without signals.
//!
//! Equal registers at a repeated access prove nothing: a loop can keep its state in memory. So each
//! write of a round is noted, with the value before it. The loop has come back to an earlier state
//! if its registers and all these places have their former values.

use super::carried::{Carried, Dependent, Words, words_of};
use super::effect::{Effect, Place, Set};
use super::emulate::Registers;
use super::registers::Fingerprint;

/// Most words of memory that the noted rounds write.
const WORDS_MAX: usize = 256;
/// Rounds after which the loop is judged.
const ROUNDS_MAX: u32 = 16;
/// Rounds after which the state counts as the earlier one (the method of Brent). The last of them
/// is the middle of [`ROUNDS_MAX`].
const RESTARTS: [u32; 4] = [1, 2, 4, 8];
/// Round in the middle between the last restart and the end.
const MIDDLE: u32 = 12;
/// Number of rounds at the end that must have had their path before.
const KNOWN_PATHS: usize = 4;

/// Result of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The loop ends only by a change from outside.
    Endless,
    /// The loop changes nothing but counters. It decides on one of them, and on watched memory.
    Counts,
    /// The loop computes.
    Works,
    /// The rounds contain calls.
    Calls,
    /// The rounds are too long, or have an instruction that is not understood.
    Unclear,
}

/// Memory of the program.
pub trait Memory {
    /// Returns the aligned word of eight bytes at an address.
    fn read(&self, word: usize) -> Option<u64>;
    /// Returns whether peers may write it.
    fn is_watched(&self, address: usize) -> bool;
}

#[derive(Clone, Copy, Debug)]
struct Word {
    address: usize,
    former: u64,
    middle: u64,
}

/// Rounds of a loop so far.
#[derive(Debug)]
pub struct Rounds {
    steps_left: u32,
    round: u32,
    state: u64,
    registers: [Registers; 2],
    words: [Word; WORDS_MAX],
    word_count: usize,
    path: Fingerprint,
    /// Path of each round.
    paths: [u64; ROUNDS_MAX as usize],
    is_unclear: bool,
    /// What depends on watched memory.
    watched: Dependent,
    carried: Carried,
    /// Registers at the end of the former round.
    former: Registers,
    /// State at the last restart, what depends on it, and what depends on its vectors and flags.
    state_of_loop: (Set, Words),
    by_state: Dependent,
    by_others: Dependent,
}

impl Rounds {
    pub const fn new() -> Self {
        let word = Word { address: 0, former: 0, middle: 0 };
        Self {
            steps_left: 0,
            round: 0,
            state: 0,
            registers: [[0; 23]; 2],
            words: [word; WORDS_MAX],
            word_count: 0,
            path: Fingerprint::new(),
            paths: [0; ROUNDS_MAX as usize],
            is_unclear: false,
            watched: Dependent::new(),
            carried: Carried::new(),
            former: [0; 23],
            state_of_loop: (Set::new(), Words::new()),
            by_state: Dependent::new(),
            by_others: Dependent::new(),
        }
    }

    /// Begins to note rounds, with registers in `state`.
    pub fn begin(&mut self, steps: u32, state: u64) {
        (self.steps_left, self.round, self.state, self.word_count, self.is_unclear) = (steps, 0, state, 0, false);
        self.path = Fingerprint::new();
        (self.watched, self.by_state, self.by_others) = (Dependent::new(), Dependent::new(), Dependent::new());
        (self.carried, self.state_of_loop) = (Carried::new(), (Set::new(), Words::new()));
    }

    /// Notes an instruction before its execution.
    pub fn step(&mut self, effect: Option<Effect>, registers: &Registers, memory: &impl Memory) -> Option<Outcome> {
        if self.steps_left == 0 {
            return Some(Outcome::Unclear);
        }
        self.steps_left -= 1;
        self.path.add(registers[libc::REG_RIP as usize] as u64);
        let Some(effect) = effect else {
            self.is_unclear = true;
            return None;
        };
        for used in effect.uses() {
            self.path.add(used.place.address as u64);
        }
        self.watched.step(&effect, |address| memory.is_watched(address));
        self.carried.step(&effect);
        self.by_state.step(&effect, |_| false);
        self.by_others.step(&effect, |_| false);
        for used in effect.uses().iter().filter(|used| used.is_write) {
            self.note_write(used.place, memory);
        }
        None
    }

    fn note_write(&mut self, place: Place, memory: &impl Memory) {
        for word in words_of(place) {
            if self.words[..self.word_count].iter().any(|noted| noted.address == word) {
                continue;
            }
            let Some(former) = memory.read(word).filter(|_| self.word_count < WORDS_MAX) else {
                self.is_unclear = true;
                return;
            };
            self.words[self.word_count] = Word { address: word, former, middle: former };
            self.word_count += 1;
        }
    }

    /// Ends a round: the loop is back at its first instruction, with registers in `state`.
    pub fn end_round(&mut self, state: u64, registers: &Registers, memory: &impl Memory) -> Option<Outcome> {
        let is_back = |word: &Word| memory.read(word.address) == Some(word.former);
        if !self.is_unclear && state == self.state && self.words[..self.word_count].iter().all(is_back) {
            return Some(Outcome::Endless);
        }
        self.paths[self.round as usize] = self.path.0;
        self.path = Fingerprint::new();
        self.round += 1;
        if self.round > 1 {
            self.carried.end_round(&self.former, registers);
        }
        self.former = *registers;
        if RESTARTS.contains(&self.round) {
            self.note_changes(memory);
            self.state_of_loop = self.carried.state();
            (self.by_state.is_tested, self.by_others.is_tested) = (false, false);
            (self.state, self.registers[0], self.word_count) = (state, *registers, 0);
        }
        let (set, words) = &self.state_of_loop;
        self.by_state.begin_round(*set, words);
        self.by_others.begin_round(set.shared(Set::NOT_GENERAL), &Words::new());
        if self.round == MIDDLE {
            self.registers[1] = *registers;
            for word in &mut self.words[..self.word_count] {
                word.middle = memory.read(word.address).unwrap_or(word.former);
            }
        }
        (self.round == ROUNDS_MAX).then(|| self.judge(registers, memory))
    }

    /// Notes which of the written words have changed since the last restart.
    fn note_changes(&mut self, memory: &impl Memory) {
        for word in &self.words[..self.word_count] {
            if memory.read(word.address) != Some(word.former) {
                self.carried.note_changed(word.address);
            }
        }
    }

    fn judge(&mut self, registers: &Registers, memory: &impl Memory) -> Outcome {
        if self.is_unclear {
            return Outcome::Unclear;
        }
        let half = self.paths.len() / 2;
        let has_one_path = self.paths[half..].iter().all(|path| *path == self.paths[half]);
        self.note_changes(memory);
        let (set, words) = self.carried.state();
        let is_known = (set, words.size()) == (self.state_of_loop.0, self.state_of_loop.1.size());
        if has_one_path && is_known && !self.by_state.is_tested {
            // No branch depends on the counters.
            return Outcome::Endless;
        }
        let last = self.paths.len() - KNOWN_PATHS;
        let has_known_paths = (last..self.paths.len()).all(|at| self.paths[at - half..at].contains(&self.paths[at]));
        let is_even = |former: u64, middle: u64, now: u64| middle.wrapping_sub(former) == now.wrapping_sub(middle);
        let counts_in_memory = || {
            let mut carried = self.words[..self.word_count].iter().filter(|word| words.contains(word.address));
            carried.all(|word| memory.read(word.address).is_some_and(|now| is_even(word.former, word.middle, now)))
        };
        let counts_in_registers = set.general().all(|at| is_even(self.registers[0][at] as u64, self.registers[1][at] as u64, registers[at] as u64));
        let counts = has_known_paths && self.watched.is_tested && !self.by_others.is_tested && !words.is_full;
        if counts && counts_in_registers && counts_in_memory() { Outcome::Counts } else { Outcome::Works }
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::effect::effect;
    use super::*;
    use iced_x86::InstructionInfoFactory;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    const FLAG: usize = 0x1000;
    const RAX: usize = libc::REG_RAX as usize;
    const RCX: usize = libc::REG_RCX as usize;
    const RDX: usize = libc::REG_RDX as usize;
    const RIP: usize = libc::REG_RIP as usize;
    const EFL: usize = libc::REG_EFL as usize;
    const CMP_WATCHED: &[u8] = &[0x80, 0x38, 0]; // cmp byte [rax], 0
    const JE: &[u8] = &[0x74, 0];
    const JL: &[u8] = &[0x7c, 0];
    const LOAD: &[u8] = &[0x8a, 0x18]; // mov bl, [rax]
    const LOAD_COUNT: &[u8] = &[0x48, 0x8b, 0x0a]; // mov rcx, [rdx]
    const SCALE: &[u8] = &[0x66, 0x0f, 0x59, 0xc1]; // mulpd xmm0, xmm1
    const COMPARE: &[u8] = &[0x66, 0x0f, 0x2f, 0xc1]; // comisd xmm0, xmm1
    const COPY: &[u8] = &[0x48, 0x69, 0xd1, 11, 0, 0, 0]; // imul rdx, rcx, 11
    const STORE: &[u8] = &[0x48, 0x89, 0x0a]; // mov [rdx], rcx
    const CMP_COUNT: &[u8] = &[0x48, 0x83, 0xf9, 100]; // cmp rcx, 100

    #[derive(Default)]
    struct Words(RefCell<BTreeMap<usize, u64>>);

    impl Memory for Words {
        fn read(&self, word: usize) -> Option<u64> {
            Some(self.0.borrow().get(&word).copied().unwrap_or(0))
        }
        fn is_watched(&self, address: usize) -> bool {
            address == FLAG
        }
    }

    /// Steps through a loop until it is judged. `set` gives rcx, the flags and rdx before each
    /// instruction of a round. The stores write rcx.
    fn judge(code: &[&[u8]], set: impl Fn(u64, usize) -> (u64, u64, u64)) -> Outcome {
        let (memory, mut rounds, mut factory) = (Words::default(), Rounds::new(), InstructionInfoFactory::new());
        let mut registers: Registers = [0; 23];
        registers[RAX] = FLAG as i64;
        rounds.begin(1_000_000, 0);
        for round in 0.. {
            for (at, instruction) in code.iter().enumerate() {
                let (count, flags, pointer) = set(round, at);
                (registers[RCX], registers[EFL], registers[RDX], registers[RIP]) = (count as i64, flags as i64, pointer as i64, at as i64);
                let mut state = Fingerprint::new();
                [count, flags, pointer].into_iter().for_each(|word| state.add(word));
                let ended = if at == 0 && round > 0 { rounds.end_round(state.0, &registers, &memory) } else { None };
                if at == 0 && round == 0 {
                    rounds.begin(1_000_000, state.0);
                }
                if let Some(outcome) = ended {
                    return outcome;
                }
                if let Some(outcome) = rounds.step(effect(instruction, &registers, 0, &mut factory), &registers, &memory) {
                    return outcome;
                }
                if *instruction == STORE {
                    memory.0.borrow_mut().insert(pointer as usize, count);
                }
            }
        }
        unreachable!()
    }

    #[test]
    fn a_loop_that_changes_nothing_is_endless() {
        assert_eq!(judge(&[CMP_WATCHED, JE], |_, _| (5, 0, 0)), Outcome::Endless);
        // It stores the same value again.
        assert_eq!(judge(&[CMP_WATCHED, JE, STORE], |_, _| (5, 0, 0x8000)), Outcome::Endless);
    }

    #[test]
    fn a_place_that_a_round_clears_and_sets_again_is_unchanged() {
        // mov qword [rdx], 0 in the middle of the place that the next instruction sets.
        let mut rounds = Rounds::new();
        let memory = Words::default();
        let place = |address, len| Effect::writing(Place { address, len });
        memory.0.borrow_mut().insert(0x8000, 7);
        rounds.begin(100, 1);
        rounds.step(Some(place(0x8000, 8)), &[0; 23], &memory);
        memory.0.borrow_mut().insert(0x8000, 0);
        rounds.step(Some(place(0x8000, 4)), &[0; 23], &memory);
        memory.0.borrow_mut().insert(0x8000, 7);
        assert_eq!(rounds.end_round(1, &[0; 23], &memory), Some(Outcome::Endless));
    }

    #[test]
    fn a_loop_that_counts_and_decides_on_the_flag_alone_is_endless() {
        let flags_of_count = |round: u64, at: usize| (round, if at == 0 { round % 7 } else { 4 }, 0x8000);
        assert_eq!(judge(&[CMP_WATCHED, JE, STORE], flags_of_count), Outcome::Endless);
    }

    #[test]
    fn a_loop_with_a_limit_counts() {
        let code = [CMP_WATCHED, JE, STORE, CMP_COUNT, JL];
        assert_eq!(judge(&code, |round, at| (round, if at == 4 { round % 5 } else { 4 }, 0x8000)), Outcome::Counts);
    }

    #[test]
    fn a_loop_that_never_tests_the_watched_word_works() {
        let code = [LOAD, STORE, CMP_COUNT, JL];
        assert_eq!(judge(&code, |round, at| (round, if at == 3 { round % 5 } else { 4 }, 0x8000)), Outcome::Works);
    }

    #[test]
    fn equal_registers_at_the_look_prove_nothing_if_memory_changes() {
        let code = [CMP_WATCHED, JE, LOAD_COUNT, STORE, CMP_COUNT, JL];
        // In memory, the state of a random generator. All registers are equal at the first instruction.
        let random = |round: u64, at: usize| match at {
            3 => ((round + 1).pow(2) * 0x9e37_79b9, 4, 0x8000),
            5 => (5, round * round % 11, 0x8000),
            _ => (5, 4, 0x8000),
        };
        assert_eq!(judge(&code, random), Outcome::Works);
    }

    #[test]
    fn a_loop_whose_decision_hangs_on_a_changing_value_is_not_endless_with_equal_flags() {
        assert_eq!(judge(&[CMP_WATCHED, JE, SCALE, COMPARE, JL], |_, at| (5, at as u64, 0)), Outcome::Endless, "nothing has changed");
        let changing = |round: u64, at: usize| (if at == 0 { round } else { 5 }, 4, 0x8000);
        assert_eq!(judge(&[CMP_WATCHED, JE, STORE, SCALE, COMPARE, JL], changing), Outcome::Works);
        // A counter in large strides: its comparison has the same flags each time.
        assert_eq!(judge(&[CMP_WATCHED, JE, CMP_COUNT, JL], |round, _| (round << 12, 4, 0)), Outcome::Counts);
    }

    #[test]
    fn a_register_that_each_round_sets_before_it_reads_it_is_no_state() {
        // The remainder of a count is in rdx. The next round does not read it.
        let code = [CMP_WATCHED, JE, CMP_COUNT, JL, COPY];
        let remainder = |round: u64, _: usize| (round, if round.is_multiple_of(3) { 0 } else { 4 }, round * 7919 % 1000);
        assert_eq!(judge(&code, remainder), Outcome::Counts);
    }

    #[test]
    fn a_loop_that_walks_through_memory_works() {
        let code = [CMP_WATCHED, JE, STORE, CMP_COUNT, JL];
        assert_eq!(judge(&code, |round, at| (5, if at == 4 { round % 5 } else { 4 }, 0x8000 + 8 * round)), Outcome::Works);
    }

    #[test]
    fn a_loop_with_an_unknown_instruction_is_unclear() {
        assert_eq!(judge(&[CMP_WATCHED, JE, &[0x0f, 0x31]], |_, _| (5, 0, 0)), Outcome::Unclear);
    }
}
