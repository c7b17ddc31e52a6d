//! The rooms that calls for threads, waits, sockets, timers and names work on.

use crate::host::kernel::Kernels;
use crate::host::room::HostServices;
use crate::process::processes::Processes;
use crate::process::programs::Programs;
use crate::report::Report;
use crate::scheduler::room::Scheduler;
use softband_fabric::World;

/// The rooms of calls to the host of a program. They change the World only by
/// packets of the host's kernel.
pub(crate) struct HostCalls<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) scheduler: &'a mut Scheduler,
    pub(crate) processes: &'a mut Processes,
    pub(crate) programs: &'a Programs,
    pub(crate) host: &'a mut HostServices,
    pub(crate) kernels: &'a mut Option<Kernels>,
    pub(crate) report: &'a mut Report,
}
