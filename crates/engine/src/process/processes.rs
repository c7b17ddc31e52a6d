//! All past and present processes by number, and the living ones. A persistent fabric sees any
//! number of processes come and go. Ended processes must not slow down its steady work.

use crate::process::image::{Process, ProcessState};
use std::ops::{Index, IndexMut};

#[derive(Default)]
pub(crate) struct Processes {
    all: Vec<Process>,
    /// Numbers of living processes in order, and of some that ended since the last addition.
    living: Vec<usize>,
}

/// Returns whether a process may still report events. An ended process closes its connection a
/// moment later.
fn lives(process: &Process) -> bool {
    process.state != ProcessState::Ended || process.connection.is_some()
}

impl Processes {
    pub(crate) fn push(&mut self, process: Process) {
        self.living.retain(|number| lives(&self.all[*number]));
        self.living.push(self.all.len());
        self.all.push(process);
    }

    /// Returns the number of all past and present processes.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns all past and present processes.
    pub(crate) fn ever(&self) -> &[Process] {
        &self.all
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Process> {
        self.living.iter().map(|number| &self.all[*number]).filter(|process| lives(process))
    }

    /// Returns the `nth` living process, for loops that change the processes. It may have ended.
    pub(crate) fn nth_living(&self, nth: usize) -> Option<usize> {
        self.living.get(nth).copied()
    }

    /// Returns the number of the first living process for which `is_it` is true.
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
