//! State of steps: which have begun, which are done, and which wait for them.

use super::Runner;
use crate::progress::Due;
use crate::schedule::{Action, Wait};
use softband_sim::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Most waiting steps that the final report names.
const WAITING_NAMED: usize = 8;

#[derive(Clone, Copy, Default)]
pub(super) struct StepState {
    pub waits: u32,
    pub posted: u32,
    pub retired: u32,
    pub is_open: bool,
}

/// Arrived messages and waiting receives of one source and tag.
#[derive(Default)]
pub(super) struct Match {
    arrived: u32,
    waiting: VecDeque<u32>,
}

impl Match {
    pub(super) fn await_message(&mut self, receive: u32) {
        self.waiting.push_back(receive);
    }

    pub(super) fn take_receive(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }
}

/// Steps that have begun and will not end: their number, and the first by step number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    named: Vec<(u32, String)>,
    count: usize,
}

impl Waiting {
    /// Merges the waiting steps of two partitions.
    pub fn and(mut self, other: Self) -> Self {
        self.named.extend(other.named);
        self.named.sort();
        self.named.truncate(WAITING_NAMED);
        self.count += other.count;
        self
    }

    /// Adds to each named step its place.
    pub fn at_places(&mut self, place: impl Fn(u32) -> String) {
        self.named.iter_mut().for_each(|(step, words)| words.push_str(&format!(" ({})", place(*step))));
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<&str> = self.named.iter().map(|(_, words)| words.as_str()).collect();
        write!(out, "{}", words.join("; "))?;
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(out, "; and {more} more"),
        }
    }
}

impl Runner {
    pub(super) fn finish(&mut self, step: u32, at: SimTime) {
        let mut begun = VecDeque::new();
        self.note_done(step, at, &mut begun);
        self.settle(begun);
    }

    /// Takes an arrived message of this source, destination and tag.
    pub(super) fn take_message(&mut self, key: (u32, u32, u32), at: SimTime) {
        let entry = self.matches.entry(key).or_default();
        match entry.waiting.pop_front() {
            Some(receive) => self.finish(receive, at),
            None => entry.arrived += 1,
        }
    }

    fn note_done(&mut self, step: u32, at: SimTime, begun: &mut VecDeque<(u32, SimTime)>) {
        self.steps_left -= 1;
        self.ended = self.ended.max(at);
        self.phases[usize::from(self.schedule.steps[step as usize].phase)].done(at);
        self.release(step, at, Wait::UntilDone, begun);
    }

    /// Removes one wait of each step that waits for this event of `step`.
    fn release(&mut self, step: u32, at: SimTime, what: Wait, begun: &mut VecDeque<(u32, SimTime)>) {
        for (later, wait) in self.followers.of(step) {
            if *wait == what {
                let state = &mut self.states[*later as usize];
                state.waits -= 1;
                if state.waits == 0 {
                    begun.push_back((*later, at));
                }
            }
        }
    }

    /// Begins steps, and then all steps that this releases. A list avoids deep recursion, since
    /// chains may be as long as a trace.
    pub(super) fn settle(&mut self, mut begun: VecDeque<(u32, SimTime)>) {
        while let Some((number, at)) = begun.pop_front() {
            let step = self.schedule.steps[number as usize];
            // A receive may wait from the start, which does not begin the phase.
            if !matches!(step.action, Action::Receive { .. }) {
                self.phases[usize::from(step.phase)].begun(at);
            }
            self.release(number, at, Wait::UntilBegun, &mut begun);
            match step.action {
                Action::Send { messages: 0, .. } => self.note_done(number, at, &mut begun),
                Action::Send { .. } => {
                    self.open(number);
                    self.rouse(step.rank, at);
                }
                // The rank's own thread carries out its calls and its computation in turn.
                Action::Receive { .. } | Action::Calculate { cpu: 0, .. } if self.library.is_some() => {
                    self.open(number);
                    self.rouse(step.rank, at);
                }
                Action::Receive { from, tag } => {
                    let entry = self.matches.entry((from, step.rank, tag)).or_default();
                    if entry.arrived > 0 {
                        entry.arrived -= 1;
                        self.note_done(number, at, &mut begun);
                    } else {
                        entry.waiting.push_back(number);
                    }
                }
                Action::Calculate { nanos, cpu } => {
                    let free = self.cpus.entry((step.rank, cpu)).or_default();
                    *free = at.max(*free) + SimDuration::from_nanos(nanos);
                    let until = *free;
                    self.wake_at(step.rank, until, Due::Calculated { step: number });
                }
            }
        }
    }

    /// Returns the begun and unfinished steps of this runner's hosts, by name.
    pub fn waiting(&self) -> Waiting {
        let begun = |(number, state): &(usize, &StepState)| {
            let step = self.schedule.steps[*number];
            match step.action {
                _ if !self.world.has_hca(self.endpoints[step.rank as usize].hca) => false,
                Action::Send { messages, .. } => state.waits == 0 && state.retired < messages,
                Action::Receive { from, tag } => {
                    self.matches.get(&(from, step.rank, tag)).is_some_and(|entry| entry.waiting.contains(&(*number as u32)))
                }
                Action::Calculate { .. } => false,
            }
        };
        let stuck: Vec<usize> = self.states.iter().enumerate().filter(begun).map(|(step, _)| step).collect();
        Waiting { named: stuck.iter().take(WAITING_NAMED).map(|step| (*step as u32, self.describe(*step))).collect(), count: stuck.len() }
    }

    fn describe(&self, step: usize) -> String {
        let step = self.schedule.steps[step];
        let who = self.name_of(step.rank);
        match step.action {
            Action::Send { to, tag, .. } => format!("{who} for its send to rank {to}, tag {tag}"),
            Action::Receive { from, tag } => format!("{who} for a message from rank {from}, tag {tag}"),
            Action::Calculate { .. } => format!("{who} for its processor"),
        }
    }
}
