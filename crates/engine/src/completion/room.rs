//! The room of completion queues, by handle.

use crate::completion::record::CqRecord;
use crate::host::room::HostServices;
use crate::process::image::Shared;
use crate::process::processes::Processes;
use crate::scheduler::agenda::Event;
use crate::scheduler::room::Scheduler;
use softband_ipc::calls::readiness;
use softband_sim::SimTime;
use std::collections::BTreeMap;

/// All completion queues of programs.
#[derive(Default)]
pub(crate) struct CompletionQueues {
    all: BTreeMap<u32, CqRecord>,
}

impl CompletionQueues {
    pub(crate) fn insert(&mut self, handle: u32, record: CqRecord) {
        self.all.insert(handle, record);
    }

    pub(crate) fn remove(&mut self, handle: u32) -> Option<CqRecord> {
        self.all.remove(&handle)
    }

    /// Removes the queues of a process.
    pub(crate) fn remove_all_of(&mut self, process: usize) {
        self.all.retain(|_, cq| cq.process() != process);
    }

    pub(crate) fn get(&self, handle: u32) -> Option<&CqRecord> {
        self.all.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut CqRecord> {
        self.all.get_mut(&handle)
    }

    pub(crate) fn contains(&self, handle: u32) -> bool {
        self.all.contains_key(&handle)
    }

    /// Returns the handles of the queues of `process` whose events go to a channel.
    pub(crate) fn of_channel(&self, process: usize, channel: u32) -> impl Iterator<Item = u32> {
        self.all.iter().filter(move |(_, cq)| cq.process() == process && cq.channel() == channel).map(|(handle, _)| *handle)
    }

    /// Returns whether a queue of `process` holds a completion that the program has not taken.
    pub(crate) fn hold_any_of(&self, process: usize, shared: &Shared) -> bool {
        self.all.values().any(|cq| cq.process() == process && cq.holds_any(shared))
    }

    /// Raises an event of a queue. Its program sees the event from `at` on.
    pub(crate) fn raise_event(&mut self, scheduler: &mut Scheduler, host: &mut HostServices, handle: u32, at: SimTime) {
        let Some(record) = self.all.get_mut(&handle) else { return };
        let (channel, cookie) = record.count_event();
        if host.add_cq_event(channel, (at, cookie, handle)) {
            scheduler.push(at, u32::MAX, Event::ObjectChanged { object: channel, edge: readiness::ANY });
        }
    }

    /// Notes that the program has read an event of a queue.
    pub(crate) fn note_read(&mut self, handle: u32) {
        if let Some(record) = self.all.get_mut(&handle) {
            record.note_read();
        }
    }

    /// Makes the program's next poll of the empty queue fail.
    pub(crate) fn mark_overflowed(&self, processes: &Processes, handle: u32) {
        if let Some(record) = self.all.get(&handle) {
            processes[record.process()].shared().mark_overflowed(record.offset());
        }
    }

    /// Releases the ring locks of an ended process.
    pub(crate) fn release_locks_of(&self, processes: &Processes, pid: u32) {
        self.all.values().for_each(|record| record.release_lock_of(processes[record.process()].shared(), pid));
    }
}
