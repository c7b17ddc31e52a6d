//! Every process that there ever was, by its number, and which of them live: a fabric that stays sees any number come and go, and what
//! it does all the time must cost no more for those that are gone.

use crate::process::{Process, ProcessState};
use std::ops::{Index, IndexMut};

#[derive(Default)]
pub(crate) struct Processes {
    all: Vec<Process>,
    /// Numbers of those that live, in order, and of some that have ended since the last one came.
    living: Vec<usize>,
}

/// Whether something may still be heard of a process. One that has ended closes its connection a moment later.
fn lives(process: &Process) -> bool {
    process.state != ProcessState::Ended || process.connection.is_some()
}

impl Processes {
    pub(crate) fn push(&mut self, process: Process) {
        self.living.retain(|number| lives(&self.all[*number]));
        self.living.push(self.all.len());
        self.all.push(process);
    }

    /// How many there ever were.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All that there ever were.
    pub(crate) fn ever(&self) -> &[Process] {
        &self.all
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Process> {
        self.living.iter().map(|number| &self.all[*number]).filter(|process| lives(process))
    }

    /// The `nth` of those that live, for loops that change what they look at; it may have ended.
    pub(crate) fn nth_living(&self, nth: usize) -> Option<usize> {
        self.living.get(nth).copied()
    }

    /// The number of the living process that `is_it`.
    pub(crate) fn find(&self, is_it: impl Fn(&Process) -> bool) -> Option<usize> {
        self.living().find(|process| is_it(process)).map(|process| process.number.0 as usize)
    }

    pub(crate) fn any(&self, is_it: impl Fn(&Process) -> bool) -> bool {
        self.find(is_it).is_some()
    }
}

impl Index<usize> for Processes {
    type Output = Process;

    fn index(&self, number: usize) -> &Process {
        &self.all[number]
    }
}

impl IndexMut<usize> for Processes {
    fn index_mut(&mut self, number: usize) -> &mut Process {
        &mut self.all[number]
    }
}
