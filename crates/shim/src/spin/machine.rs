//! Judges sequences of accesses to watched memory. Pure logic without signals.

use super::rounds::Outcome;

/// Most distinct accesses of one loop; more are bulk work.
const DISTINCT_MAX: usize = 8;
/// Looks at a place before its loop is stepped for the first time, and the factor to the next time.
pub const FIRST_STEPS: u32 = 4;
const MORE_LOOKS: u32 = 4;
/// Repetitions of a proven access in the same state that prove the next spin.
const SAME_NEEDED_KNOWN: u32 = 2;
/// Looks of a proven access while registers change (a loop that counts its rounds).
const LOOKS_NEEDED_KNOWN: u32 = 64;
/// Looks of a loop that decides on its counter, or whose rounds are not understood. A loop that
/// computes with one word of watched memory ends earlier.
const LOOKS_NEEDED: u32 = 4096;
/// Looks and equal states of a loop with calls that do no work.
const LOOKS_NEEDED_CALLS: u32 = 64;
const SAME_NEEDED_CALLS: u32 = 4;
/// Number of remembered spinning accesses.
const KNOWN_MAX: usize = 64;
/// Most times that a thread is stepped in one turn from its start.
const STEPPED_MAX: u32 = 16;

/// An instruction and the address that it accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub address: usize,
    pub instruction: usize,
}

/// One access to watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub site: Site,
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
    /// The access may be that of a spin: step through the next rounds of its loop.
    Step,
    /// The program waits for memory to change.
    Spin,
    /// The program works on the memory: stop watching.
    Bulk,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    site: Site,
    fingerprint: u64,
    same: u32,
    looks: u32,
    /// Looks at which the loop is stepped next.
    next_steps: u32,
}

/// The accesses that were proven to spin.
#[derive(Debug)]
pub struct Known {
    sites: [Site; KNOWN_MAX],
    next: usize,
}

impl Known {
    pub const fn new() -> Self {
        Self { sites: [Site { address: 0, instruction: 0 }; KNOWN_MAX], next: 0 }
    }

    /// Remembers a proven access.
    pub fn add(&mut self, site: Site) {
        if !self.sites.contains(&site) {
            self.sites[self.next % KNOWN_MAX] = site;
            self.next = self.next.wrapping_add(1);
        }
    }
}

impl Default for Known {
    fn default() -> Self {
        Self::new()
    }
}

/// History of accesses since the program last did anything else.
#[derive(Debug)]
pub struct Machine {
    seen: [Seen; DISTINCT_MAX],
    count: usize,
    progress: u64,
    stepped: u32,
}

impl Machine {
    pub const fn new() -> Self {
        let nothing = Seen { site: Site { address: 0, instruction: 0 }, fingerprint: 0, same: 0, looks: 0, next_steps: 0 };
        Self { seen: [nothing; DISTINCT_MAX], count: 0, progress: 0, stepped: 0 }
    }

    /// Forgets all accesses.
    pub fn clear(&mut self) {
        (self.count, self.stepped) = (0, 0);
    }

    /// Returns the number of distinct accesses.
    pub fn distinct(&self) -> usize {
        self.count
    }

    /// Returns the number of looks at an access.
    pub fn looks(&self, site: Site) -> u32 {
        self.seen[..self.count].iter().find(|seen| seen.site == site).map_or(0, |seen| seen.looks)
    }

    /// Judges an access. A place in `known` needs no steps.
    pub fn look(&mut self, access: Access, known: Option<&Known>) -> Verdict {
        if access.progress != self.progress {
            self.progress = access.progress;
            self.clear();
        }
        if access.is_write {
            // The program changes the memory that it reads, so nothing repeats.
            for seen in &mut self.seen[..self.count] {
                *seen = Seen { site: seen.site, fingerprint: seen.fingerprint, next_steps: FIRST_STEPS, ..Seen::default() };
            }
        }
        let Some(seen) = self.seen[..self.count].iter_mut().find(|seen| seen.site == access.site) else { return self.remember(access) };
        if access.is_write {
            return Verdict::Watch;
        }
        seen.looks = seen.looks.saturating_add(1);
        seen.same = if seen.fingerprint == access.fingerprint { seen.same + 1 } else { 1 };
        seen.fingerprint = access.fingerprint;
        if known.is_some_and(|known| known.sites.contains(&access.site)) {
            return if seen.same >= SAME_NEEDED_KNOWN || seen.looks >= LOOKS_NEEDED_KNOWN { Verdict::Spin } else { Verdict::Watch };
        }
        if seen.looks < seen.next_steps {
            return Verdict::Watch;
        }
        if known.is_some() && self.stepped >= STEPPED_MAX {
            self.clear();
            return Verdict::Bulk;
        }
        seen.next_steps = seen.looks.saturating_add(seen.looks.saturating_mul(MORE_LOOKS - 1).min(LOOKS_NEEDED));
        self.stepped += 1;
        Verdict::Step
    }

    fn remember(&mut self, access: Access) -> Verdict {
        if self.count == DISTINCT_MAX {
            self.count = 0;
            return Verdict::Bulk;
        }
        let looks = u32::from(!access.is_write);
        self.seen[self.count] = Seen { site: access.site, fingerprint: access.fingerprint, same: looks, looks, next_steps: FIRST_STEPS };
        self.count += 1;
        Verdict::Watch
    }

    /// Returns whether a loop with this access spins, after steps through its rounds.
    pub fn is_spin(&self, site: Site, outcome: Outcome) -> bool {
        let Some(seen) = self.seen[..self.count].iter().find(|seen| seen.site == site) else { return false };
        match outcome {
            Outcome::Endless => true,
            Outcome::Works => false,
            Outcome::Counts | Outcome::Unclear => seen.looks >= LOOKS_NEEDED,
            Outcome::Calls => seen.looks >= LOOKS_NEEDED || (seen.same >= SAME_NEEDED_CALLS && seen.looks >= LOOKS_NEEDED_CALLS),
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

    fn site(instruction: usize, address: usize) -> Site {
        Site { address, instruction }
    }

    fn read(instruction: usize, address: usize, fingerprint: u64) -> Access {
        Access { site: site(instruction, address), fingerprint, is_write: false, progress: 0 }
    }

    /// Feeds accesses whose loops have this outcome until a verdict ends them. Returns the verdict and
    /// the number of accesses.
    fn run(machine: &mut Machine, outcome: Outcome, known: Option<&Known>, accesses: impl Iterator<Item = Access>) -> (Verdict, usize) {
        let mut count = 0;
        for access in accesses {
            count += 1;
            match machine.look(access, known) {
                Verdict::Watch => {}
                Verdict::Step if !machine.is_spin(access.site, outcome) => {}
                Verdict::Step | Verdict::Spin => return (Verdict::Spin, count),
                Verdict::Bulk => return (Verdict::Bulk, count),
            }
        }
        (Verdict::Watch, count)
    }

    fn counting() -> impl Iterator<Item = Access> {
        (0..9000).map(|round| read(1, 100, round))
    }

    #[test]
    fn a_loop_is_stepped_at_its_fourth_look_and_proven_faster_the_next_time() {
        let same = || std::iter::repeat_n(read(1, 100, 7), 50);
        assert_eq!(run(&mut Machine::new(), Outcome::Endless, None, same()), (Verdict::Spin, 4));
        assert_eq!(run(&mut Machine::new(), Outcome::Endless, None, counting()), (Verdict::Spin, 4));
        let mut known = Known::new();
        known.add(site(1, 100));
        assert_eq!(run(&mut Machine::new(), Outcome::Works, Some(&known), same()), (Verdict::Spin, 2));
        assert_eq!(run(&mut Machine::new(), Outcome::Works, Some(&known), counting()), (Verdict::Spin, 64));
    }

    #[test]
    fn a_known_instruction_is_unknown_at_another_address() {
        let mut known = Known::new();
        known.add(site(1, 200));
        let same = std::iter::repeat_n(read(1, 100, 7), 5000);
        assert_eq!(run(&mut Machine::new(), Outcome::Works, Some(&known), same).0, Verdict::Watch);
    }

    #[test]
    fn equal_states_of_a_loop_that_works_prove_nothing() {
        let same = std::iter::repeat_n(read(1, 100, 7), 100_000);
        assert_eq!(run(&mut Machine::new(), Outcome::Works, None, same).0, Verdict::Watch);
    }

    #[test]
    fn a_loop_that_decides_on_its_counter_takes_longer_to_prove() {
        for outcome in [Outcome::Counts, Outcome::Unclear] {
            assert_eq!(run(&mut Machine::new(), outcome, None, counting()), (Verdict::Spin, 4096));
        }
        assert_eq!(run(&mut Machine::new(), Outcome::Calls, None, counting()), (Verdict::Spin, 4096));
        let same = std::iter::repeat_n(read(1, 100, 7), 5000);
        assert_eq!(run(&mut Machine::new(), Outcome::Calls, None, same), (Verdict::Spin, 64));
    }

    #[test]
    fn two_alternating_reads_are_a_spin() {
        let both = [read(1, 100, 7), read(2, 200, 8)].into_iter().cycle().take(50);
        assert_eq!(run(&mut Machine::new(), Outcome::Endless, None, both).0, Verdict::Spin);
    }

    #[test]
    fn a_walk_over_memory_is_bulk_work() {
        let walk = (0..50).map(|index| read(1, 100 + index, index as u64));
        assert_eq!(run(&mut Machine::new(), Outcome::Endless, None, walk), (Verdict::Bulk, 9));
    }

    #[test]
    fn calls_and_writes_in_between_are_no_spin() {
        let calling = (0..5000).map(|round| Access { progress: round, ..read(1, 100, 7) });
        assert_eq!(run(&mut Machine::new(), Outcome::Endless, None, calling).0, Verdict::Watch);
        let writing = (0..5000).map(|round| Access { is_write: round % 2 == 0, ..read(round % 2, 100, 7) });
        assert_eq!(run(&mut Machine::new(), Outcome::Endless, None, writing).0, Verdict::Watch);
    }
}
