//! Measures how long each thread of a program kept its processor busy during transfers of the
//! fabric.

use crate::engine::Engine;
use softband_sim::{SimDuration, SimTime};

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

impl Engine {
    /// Returns every thread that worked during transfers, by process and slot; none in wall pace.
    pub fn thread_work(&self) -> Vec<ThreadWork> {
        let of_process = |process: &crate::process::image::Process| {
            let busy = process.busy.iter().enumerate().filter(|(_, busy)| **busy > SimDuration::ZERO);
            busy.map(|(slot, busy)| ThreadWork { name: self.name_of_thread(process, slot), busy_picos: busy.as_picos() }).collect::<Vec<_>>()
        };
        self.processes.ever().iter().flat_map(of_process).collect()
    }

    /// Returns the start of a turn that counts as work; `None` while no transfer is under way.
    pub(crate) fn work_begins(&self, process: usize, slot: u32) -> Option<SimTime> {
        self.world.has_transfers().then(|| self.processes[process].clock(slot))
    }

    /// Adds the work of a turn that has ended.
    pub(crate) fn note_work(&mut self, process: usize, slot: u32, begun: Option<SimTime>) {
        let Some(begun) = begun else { return };
        let record = &mut self.processes[process];
        let worked = record.clock(slot).saturating_since(begun);
        let slot = slot as usize;
        if record.busy.len() <= slot {
            record.busy.resize(slot + 1, SimDuration::ZERO);
        }
        // The program can write any time into its clock.
        let busy = record.busy[slot].as_picos().saturating_add(worked.as_picos());
        record.busy[slot] = SimDuration::from_picos(busy);
    }
}
