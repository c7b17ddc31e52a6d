//! Judges sequences of accesses to watched memory. Pure logic without signals.

/// Most distinct accesses of one loop; more are bulk work.
const DISTINCT_MAX: usize = 8;
/// Repetitions of an access in the same state that prove a spin. Among three consecutive numbers,
/// two differ in the parity flag. A loop that counts in memory therefore never appears unchanged.
const SAME_NEEDED: u32 = 4;
/// Repetitions at an instruction that was proven to spin before.
const SAME_NEEDED_KNOWN: u32 = 2;
/// Repetitions needed while registers change (a loop that counts its rounds). A loop that computes
/// with one word of watched memory ends earlier.
const CHANGED_NEEDED: u32 = 4096;
const CHANGED_NEEDED_KNOWN: u32 = 64;
/// Number of remembered spinning instructions.
const KNOWN_MAX: usize = 16;

/// One access to watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub instruction: usize,
    pub address: usize,
    /// Hash of all registers.
    pub fingerprint: u64,
    pub is_write: bool,
    /// Counter of the calls that do more than poll.
    pub progress: u64,
}

/// Action after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Step over it and keep watching.
    Watch,
    /// The program waits for memory to change.
    Spin,
    /// The program works on the memory: stop watching.
    Bulk,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    instruction: usize,
    address: usize,
    fingerprint: u64,
    same: u32,
    changed: u32,
}

/// History of accesses since the program last did anything else.
#[derive(Debug)]
pub struct Machine {
    seen: [Seen; DISTINCT_MAX],
    count: usize,
    /// `count` when a spin was last proven.
    distinct: usize,
    progress: u64,
    known: [usize; KNOWN_MAX],
    known_next: usize,
}

impl Machine {
    pub const fn new() -> Self {
        let nothing = Seen { instruction: 0, address: 0, fingerprint: 0, same: 0, changed: 0 };
        Self { seen: [nothing; DISTINCT_MAX], count: 0, distinct: 0, progress: 0, known: [0; KNOWN_MAX], known_next: 0 }
    }

    /// Returns whether the program polls a single word.
    pub fn looks_at_one(&self) -> bool {
        self.distinct == 1
    }

    /// Judges an access.
    pub fn look(&mut self, access: Access) -> Verdict {
        if access.progress != self.progress {
            self.progress = access.progress;
            self.count = 0;
        }
        if access.is_write {
            // The program changes the memory that it reads, so nothing repeats.
            for seen in &mut self.seen[..self.count] {
                seen.same = 0;
                seen.changed = 0;
            }
        }
        let known = self.known.contains(&access.instruction);
        let count = self.count;
        let found = self.seen[..count].iter_mut().find(|seen| seen.instruction == access.instruction && seen.address == access.address);
        let Some(seen) = found else { return self.remember(access) };
        if access.is_write {
            return Verdict::Watch;
        }
        if seen.fingerprint == access.fingerprint {
            seen.same += 1;
        } else {
            seen.fingerprint = access.fingerprint;
            seen.same = 1;
            seen.changed += 1;
        }
        let (same_needed, changed_needed) = if known { (SAME_NEEDED_KNOWN, CHANGED_NEEDED_KNOWN) } else { (SAME_NEEDED, CHANGED_NEEDED) };
        if seen.same >= same_needed || seen.changed >= changed_needed {
            self.prove(access.instruction, known);
            return Verdict::Spin;
        }
        Verdict::Watch
    }

    fn remember(&mut self, access: Access) -> Verdict {
        if self.count == DISTINCT_MAX {
            self.count = 0;
            return Verdict::Bulk;
        }
        self.seen[self.count] = Seen {
            instruction: access.instruction,
            address: access.address,
            fingerprint: access.fingerprint,
            same: u32::from(!access.is_write),
            changed: 0,
        };
        self.count += 1;
        Verdict::Watch
    }

    fn prove(&mut self, instruction: usize, known: bool) {
        self.distinct = self.count;
        self.count = 0;
        if !known {
            self.known[self.known_next % KNOWN_MAX] = instruction;
            self.known_next = self.known_next.wrapping_add(1);
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(instruction: usize, address: usize, fingerprint: u64) -> Access {
        Access { instruction, address, fingerprint, is_write: false, progress: 0 }
    }

    /// Feeds accesses until a verdict other than `Watch`. Returns the verdict and the number of
    /// accesses.
    fn run(machine: &mut Machine, accesses: impl Iterator<Item = Access>) -> (Verdict, usize) {
        let mut count = 0;
        for access in accesses {
            count += 1;
            match machine.look(access) {
                Verdict::Watch => {}
                verdict => return (verdict, count),
            }
        }
        (Verdict::Watch, count)
    }

    #[test]
    fn an_access_that_repeats_in_the_same_state_is_a_spin_and_proven_faster_the_next_time() {
        let mut machine = Machine::new();
        let spin = || std::iter::repeat(read(1, 100, 7));
        assert_eq!(run(&mut machine, spin().take(50)), (Verdict::Spin, 4));
        assert_eq!(run(&mut machine, spin().take(50)), (Verdict::Spin, 2));
    }

    #[test]
    fn two_alternating_reads_are_a_spin() {
        let both = [read(1, 100, 7), read(2, 200, 8)].into_iter().cycle().take(50);
        assert_eq!(run(&mut Machine::new(), both).0, Verdict::Spin);
    }

    #[test]
    fn a_spin_that_counts_its_rounds_takes_longer_to_prove() {
        let counting = || (0..).map(|round| read(1, 100, round));
        let mut machine = Machine::new();
        assert_eq!(run(&mut machine, counting().take(1000)).0, Verdict::Watch);
        assert_eq!(run(&mut machine, counting().skip(1000).take(9000)).0, Verdict::Spin);
        assert_eq!(run(&mut machine, counting().skip(9000).take(100)).0, Verdict::Spin);
    }

    #[test]
    fn a_walk_over_memory_is_bulk_work() {
        let walk = (0..).map(|index| read(1, 100 + index, index as u64)).take(50);
        assert_eq!(run(&mut Machine::new(), walk), (Verdict::Bulk, 9));
    }

    #[test]
    fn calls_and_writes_in_between_are_no_spin() {
        let calling = (0..).map(|round| Access { progress: round, ..read(1, 100, 7) }).take(5000);
        assert_eq!(run(&mut Machine::new(), calling).0, Verdict::Watch);
        let writing = (0..).map(|round| Access { is_write: round % 2 == 0, instruction: round % 2, ..read(1, 100, 7) }).take(5000);
        assert_eq!(run(&mut Machine::new(), writing).0, Verdict::Watch);
    }
}
