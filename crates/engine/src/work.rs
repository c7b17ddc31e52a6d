//! How long each thread of a program kept its processor busy while the fabric had something to send.

use crate::pace::Engine;
use softband_sim::{SimDuration, SimTime};

/// The own time of one thread, in simulated time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadWork {
    /// `a: 'ib_send_bw' (process 1000, thread 0)`.
    pub name: String,
    /// How far its own calls moved its clock in turns that began while a send request was under way, in picoseconds. Waits are no
    /// part of it: a poll that finds nothing counts as a single poll, however long the thread then waits.
    pub busy_picos: u64,
}

impl Engine {
    /// Every thread that has worked during transfers, by process and slot. In wall pace there is none.
    pub fn thread_work(&self) -> Vec<ThreadWork> {
        let of_process = |process: &crate::process::Process| {
            let busy = process.busy.iter().enumerate().filter(|(_, busy)| **busy > SimDuration::ZERO);
            busy.map(|(slot, busy)| ThreadWork { name: self.name_of_thread(process, slot), busy_picos: busy.as_picos() }).collect::<Vec<_>>()
        };
        self.processes.ever().iter().flat_map(of_process).collect()
    }

    /// From when on the turn that begins counts as work; `None` while nothing is sent.
    pub(crate) fn work_begins(&self, process: usize, slot: u32) -> Option<SimTime> {
        self.world.has_transfers().then(|| self.processes[process].clock(slot))
    }

    /// The turn that began so is over.
    pub(crate) fn note_work(&mut self, process: usize, slot: u32, begun: Option<SimTime>) {
        let Some(begun) = begun else { return };
        let record = &mut self.processes[process];
        let worked = record.clock(slot).saturating_since(begun);
        let slot = slot as usize;
        if record.busy.len() <= slot {
            record.busy.resize(slot + 1, SimDuration::ZERO);
        }
        // A program can write any time there.
        let busy = record.busy[slot].as_picos().saturating_add(worked.as_picos());
        record.busy[slot] = SimDuration::from_picos(busy);
    }
}
