//! The room of wall pace: the tables and queues by which programs move data themselves.

use crate::completion::room::CompletionQueues;
use crate::host::room::HostServices;
use crate::process::memory::ProgramMemory;
use crate::process::processes::Processes;
use crate::realtime::direct::DirectTables;
use crate::realtime::quiescence::Quiescence;
use crate::realtime::receive_queues::{QueueName, ReceiveQueue, ReceiveQueues};
use crate::realtime::traffic::DirectTraffic;
use crate::scheduler::room::Scheduler;
use rustix::fd::OwnedFd;
use softband_fabric::World;
use softband_sim::SimDuration;
use softband_types::{CqHandle, HcaId, ProcessId, Qpn, SrqHandle};
use std::collections::BTreeMap;
use std::time::Duration;

/// The tables and queues that programs share with each other, and events that they have not got.
pub(crate) struct Realtime {
    pub(super) direct: DirectTables,
    pub(super) quiescence: Quiescence,
    pub(super) receive_queues: ReceiveQueues,
    /// Channels with events that their programs have not got yet, and the number of events.
    pub(super) undelivered: BTreeMap<u32, u64>,
    /// Packets of programs that the counters of ports already have.
    pub(super) traffic: DirectTraffic,
}

/// The rooms that the data plane of wall pace works on. Programs, tickets and reports are not among
/// them.
pub(crate) struct DataPlane<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) scheduler: &'a mut Scheduler,
    pub(crate) processes: &'a mut Processes,
    pub(crate) memory: &'a mut ProgramMemory,
    pub(crate) host: &'a mut HostServices,
    pub(crate) cqs: &'a mut CompletionQueues,
    pub(crate) realtime: &'a mut Realtime,
}

impl Realtime {
    /// # Errors
    /// If the system has no memory for the tables.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            direct: DirectTables::new()?,
            quiescence: Quiescence::new(),
            receive_queues: ReceiveQueues::default(),
            undelivered: BTreeMap::new(),
            traffic: DirectTraffic::default(),
        })
    }

    /// Shortens the waits for programs, for a harness.
    pub(crate) fn set_grace(&mut self, grace: Duration) {
        self.quiescence.set_grace(grace);
    }

    /// Returns whether the kernel orders the announcements of programs.
    pub(crate) fn has_barriers(&self) -> bool {
        self.quiescence.has_barriers()
    }

    /// Returns the file of the tables.
    pub(crate) fn tables(&self) -> &OwnedFd {
        self.direct.file()
    }

    /// Returns the table entry of a queue pair plus one, or 0 for none.
    pub(crate) fn entry_of(&self, hca: HcaId, qpn: Qpn) -> u32 {
        self.direct.entry_of(hca, qpn)
    }

    /// Returns the table entry of a shared receive queue plus one, or 0 for none.
    pub(crate) fn shared_entry_of(&self, srq: SrqHandle) -> u32 {
        self.direct.shared_entry_of(srq)
    }

    /// Sets the moment in picoseconds from which completions belong to the queue pair as it is now.
    pub(crate) fn set_since(&self, hca: HcaId, qpn: Qpn, since_ps: u64) {
        self.direct.set_since(hca, qpn, since_ps);
    }

    pub(crate) fn groups_version(&self) -> u32 {
        self.direct.groups_version()
    }

    /// Publishes a change of group members. When this returns, no program sends to the former
    /// members.
    pub(crate) fn note_groups_changed(&self, processes: &Processes) {
        self.direct.note_groups_changed();
        self.quiescence.await_end_of_transfers(processes);
    }

    /// Returns the entry of number `index` in the table.
    #[cfg(test)]
    pub(crate) fn qp(&self, index: u32) -> &softband_shm_transport::tables::QpEntry {
        self.direct.qp(index)
    }

    /// Returns location and size of a receive queue, if it exists.
    pub(crate) fn receive_queue(&self, name: QueueName) -> Option<ReceiveQueue> {
        self.receive_queues.all.get(&name).copied()
    }

    /// Returns the number of receive requests in the queue that peers reach, if the queue exists.
    pub(crate) fn receives_in(&self, processes: &Processes, name: QueueName) -> Option<usize> {
        let open = self.receive_queues.open(processes, name)?;
        Some(open.count() as usize)
    }
}

impl DataPlane<'_> {
    /// Waits until nobody uses entries that the engine has changed.
    pub(crate) fn await_quiescence(&self) {
        self.realtime.quiescence.await_end_of_transfers(self.processes);
    }

    /// Returns the delay of an event on its way to a program. In wall pace a wakeup costs the
    /// host's own time.
    pub(crate) fn wakeup_of(&self, process: ProcessId) -> SimDuration {
        if self.scheduler.is_wall() {
            return SimDuration::ZERO;
        }
        self.world.spec().hosts[self.processes[process.0 as usize].host()].part.event_wakeup
    }

    /// Raises an event of a completion queue of `process`.
    pub(crate) fn cq_event(&mut self, process: ProcessId, cq: CqHandle) {
        let at = self.scheduler.now() + self.wakeup_of(process);
        self.cqs.raise_event(self.scheduler, self.host, cq.0, at);
    }
}
