//! Steps through a program that keeps the token and never accesses watched memory.

use super::machine::Site;
use super::registers::{self, Fingerprint};
use super::steps::{self, Suspicion};
use super::{is_after_call, is_own, watch};
use softband_client as client;
use std::cell::Cell;

/// Most instructions that a probe steps through. Each step takes about a microsecond.
const STEPS_MAX: u32 = 4096;
/// Most steps between two visits of the start instruction; beyond this, the probe tries another
/// start.
const PERIOD_MAX: u32 = 512;
/// Consecutive rounds that must be equal in every step (`machine::SAME_NEEDED` explains the
/// number).
const ROUNDS_NEEDED: u32 = 8;

/// Computation after a probe in vain, in durations of this probe. So probes take at most a tenth of a
/// long computation, also if it makes calls.
const REST: u64 = 9;

/// A running probe.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    steps_left: u32,
    start: usize,
    start_state: u64,
    since_start: u32,
    path: Fingerprint,
    former_path: u64,
    rounds: u32,
    /// Steps of the last round.
    period: u32,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    GoOn,
    Spin,
    GiveUp,
}

impl Probe {
    /// Starts a probe of at most `steps` steps at an instruction in a state.
    pub const fn new(instruction: usize, state: u64, steps: u32) -> Self {
        let path = Fingerprint::new();
        Self { steps_left: steps, start: instruction, start_state: state, since_start: 0, path, former_path: 0, rounds: 0, period: 0 }
    }

    /// Advances the probe by one instruction.
    pub fn step(&mut self, instruction: usize, state: u64) -> Step {
        if self.steps_left == 0 {
            return Step::GiveUp;
        }
        self.steps_left -= 1;
        self.since_start += 1;
        self.path.add(instruction as u64);
        self.path.add(state);
        if instruction != self.start {
            if self.since_start > PERIOD_MAX {
                self.restart(instruction, state);
            }
            return Step::GoOn;
        }
        let same = state == self.start_state && (self.rounds == 0 || self.path.0 == self.former_path);
        if !same {
            self.restart(instruction, state);
            return Step::GoOn;
        }
        self.rounds += 1;
        self.period = self.since_start;
        self.former_path = self.path.0;
        self.path = Fingerprint::new();
        self.since_start = 0;
        if self.rounds >= ROUNDS_NEEDED { Step::Spin } else { Step::GoOn }
    }

    fn restart(&mut self, instruction: usize, state: u64) {
        *self = Self::new(instruction, state, self.steps_left);
    }
}

/// Returns the steps after which a thread no longer spins in a loop that takes `period` steps.
const fn steps_of_spin(period: u32) -> u32 {
    (ROUNDS_NEEDED + 4) * period
}

thread_local! {
    /// Steps of a round of the loop that the last probe found.
    static PERIOD: Cell<u32> = const { Cell::new(0) };
    static RUNNING: Cell<Option<Probe>> = const { Cell::new(None) };
    /// The thread's processor time at the start of the running probe, and at the end of its rest, in
    /// nanoseconds.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    static RESTS_UNTIL: Cell<u64> = const { Cell::new(0) };
}

/// Returns whether the thread has lately been probed in vain.
pub fn rests() -> bool {
    let until = RESTS_UNTIL.get();
    until > 0 && client::thread_cpu_ns() < until
}

/// Ends a probe in vain.
fn end_in_vain() {
    RUNNING.set(None);
    rest();
}

/// Notes the begin of steps.
pub fn begin_work() {
    BEGUN.set(client::thread_cpu_ns());
}

/// Begins the rest after steps in vain.
pub fn rest() {
    let now = client::thread_cpu_ns();
    RESTS_UNTIL.set(now + REST * now.saturating_sub(BEGUN.get()));
}

pub fn is_running() -> bool {
    RUNNING.get().is_some()
}

/// Ends a probe, because the thread makes a call. The next trap clears the flag.
pub fn stop() {
    if is_running() {
        end_in_vain();
    }
}

/// Starts to step the interrupted thread.
pub fn start(machine: &mut libc::ucontext_t) {
    start_for(STEPS_MAX, machine);
}

fn start_for(steps: u32, machine: &mut libc::ucontext_t) {
    begin_work();
    RUNNING.set(Some(Probe::new(registers::instruction(machine), registers::fingerprint(machine), steps)));
    registers::set_stepping(machine, true);
}

/// Ends the steps through a loop that the probe has found.
pub fn conclude(is_spin: bool, machine: &mut libc::ucontext_t) {
    if !is_spin {
        return rest();
    }
    RESTS_UNTIL.set(0);
    client::spin_wait();
    // If the thread spins on, the next proof needs no signal first. Steps through other work would
    // delay the next signal's look.
    start_for(steps_of_spin(PERIOD.get()), machine);
}

/// Handles a step. Returns false if the trap is not ours. A trap that follows the end of a probe
/// also counts as ours.
pub fn on_trap(machine: &mut libc::ucontext_t) -> bool {
    let Some(mut probe) = RUNNING.get() else {
        return registers::take_stepping(machine);
    };
    let instruction = registers::instruction(machine);
    let step =
        if is_own(instruction) || is_after_call(instruction) { Step::GiveUp } else { probe.step(instruction, registers::fingerprint(machine)) };
    match step {
        Step::GoOn => RUNNING.set(Some(probe)),
        Step::GiveUp => {
            end_in_vain();
            registers::set_stepping(machine, false);
        }
        // Equal registers do not prove that memory is the same.
        Step::Spin => {
            RUNNING.set(None);
            PERIOD.set(probe.period);
            steps::begin(Site { address: 0, instruction }, Suspicion::Registers, steps::STEPS_MAX, machine);
            watch::go_on(machine);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(states: impl Iterator<Item = (usize, u64)>) -> (Step, usize) {
        let mut states = states;
        let (instruction, state) = states.next().unwrap();
        let mut probe = Probe::new(instruction, state, STEPS_MAX);
        let mut count = 0;
        for (instruction, state) in states {
            count += 1;
            match probe.step(instruction, state) {
                Step::GoOn => {}
                step => return (step, count),
            }
        }
        (Step::GoOn, count)
    }

    #[test]
    fn a_probe_in_vain_is_followed_by_a_rest() {
        let work_until = |time: u64| while client::thread_cpu_ns() < time {};
        assert!(!rests());
        BEGUN.set(client::thread_cpu_ns());
        work_until(BEGUN.get() + 1_000_000);
        end_in_vain();
        assert!(rests());
        work_until(BEGUN.get() + 20_000_000);
        assert!(!rests());
    }

    #[test]
    fn eight_identical_rounds_are_a_spin() {
        let rounds = [(10, 1), (11, 2), (12, 3)].into_iter().cycle();
        assert_eq!(run(rounds), (Step::Spin, 24));
    }

    #[test]
    fn a_probe_for_a_known_loop_finds_it_and_ends_soon_after_other_work() {
        let probe = |states: &mut dyn Iterator<Item = (usize, u64)>| {
            let mut probe = Probe::new(10, 1, steps_of_spin(3));
            let steps = states.map(|(at, state)| probe.step(at, state));
            steps.enumerate().find(|(_, step)| *step != Step::GoOn).map(|(count, step)| (step, count, probe.period))
        };
        let rounds = [(11, 2), (12, 3), (10, 1)].into_iter().cycle();
        assert_eq!(probe(&mut rounds.clone()), Some((Step::Spin, 23, 3)));
        assert_eq!(probe(&mut (1000..).map(|at| (at, 0))), Some((Step::GiveUp, 36, 0)));
        // The thread may leave the library in the middle of a round.
        assert_eq!(probe(&mut [(12, 3)].into_iter().chain(rounds)).map(|end| end.0), Some(Step::Spin));
    }

    #[test]
    fn a_prologue_does_not_hide_the_loop_behind_it() {
        let prologue = (1000..2000).map(|at| (at, at as u64));
        assert_eq!(run(prologue.chain([(10, 1), (11, 2)].into_iter().cycle())).0, Step::Spin);
    }

    #[test]
    fn a_loop_that_changes_a_register_is_none() {
        let counting = (0u64..).flat_map(|round| [(10, 1), (11, round), (12, 3)]);
        assert_eq!(run(counting).0, Step::GiveUp);
    }

    #[test]
    fn a_loop_that_changes_only_flags_on_its_way_is_none() {
        // Each round starts in the same state; in the middle, the parity of a counter differs.
        let counting = (0u32..).flat_map(|round| [(10, 1), (11, u64::from(round.count_ones() % 2))]);
        assert_eq!(run(counting).0, Step::GiveUp);
    }
}
