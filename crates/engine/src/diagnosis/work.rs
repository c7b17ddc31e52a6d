//! Measures how long each thread of a program kept its processor busy during transfers of the
//! fabric.

use crate::diagnosis::observer::Observer;
use crate::process::record::Process;
use softband_sim::SimDuration;

/// A thread's own time, in simulated time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadWork {
    /// `a: 'ib_send_bw' (process 1000, thread 0)`.
    pub name: String,
    /// Advance of the thread's clock by its own calls, in picoseconds. Only turns that began while
    /// a send request was under way count. Waits do not count: a vain poll counts as a single poll,
    /// regardless of the wait that follows.
    pub busy_picos: u64,
}

impl Observer<'_> {
    /// Returns every thread that worked during transfers, by process and slot; none in wall pace.
    pub(crate) fn thread_work(&self) -> Vec<ThreadWork> {
        let of_process = |process: &Process| {
            let busy = process.busy().iter().enumerate().filter(|(_, busy)| **busy > SimDuration::ZERO);
            busy.map(|(slot, busy)| ThreadWork { name: self.name_of_thread(process, slot), busy_picos: busy.as_picos() }).collect::<Vec<_>>()
        };
        self.processes.ever().iter().flat_map(of_process).collect()
    }
}
