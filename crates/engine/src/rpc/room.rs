//! The rooms that verbs and posts work on.

use crate::completion::room::CompletionQueues;
use crate::host::room::HostServices;
use crate::process::memory::ProgramMemory;
use crate::process::processes::Processes;
use crate::realtime::room::{DataPlane, Realtime};
use crate::scheduler::room::Scheduler;
use softband_fabric::World;

/// The rooms that verbs and posts work on. Programs, tickets and reports are not among them.
pub(crate) struct Verbs<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) scheduler: &'a mut Scheduler,
    pub(crate) processes: &'a mut Processes,
    pub(crate) memory: &'a mut ProgramMemory,
    pub(crate) host: &'a mut HostServices,
    pub(crate) cqs: &'a mut CompletionQueues,
    pub(crate) realtime: &'a mut Realtime,
}

impl Verbs<'_> {
    /// Lends the rooms to the data plane of wall pace.
    pub(crate) fn plane(&mut self) -> DataPlane<'_> {
        DataPlane {
            world: self.world,
            scheduler: self.scheduler,
            processes: self.processes,
            memory: self.memory,
            host: self.host,
            cqs: self.cqs,
            realtime: self.realtime,
        }
    }
}
