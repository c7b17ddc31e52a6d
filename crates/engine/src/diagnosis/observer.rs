//! The view of a run for its diagnosis.

use crate::completion::room::CompletionQueues;
use crate::host::room::HostServices;
use crate::process::processes::Processes;
use crate::process::programs::Programs;
use crate::process::record::Process;
use crate::realtime::room::Realtime;
use crate::scheduler::room::Scheduler;
use softband_fabric::World;

/// The rooms that a diagnosis reads. It changes none of them.
#[derive(Clone, Copy)]
pub(crate) struct Observer<'a> {
    pub(crate) world: &'a World,
    pub(crate) scheduler: &'a Scheduler,
    pub(crate) processes: &'a Processes,
    pub(crate) programs: &'a Programs,
    pub(crate) host: &'a HostServices,
    pub(crate) cqs: &'a CompletionQueues,
    pub(crate) realtime: &'a Realtime,
}

impl Observer<'_> {
    /// Names the program of a process: `a: 'ib_send_bw'`.
    pub(crate) fn command_of(&self, process: &Process) -> String {
        self.programs.name_for(self.world, process)
    }
}
